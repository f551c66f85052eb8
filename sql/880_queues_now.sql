-- For reports and alerts: the queues, with their depth when it was last sampled (sampled_at), about every ten seconds
-- while a worker runs. Costs a few rows per queue and takes no locks.
CREATE OR ALTER VIEW [$(schema)].[queues_now]
AS
SELECT q.name AS queue, CAST(q.paused AS bit) AS paused,
       CASE WHEN q.paused >= 4 THEN 'copy' WHEN q.paused >= 2 THEN 'schema' END AS held, q.completion, q.delivery,
       q.max_attempts, s.sampled_at, s.ready, s.scheduled, s.waiting, s.claimed, s.dead, s.cancelled, s.workers,
       s.oldest_due_at AS oldest_ready_at
FROM [$(schema)].[queues] AS q WITH (NOLOCK)
LEFT JOIN [$(schema)].[samples] AS s WITH (NOLOCK) ON s.queue_id = q.queue_id;
GO
