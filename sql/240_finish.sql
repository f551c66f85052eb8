-- Finishes a list of jobs that a worker has run. A job changes only if this worker holds it under this fence. A snoozed
-- job (outcome 3) waits like a retried one, but its attempt does not count. A job that expired before it could start is
-- cancelled (outcome 4), and so is one whose cancellation was requested, unless it is done. Failed attempts (outcomes 1 and 2) are stored in the table attempts, and deleted with
-- their job. Finished jobs are counted in their batches, which may complete, and pass on the turns in their groups.
--
-- If the queue has a dead queue, jobs go there instead of becoming dead (move_jobs). Jobs that cannot be moved become
-- dead here. They are reported alike.
--
-- If the queue has a sink, it is called first with the done jobs, in the same transaction (call_sink): its writes and
-- the finish are committed together or not at all. If the sink fails, the error is 58020 and nothing changes.
--
-- @used, what runs have used, is written by the statements that write the rows anyway, so it costs no log record of its
-- own. It is joined after the jobs, and locks nothing. Done jobs of a queue that deletes them need no row in it.
--
-- Result: job_id, result, for every job that did not finish as requested: 'lost' (not held by this worker under this
-- fence; unchanged) or 'dead' (no attempts left for a retry; or outcome 2 with a delay, see finish_with). A second call
-- with the same jobs reports them as lost. One more row, of job_id 0 with 'next', says only that jobs that waited for these
-- may be ready now: a worker may claim at once.
--
-- INNER LOOP JOIN reads @jobs in the order of its key, so all finish calls lock in the order of job_id. FORCESEEK seeks
-- each job: table-valued parameters have no statistics, so the optimizer might scan the table. FORCESEEK stands with an
-- INDEX hint, because it may not name index columns for the target of a DELETE or UPDATE.
CREATE OR ALTER PROCEDURE [$(schema)].[finish]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[finish_list] READONLY,
    @used      [$(schema)].[usage_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3), @queue_id int, @completion varchar(8), @max_attempts int, @sink nvarchar(517),
    @first_ready bigint, @outcome tinyint, @fence int, @locked int, @shortest bigint, @longest bigint,
    @is_linked bit = 0, @reads_first bit = 0, @retry_passes bit, @dead_queue nvarchar(128), @first_moved bigint,
    @noted int, @first_id bigint, @last_id bigint, @rows int, @missing int, @ends int = 0,
    -- A pattern of half a surrogate pair (mend_text).
    @first nvarchar(3) = CONCAT(CAST(0x00D8 AS nvarchar(1)), N'-', CAST(0xFFDB AS nvarchar(1))),
    @second nvarchar(3) = CONCAT(CAST(0x00DC AS nvarchar(1)), N'-', CAST(0xFFDF AS nvarchar(1)));
-- The jobs that the call changes. attempt: the number of the failed attempt. in_turn, batch_id and group_key: of deleted
-- jobs, as they were.
-- adopt: found
DECLARE @found TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, dead bit NOT NULL, attempt int NULL, in_turn bit NULL,
    batch_id bigint NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
-- adopt: end
DECLARE @failed [$(schema)].[attempt_list];
DECLARE @members [$(schema)].[member_list], @ended [$(schema)].[member_list];

SELECT @queue_id = queue_id, @completion = completion, @max_attempts = max_attempts, @sink = sink,
       @retry_passes = CASE fair WHEN 1 THEN 1 ELSE retry_passes END, @dead_queue = dead_queue
FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
-- One scan of the list shows which steps are needed.
SELECT @outcome = MAX(outcome), @fence = MAX(fence), @shortest = MIN(ISNULL(retry_ms, 0)),
       @longest = MAX(ISNULL(retry_ms, 0)), @first_id = MIN(job_id), @last_id = MAX(job_id),
       @rows = COUNT(*)
FROM @jobs;
IF @outcome > 4 OR @shortest < 0 OR @longest > 315360000000
    THROW 58003,
        N'outcome must be 0 to 4 (done, retry, dead, snooze, cancelled), and retry_ms must be 0 to 315360000000', 1;
