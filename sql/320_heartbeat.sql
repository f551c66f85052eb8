-- Renews the lease of a worker, even if it has expired, as long as the worker was not marked lost. Error 58002 if the
-- worker was marked lost: its jobs may be running elsewhere.
--
-- If no worker is elected (see duties), this worker is. It then calls promote every second, and reap, sample and expire
-- at their times. A worker that fails at a duty calls this with @yields = 1, so that the next heartbeat of another
-- worker takes over. Until then it continues with the duties that succeed. If even promote fails and no other worker
-- takes over, it is elected again after ten seconds.
--
-- A worker may report, for list_workers: its running jobs, its bottleneck (@limited_by), what jobs use of its resources
-- (@in_use), and the done jobs and failed attempts (retried or dead) since its registration. For history, it may also
-- report how many attempts left their job dead (@dead), and wait and run times (@times). The rates are calculated here
-- from the last report, by SQL Server's clock. Nothing is stored without @done, or within half a second of the last
-- report, or if the report is older than the last one (@report_no is not greater or, without it, the sums are smaller).
-- @times is a JSON object: "w3" counts jobs that waited for 4 to 8 ms, and "r3" counts jobs that ran for 4 to 8 ms. The
-- number 0 is for less than 1 ms, 1 for less than 2 ms, and so on to 24, for less than 2^24 ms; 25 is for all longer
-- times (4 h 40 min and more).
--
-- Results: if the cancellation of running jobs of the worker was requested, first their job_id and fence, with each
-- heartbeat until they finish. The last result is a row with elected (1: this worker is elected), min_compatible (the
-- oldest version that works with this schema), the wishes for this worker (worker_wish: quiet, stops, threads or NULL,
-- debugs), and the last sample as sample returns it, NULL before the first sample.
-- Clients must read this row from the last result.
CREATE OR ALTER PROCEDURE [$(schema)].[heartbeat]
    @worker_id  uniqueidentifier,
    @running    int         = NULL,
    @done       bigint      = NULL,
    @failed     bigint      = NULL,
    @limited_by varchar(16) = NULL,  -- idle, claim, busy, finish, queue_limit, resources, memory, quiet
    @dead       bigint      = NULL,
    @times      varchar(1400) = NULL,
    @report_no  bigint      = NULL,  -- the number of the report since the registration: 1, 2, ...
    @yields     bit         = 0,     -- 1: another worker is to be elected
    @in_use     varchar(1000) = NULL, -- of its resources (register_worker); NULL: only threads
    @resources  varchar(1000) = NULL  -- as register_worker takes it, if it has changed since
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @lapsed datetime2(3), @queue_id int, @lease_ms int,
    @quiet bit, @stops bit, @threads int, @debug_until datetime2(3);

IF @done NOT BETWEEN 0 AND 1000000000000000 OR @failed NOT BETWEEN 0 AND 1000000000000000
    OR @dead NOT BETWEEN 0 AND 1000000000000000
    THROW 58003, N'done, failed and dead must be 0 to 10^15', 1;

UPDATE w
SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = 0, @queue_id = queue_id, @lease_ms = lease_ms,
    @quiet = quiet, @stops = stops, @threads = threads, @debug_until = debug_until,
    resources = ISNULL(@resources, resources),
    -- If the clock was set back, the rates stay unchanged.
    done_per_s   = CASE WHEN r.is_news = 1 AND r.ms > 0 THEN (@done - ISNULL(done, 0)) * CAST(1000 AS float) / r.ms
                       ELSE done_per_s END,
    failed_per_s = CASE WHEN r.is_news = 1 AND r.ms > 0 THEN (@failed - ISNULL(failed, 0)) * CAST(1000 AS float) / r.ms
                       ELSE failed_per_s END,
    running      = CASE WHEN r.is_news = 1 THEN @running ELSE running END,
    done         = CASE WHEN r.is_news = 1 THEN @done ELSE done END,
    failed       = CASE WHEN r.is_news = 1 THEN ISNULL(@failed, failed) ELSE failed END,
    limited_by   = CASE WHEN r.is_news = 1 THEN @limited_by ELSE limited_by END,
    in_use       = CASE WHEN r.is_news = 1 THEN @in_use ELSE in_use END,
    dead         = CASE WHEN r.is_news = 1 THEN ISNULL(@dead, dead) ELSE dead END,
    times        = CASE WHEN r.is_news = 1 THEN ISNULL(@times, times) ELSE times END,
    report_no    = CASE WHEN r.is_news = 1 THEN @report_no ELSE report_no END,
    reported_at  = CASE WHEN r.is_news = 1 THEN @now ELSE reported_at END
