-- Finishes jobs as finish does, changes them, and enqueues their follow-ups, in one transaction. Only follow-ups of
-- jobs that this call finishes as done are enqueued. Result: as finish; a job that could not be moved is 'dead'.
--
-- A job of outcome 2 (dead) whose change names a queue goes there instead (move_jobs), unless its cancellation was
-- requested. The attempt counts as failed. If the job cannot be moved, it becomes dead, and its error says why. Changed
-- needs take effect whatever the outcome is.
--
-- Follow-ups are enqueued after the finish, so that a follow-up may have the deduplication key of its job, and also if
-- their queue is full (max_depth), so that work in progress ends. If a follow-up cannot be enqueued, everything is
-- rolled back with error 58020, including a caller's transaction, as if a sink had failed.
CREATE OR ALTER PROCEDURE [$(schema)].[finish_with]
    @queue      nvarchar(129),
    @worker_id  uniqueidentifier,
    @jobs       [$(schema)].[finish_list] READONLY,
    @follow_ups [$(schema)].[follow_up_list] READONLY,
    @changes    [$(schema)].[change_list] READONLY,
    @used       [$(schema)].[usage_list] READONLY
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int = (SELECT queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
    WHERE name = @queue), @next nvarchar(129), @last nvarchar(129), @next_id int, @first_id bigint, @locked int,
    @message nvarchar(2048), @error nvarchar(max), @job_id bigint, @last_id bigint;
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);
-- The batches, queues and grouped queues of the follow-ups.
DECLARE @batches TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @queues TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @grouped TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @list [$(schema)].[enqueue_list];
DECLARE @details [$(schema)].[detail_list];
DECLARE @failed [$(schema)].[attempt_list];
-- The jobs without those that were moved.
DECLARE @rest [$(schema)].[finish_list];
DECLARE @targets TABLE (queue nvarchar(129) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    first_id bigint NOT NULL);

IF EXISTS (SELECT 1 FROM @changes AS c
           WHERE c.queue IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM @jobs AS f WHERE f.job_id = c.job_id AND f.outcome = 2))
    THROW 58003, N'a queue in changes requires a job of outcome 2 (dead)', 1;
IF EXISTS (SELECT 1 FROM @changes WHERE needs IS NOT NULL)
BEGIN
    INSERT @details (ordinal, needs)
    SELECT ROW_NUMBER() OVER (ORDER BY c.job_id), c.needs FROM @changes AS c WHERE c.needs IS NOT NULL;
    EXEC [$(schema)].[check_needs] @details = @details;
    DELETE @details;
END;
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
-- All rows are locked now.

IF EXISTS (SELECT 1 FROM @changes WHERE needs IS NOT NULL)
    UPDATE j
    SET needs = c.needs, plain = NULL
    FROM @changes AS c
    INNER JOIN @held AS h ON h.job_id = c.job_id
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = c.job_id
    WHERE c.needs IS NOT NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF EXISTS (SELECT 1 FROM @changes WHERE queue IS NOT NULL)
