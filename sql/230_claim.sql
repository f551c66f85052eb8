-- Claims up to @max ready jobs of a queue for a worker, in one statement, and returns them.
--
-- Result, in no particular order (OUTPUT has none): job_id, fence, attempt, max_attempts, priority, waited_ms (since it was due),
-- age_ms (since it was enqueued), dedup_key, correlation_id, payload_utf16, payload.
-- Return status: 1 when a job waits that must run alone (see reap), otherwise 0. Asked for with @alone = 1, such a job comes first, and
-- by itself.
-- With delivery at_most_once the rows are deleted by the claim; their fence is 0 and there is nothing to finish.
--
-- The hints: ROWLOCK, because READPAST skips locked rows only, never locked pages. UPDLOCK, so that two claims do not both read a row
-- before one changes it (an UPDATE reads its target so anyway; the hint keeps it so in any plan). READPAST, so that nobody waits for anybody. READCOMMITTEDLOCK, because READPAST is refused without it where
-- READ_COMMITTED_SNAPSHOT is on. INDEX, because a plan made while the queue was empty must not survive as a scan of the table.
CREATE OR ALTER PROCEDURE [$(schema)].[claim]
    @queue     nvarchar(128),
    @worker_id uniqueidentifier,
    @max       int,    -- 1 to 1,000: well under the 5,000 locks at which escalation is tried on other tables
    @alone     bit = 0 -- 1: this worker holds no other job and will run no other beside the one it may get
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @claim_order varchar(4), @delivery varchar(13), @max_attempts int,
    @paused bit, @alone_waits bit = 0, @message nvarchar(2048);

SELECT @queue_id = queue_id, @claim_order = claim_order, @delivery = delivery, @max_attempts = max_attempts, @paused = paused
FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @max IS NULL OR @max < 1 OR @max > 1000
    THROW 58003, N'max must be between 1 and 1000', 1;
-- Without a lock that is kept: a claim must not hold up the worker's own heartbeat. A worker that is marked lost just after this still
-- gets its jobs; the reaper looks for jobs of lost workers again and again, and finds them.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] WHERE worker_id = @worker_id AND queue_id = @queue_id AND lost_at IS NULL)
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;
IF @paused = 1
    SET @max = 0;  -- an empty result with the usual columns
ELSE IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
                WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
    SET @alone_waits = 1;

IF @alone = 1 AND @alone_waits = 1
    WITH next_jobs AS
    (
        SELECT TOP (1)
               job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
               payload_utf16, payload
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1
        ORDER BY priority, job_id
    )
    UPDATE next_jobs
    SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
           inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.dedup_key, inserted.correlation_id,
           inserted.payload_utf16, inserted.payload
    OPTION (MAXDOP 1);
ELSE IF @delivery = 'at_least_once' AND @claim_order = 'fifo'
    WITH next_jobs AS
    (
        SELECT TOP (@max)
               job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
               payload_utf16, payload
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0
        ORDER BY priority, job_id
    )
    UPDATE next_jobs
    SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
           inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.dedup_key, inserted.correlation_id,
           inserted.payload_utf16, inserted.payload
    OPTION (MAXDOP 1);
ELSE IF @delivery = 'at_least_once' AND @claim_order = 'lifo'
    WITH next_jobs AS
    (
        SELECT TOP (@max)
               job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
               payload_utf16, payload
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
        ORDER BY priority, job_id DESC
    )
    UPDATE next_jobs
    SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
           inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.dedup_key, inserted.correlation_id,
           inserted.payload_utf16, inserted.payload
    OPTION (MAXDOP 1);
ELSE IF @delivery = 'at_least_once' AND @claim_order = 'any'
    WITH next_jobs AS
    (
        SELECT TOP (@max)
               job_id, state, fence, attempt, max_attempts, priority, worker_id, due_at, enqueued_at, claimed_at, dedup_key, correlation_id,
               payload_utf16, payload
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0
    )
    UPDATE next_jobs
    SET state = 2, fence = fence + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
    OUTPUT inserted.job_id, inserted.fence AS fence, inserted.attempt, COALESCE(inserted.max_attempts, @max_attempts) AS max_attempts,
           inserted.priority, DATEDIFF_BIG(MILLISECOND, inserted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, inserted.enqueued_at, @now) AS age_ms, inserted.dedup_key, inserted.correlation_id,
           inserted.payload_utf16, inserted.payload
    OPTION (MAXDOP 1);
ELSE IF @delivery = 'at_most_once' AND @claim_order = 'fifo'
    WITH next_jobs AS
    (
        SELECT TOP (@max)
               job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, payload_utf16, payload
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0
        ORDER BY priority, job_id
    )
    DELETE next_jobs
    OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
           deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.dedup_key, deleted.correlation_id,
           deleted.payload_utf16, deleted.payload
    OPTION (MAXDOP 1);
ELSE IF @delivery = 'at_most_once' AND @claim_order = 'lifo'
    WITH next_jobs AS
    (
        SELECT TOP (@max)
               job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, payload_utf16, payload
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0
        ORDER BY priority, job_id DESC
    )
    DELETE next_jobs
    OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
           deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.dedup_key, deleted.correlation_id,
           deleted.payload_utf16, deleted.payload
    OPTION (MAXDOP 1);
ELSE IF @delivery = 'at_most_once' AND @claim_order = 'any'
    WITH next_jobs AS
    (
        SELECT TOP (@max)
               job_id, attempt, max_attempts, priority, due_at, enqueued_at, dedup_key, correlation_id, payload_utf16, payload
        FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0
    )
    DELETE next_jobs
    OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt, COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts,
           deleted.priority, DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.dedup_key, deleted.correlation_id,
           deleted.payload_utf16, deleted.payload
    OPTION (MAXDOP 1);

RETURN @alone_waits;
GO
