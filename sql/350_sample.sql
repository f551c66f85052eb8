-- Returns the last sample of a queue's depth. If it is older than @max_age_ms, takes a new sample first. The elected
-- worker calls this at an interval; other workers get the sample with their heartbeat. Only one of several concurrent
-- callers takes a sample. Inside a transaction, no sample is taken.
--
-- The sample is cheap at any depth, but imprecise. For each of at most 100 priorities, the first 10,000 ready jobs are
-- counted, and the rest is estimated from the density of the job ids. Of other states, at most 100,000 jobs are
-- counted. In a fair queue, jobs that wait in groups count as ready. The oldest ready job is the oldest of the counted
-- jobs. (stats counts exactly.) The first sample of a minute writes the previous one into history. Result: ready, scheduled, claimed, dead, workers, paused, oldest_ready_ms
-- (NULL: none ready), sample_age_ms (NULL: the first sample is still being taken), cancelled, waiting, open_batches
-- (with their follow-up in the queue).
CREATE OR ALTER PROCEDURE [$(schema)].[sample]
    @queue      nvarchar(129),
    @max_age_ms int = 10000
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET IMPLICIT_TRANSACTIONS OFF;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @paused bit, @is_fair bit, @is_mine int = 0,
    @most int;

SELECT @queue_id = queue_id, @paused = paused, @is_fair = fair
    FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max_age_ms IS NULL OR @max_age_ms < 0
    EXEC [$(schema)].[refuse] N'max_age_ms', @max_age_ms, N'0 or more';

-- The session that changes begun_at takes the sample. If it dies, another session may start a sample after @max_age_ms.
-- Inside a caller's transaction no sample is taken, because the elected worker would wait for the row.
IF @@TRANCOUNT = 0
BEGIN
    UPDATE [$(schema)].[samples] WITH (ROWLOCK)
    SET begun_at = @now
    WHERE queue_id = @queue_id
        -- or the clock was set back
        AND (begun_at <= DATEADD(MILLISECOND, -@max_age_ms, @now) OR begun_at > DATEADD(MINUTE, 1, @now));
    SET @is_mine = @@ROWCOUNT;
END;
IF @is_mine = 0 AND @@TRANCOUNT = 0
BEGIN
    -- HOLDLOCK locks the key even if there is no row, so that of two first samples the second finds the other's row.
    INSERT [$(schema)].[samples] (queue_id, begun_at)
    SELECT @queue_id, @now
    WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[samples] WITH (UPDLOCK, HOLDLOCK) WHERE queue_id = @queue_id);
    SET @is_mine = @@ROWCOUNT;
END;

