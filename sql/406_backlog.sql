-- For an autoscaler such as KEDA's mssql scaler: returns how many workers with @threads jobs each would finish the
-- backlog in about @target_s seconds. The run times are those of the last minutes with jobs in history, or a second per
-- job if there are none in seven days. The number is limited: each worker must have a job for each thread, and the
-- queue's limits (max_running, rate) must allow as many running jobs. But it is at least the number of workers that
-- hold jobs now, because scaling down might stop a worker with a long job.
--
-- The number is 0 if there is no work within @due_within_s. It is at least 1 if jobs are ready or claimed (a lost
-- worker's jobs must be returned), if scheduled jobs or a schedule become due, or if groups have turns to give. In a
-- paused queue, only claimed jobs count.
--
-- Reads by NOLOCK, so it neither blocks nor is blocked. Cheap at any depth: it counts at most @most jobs of each state
-- and, if more are ready, uses the sample of the last minute. Result: a single column, workers, as KEDA requires.
CREATE OR ALTER PROCEDURE [$(schema)].[backlog]
    @queue        nvarchar(129),
    @threads      int    = 1,      -- how many jobs a worker runs at the same time: 1 to 1,024
    @target_s     int    = 60,     -- 1 to 86,400 (a day)
    @due_within_s int    = 30,     -- how long a worker takes to start: 0 to 86,400
    @most         bigint = 10000   -- 1 or more
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @paused bit, @max_running int, @rate_jobs int,
    @rate_ms bigint, @soon datetime2(3), @since datetime2(0), @holders int = 0, @ready bigint, @sampled bigint,
    @due bigint, @claimed bigint, @jobs bigint, @run_ms float = 1000, @at_once float, @workers float = 0;

SELECT @queue_id = queue_id, @paused = paused, @max_running = max_running, @rate_jobs = rate_jobs, @rate_ms = rate_ms
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
SET @soon = DATEADD(SECOND, @due_within_s, @now);
SET @since = DATEADD(DAY, -7, @now);

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
                  WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0) AS c)
        + (SELECT COUNT_BIG(*)
            FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                  WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c)
    -- adopt: count_rows
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @ready >= @most
    BEGIN
        SET @sampled = (SELECT ready FROM [$(schema)].[samples] WITH (NOLOCK) WHERE queue_id = @queue_id
            AND sampled_at BETWEEN DATEADD(MINUTE, -1, @now) AND DATEADD(MINUTE, 1, @now));
        IF @sampled > @ready
            SET @ready = @sampled;
    END;
    SELECT @due = (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
              WHERE j.queue_id = @queue_id AND j.state = 1 AND j.due_at <= @soon ORDER BY j.due_at) AS c)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @jobs = @jobs + @ready + @due;
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

    SET @workers = CEILING(@jobs * @run_ms / (CAST(1000 AS float) * @threads * @target_s));
    -- How many jobs may run at the same time.
    SET @at_once = @jobs;
    IF @max_running < @at_once
        SET @at_once = @max_running;
    IF @rate_jobs * @run_ms / @rate_ms < @at_once
        SET @at_once = @rate_jobs * @run_ms / @rate_ms;
    IF @workers > CEILING(@at_once / @threads)
        SET @workers = CEILING(@at_once / @threads);
    IF @workers < @holders
        SET @workers = @holders;
    IF @workers < 1
        SET @workers = 1;
END
-- Tasks that only a worker can do.
ELSE IF @paused = 0
    AND (EXISTS (SELECT 1 FROM [$(schema)].[group_events] WITH (NOLOCK) WHERE queue_id = @queue_id)
         OR EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (NOLOCK, INDEX (schedules_due))
                    WHERE queue_id = @queue_id AND paused = 0
                        -- the last condition: see due_schedules
                        AND (look_at <= @soon OR looked_at > DATEADD(MINUTE, 1, @now))))
    SET @workers = 1;

-- Limited, so that the number fits into an int.
SELECT CAST(CASE WHEN @workers > 1000000 THEN 1000000 ELSE @workers END AS int) AS workers;
GO
