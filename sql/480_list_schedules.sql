-- Lists the schedules of a queue by name. Reads by NOLOCK, because READPAST would leave out schedules that are being
-- fired. If a payload of more than 8,000 bytes is being replaced, the call may fail with error 7105 and a closed
-- connection; call it again. Result: name, cron, time_zone, make_up, jitter_ms, priority, max_attempts, time_limit_ms,
-- kind, dedup_key, correlation_id, payload_utf16, payload, paused, next_at, last_at, last_job_id, last_job_state (dead
-- also in the dead queue; NULL: the job's row is gone), last_job_queue, error, headers, group_key, needs,
-- start_within_ms. For about a second after a schedule was changed or resumed, or the clock was set back, next_at is
-- the time when that happened.
CREATE OR ALTER PROCEDURE [$(schema)].[list_schedules]
    @queue nvarchar(129)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @dead_queue nvarchar(128);

SELECT @queue_id = queue_id, @dead_queue = dead_queue
FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT s.name, s.cron, s.time_zone, s.make_up, s.jitter_ms, s.priority, s.max_attempts, s.time_limit_ms, s.kind,
       s.dedup_key, s.correlation_id, s.payload_utf16, s.payload, s.paused,
       CASE WHEN s.paused = 0 AND s.looked_at > DATEADD(MINUTE, 1, @now) AND s.next_at > @now THEN @now
           ELSE s.next_at END AS next_at, s.last_at, s.last_job_id,
       CASE WHEN q.name = @dead_queue THEN 'dead' WHEN j.state = 0 THEN 'ready' WHEN j.state = 1 THEN 'scheduled'
           WHEN j.state = 2 THEN 'claimed' WHEN j.state = 3 THEN 'done' WHEN j.state = 4 THEN 'dead'
           WHEN j.state = 5 THEN 'cancelled' WHEN j.state = 6 THEN 'waiting' END AS last_job_state, q.name AS last_job_queue,
       s.error, s.headers, s.group_key, s.needs, s.start_within_ms
FROM [$(schema)].[schedules] AS s WITH (NOLOCK)
LEFT LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = s.last_job_id
LEFT LOOP JOIN [$(schema)].[queues] AS q WITH (NOLOCK, FORCESEEK (queues_pk (queue_id))) ON q.queue_id = j.queue_id
WHERE s.queue_id = @queue_id
ORDER BY s.name
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
