-- Lists the workers of a queue or, with NULL, of every queue: workers with a lease, and workers that stopped, were lost
-- or whose lease expired within the last @ended_s seconds. Reads by NOLOCK, so it neither blocks nor is blocked. Counts
-- each worker's entries of jobs_claimed and reads the rows of its first 50 jobs. Result: worker_id, queue, name,
-- registered_at, lease_left_ms (negative: expired; 0 with lost_at), lost_at (stopped or lost), reported_at, held
-- (claimed jobs), oldest_claimed_at (among the 50 jobs that were enqueued first), and the report at reported_at:
-- running, done, failed, done_per_s, failed_per_s, limited_by (see heartbeat); resources (see register_worker), in_use
-- (of these, at reported_at); the wishes for the worker (worker_wish): quiet, stops, threads (NULL: as configured),
-- debug_left_ms (0: none), and is_told (1: a heartbeat has returned them to the worker).
CREATE OR ALTER PROCEDURE [$(schema)].[list_workers]
    @queue   nvarchar(129) = NULL,
    @ended_s int           = 86400  -- 0 to 86,400 (a day, after which rows may be deleted)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue IS NOT NULL AND @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

IF @ended_s IS NULL OR @ended_s < 0 OR @ended_s > 86400
    EXEC [$(schema)].[refuse] N'ended_s', @ended_s, N'0 to 86400 (a day)';

SELECT w.worker_id, q.name AS queue, w.name, w.registered_at,
       -- the upper bound: see reap
       CASE WHEN w.lost_at IS NULL AND w.lease_until <= DATEADD(MILLISECOND, 2 * w.lease_ms, @now)
            THEN DATEDIFF_BIG(MILLISECOND, @now, w.lease_until) ELSE 0 END AS lease_left_ms,
       w.lost_at, w.reported_at, h.held, c.oldest_claimed_at, w.running, w.done, w.failed,
       CAST(w.done_per_s AS float) AS done_per_s, CAST(w.failed_per_s AS float) AS failed_per_s, w.limited_by,
       w.resources, w.in_use, w.quiet, w.stops, w.threads,
       CASE WHEN w.debug_until > @now THEN DATEDIFF_BIG(MILLISECOND, @now, w.debug_until) ELSE 0 END AS debug_left_ms,
       -- A heartbeat sets the lease from its own time on, and unserved to 0.
       CAST(CASE WHEN w.wished_at IS NULL
                      OR (w.unserved = 0 AND DATEADD(MILLISECOND, -w.lease_ms, w.lease_until) > w.wished_at)
                 THEN 1 ELSE 0 END AS bit) AS is_told
FROM [$(schema)].[workers] AS w WITH (NOLOCK)
INNER JOIN [$(schema)].[queues] AS q WITH (NOLOCK) ON q.queue_id = w.queue_id
CROSS APPLY (SELECT COUNT_BIG(*) AS held
             FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
             WHERE j.queue_id = w.queue_id AND j.worker_id = w.worker_id AND j.state = 2) AS h
CROSS APPLY (SELECT MIN(f.claimed_at) AS oldest_claimed_at
             FROM (SELECT TOP (50) j.claimed_at
                   FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
                   WHERE j.queue_id = w.queue_id AND j.worker_id = w.worker_id AND j.state = 2
                   ORDER BY j.job_id) AS f) AS c
WHERE (@queue_id IS NULL OR w.queue_id = @queue_id)
    AND ISNULL(w.lost_at, w.lease_until) >= DATEADD(SECOND, -@ended_s, @now)
ORDER BY q.name, w.name, w.registered_at
OPTION (MAXDOP 1);
GO