BEGIN
    INSERT @rest (job_id, fence, outcome, retry_ms, run_us, error, output)
    SELECT job_id, fence, outcome, retry_ms, run_us, error, output FROM @jobs;
    WHILE 1 = 1
    BEGIN
        SET @next = NULL;
        SELECT TOP (1) @next = c.queue FROM @changes AS c
        WHERE c.queue IS NOT NULL AND (@last IS NULL OR c.queue > @last)  -- NULL: only the needs change
        ORDER BY c.queue;
        IF @next IS NULL
            BREAK;
        SET @last = @next;
        DELETE @failed;
        INSERT @failed (job_id, fence, attempt, worker_id, worker, run_us, cpu_us, peak_bytes, error)
        SELECT f.job_id, f.fence, j.attempt, @worker_id, ISNULL(w.name, N''), f.run_us, u.cpu_us, u.peak_bytes, f.error
        FROM @changes AS c
        INNER JOIN @held AS h ON h.job_id = c.job_id
        INNER JOIN @jobs AS f ON f.job_id = c.job_id
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = c.job_id
        LEFT JOIN @used AS u ON u.job_id = c.job_id
        LEFT JOIN [$(schema)].[workers] AS w WITH (NOLOCK) ON w.worker_id = @worker_id
        WHERE c.queue = @next AND j.cancelling IS NULL
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- A program may have cut an error within a character.
        SET @last_id = -9223372036854775808;
        WHILE 1 = 1
        BEGIN
            SET @job_id = NULL;
            SELECT TOP (1) @job_id = job_id, @error = error FROM @failed WHERE job_id > @last_id AND error IS NOT NULL
                ORDER BY job_id;
            IF @job_id IS NULL
                BREAK;
            SET @last_id = @job_id;
            EXEC [$(schema)].[mend_text] @error OUTPUT;
            UPDATE @failed SET error = @error WHERE job_id = @job_id;
        END;
        EXEC [$(schema)].[move_jobs] @queue_id, @next, @failed;

        DELETE r
        FROM @failed AS f
        INNER JOIN @rest AS r ON r.job_id = f.job_id
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = f.job_id
        WHERE j.queue_id <> @queue_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- finish reports jobs as dead that have a delay.
        UPDATE r
        SET retry_ms = 0, error = j.error
        FROM @failed AS f
        INNER JOIN @rest AS r ON r.job_id = f.job_id
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = f.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        INSERT @targets (queue, first_id)
        SELECT @next, MIN(f.job_id) FROM @failed AS f
        WHERE NOT EXISTS (SELECT 1 FROM @rest AS r WHERE r.job_id = f.job_id)
        HAVING COUNT(*) > 0;
    END;
    SET @last = NULL;
    EXEC [$(schema)].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @rest, @used = @used;
END;
ELSE
    EXEC [$(schema)].[finish] @queue = @queue, @worker_id = @worker_id, @jobs = @jobs, @used = @used;

-- Only done jobs have follow-ups.
DELETE h FROM @held AS h INNER JOIN @jobs AS f ON f.job_id = h.job_id WHERE f.outcome <> 0;
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
    INSERT @details (ordinal, time_limit_ms, headers, group_key, batch_id, needs, start_by, start_within_ms)
    SELECT u.ordinal, u.time_limit_ms, u.headers, u.group_key, u.batch_id, u.needs, u.start_by, u.start_within_ms
    FROM @follow_ups AS u
    INNER JOIN @held AS h ON h.job_id = u.job_id
    WHERE u.queue = @next
        AND (u.time_limit_ms IS NOT NULL OR u.headers IS NOT NULL OR u.group_key IS NOT NULL OR u.batch_id IS NOT NULL
             OR u.needs IS NOT NULL OR u.start_by IS NOT NULL OR u.start_within_ms IS NOT NULL);

    BEGIN TRY
        EXEC [$(schema)].[enqueue_batch] @queue = @next, @jobs = @list, @report = 0, @details = @details,
            @force = 1;
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
    EXEC [$(schema)].[advance_edges];
    -- Jobs that finish has moved to the dead queue.
    SELECT @next = d.name, @next_id = d.queue_id
    FROM [$(schema)].[queues] AS q WITH (NOLOCK)
    INNER LOOP JOIN [$(schema)].[queues] AS d WITH (NOLOCK, FORCESEEK (queues_name (name))) ON d.name = q.dead_queue
    WHERE q.queue_id = @queue_id;
    IF @@ROWCOUNT > 0 AND EXISTS (SELECT 1 FROM @jobs WHERE outcome IN (1, 2))
    BEGIN
        SELECT @job_id = (SELECT MIN(f.job_id)
                          FROM @jobs AS f
                          INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                              ON j.job_id = f.job_id
                          WHERE f.outcome IN (1, 2) AND j.queue_id = @next_id)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @job_id IS NOT NULL
            EXEC [$(schema)].[wake_moved] @next, @job_id;
    END;
    WHILE EXISTS (SELECT 1 FROM @targets)
    BEGIN
        SELECT TOP (1) @next = queue, @job_id = first_id FROM @targets ORDER BY queue;
        EXEC [$(schema)].[wake_moved] @next, @job_id;
        DELETE @targets WHERE queue = @next;
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
