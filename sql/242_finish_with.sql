-- Finishes jobs as finish does, and enqueues their follow-ups in the same transaction. Only follow-ups of jobs that
-- this call finishes as done are enqueued. Result: as finish.
--
-- Follow-ups are enqueued after the finish, so that a follow-up may have the deduplication key of its job. If a
-- follow-up cannot be enqueued, everything is rolled back with error 58020, including a caller's transaction, as if a
-- sink had failed.
CREATE OR ALTER PROCEDURE [$(schema)].[finish_with]
    @queue      nvarchar(129),
    @worker_id  uniqueidentifier,
    @jobs       [$(schema)].[finish_list] READONLY,
    @follow_ups [$(schema)].[follow_up_list] READONLY
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int = (SELECT queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
    WHERE name = @queue), @next nvarchar(128), @last nvarchar(128), @next_id int, @first_id bigint, @locked int,
    @message nvarchar(2048);
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
-- The batches, queues and grouped queues of the follow-ups.
DECLARE @batches TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @queues TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @grouped TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @list [$(schema)].[enqueue_list];
DECLARE @details [$(schema)].[detail_list];

SET @first_id = NEXT VALUE FOR [$(schema)].[job_ids];  -- below the ids of the follow-ups
BEGIN TRANSACTION;
-- Locks batches before jobs (see batches). enqueue_batch rejects a sealed or missing batch.
IF EXISTS (SELECT 1 FROM @follow_ups WHERE batch_id IS NOT NULL)
BEGIN
    INSERT @batches (batch_id) SELECT u.batch_id FROM @follow_ups AS u WHERE u.batch_id IS NOT NULL GROUP BY u.batch_id;
    SELECT @locked = b.queue_id
    FROM @batches AS u
    INNER LOOP JOIN [$(schema)].[batches] AS b WITH (ROWLOCK, REPEATABLEREAD, FORCESEEK (batches_pk (batch_id)))
        ON b.batch_id = u.batch_id
    ORDER BY u.batch_id  -- keeps the order of the join
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
INSERT @held (job_id)
SELECT j.job_id
FROM @jobs AS f
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
ORDER BY f.job_id  -- keeps the order of the join
OPTION (MAXDOP 1, KEEPFIXED PLAN);
-- All rows are locked now. Only done jobs have follow-ups.
DELETE h FROM @held AS h INNER JOIN @jobs AS f ON f.job_id = h.job_id WHERE f.outcome <> 0;

EXEC [$(schema)].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs;

-- In the order of the queues' names, the order in which every session locks keys.
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
    DELETE @details;
    INSERT @list (ordinal, payload, priority, delay_ms, due_at, max_attempts, dedup_key, correlation_id, kind)
    SELECT u.ordinal, u.payload, u.priority, u.delay_ms, u.due_at, u.max_attempts, u.dedup_key, u.correlation_id, u.kind
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE u.queue = @next;
    INSERT @details (ordinal, time_limit_ms, headers, group_key, batch_id)
    SELECT u.ordinal, u.time_limit_ms, u.headers, u.group_key, u.batch_id
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE u.queue = @next
        AND (u.time_limit_ms IS NOT NULL OR u.headers IS NOT NULL OR u.group_key IS NOT NULL OR u.batch_id IS NOT NULL);

    BEGIN TRY
        EXEC [$(schema)].[enqueue_batch] @queue = @next, @jobs = @list, @report = 0, @details = @details;
    END TRY
    BEGIN CATCH
        SET @message = CONCAT(ERROR_NUMBER(), N': a follow-up in queue ''', @next, N''' cannot be enqueued, error ',
                              ERROR_NUMBER(), N': ', ERROR_MESSAGE());
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        EXEC [$(schema)].[raise] 58020, @message;
    END CATCH;
    INSERT @queues (queue_id) SELECT queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
        WHERE name = @next;
    IF EXISTS (SELECT 1 FROM @details WHERE group_key IS NOT NULL)
        INSERT @grouped (queue_id) SELECT queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
            WHERE name = @next;
END;
COMMIT TRANSACTION;

IF @@TRANCOUNT = 0
BEGIN
    -- finish has left this to its caller, because of this transaction.
    EXEC [$(schema)].[advance_groups] @queue_id;
    WHILE EXISTS (SELECT 1 FROM @grouped)
    BEGIN
        SET @next_id = (SELECT MIN(queue_id) FROM @grouped);
        EXEC [$(schema)].[advance_groups] @next_id;
        DELETE @grouped WHERE queue_id = @next_id;
    END;
END;
-- As in enqueue: claims may have passed these ids, and an error must not fail the call.
IF @@TRANCOUNT = 0
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        WHILE 1 = 1
        BEGIN
            SET @next_id = NULL;
            SELECT TOP (1) @next_id = q.queue_id
            FROM @queues AS q
            WHERE EXISTS (SELECT 1 FROM [$(schema)].[marks] AS m WITH (NOLOCK)
                WHERE m.queue_id = q.queue_id AND m.job_id > @first_id);
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
