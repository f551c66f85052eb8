-- Looks at jobs in one state without claiming or waiting (READPAST), in pages: up to @max jobs with ids above @after, by id.
-- @state: ready, scheduled, claimed, done, dead, archived. For operators: reads the index of that state and sorts.
-- Result: job_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, dedup_key, correlation_id,
-- payload_utf16, payload, error, output.
CREATE OR ALTER PROCEDURE [$(schema)].[peek]
    @queue nvarchar(128),
    @state varchar(9),
    @after bigint = 0,
    @max   int    = 100
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @state IS NULL OR @state NOT IN ('ready', 'scheduled', 'claimed', 'done', 'dead', 'archived')
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be ready, scheduled, claimed, done, dead or archived');
    THROW 58003, @message, 1;
END;

IF @state = 'ready'
    WITH ready_jobs AS
    (
        SELECT job_id FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0 AND job_id > @after
        UNION ALL
        SELECT job_id FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_lifo))
        WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0 AND job_id > @after
        UNION ALL
        SELECT job_id FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready_alone))
        WHERE queue_id = @queue_id AND state = 0 AND alone = 1 AND job_id > @after
    )
    SELECT TOP (@max) j.job_id, j.priority, j.attempt, j.fence, j.enqueued_at, j.due_at, j.worker_id, j.claimed_at, j.finished_at, j.run_us,
           j.dedup_key, j.correlation_id, j.payload_utf16, j.payload, j.error, j.output
    FROM ready_jobs AS r
    INNER JOIN [$(schema)].[jobs] AS j WITH (READPAST, READCOMMITTEDLOCK) ON j.job_id = r.job_id
    ORDER BY j.job_id;
ELSE IF @state = 'scheduled'
    SELECT TOP (@max) job_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, dedup_key,
           correlation_id, payload_utf16, payload, error, output
    FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND job_id > @after
    ORDER BY job_id;
ELSE IF @state = 'claimed'
    SELECT TOP (@max) job_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, dedup_key,
           correlation_id, payload_utf16, payload, error, output
    FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_claimed))
    WHERE queue_id = @queue_id AND state = 2 AND job_id > @after
    ORDER BY job_id;
ELSE IF @state = 'done'
    SELECT TOP (@max) job_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, dedup_key,
           correlation_id, payload_utf16, payload, error, output
    FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 3 AND state >= 3 AND job_id > @after
    ORDER BY job_id;
ELSE IF @state = 'dead'
    SELECT TOP (@max) job_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, dedup_key,
           correlation_id, payload_utf16, payload, error, output
    FROM [$(schema)].[jobs] WITH (READPAST, READCOMMITTEDLOCK, INDEX (jobs_finished))
    WHERE queue_id = @queue_id AND state = 4 AND state >= 3 AND job_id > @after
    ORDER BY job_id;
ELSE
    SELECT TOP (@max) job_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us, dedup_key,
           correlation_id, payload_utf16, payload, error, output
    FROM [$(schema)].[archive] WITH (READPAST, READCOMMITTEDLOCK, INDEX (archive_finished))
    WHERE queue_id = @queue_id AND job_id > @after
    ORDER BY job_id;
GO
