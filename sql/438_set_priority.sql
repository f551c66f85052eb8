-- Changes the priority of up to 1,000 unfinished jobs. For a claimed job, it applies when the job becomes ready again.
-- The order within a group does not change. Waits for locked jobs, in the order of job_id. Result: changed (without
-- jobs that already had this priority).
CREATE OR ALTER PROCEDURE [$(schema)].[set_priority]
    @queue    nvarchar(129),
    @jobs     [$(schema)].[id_list] READONLY,
    @priority smallint,  -- smaller runs first
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @first_ready bigint, @changed int, @granted bit, @own bigint,
    @members nvarchar(40) = CONCAT(N',"priority":', @priority);
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @priority IS NULL
    EXEC [$(schema)].[refuse] N'priority', NULL, N'-32768 to 32767';
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;

BEGIN TRANSACTION;
EXEC [$(schema)].[note_action] @audit_id, 'set_priority', @queue, @own OUTPUT, @members, @jobs = @jobs;
IF EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    EXEC [$(schema)].[lock_groups] @queue_id, NULL, @granted OUTPUT;
-- Locks all rows first, in the order of job_id, because an UPDATE guarantees no order.
INSERT @held (job_id)
SELECT j.job_id
FROM @jobs AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.ended = 0 AND j.priority <> @priority
ORDER BY a.job_id  -- keeps the order of the join
OPTION (MAXDOP 1);
UPDATE j
SET priority = @priority
FROM @held AS h
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = h.job_id
OPTION (MAXDOP 1);
SET @changed = @@ROWCOUNT;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @changed;
COMMIT TRANSACTION;

-- A ready job may be below its new priority's mark.
SET @first_ready = (SELECT MIN(job_id) FROM @held);
IF @first_ready IS NOT NULL
    EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;

SELECT @changed AS changed;
GO
