-- For reports: the jobs, without payload and output, and not those of the archive. Takes no locks, so a job that
-- changes meanwhile may be missed or seen twice. A query that does not name a job_id reads all
-- jobs: for counts, use queues_now.
CREATE OR ALTER VIEW [$(schema)].[jobs_now]
AS
SELECT j.job_id, q.name AS queue,
       CASE j.state WHEN 0 THEN 'ready' WHEN 1 THEN 'scheduled' WHEN 2 THEN 'claimed' WHEN 3 THEN 'done'
           WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' ELSE 'waiting' END AS state,
       j.kind, j.priority, j.attempt, j.enqueued_at, j.due_at, j.claimed_at, j.finished_at, j.run_us, j.cpu_us,
       j.peak_bytes, j.worker_id, j.dedup_key, j.group_key, j.batch_id, j.correlation_id, j.error
FROM [$(schema)].[jobs] AS j WITH (NOLOCK)
INNER JOIN [$(schema)].[queues] AS q WITH (NOLOCK) ON q.queue_id = j.queue_id;
GO