-- A program may have cut an error within a character. A list without errors needs no check.
IF @outcome > 0
    AND EXISTS (SELECT 1 FROM @jobs
                WHERE PATINDEX(CONCAT(N'%[', @first, N'][^', @second, N']%'),
                               (CAST(error AS nvarchar(max)) + N'.') COLLATE Latin1_General_100_BIN2) > 0
                    OR PATINDEX(CONCAT(N'%[^', @first, N'][', @second, N']%'),
                                (CAST(N'.' AS nvarchar(max)) + error) COLLATE Latin1_General_100_BIN2) > 0)
BEGIN
    EXEC [$(schema)].[finish_mended] @queue, @worker_id, @jobs, @used;
    RETURN 0;
END;
-- NOLOCK, because the row was committed before any job of a batch or group could be claimed.
IF EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    -- The statement that deletes done jobs also returns what must be known of them. Not where jobs wait for others: who
    -- adds such a job reads the row of each job that it waits for, and may hold a later row of this list.
    SELECT @is_linked = 1,
           @reads_first = CASE WHEN @outcome = 0 AND @completion = 'delete' AND @sink IS NULL AND NOT EXISTS (SELECT 1
               FROM [$(schema)].[edges] WITH (NOLOCK, FORCESEEK (edges_pk (parent_id))) WHERE parent_id > 0)
               THEN 0 ELSE 1 END;

BEGIN TRANSACTION;
-- Locks all rows first, in the order of job_id, if jobs are not done, or may belong to batches or groups and are not
-- just deleted. There are three reasons. A mixed list is changed by two statements. A retry must be due after the wait
-- for its row, because promote reads only from two seconds ago on. And if an abandoned call is repeated, its first try
-- may still be finishing the same jobs, which must not be read before that has ended.
IF @reads_first = 1
BEGIN
    -- The jobs are done if all outcomes are; otherwise, their states are read below.
    INSERT @members (job_id, state, in_turn, batch_id, group_key)
    SELECT j.job_id, 3, j.in_turn, j.batch_id, j.group_key
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    ORDER BY f.job_id  -- keeps the order of the join
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    -- A done job of a fair queue had no turn.
    DELETE @members WHERE batch_id IS NULL AND (group_key IS NULL OR in_turn IS NULL AND @outcome = 0);
END;
ELSE IF @outcome > 0
    SELECT @locked = j.fence
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    ORDER BY f.job_id  -- keeps the order of the join
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF @sink IS NOT NULL
    EXEC [$(schema)].[call_sink] @sink, @queue_id, @worker_id, @jobs;
SET @now = SYSUTCDATETIME();  -- read again, because locks or the sink may have taken long

IF @outcome > 0 AND @dead_queue IS NOT NULL
BEGIN
    INSERT @failed (job_id, fence, attempt, worker_id, worker, run_us, cpu_us, peak_bytes, error)
    SELECT f.job_id, f.fence, j.attempt, @worker_id, ISNULL(w.name, N''), f.run_us, u.cpu_us, u.peak_bytes, f.error
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        ON j.job_id = f.job_id
    LEFT JOIN @used AS u ON u.job_id = f.job_id
    LEFT JOIN [$(schema)].[workers] AS w WITH (NOLOCK) ON w.worker_id = @worker_id
    WHERE (f.outcome = 2 OR f.outcome = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)) AND j.state = 2
        AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence AND j.cancelling IS NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        EXEC [$(schema)].[move_jobs] @queue_id, @dead_queue, @failed;
        INSERT @found (job_id, dead)
        SELECT f.job_id, CASE WHEN f.outcome = 1 OR f.retry_ms IS NOT NULL THEN 1 ELSE 0 END
        FROM @failed AS d
        INNER JOIN @jobs AS f ON f.job_id = d.job_id
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = d.job_id
        WHERE j.queue_id <> @queue_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @first_moved = (SELECT MIN(job_id) FROM @found);
        -- They have not ended, and move_jobs has passed on their turns.
        DELETE m FROM @members AS m WHERE EXISTS (SELECT 1 FROM @found AS d WHERE d.job_id = m.job_id);
        DELETE d FROM @failed AS d WHERE EXISTS (SELECT 1 FROM @found AS m WHERE m.job_id = d.job_id);
        -- move_jobs has written why the others stay.
        UPDATE d
        SET error = j.error
        FROM @failed AS d
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = d.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    END;
END;

