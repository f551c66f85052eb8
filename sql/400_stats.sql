-- Counts the jobs of one queue or, with NULL, of every queue. Reads by NOLOCK, so it neither blocks nor is blocked, and
-- the numbers are not from one moment. Reads every entry of the small indexes once or, with @most, at most that many
-- entries of each, which is cheap at any depth. A count of @most is then a minimum, and the oldest ready job is the
-- oldest of the counted jobs. Result: queue, claim_order, completion, delivery, max_attempts, paused, held (what holds
-- all queues: schema, copy; see list_holds), ready, scheduled, claimed, done, dead, archived, workers, oldest_ready_ms
-- (NULL: none ready; in a fair queue, of the jobs that wait, too), keep_done_s, keep_dead_s (NULL: for ever), sink,
-- cancelled, waiting, group_limit, retry_passes, max_running, rate_jobs, rate_ms, dead_queue, max_depth, halt_groups,
-- age_after_ms, fair.
CREATE OR ALTER PROCEDURE [$(schema)].[stats]
    @queue nvarchar(129) = NULL,
    @most  bigint        = NULL  -- how many jobs of each state (ready: of each index) to count; NULL: all
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME();

IF @queue IS NOT NULL AND NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name)))
    WHERE name = @queue)
    EXEC [$(schema)].[unknown_queue] @queue;
IF @most < 1
    EXEC [$(schema)].[refuse] N'most', @most, N'1 or more';
SET @most = ISNULL(@most, 9223372036854775807);

SELECT q.name AS queue, q.claim_order, q.completion, q.delivery, q.max_attempts, CAST(q.paused AS bit) AS paused,
       CASE WHEN q.paused >= 4 THEN 'copy' WHEN q.paused >= 2 THEN 'schema' END AS held, r.ready,
       (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
              WHERE j.queue_id = q.queue_id AND j.state = 1) AS c) AS scheduled,
       (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
              WHERE j.queue_id = q.queue_id AND j.state = 2) AS c) AS claimed,
       (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
              WHERE j.queue_id = q.queue_id AND j.state = 3 AND j.ended = 1) AS c) AS done,
       (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
              WHERE j.queue_id = q.queue_id AND j.state = 4 AND j.ended = 1) AS c) AS dead,
       (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) a.job_id FROM [$(schema)].[archive] AS a WITH (NOLOCK, INDEX (archive_finished))
              WHERE a.queue_id = q.queue_id) AS c) AS archived,
       (SELECT COUNT_BIG(*) FROM [$(schema)].[workers] AS w WITH (NOLOCK)
        WHERE w.queue_id = q.queue_id AND w.lost_at IS NULL
            -- the upper bound: see reap
            AND w.lease_until BETWEEN @now AND DATEADD(MILLISECOND, 2 * w.lease_ms, @now)) AS workers,
       DATEDIFF_BIG(MILLISECOND, r.oldest, @now) AS oldest_ready_ms, q.keep_done_s, q.keep_dead_s, q.sink,
       (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_finished))
              WHERE j.queue_id = q.queue_id AND j.state = 5 AND j.ended = 1) AS c) AS cancelled,
       (SELECT COUNT_BIG(*)
        FROM (SELECT TOP (@most) j.job_id FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
              WHERE j.queue_id = q.queue_id AND j.state = 6) AS c) AS waiting,
       q.group_limit, q.retry_passes, q.max_running, q.rate_jobs, q.rate_ms, q.dead_queue, q.max_depth,
       q.halt_groups, q.age_after_ms, q.fair
FROM [$(schema)].[queues] AS q WITH (NOLOCK)
CROSS APPLY (SELECT SUM(i.ready) AS ready, MIN(i.oldest) AS oldest
             FROM (SELECT COUNT_BIG(*) AS ready, MIN(c.due_at) AS oldest
                   FROM (SELECT TOP (@most) j.due_at FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 0) AS c
                   UNION ALL
                   SELECT COUNT_BIG(*), MIN(c.due_at)
                   FROM (SELECT TOP (@most) j.due_at
                       FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
                         WHERE j.queue_id = q.queue_id AND j.state = 0 AND j.alone = 1) AS c
                   UNION ALL
                   SELECT 0, MIN(w.due_at)
                   FROM (SELECT TOP (1000) k.group_key, k.from_id FROM [$(schema)].[groups] AS k WITH (NOLOCK)
                         WHERE k.queue_id = q.queue_id AND q.fair = 1 AND k.from_id < 9223372036854775807) AS g
                   CROSS APPLY (SELECT TOP (1) j.due_at
                                FROM [$(schema)].[jobs] AS j
                                    WITH (NOLOCK, FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                                WHERE j.queue_id = q.queue_id AND j.group_key = g.group_key AND j.state = 6
                                    AND ISNULL(j.held, 0) = 0 AND j.job_id >= g.from_id
                                ORDER BY j.job_id) AS w
                   -- adopt: count_rows
                  ) AS i) AS r
WHERE @queue IS NULL OR q.name = @queue
ORDER BY q.name
-- TOP makes the plan serial anyway: tens of millions of jobs take some seconds of one core.
OPTION (MAXDOP 1);
GO
