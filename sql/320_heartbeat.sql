-- Renews the lease of a worker: one row, however many jobs it holds. A lease that ran out but was not reaped yet is
-- renewed too. Error 58002 when the worker was marked lost: its jobs may run elsewhere.
-- Where nobody has the duties of the queue (see duties), this worker takes them over: from then on it calls promote
-- every second, and reap, sample and expire at their times. A worker that fails at one of them says so with @yields:
-- then the next heartbeat of another takes them. Until one does, it keeps them and goes on with those that succeed;
-- where it cannot even call promote, it has them again when nobody has taken them for ten seconds. A worker may say
-- what it does, for list_workers: how many of its jobs run, how many were done since it registered, how many attempts
-- failed (the job was retried or is dead), what limits it, and for the history of the queue after how many attempts the
-- job was dead, and how long jobs waited and ran (@times). The rates since it last said so are worked out here, by SQL
-- Server's clock. Without @done it says nothing, and what it has said stays; so it does where a heartbeat arrives
-- behind a later one (@report_no is not greater; without it, fewer have ended), and within half a second of the last
-- report: a rate over less would say nothing. All numbers but @running are sums since the registration, so that nothing
-- is missing then. @times is a JSON object: "w3" is how many jobs had waited since they were due when they were
-- started, "r3" how many ran, from 4 ms up to 8 ms; 0 is under 1 ms, 1 under 2 ms, and so on to 24, under 2^24 ms; 25
-- is longer (4 h 40 min). What is 0 is left out.
-- Results: where running jobs of this worker were asked to be cancelled (cancel), job_id and fence of each, and again
-- with each heartbeat until they end; otherwise this result is left out. Then elected (this worker has the duties),
-- min_compatible (the oldest release that works with this schema), and the last sample of the queue's depth as sample
-- returns it; NULL where there is none yet. Read the last result: an
-- older release knows of no other.
CREATE OR ALTER PROCEDURE [$(schema)].[heartbeat]
    @worker_id  uniqueidentifier,
    @running    int         = NULL,
    @done       bigint      = NULL,
    @failed     bigint      = NULL,
    @limited_by varchar(16) = NULL,  -- idle, claim, busy, finish, queue_limit
    @dead       bigint      = NULL,
    @times      varchar(1400) = NULL,
    @report_no  bigint      = NULL,  -- which of the reports since the registration this is: 1, 2, ...
    @yields     bit         = 0      -- 1: another worker shall have the duties
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @lapsed datetime2(3), @queue_id int, @lease_ms int;

IF @done NOT BETWEEN 0 AND 1000000000000000 OR @failed NOT BETWEEN 0 AND 1000000000000000
    OR @dead NOT BETWEEN 0 AND 1000000000000000
    THROW 58003, N'done, failed and dead must be 0 to 10^15', 1;

UPDATE w
SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = 0, @queue_id = queue_id, @lease_ms = lease_ms,
    -- The clock was set back: the rates stay as they are.
    done_per_s   = CASE WHEN r.is_news = 1 AND r.ms > 0 THEN (@done - ISNULL(done, 0)) * CAST(1000 AS float) / r.ms
        ELSE done_per_s END,
    failed_per_s = CASE WHEN r.is_news = 1 AND r.ms > 0 THEN (@failed - ISNULL(failed, 0)) * CAST(1000 AS float) / r.ms
    ELSE failed_per_s END,
    running      = CASE WHEN r.is_news = 1 THEN @running ELSE running END,
    done         = CASE WHEN r.is_news = 1 THEN @done ELSE done END,
    failed       = CASE WHEN r.is_news = 1 THEN ISNULL(@failed, failed) ELSE failed END,
    limited_by   = CASE WHEN r.is_news = 1 THEN @limited_by ELSE limited_by END,
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
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;
-- It may have waited for the row, and the clock may have jumped meanwhile: the lease must not have run out when it is
-- given.
WHILE SYSUTCDATETIME() > DATEADD(MILLISECOND, @lease_ms / 2, @now)
BEGIN
    SET @now = SYSUTCDATETIME();
    UPDATE [$(schema)].[workers] WITH (ROWLOCK)
    SET lease_until = DATEADD(MILLISECOND, lease_ms, @now)
    WHERE worker_id = @worker_id AND lost_at IS NULL;
END;
SET @now = SYSUTCDATETIME();

-- NOLOCK: it must not wait here. In doubt the next one finds out.
-- A time that is more than ten seconds away: the clock was set back.
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

-- NOLOCK: of what is being asked for at this moment, the next one tells.
IF EXISTS (SELECT 1 FROM [$(schema)].[cancellations] WITH (NOLOCK) WHERE worker_id = @worker_id)
    SELECT c.job_id, c.fence
    FROM [$(schema)].[cancellations] AS c WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE c.worker_id = @worker_id
        AND EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                    WHERE j.job_id = c.job_id AND j.state = 2 AND j.fence = c.fence)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- NOLOCK, and a row in any case: whoever is changing the queue's row must not cost a worker its lease. Where the queue
-- was deleted, the worker's row was, too: the next heartbeat is refused.
SELECT CAST(CASE WHEN d.worker_id = @worker_id AND d.until >= @now THEN 1 ELSE 0 END AS bit) AS elected,
       (SELECT TOP (1) v.min_compatible FROM [$(schema)].[schema_version] AS v WITH (NOLOCK)
       ORDER BY v.version DESC) AS min_compatible,
       s.ready, s.scheduled, s.claimed, s.dead, s.workers, ISNULL(q.paused, 0) AS paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms, s.cancelled, s.waiting,
       s.open_batches
FROM (SELECT @queue_id AS queue_id) AS w
LEFT JOIN [$(schema)].[queues] AS q WITH (NOLOCK) ON q.queue_id = w.queue_id
LEFT JOIN [$(schema)].[duties] AS d WITH (NOLOCK) ON d.queue_id = w.queue_id
LEFT JOIN [$(schema)].[samples] AS s WITH (NOLOCK) ON s.queue_id = w.queue_id;
GO