IF @completion = 'delete'
BEGIN
    DELETE j
    -- adopt: output_found
    OUTPUT deleted.job_id, 0, deleted.in_turn, deleted.batch_id, deleted.group_key
    INTO @found (job_id, dead, in_turn, batch_id, group_key)
    -- adopt: end
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    -- adopt: done_rows
    -- A job that was claimed only once has no failed attempts.
    IF @fence > 1
        DELETE a
        FROM @jobs AS f
        INNER JOIN @found AS d ON d.job_id = f.job_id
        INNER LOOP JOIN [$(schema)].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk))
            ON a.job_id = f.job_id
        WHERE f.fence > 1 AND f.outcome = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    -- (With the ids, it does not read over the ghosts of deleted logs. A job that was moved keeps its logs.)
    IF EXISTS (SELECT 1 FROM [$(schema)].[logs] WITH (NOLOCK, FORCESEEK (logs_pk (job_id)))
               WHERE job_id BETWEEN @first_id AND @last_id)
        DELETE l
        FROM @jobs AS f
        INNER JOIN @found AS d ON d.job_id = f.job_id
        INNER LOOP JOIN [$(schema)].[logs] AS l WITH (ROWLOCK, FORCESEEK, INDEX (logs_pk)) ON l.job_id = f.job_id
        WHERE f.outcome = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
ELSE IF @completion = 'annotate'
    UPDATE j
    SET state = 3, ended = 1, finished_at = @now, run_us = f.run_us, cpu_us = u.cpu_us, peak_bytes = u.peak_bytes,
        output = f.output,
        error = CASE WHEN j.cancelling = 1 THEN NULL ELSE j.error END, cancelling = NULL
    OUTPUT inserted.job_id, 0 INTO @found (job_id, dead)
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    LEFT LOOP JOIN @used AS u ON u.job_id = f.job_id
    WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE
BEGIN
    DELETE j
    OUTPUT deleted.job_id, deleted.queue_id, deleted.priority, deleted.attempt, deleted.fence, deleted.enqueued_at,
           deleted.due_at, deleted.worker_id, deleted.claimed_at, @now, f.run_us, deleted.correlation_id, deleted.kind,
           deleted.dedup_key, deleted.payload_utf16, deleted.payload,
           CASE WHEN deleted.cancelling = 1 THEN NULL ELSE deleted.error END, f.output, deleted.time_limit_ms,
           deleted.headers, deleted.batch_id, deleted.group_key, deleted.needs, u.cpu_us, u.peak_bytes
    INTO [$(schema)].[archive]
         (job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, run_us,
          correlation_id, kind, dedup_key, payload_utf16, payload, error, output, time_limit_ms, headers, batch_id,
          group_key, needs, cpu_us, peak_bytes)
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    LEFT LOOP JOIN @used AS u ON u.job_id = f.job_id
    WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    INSERT @found (job_id, dead)
    SELECT f.job_id, 0
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[archive] AS a WITH (FORCESEEK (archive_pk (job_id))) ON a.job_id = f.job_id
    WHERE f.outcome = 0 AND a.worker_id = @worker_id AND a.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;

IF @outcome > 0
BEGIN
    UPDATE j
    SET state       = CASE WHEN j.cancelling = 1 OR f.outcome = 4 THEN 5
                           WHEN f.outcome = 2 OR (f.outcome = 1
                               AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)) THEN 4
                           WHEN f.retry_ms > 0 THEN 1
                           ELSE 0 END,
        ended       = CASE WHEN j.cancelling = 1 OR f.outcome IN (2, 4)
                               OR (f.outcome = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts))
                           THEN 1 ELSE 0 END,
        attempt     = CASE WHEN f.outcome >= 3 THEN j.attempt - 1 ELSE j.attempt END,
        due_at      = DATEADD(MILLISECOND, ISNULL(f.retry_ms, 0) % 1000,
                          DATEADD(SECOND, ISNULL(f.retry_ms, 0) / 1000, @now)),
        finished_at = @now,
        run_us      = f.run_us,
        cpu_us      = u.cpu_us,
        peak_bytes  = u.peak_bytes,
        error       = CASE WHEN j.cancelling = 1 THEN j.error ELSE f.error END,
        cancelling  = NULL
    OUTPUT inserted.job_id,
        CASE WHEN inserted.state = 4 AND (f.outcome = 1 OR f.retry_ms IS NOT NULL) THEN 1 ELSE 0 END,
        CASE WHEN f.outcome < 3 THEN inserted.attempt END
    INTO @found (job_id, dead, attempt)
    FROM @jobs AS f
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
    LEFT LOOP JOIN @used AS u ON u.job_id = f.job_id
    WHERE f.outcome > 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    IF @dead_queue IS NOT NULL
    BEGIN
        UPDATE j
        SET error = d.error
        FROM @failed AS d
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = d.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        DELETE @failed;
    END;

    -- adopt: note_ends
    IF EXISTS (SELECT 1 FROM @found WHERE attempt IS NOT NULL)
    BEGIN
        INSERT @failed (job_id, fence, attempt, worker_id, worker, run_us, cpu_us, peak_bytes, error)
        SELECT f.job_id, f.fence, d.attempt, @worker_id, ISNULL(w.name, N''), f.run_us, u.cpu_us, u.peak_bytes, f.error
        FROM @found AS d
        INNER JOIN @jobs AS f ON f.job_id = d.job_id
        LEFT JOIN @used AS u ON u.job_id = d.job_id
        LEFT JOIN [$(schema)].[workers] AS w WITH (NOLOCK) ON w.worker_id = @worker_id
        WHERE d.attempt IS NOT NULL
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        EXEC [$(schema)].[note_attempts] @queue_id, @failed;
    END;