IF @is_mine = 1
BEGIN
    -- Callers that sample at an interval pass half of it as @max_age_ms, and are sometimes late.
    IF EXISTS (SELECT 1 FROM [$(schema)].[samples] WITH (NOLOCK)
        WHERE queue_id = @queue_id AND DATEDIFF(MINUTE, sampled_at, @now) <> 0)
    BEGIN
        -- The database may have joined an availability group since the connections were opened.
        EXEC [$(schema)].[check_home];
        SET @most = 1 + @max_age_ms / 30000;
        EXEC [$(schema)].[note_history] @queue_id, @most;
    END;

    DECLARE @ready bigint = 0, @oldest datetime2(3), @priorities int = 0, @priority smallint, @counted bigint,
        @first_id bigint, @last_id bigint, @end_id bigint, @due_at datetime2(3);

    -- One seek per priority. TOP with ORDER BY uses the index in any plan, unlike MIN and MAX.
    SELECT @priority = (SELECT TOP (1) j.priority FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                        WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0
                        ORDER BY j.priority)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    WHILE @priority IS NOT NULL AND @priorities < 100
    BEGIN
        SET @priorities = @priorities + 1;
        SELECT @counted = COUNT_BIG(*), @first_id = MIN(h.job_id), @last_id = MAX(h.job_id), @due_at = MIN(h.due_at)
        FROM (SELECT TOP (10000) j.job_id, j.due_at FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0 AND j.priority = @priority
              ORDER BY j.job_id) AS h
        OPTION (MAXDOP 1, KEEPFIXED PLAN);

        IF @counted = 10000
        BEGIN
            SELECT @end_id = (SELECT TOP (1) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0
                                  AND j.priority = @priority
                              ORDER BY j.job_id DESC)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            -- Extrapolates the density of the counted ids. The last job may be gone by now.
            IF @end_id > @last_id
                SET @counted = @counted
                    + CAST(CAST(@end_id - @last_id AS float) * @counted / (@last_id - @first_id + 1) AS bigint);
        END;
        SET @ready = @ready + @counted;
        IF @oldest IS NULL OR @due_at < @oldest
            SET @oldest = @due_at;

        SELECT @priority = (SELECT TOP (1) j.priority FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                            WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0
                                AND j.priority > @priority
                            ORDER BY j.priority)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    END;

    -- Adds the jobs that must run alone.
    SELECT @counted = COUNT_BIG(*), @due_at = MIN(h.due_at)
    FROM (SELECT TOP (10000) j.due_at FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
          WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS h
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @ready = @ready + @counted;
    IF @oldest IS NULL OR @due_at < @oldest
        SET @oldest = @due_at;

    -- A claim can take the jobs that wait in the groups of a fair queue, so these count as ready. The oldest is one of
    -- the first of 1,000 groups.
    IF @is_fair = 1
    BEGIN
        SELECT @counted = SUM(CASE WHEN w.held = 1 THEN 0 ELSE 1 END)
        FROM (SELECT TOP (100000) j.held FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
              WHERE j.queue_id = @queue_id AND j.state = 6 AND j.group_key > N'') AS w
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SELECT @due_at = MIN(w.due_at)
        FROM (SELECT TOP (1000) group_key, from_id FROM [$(schema)].[groups] WITH (NOLOCK)
              WHERE queue_id = @queue_id AND from_id < 9223372036854775807) AS g
        CROSS APPLY (SELECT TOP (1) j.due_at
                     FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                     WHERE j.queue_id = @queue_id AND j.group_key = g.group_key AND j.state = 6
                         AND ISNULL(j.held, 0) = 0 AND j.job_id >= g.from_id
                     ORDER BY j.job_id) AS w
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @ready = @ready + ISNULL(@counted, 0);
        IF @oldest IS NULL OR @due_at < @oldest
            SET @oldest = @due_at;
    END;

    -- adopt: count_rows
    UPDATE [$(schema)].[samples]
    SET sampled_at    = @now,
        ready         = @ready,
        scheduled     = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (100000) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                  WHERE j.queue_id = @queue_id AND j.state = 1) AS s),
        claimed       = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (100000) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
                  WHERE j.queue_id = @queue_id AND j.state = 2) AS c),
        dead          = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (100000) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
                  WHERE j.queue_id = @queue_id AND j.state = 4 AND j.ended = 1) AS d),
        cancelled     = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (100000) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
                  WHERE j.queue_id = @queue_id AND j.state = 5 AND j.ended = 1) AS d),
        waiting       = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (100000) j.group_key, j.held FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
                  WHERE j.queue_id = @queue_id AND j.state = 6) AS w
            WHERE @is_fair = 0 OR w.group_key IS NULL OR w.held = 1),
        open_batches  = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (100000) c.batch_id
                  FROM [$(schema)].[batch_counts] AS c WITH (NOLOCK, INDEX (batch_counts_ended))
                  WHERE c.queue_id = @queue_id AND c.ended_at IS NULL) AS o),
        workers       = (SELECT COUNT_BIG(*) FROM [$(schema)].[workers] AS w WITH (NOLOCK)
                         WHERE w.queue_id = @queue_id AND w.lost_at IS NULL
                             -- the upper bound: see reap
                             AND w.lease_until BETWEEN @now AND DATEADD(MILLISECOND, 2 * w.lease_ms, @now)),
        oldest_due_at = @oldest
    -- A sample that started later may already be stored.
    WHERE queue_id = @queue_id AND (sampled_at IS NULL OR sampled_at <= @now OR sampled_at > DATEADD(MINUTE, 1, @now))
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;

SELECT s.ready, s.scheduled, s.claimed, s.dead, s.workers, @paused AS paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms, s.cancelled, s.waiting,
       s.open_batches
FROM [$(schema)].[samples] AS s
WHERE s.queue_id = @queue_id;
GO
