-- Cancels a batch: seals it, and cancels up to @max unfinished jobs of the batch and of its child batches (whose
-- follow-ups belong to it), in any queue, as cancel does. Follow-ups are still enqueued when all jobs have finished,
-- with the final counts. Run it until it returns nothing, outside a transaction, because a transaction would lock
-- counts before jobs. Results: as cancel, one per queue. Reads the jobs by NOLOCK, so that it also finds jobs that are
-- being claimed; cancel waits for these.
CREATE OR ALTER PROCEDURE [$(schema)].[cancel_batch]
    @batch_id bigint,
    @why      nvarchar(1001) = NULL,
    @max      int            = 1000,
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @next bigint, @queue_id int, @queue nvarchar(128), @own bigint, @cancelled int = 0, @more int,
    @members nvarchar(40) = CONCAT(N',"batch":', @batch_id);
DECLARE @batches TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED, is_seen bit NOT NULL);
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NOT NULL);
DECLARE @list [$(schema)].[id_list];

IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';
IF DATALENGTH(@why) > 2000
    THROW 58003, N'why must have at most 1000 characters', 1;
EXEC [$(schema)].[check_text] N'why', @why;

EXEC [$(schema)].[note_action] @audit_id, 'cancel_batch', NULL, @own OUTPUT, @members, @why = @why;
SET @audit_id = ISNULL(@audit_id, @own);

INSERT @batches (batch_id, is_seen) VALUES (@batch_id, 0);
-- Seals all batches first: a batch without jobs completes when it is sealed, and its follow-up may be a job of another
-- batch.
WHILE 1 = 1
BEGIN
    SET @next = (SELECT MIN(batch_id) FROM @batches WHERE is_seen = 0);
    IF @next IS NULL
        BREAK;
    UPDATE @batches SET is_seen = 1 WHERE batch_id = @next;
    EXEC [$(schema)].[seal_batch] @batch_id = @next, @report = 0;
    INSERT @batches (batch_id, is_seen)
    SELECT b.batch_id, 0
    FROM [$(schema)].[batches] AS b WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (batches_parent))
    WHERE b.parent_id = @next AND b.parent_id IS NOT NULL
    OPTION (MAXDOP 1);
END;

INSERT @jobs (job_id, queue_id)
SELECT TOP (@max) j.job_id, j.queue_id
FROM @batches AS b
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_batch (batch_id))) ON j.batch_id = b.batch_id
WHERE j.batch_id IS NOT NULL AND j.ended = 0 AND j.cancelling IS NULL
OPTION (MAXDOP 1);

WHILE EXISTS (SELECT 1 FROM @jobs)
BEGIN
    SET @queue_id = (SELECT MIN(queue_id) FROM @jobs);
    SET @queue = (SELECT name FROM [$(schema)].[queues] WHERE queue_id = @queue_id);
    DELETE @list;
    INSERT @list (job_id) SELECT job_id FROM @jobs WHERE queue_id = @queue_id;
    EXEC [$(schema)].[cancel] @queue = @queue, @why = @why, @jobs = @list, @audit_id = @audit_id,
        @cancelled = @more OUTPUT;
    SET @cancelled = @cancelled + @more;
    DELETE @jobs WHERE queue_id = @queue_id;
END;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @cancelled;
GO
