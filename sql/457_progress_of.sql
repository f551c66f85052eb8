-- Returns the reported progress of jobs of a queue. Reads by NOLOCK, so that it never blocks a worker. Result: job_id,
-- fraction, text, checkpoint_bytes, noted_ms (time since the report); no row for a job without a report.
CREATE OR ALTER PROCEDURE [$(schema)].[progress_of]
    @queue nvarchar(129),
    @jobs  [$(schema)].[id_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT p.job_id, p.fraction, p.text, ISNULL(DATALENGTH(p.[checkpoint]), 0) AS checkpoint_bytes,
       DATEDIFF_BIG(MILLISECOND, p.noted_at, SYSUTCDATETIME()) AS noted_ms
FROM @jobs AS k
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (NOLOCK, FORCESEEK (progress_pk (job_id))) ON p.job_id = k.job_id
WHERE p.queue_id = @queue_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
