-- Acknowledges jobs as finish does and, in the same transaction, enqueues the jobs that follow them. A follow-up of a job that is not done in this
-- call, or is no longer this worker's under this fence, is not enqueued. For calls that bring follow-ups: others call finish, which is one list less.
--
-- The follow-ups come after the acknowledgements, so that one may have the de-duplication key of the job that it follows. When one cannot be enqueued
-- (its queue does not exist, or enqueue_batch refuses it), everything is rolled back, a caller's transaction too, and the error is 58020,
-- as when a sink fails.
-- Result: as finish.
CREATE OR ALTER PROCEDURE [$(schema)].[finish_with]
    @queue      nvarchar(129),
    @worker_id  uniqueidentifier,
    @jobs       [$(schema)].[finish_list] READONLY,
    @follow_ups [$(schema)].[follow_up_list] READONLY
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int = (SELECT queue_id FROM [$(schema)].[queues] WHERE name = @queue), @next nvarchar(128), @last nvarchar(128), @next_id int,
    @first_id bigint, @message nvarchar(2048);
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
-- Of the follow-ups.
DECLARE @queues TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @list [$(schema)].[enqueue_list];
DECLARE @time_limits [$(schema)].[time_limit_list];

SET @first_id = NEXT VALUE FOR [$(schema)].[job_ids];  -- below those of the follow-ups
BEGIN TRANSACTION;
INSERT @held (job_id)
SELECT j.job_id
FROM @jobs AS f
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
ORDER BY f.job_id  -- so that the join keeps to it
OPTION (MAXDOP 1, KEEPFIXED PLAN);
-- All were locked, in the order of job_id; only those that are done have follow-ups.
DELETE h FROM @held AS h INNER JOIN @jobs AS f ON f.job_id = h.job_id WHERE f.outcome <> 0;

EXEC [$(schema)].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs;

-- Queue by queue, in the order of their names, in which everybody locks keys.
WHILE 1 = 1
BEGIN
    SET @next = NULL;
    SELECT TOP (1) @next = u.queue
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE @last IS NULL OR u.queue > @last
    ORDER BY u.queue;
    IF @next IS NULL
        BREAK;
    SET @last = @next;

    DELETE @list;
    DELETE @time_limits;
    INSERT @list (ordinal, payload, priority, delay_ms, due_at, max_attempts, dedup_key, correlation_id, kind)
    SELECT u.ordinal, u.payload, u.priority, u.delay_ms, u.due_at, u.max_attempts, u.dedup_key, u.correlation_id, u.kind
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE u.queue = @next;
    INSERT @time_limits (ordinal, time_limit_ms)
    SELECT u.ordinal, u.time_limit_ms
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE u.queue = @next AND u.time_limit_ms IS NOT NULL;

    BEGIN TRY
        EXEC [$(schema)].[enqueue_batch] @queue = @next, @jobs = @list, @report = 0, @time_limits = @time_limits;
    END TRY
    BEGIN CATCH
        SET @message = CONCAT(ERROR_NUMBER(), N': a follow-up in queue ''', @next, N''' cannot be enqueued, error ', ERROR_NUMBER(), N': ',
                              ERROR_MESSAGE());
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW 58020, @message, 1;
    END CATCH;
    INSERT @queues (queue_id) SELECT queue_id FROM [$(schema)].[queues] WHERE name = @next;
END;
COMMIT TRANSACTION;

-- Jobs with higher numbers than the follow-ups' may have been claimed meanwhile, see enqueue. No error here is the caller's: all is committed.
IF @@TRANCOUNT = 0
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        WHILE 1 = 1
        BEGIN
            SET @next_id = NULL;
            SELECT TOP (1) @next_id = q.queue_id
            FROM @queues AS q
            WHERE EXISTS (SELECT 1 FROM [$(schema)].[marks] AS m WITH (NOLOCK) WHERE m.queue_id = q.queue_id AND m.job_id > @first_id);
            IF @next_id IS NULL
                BREAK;
            EXEC [$(schema)].[lower_marks] @next_id, @first_id;
            DELETE @queues WHERE queue_id = @next_id;
        END;
    END TRY
    BEGIN CATCH
        RETURN 0;
    END CATCH;
END;
GO