END;

-- Asks again, after the changes: see watch_parents.
IF EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
    AND EXISTS (SELECT 1 FROM [$(schema)].[edges] WITH (NOLOCK, FORCESEEK (edges_pk (parent_id))) WHERE parent_id > 0)
BEGIN
    INSERT @ended (job_id, state) SELECT job_id, 3 FROM @found;
    EXEC [$(schema)].[note_edges] @ended, @noted OUTPUT;
END;
IF @is_linked = 1 AND @reads_first = 0
BEGIN
    INSERT @members (job_id, state, batch_id) SELECT d.job_id, 3, d.batch_id FROM @found AS d WHERE d.batch_id IS NOT NULL;
    IF @@ROWCOUNT > 0
        EXEC [$(schema)].[note_ends] @queue_id, @members;
    -- As note_ends. A done job of a fair queue had no turn.
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
    SELECT @queue_id, d.group_key, COUNT(*)
    FROM @found AS d
    WHERE d.group_key IS NOT NULL AND d.in_turn IS NOT NULL
    GROUP BY d.group_key;
    SET @ends = @@ROWCOUNT;
END;
ELSE IF @is_linked = 1 AND EXISTS (SELECT 1 FROM @members)
BEGIN
    -- A retried job passes its turn on.
    IF @outcome > 0 AND @retry_passes = 1
        UPDATE j
        SET state = CASE WHEN j.state = 0 THEN 6 ELSE j.state END, in_turn = NULL
        FROM @members AS m
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = m.job_id
        WHERE j.state IN (0, 1) AND j.group_key IS NOT NULL
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @outcome > 0
        UPDATE m
        SET state = CASE WHEN j.job_id IS NULL THEN 3 WHEN j.state = 1 AND j.in_turn IS NULL AND m.in_turn = 1 THEN 6
            ELSE j.state END
        FROM @members AS m
        LEFT JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = m.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    EXEC [$(schema)].[note_ends] @queue_id, @members;
    SET @ends = (SELECT COUNT(*) FROM @members WHERE group_key IS NOT NULL);
END;
COMMIT TRANSACTION;

IF @first_moved IS NOT NULL OR @ends > 0
    EXEC [$(schema)].[advance_groups] @queue_id;
IF @noted > 0
    EXEC [$(schema)].[advance_edges];
IF @first_moved IS NOT NULL
    EXEC [$(schema)].[wake_moved] @dead_queue, @first_moved;
IF @outcome > 0
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @jobs WHERE outcome IN (1, 3) AND ISNULL(retry_ms, 0) = 0);
    IF @first_ready IS NOT NULL
        EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;
END;

SET @missing = @rows - (SELECT COUNT(*) FROM @found);
SELECT f.job_id, CAST('lost' AS varchar(4)) AS result
FROM @jobs AS f
WHERE @missing > 0 AND NOT EXISTS (SELECT 1 FROM @found AS d WHERE d.job_id = f.job_id)
UNION ALL
SELECT d.job_id, CAST('dead' AS varchar(4))
FROM @found AS d
WHERE @outcome > 0 AND d.dead = 1
UNION ALL
SELECT 0, CAST('next' AS varchar(4))
WHERE @noted > 0;
GO