FROM [$(schema)].[workers] AS w WITH (ROWLOCK)
CROSS APPLY (SELECT DATEDIFF_BIG(MILLISECOND, ISNULL(w.reported_at, w.registered_at), @now) AS ms) AS t
CROSS APPLY (SELECT t.ms, CASE WHEN t.ms BETWEEN 0 AND 499 OR @done IS NULL THEN 0
                               WHEN @report_no > ISNULL(w.report_no, 0) THEN 1
                               WHEN @report_no IS NULL AND @done + ISNULL(@failed, 0) >= ISNULL(w.done, 0)
                                   + ISNULL(w.failed, 0) THEN 1
                               ELSE 0 END AS is_news) AS r
WHERE w.worker_id = @worker_id AND w.lost_at IS NULL
OPTION (MAXDOP 1);
IF @@ROWCOUNT = 0
    THROW 58002, N'the worker is not registered for this queue or has lost its lease; register it again', 1;
-- Reads the clock again, because after a wait or clock jump a renewed lease could already have expired.
WHILE SYSUTCDATETIME() > DATEADD(MILLISECOND, @lease_ms / 2, @now)
BEGIN
    SET @now = SYSUTCDATETIME();
    UPDATE [$(schema)].[workers] WITH (ROWLOCK)
    SET lease_until = DATEADD(MILLISECOND, lease_ms, @now)
    WHERE worker_id = @worker_id AND lost_at IS NULL;
END;
SET @now = SYSUTCDATETIME();

-- NOLOCK, because a heartbeat must not wait, and a change that is missed is seen by the next heartbeat. If "until" is
-- more than ten seconds away, the clock was set back.
SET @lapsed = CASE WHEN @yields = 1 THEN DATEADD(SECOND, -10, @now) ELSE @now END;
IF EXISTS (SELECT 1 FROM [$(schema)].[duties] WITH (NOLOCK)
           WHERE queue_id = @queue_id
               AND (until < @lapsed OR until > DATEADD(SECOND, 10, @now)
                    OR (worker_id = @worker_id AND yielded <> @yields)
                        OR (worker_id <> @worker_id AND yielded = 1 AND @yields = 0)))
    UPDATE [$(schema)].[duties] WITH (ROWLOCK)
    SET worker_id = @worker_id, until = DATEADD(SECOND, 3, @now), yielded = @yields
    WHERE queue_id = @queue_id
        AND (until < @lapsed OR until > DATEADD(SECOND, 10, @now)
             OR (worker_id = @worker_id AND yielded <> @yields)
                 OR (worker_id <> @worker_id AND yielded = 1 AND @yields = 0));

-- NOLOCK, because the next heartbeat sees requests that are missed.
IF EXISTS (SELECT 1 FROM [$(schema)].[cancellations] WITH (NOLOCK) WHERE worker_id = @worker_id)
    SELECT c.job_id, c.fence
    FROM [$(schema)].[cancellations] AS c WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE c.worker_id = @worker_id
        AND EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                    WHERE j.job_id = c.job_id AND j.state = 2 AND j.fence = c.fence)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- NOLOCK, and always returns a row, because a change of the queue must not cost a worker its lease. If the queue was
-- deleted, the worker was deleted, too, and the next heartbeat fails.
SELECT CAST(CASE WHEN d.worker_id = @worker_id AND d.until >= @now THEN 1 ELSE 0 END AS bit) AS elected,
       (SELECT TOP (1) v.min_compatible FROM [$(schema)].[schema_version] AS v WITH (NOLOCK) ORDER BY v.version DESC)
           AS min_compatible,
       @quiet AS quiet, @stops AS stops, @threads AS threads,
       CASE WHEN @debug_until > @now THEN 1 ELSE 0 END AS debugs,
       s.ready, s.scheduled, s.claimed, s.dead, s.workers, CAST(ISNULL(q.paused, 0) AS bit) AS paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms, s.cancelled, s.waiting,
       s.open_batches
FROM (SELECT @queue_id AS queue_id) AS w
LEFT JOIN [$(schema)].[queues] AS q WITH (NOLOCK) ON q.queue_id = w.queue_id
LEFT JOIN [$(schema)].[duties] AS d WITH (NOLOCK) ON d.queue_id = w.queue_id
LEFT JOIN [$(schema)].[samples] AS s WITH (NOLOCK) ON s.queue_id = w.queue_id;
GO
