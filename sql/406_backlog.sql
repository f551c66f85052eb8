-- For an autoscaler such as KEDA's mssql scaler: returns how many workers, each with @threads threads and @memory bytes
-- for jobs, would finish the backlog in about @target_s seconds.
--
-- A job takes up the threads and the memory that it needs (by itself or by its kind; otherwise one thread) for its
-- time, but at most for @target_s: the average run time of its kind in the hour in which it last ran and the hour
-- before, if that was within a day (kind_history); otherwise the average of the last minutes with jobs in history;
-- otherwise, if there are none in seven days, a second. A job that was claimed more than @target_s ago takes them up for
-- all of @target_s. The number is the largest of
--   the sum of threads * time, divided by @threads * @target_s
--   the sum of memory * time, divided by @memory * @target_s
--   the sum of the times of jobs that need more than half of @threads or @memory, divided by @target_s: no two of them
--   fit into one worker
--   the number of workers that hold jobs now, because scaling down might stop a worker with a long job.
-- If the queue's limits (max_running, rate) allow fewer running jobs than this takes, the first three shrink in
-- proportion.
--
-- The number is 0 if there is no work within @due_within_s. It is at least 1 if jobs are ready or claimed (a lost
-- worker's jobs must be returned), if scheduled jobs or a schedule become due, or if groups have turns to give. In a
-- paused queue, only claimed jobs count. Jobs that wait in the groups of a fair queue count as ready. Jobs that need more
-- than a worker has do not count beyond the 1.
--
-- Reads by NOLOCK, so it neither blocks nor is blocked. Cheap at any depth: it counts at most @most jobs of each state
-- and, if more are ready, uses the sample of the last minute. It reads a day of kind_history. The needs of the
-- first 1,000 of each state stand for the others. Result: a single column, workers, as KEDA requires.
CREATE OR ALTER PROCEDURE [$(schema)].[backlog]
    @queue        nvarchar(129),
    @threads      int    = 1,      -- of a worker: 1 to 1,024
    @target_s     int    = 60,     -- 1 to 86,400 (a day)
    @due_within_s int    = 30,     -- how long a worker takes to start: 0 to 86,400
    @most         bigint = 10000,  -- 1 or more
    @memory       bigint = NULL,   -- bytes that a worker has for jobs: 1 or more; NULL: memory does not count
    -- what jobs need by their kind, as in the workers' configuration: {"render": {"memory": 3221225472, "threads": 4}}
    @kinds        nvarchar(4000) = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @paused bit, @max_running int, @rate_jobs int,
    @rate_ms bigint, @soon datetime2(3), @since datetime2(0), @yesterday datetime2(0), @holders int = 0,
    @claimed bigint, @ready bigint = 0, @alone bigint = 0, @due bigint = 0, @theirs bigint = 0, @shared bigint = 0, @is_fair bit,
    @jobs bigint, @sampled bigint, @run_ms float = 1000, @mean_ms float, @at_once float, @running float,
    @by_threads float, @by_memory float, @by_half float, @workers float = 0, @allowed nvarchar(400);
DECLARE @kind_needs TABLE
(
    kind    nvarchar(4000) COLLATE Latin1_General_100_BIN2 NOT NULL,
    threads bigint         NULL,
    memory  bigint         NULL
);
-- The average run time of each kind ('': jobs without one).
DECLARE @times TABLE (kind varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    run_ms float NOT NULL);
-- The first jobs of each state, counted by what they need.
DECLARE @parts TABLE
(
    part    tinyint       NOT NULL,  -- 0 ready, 1 ready and alone, 2 due, 3 claimed, 4 rows of an adopted table,
                                      -- 5 waiting in groups of a fair queue
    is_long bit           NOT NULL,  -- claimed more than @target_s ago
    kind    varchar(64)   COLLATE Latin1_General_100_BIN2 NULL,
    needs   varchar(1000) COLLATE Latin1_General_100_BIN2 NULL,
    jobs    bigint        NOT NULL
);

SELECT @queue_id = queue_id, @paused = paused, @max_running = max_running, @rate_jobs = rate_jobs, @rate_ms = rate_ms,
       @is_fair = fair
FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @threads IS NULL OR @threads < 1 OR @threads > 1024
    EXEC [$(schema)].[refuse] N'threads', @threads, N'1 to 1024';
IF @target_s IS NULL OR @target_s < 1 OR @target_s > 86400
    EXEC [$(schema)].[refuse] N'target_s', @target_s, N'1 to 86400 (a day)';
IF @due_within_s IS NULL OR @due_within_s < 0 OR @due_within_s > 86400
    EXEC [$(schema)].[refuse] N'due_within_s', @due_within_s, N'0 to 86400 (a day)';
IF @most IS NULL OR @most < 1
    EXEC [$(schema)].[refuse] N'most', @most, N'1 or more';
IF @memory < 1
    EXEC [$(schema)].[refuse] N'memory', @memory, N'1 or more bytes, or NULL';
IF @kinds IS NOT NULL
BEGIN
    SET @allowed =
        N'a JSON object of kinds with their needs, such as {"render": {"memory": 3221225472, "threads": 4}}';
    -- Separate statements, because OPENJSON fails if the text is not JSON.
    IF ISJSON(@kinds) = 0
        OR SUBSTRING(@kinds, PATINDEX(CONCAT(N'%[^ ', NCHAR(9), NCHAR(10), NCHAR(13), N']%'),
                                      @kinds COLLATE Latin1_General_100_BIN2), 1) <> N'{'
        EXEC [$(schema)].[refuse] N'kinds', @kinds, @allowed;
    IF EXISTS (SELECT 1 FROM OPENJSON(@kinds) AS k WHERE k.[type] <> 5)
        EXEC [$(schema)].[refuse] N'kinds', @kinds, @allowed;
    -- Limits as in check_needs.
    IF EXISTS (SELECT 1 FROM OPENJSON(@kinds) AS k CROSS APPLY OPENJSON(k.[value]) AS m
               WHERE m.[type] <> 2 OR ISNULL(TRY_CAST(m.[value] AS bigint), 0) NOT BETWEEN 1 AND
                   CASE m.[key] WHEN N'memory' THEN 1125899906842624 WHEN N'threads' THEN 1024 ELSE 1000000 END)
        EXEC [$(schema)].[refuse] N'kinds', @kinds, @allowed;
    INSERT @kind_needs (kind, threads, memory)
    SELECT k.[key], MAX(CASE WHEN m.[key] = N'threads' THEN CAST(m.[value] AS bigint) END),
           MAX(CASE WHEN m.[key] = N'memory' THEN CAST(m.[value] AS bigint) END)
    FROM OPENJSON(@kinds) AS k
    CROSS APPLY OPENJSON(k.[value]) AS m
    GROUP BY k.[key];
END;
SET @soon = DATEADD(SECOND, @due_within_s, @now);
SET @since = DATEADD(DAY, -7, @now);
SET @yesterday = DATEADD(DAY, -1, @now);

SELECT @claimed = (SELECT COUNT_BIG(*)
    FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
          WHERE j.queue_id = @queue_id AND j.state = 2) AS c)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @jobs = @claimed;
