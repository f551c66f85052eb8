-- For reports and alerts: the workers, also those that ended within the last day, with their last report. Takes no
-- locks.
CREATE OR ALTER VIEW [$(schema)].[workers_now]
AS
SELECT w.worker_id, q.name AS queue, w.name,
       CAST(CASE WHEN w.lost_at IS NULL AND w.lease_until > SYSUTCDATETIME() THEN 1 ELSE 0 END AS bit) AS is_live,
       w.registered_at, w.lease_until, w.lost_at, w.reported_at, w.running, w.done, w.failed, w.done_per_s,
       w.failed_per_s, w.limited_by, w.quiet, w.stops
FROM [$(schema)].[workers] AS w WITH (NOLOCK)
INNER JOIN [$(schema)].[queues] AS q WITH (NOLOCK) ON q.queue_id = w.queue_id;
GO
