-- Returns what the newest attempts of one job of the queue wrote, the newest first. Of a running attempt it is what the
-- worker has reported so far, about once a second. Does not wait (READPAST), so a log that is being written is left out.
-- Result: attempt, fence, noted_at, log_end (how many bytes of UTF-8 it has in all), log (the last of them), is_running.
CREATE OR ALTER PROCEDURE [$(schema)].[job_logs]
    @queue  nvarchar(129),
    @job_id bigint,
    @max    int = 20  -- attempts: 1 to 20
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;
-- A client that reads slowly must not keep the rows locked.
DECLARE @logs TABLE (fence int NOT NULL PRIMARY KEY CLUSTERED, attempt int NOT NULL, noted_at datetime2(3) NOT NULL,
    log_end bigint NOT NULL, log nvarchar(max) COLLATE Latin1_General_100_BIN2 NOT NULL, is_running bit NOT NULL);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 20
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 20';
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
               WHERE job_id = @job_id AND queue_id = @queue_id)
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[archive] WITH (NOLOCK, FORCESEEK (archive_pk (job_id)))
                    WHERE job_id = @job_id AND queue_id = @queue_id)
    SET @max = 0;

INSERT @logs (fence, attempt, noted_at, log_end, log, is_running)
SELECT TOP (@max) l.fence, l.attempt, l.noted_at, l.log_end, l.log, 0
FROM [$(schema)].[logs] AS l WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (logs_pk (job_id)))
WHERE l.job_id = @job_id
ORDER BY l.fence DESC
OPTION (MAXDOP 1);
INSERT @logs (fence, attempt, noted_at, log_end, log, is_running)
SELECT p.fence, ISNULL(CASE WHEN j.fence = p.fence THEN j.attempt END, ISNULL(a.attempt, 0)), p.noted_at, p.log_end,
       p.log, CASE WHEN j.state = 2 AND j.fence = p.fence THEN 1 ELSE 0 END
FROM [$(schema)].[progress] AS p WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id)))
LEFT JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = p.job_id
LEFT JOIN [$(schema)].[attempts] AS a WITH (NOLOCK, FORCESEEK (attempts_pk (job_id, fence)))
    ON a.job_id = p.job_id AND a.fence = p.fence
WHERE p.job_id = @job_id AND p.log IS NOT NULL AND @max > 0
    AND NOT EXISTS (SELECT 1 FROM @logs AS l WHERE l.fence = p.fence)
OPTION (MAXDOP 1);

SELECT TOP (@max) attempt, fence, noted_at, log_end, log, is_running FROM @logs ORDER BY fence DESC OPTION (MAXDOP 1);
GO