IF @claimed > 0
    SELECT @holders = (SELECT COUNT(*)
                       FROM [$(schema)].[workers] AS w WITH (NOLOCK)
                       WHERE w.queue_id = @queue_id AND w.lost_at IS NULL
                           AND EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j
                               WITH (NOLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
                                       WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = w.worker_id))
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @paused = 0
BEGIN
    SELECT @ready = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                  WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0) AS c),
        @alone = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                  WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c),
        @theirs = 0
    -- adopt: count_rows
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @is_fair = 0 AND @ready + @alone + @theirs >= @most
    BEGIN
        SET @sampled = (SELECT ready FROM [$(schema)].[samples] WITH (NOLOCK) WHERE queue_id = @queue_id
            AND sampled_at BETWEEN DATEADD(MINUTE, -1, @now) AND DATEADD(MINUTE, 1, @now));
        IF @sampled > @ready + @alone + @theirs
            SET @ready = @sampled - @alone - @theirs;
    END;
    IF @is_fair = 1
    BEGIN
        SELECT @shared = (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
                  WHERE j.queue_id = @queue_id AND j.state = 6 AND j.group_key IS NOT NULL AND ISNULL(j.held, 0) = 0) AS c)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @shared >= @most
        BEGIN
            SET @sampled = (SELECT ready FROM [$(schema)].[samples] WITH (NOLOCK) WHERE queue_id = @queue_id
                AND sampled_at BETWEEN DATEADD(MINUTE, -1, @now) AND DATEADD(MINUTE, 1, @now));
            IF @sampled > @ready + @alone + @shared
                SET @shared = @sampled - @ready - @alone;
        END;
    END;
    SELECT @due = (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
              WHERE j.queue_id = @queue_id AND j.state = 1 AND j.due_at <= @soon ORDER BY j.due_at) AS c)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @jobs = @claimed + @ready + @alone + @theirs + @shared + @due;
