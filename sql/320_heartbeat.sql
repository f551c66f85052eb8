-- Renews the lease of a worker: one row, however many jobs it holds. A lease that ran out but was not reaped yet is renewed too.
-- Error 58002 when the worker was marked lost: its jobs may run elsewhere.
-- Where nobody has the duties of the queue (see duties), this worker takes them over: from then on it calls promote every second, and reap, sample and
-- expire at their times.
-- Results: where running jobs of this worker were asked to be cancelled (cancel), job_id and fence of each, and again with each heartbeat for a day;
-- otherwise this result is left out. Then elected (this worker has the duties), min_compatible (the oldest release that works with this schema), and the last sample of the queue's
-- depth as sample returns it; NULL where there is none yet. Read the last result: an
-- older release knows of no other.
CREATE OR ALTER PROCEDURE [$(schema)].[heartbeat]
    @worker_id uniqueidentifier
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int;

UPDATE [$(schema)].[workers] WITH (ROWLOCK)
SET lease_until = DATEADD(MILLISECOND, lease_ms, @now), unserved = 0, @queue_id = queue_id
WHERE worker_id = @worker_id AND lost_at IS NULL;
IF @@ROWCOUNT = 0
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;

-- NOLOCK: it must not wait here. In doubt the next one finds out.
IF EXISTS (SELECT 1 FROM [$(schema)].[duties] WITH (NOLOCK) WHERE queue_id = @queue_id AND (until < @now OR until > DATEADD(SECOND, 10, @now)))
    UPDATE [$(schema)].[duties] WITH (ROWLOCK)
    SET worker_id = @worker_id, until = DATEADD(SECOND, 3, @now)
    WHERE queue_id = @queue_id AND (until < @now OR until > DATEADD(SECOND, 10, @now));  -- the latter: the clock was set back

-- NOLOCK: of what is being asked for at this moment, the next one tells.
IF EXISTS (SELECT 1 FROM [$(schema)].[cancellations] WITH (NOLOCK) WHERE worker_id = @worker_id)
    SELECT c.job_id, c.fence
    FROM [$(schema)].[cancellations] AS c WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE c.worker_id = @worker_id
        AND EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                    WHERE j.job_id = c.job_id AND j.state = 2 AND j.fence = c.fence);

SELECT CAST(CASE WHEN d.worker_id = @worker_id AND d.until >= @now THEN 1 ELSE 0 END AS bit) AS elected,
       (SELECT TOP (1) v.min_compatible FROM [$(schema)].[schema_version] AS v ORDER BY v.version DESC) AS min_compatible,
       s.ready, s.scheduled, s.claimed, s.dead, s.workers, q.paused,
       DATEDIFF_BIG(MILLISECOND, s.oldest_due_at, s.sampled_at) AS oldest_ready_ms,
       DATEDIFF_BIG(MILLISECOND, s.sampled_at, SYSUTCDATETIME()) AS sample_age_ms, s.cancelled, s.waiting, s.open_batches
FROM [$(schema)].[queues] AS q
INNER JOIN [$(schema)].[duties] AS d WITH (NOLOCK) ON d.queue_id = q.queue_id
LEFT JOIN [$(schema)].[samples] AS s WITH (NOLOCK) ON s.queue_id = q.queue_id
WHERE q.queue_id = @queue_id;
GO
