-- For an autoscaler, KEDA's mssql scaler for example: how many workers the waiting jobs of a queue are work for. That
-- many, each with @threads jobs at once, would have run what waits in about @target_s seconds, by the run times of the
-- last minutes in which jobs ran (history); where none were measured in the last seven days, a job counts as a second.
-- Never more workers than have a job for each of their threads: an hour's job is not done sooner by sixty workers. And
-- no more than may run at once by the queue's own limits (max_running, rate). But never fewer than those that hold a
-- job now: whoever makes them fewer would stop one that runs a long job.
--
-- 0: there is nothing for a worker to do, and nothing comes due within @due_within_s. At least 1 where there is: jobs
-- that are ready or claimed (their worker may be lost, and another must give them back), scheduled jobs that come due,
-- a schedule that is to be fired, groups that wait for their turn to be given. Of a paused queue what is claimed
-- counts, and nothing else.
--
-- Reads without locks (NOLOCK): it neither waits nor makes anybody wait. Cheap at any depth: of each state @most jobs
-- are counted; where more are ready, the depth that the workers have sampled within the last minute counts instead (see
-- sample).
-- Result: workers, alone: KEDA takes one row with one column, and no other.
CREATE OR ALTER PROCEDURE [$(schema)].[backlog]
    @queue        nvarchar(129),
    @threads      int    = 1,      -- how many jobs one worker runs at once: 1 to 1,024
    @target_s     int    = 60,     -- 1 to 86,400 (a day)
    @due_within_s int    = 30,     -- 0 to 86,400; as long as a worker takes to start
    @most         bigint = 10000   -- 1 or more
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @paused bit, @max_running int, @rate_jobs int,
    @rate_ms bigint, @soon datetime2(3), @since datetime2(0), @holders int = 0, @ready bigint, @sampled bigint,
    @due bigint, @claimed bigint, @jobs bigint, @run_ms float = 1000, @at_once float, @workers float = 0;

SELECT @queue_id = queue_id, @paused = paused, @max_running = max_running, @rate_jobs = rate_jobs, @rate_ms = rate_ms
FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @threads IS NULL OR @threads < 1 OR @threads > 1024
    THROW 58003, N'threads must be 1 to 1024', 1;
IF @target_s IS NULL OR @target_s < 1 OR @target_s > 86400
    THROW 58003, N'target_s must be 1 to 86400 (a day)', 1;
IF @due_within_s IS NULL OR @due_within_s < 0 OR @due_within_s > 86400
    THROW 58003, N'due_within_s must be 0 to 86400 (a day)', 1;
IF @most IS NULL OR @most < 1
    THROW 58003, N'most must be 1 or more', 1;
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
                                                 WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 0
                                                     AND j.alone = 0) AS c)
                  + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id
                      FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_lifo))
                                                 WHERE j.queue_id = @queue_id AND j.state = 0 AND j.lifo = 1
                                                     AND j.alone = 0) AS c)
                  + (SELECT COUNT_BIG(*) FROM (SELECT TOP (@most) j.job_id
                      FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                                                 WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS c)
    -- adopt: count_rows
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @ready >= @most
    BEGIN
        SET @sampled = (SELECT ready FROM [$(schema)].[samples] WITH (NOLOCK)
                        WHERE queue_id = @queue_id AND sampled_at BETWEEN DATEADD(MINUTE, -1, @now)
                            AND DATEADD(MINUTE, 1, @now));
        IF @sampled > @ready
            SET @ready = @sampled;
    END;
    SELECT @due = (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                                               WHERE j.queue_id = @queue_id AND j.state = 1 AND j.due_at <= @soon
                                               ORDER BY j.due_at) AS c)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @jobs = @jobs + @ready + @due;
END;

IF @jobs > 0
BEGIN
    -- "r0" is under 1 ms, "r1" from 1 ms up to 2 ms, and so on by powers of two, see heartbeat: a job counts as the
    -- middle.
    SELECT @run_ms = CASE WHEN SUM(r.jobs) > 0 THEN SUM(r.jobs * CASE WHEN r.bucket = 0 THEN 0.5
        ELSE 0.75 * POWER(CAST(2 AS float), r.bucket) END) / SUM(r.jobs)
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
    -- What may run at once.
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
-- What only a worker does for the queue.
ELSE IF @paused = 0
    AND (EXISTS (SELECT 1 FROM [$(schema)].[group_events] WITH (NOLOCK) WHERE queue_id = @queue_id)
         OR EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (NOLOCK, INDEX (schedules_due))
                    WHERE queue_id = @queue_id AND paused = 0
                        -- the latter: see due_schedules
                        AND (look_at <= @soon OR looked_at > DATEADD(MINUTE, 1, @now))))
    SET @workers = 1;

-- More than an int could say is as good as that.
SELECT CAST(CASE WHEN @workers > 1000000 THEN 1000000 ELSE @workers END AS int) AS workers;
GO
