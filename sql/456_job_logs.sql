-- Returns what the newest attempts of one job of the queue wrote, the newest first. Of a running attempt it is what the
-- worker has reported so far, about once a second. Reads by NOLOCK, so that it never blocks a worker. Result: attempt,
-- fence, noted_at, log_end (how many bytes of UTF-8 it has in all), log (the last of them), is_running.
CREATE OR ALTER PROCEDURE [$(schema)].[job_logs]
    @queue  nvarchar(129),
    @job_id bigint,
    @max    int = 20  -- attempts: 1 to 20
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 20
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 20';

WITH found AS
(
    SELECT l.attempt, l.fence, l.noted_at, l.log_end, l.log, CAST(0 AS bit) AS is_running
    FROM [$(schema)].[logs] AS l WITH (NOLOCK, FORCESEEK (logs_pk (job_id)))
    WHERE l.job_id = @job_id
    UNION ALL
    SELECT ISNULL(CASE WHEN j.fence = p.fence THEN j.attempt END, ISNULL(a.attempt, 0)), p.fence, p.noted_at, p.log_end,
           p.log, CAST(CASE WHEN j.state = 2 AND j.fence = p.fence THEN 1 ELSE 0 END AS bit)
    FROM [$(schema)].[progress] AS p WITH (NOLOCK, FORCESEEK (progress_pk (job_id)))
    LEFT JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = p.job_id
    LEFT JOIN [$(schema)].[attempts] AS a WITH (NOLOCK, FORCESEEK (attempts_pk (job_id, fence)))
        ON a.job_id = p.job_id AND a.fence = p.fence
    WHERE p.job_id = @job_id AND p.log IS NOT NULL
)
SELECT TOP (@max) attempt, fence, noted_at, log_end, log, is_running
FROM found
WHERE EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
              WHERE j.job_id = @job_id AND j.queue_id = @queue_id)
    OR EXISTS (SELECT 1 FROM [$(schema)].[archive] AS r WITH (NOLOCK, FORCESEEK (archive_pk (job_id)))
               WHERE r.job_id = @job_id AND r.queue_id = @queue_id)
ORDER BY fence DESC
OPTION (MAXDOP 1);
GO