END;

IF @jobs > 0
BEGIN
    -- A job counts with the middle of its bucket: "r0" is less than 1 ms, "r1" 1 to 2 ms, and so on (see heartbeat).
    SELECT @run_ms = CASE WHEN SUM(r.jobs) > 0
        THEN SUM(r.jobs * CASE WHEN r.bucket = 0 THEN 0.5 ELSE 0.75 * POWER(CAST(2 AS float), r.bucket) END)
            / SUM(r.jobs)
        ELSE @run_ms END
    FROM (SELECT TRY_CAST(SUBSTRING(t.[key], 2, 2) AS int) AS bucket, TRY_CAST(t.value AS bigint) AS jobs
          FROM (SELECT TOP (60) h.times
              FROM [$(schema)].[history] AS h WITH (NOLOCK, FORCESEEK (history_pk (queue_id, at)))
                WHERE h.queue_id = @queue_id AND h.at > @since AND h.times LIKE '%"r%'
                ORDER BY h.at DESC) AS n
          CROSS APPLY OPENJSON(CASE WHEN ISJSON(n.times) = 1 THEN n.times END) AS t
          WHERE t.[key] LIKE 'r[0-9]%') AS r
    OPTION (MAXDOP 1);

    INSERT @times (kind, run_ms)
    SELECT h.kind, SUM(h.total) / SUM(h.jobs) / 1000
    FROM (SELECT k.kind, k.hour, k.total, k.jobs, MAX(k.hour) OVER (PARTITION BY k.kind) AS last
          FROM (SELECT r.kind, r.hour, SUM(r.total) AS total, SUM(r.jobs) AS jobs
                FROM [$(schema)].[kind_history] AS r WITH (NOLOCK, FORCESEEK (kind_history_pk (queue_id, hour)))
                WHERE r.queue_id = @queue_id AND r.hour > @yesterday AND r.measure IN (1, 2, 3)
                    AND r.kind <> ' other kinds'
                GROUP BY r.hour, r.kind) AS k) AS h
    WHERE h.hour >= DATEADD(HOUR, -1, h.last)
    GROUP BY h.kind
    OPTION (MAXDOP 1);

    INSERT @parts (part, is_long, kind, needs, jobs)
    SELECT 3, c.is_long, c.kind, c.needs, COUNT_BIG(*)
    FROM (SELECT TOP (1000) j.kind, j.needs,
                 CASE WHEN j.claimed_at < DATEADD(SECOND, -@target_s, @now) THEN 1 ELSE 0 END AS is_long
          FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
          WHERE j.queue_id = @queue_id AND j.state = 2) AS c
    GROUP BY c.is_long, c.kind, c.needs
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @ready > 0
        INSERT @parts (part, is_long, kind, needs, jobs)
        SELECT 0, 0, c.kind, c.needs, COUNT_BIG(*)
        FROM (SELECT TOP (1000) j.kind, j.needs FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0) AS c
        GROUP BY c.kind, c.needs
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @alone > 0
        INSERT @parts (part, is_long, kind, needs, jobs)
        SELECT 1, 0, c.kind, c.needs, COUNT_BIG(*)
        FROM (SELECT TOP (1000) j.kind, j.needs FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
              WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c
        GROUP BY c.kind, c.needs
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @shared > 0
        INSERT @parts (part, is_long, kind, needs, jobs)
        SELECT 5, 0, c.kind, c.needs, COUNT_BIG(*)
        FROM (SELECT TOP (1000) j.kind, j.needs FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
              WHERE j.queue_id = @queue_id AND j.state = 6 AND j.group_key IS NOT NULL AND ISNULL(j.held, 0) = 0) AS c
        GROUP BY c.kind, c.needs
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @due > 0
        INSERT @parts (part, is_long, kind, needs, jobs)
        SELECT 2, 0, c.kind, c.needs, COUNT_BIG(*)
        FROM (SELECT TOP (1000) j.kind, j.needs FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
              WHERE j.queue_id = @queue_id AND j.state = 1 AND j.due_at <= @soon ORDER BY j.due_at) AS c
        GROUP BY c.kind, c.needs
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    -- adopt: read_kinds
    -- Those that were claimed or finished meanwhile count as if they needed nothing.
    INSERT @parts (part, is_long, jobs)
    SELECT d.part, 0, d.jobs
    FROM (VALUES (0, @ready), (1, @alone), (2, @due), (4, @theirs), (5, @shared)) AS d (part, jobs)
    WHERE d.jobs > 0 AND NOT EXISTS (SELECT 1 FROM @parts AS p WHERE p.part = d.part);

    -- running: how many jobs, one after the other, would run for all of @target_s.
    SELECT @running = ISNULL(SUM(s.running), 0), @mean_ms = SUM(s.jobs * s.run_ms) / NULLIF(SUM(s.jobs), 0),
           @by_threads = ISNULL(SUM(s.running * s.threads), 0) / @threads,
           @by_memory = ISNULL(SUM(s.running * s.memory), 0) / @memory,
           @by_half = ISNULL(SUM(CASE WHEN s.threads > @threads - s.threads OR s.memory > @memory - s.memory
                                     THEN s.running END), 0)
    FROM (SELECT a.jobs, t.run_ms, COALESCE(n.threads, k.threads, 1) AS threads,
                 COALESCE(n.memory, k.memory, 0) AS memory,
                 a.jobs * CASE WHEN p.is_long = 1 OR t.run_ms > CAST(1000 AS float) * @target_s THEN 1
                               ELSE t.run_ms / (CAST(1000 AS float) * @target_s) END AS running
          FROM @parts AS p
          INNER JOIN (SELECT part, SUM(jobs) AS jobs FROM @parts GROUP BY part) AS r ON r.part = p.part
          INNER JOIN (VALUES (0, @ready), (1, @alone), (2, @due), (3, @claimed), (4, @theirs), (5, @shared)) AS d (part, jobs)
              ON d.part = p.part
          LEFT JOIN @times AS o ON o.kind = ISNULL(LTRIM(p.kind), '')
          CROSS APPLY (SELECT ISNULL(o.run_ms, @run_ms) AS run_ms) AS t
          CROSS APPLY (SELECT p.jobs * CAST(d.jobs AS float) / r.jobs AS jobs) AS a
          CROSS APPLY (SELECT MAX(CASE WHEN m.[key] = N'threads' THEN CAST(m.[value] AS bigint) END) AS threads,
                              MAX(CASE WHEN m.[key] = N'memory' THEN CAST(m.[value] AS bigint) END) AS memory
                       FROM OPENJSON(p.needs) AS m) AS n
          LEFT JOIN @kind_needs AS k ON k.kind = p.kind) AS s
    WHERE s.threads <= @threads AND (@memory IS NULL OR s.memory <= @memory)
    OPTION (MAXDOP 1);
    SET @workers = @by_threads;
    IF @by_memory > @workers
        SET @workers = @by_memory;
    IF @by_half > @workers
        SET @workers = @by_half;

    -- How many jobs may run at the same time, and take the workers at most.
    SET @at_once = @max_running;
    IF @rate_jobs * @mean_ms / @rate_ms < ISNULL(@at_once, @running)
        SET @at_once = @rate_jobs * @mean_ms / @rate_ms;
    IF @at_once < @running
        SET @workers = @workers * @at_once / @running;
    SET @workers = CEILING(@workers - 0.000001);  -- less what sums of floats are off
    IF @workers < @holders
        SET @workers = @holders;
    IF @workers < 1
        SET @workers = 1;
END
-- Tasks that only a worker can do.
ELSE IF @paused = 0
BEGIN
    SELECT TOP (1) @workers = 1
    FROM [$(schema)].[edge_events] AS v WITH (NOLOCK)
    INNER LOOP JOIN [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
        ON e.parent_id = v.job_id
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = e.child_id
    WHERE j.queue_id = @queue_id AND j.held = 1
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF EXISTS (SELECT 1 FROM [$(schema)].[group_events] WITH (NOLOCK) WHERE queue_id = @queue_id)
        OR EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (NOLOCK, INDEX (schedules_due))
                   WHERE queue_id = @queue_id AND paused = 0
                       -- the last condition: see due_schedules
                       AND (look_at <= @soon OR looked_at > DATEADD(MINUTE, 1, @now)))
        SET @workers = 1;
END;

-- Limited, so that the number fits into an int.
SELECT CAST(CASE WHEN @workers > 1000000 THEN 1000000 ELSE @workers END AS int) AS workers;
GO
