-- Returns how much memory the jobs of each kind have used: kind ('': jobs without a kind) and peak_p95_bytes (95 % of
-- the measured runs of the last seven days had no greater peak, accurate to a bucket of kind_history). Workers with
-- learn_memory call this when they start and every ten minutes. Reads by NOLOCK: it neither blocks nor is blocked.
CREATE OR ALTER PROCEDURE [$(schema)].[peaks_by_kind]
    @queue nvarchar(129)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @since datetime2(0) = DATEADD(DAY, -7, SYSUTCDATETIME());

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT b.kind, MIN(CASE WHEN b.up_to * 100 >= b.all_jobs * 95 THEN b.largest END) AS peak_p95_bytes
FROM (SELECT p.kind, p.largest, SUM(p.jobs) OVER (PARTITION BY p.kind ORDER BY p.bucket) AS up_to,
             SUM(p.jobs) OVER (PARTITION BY p.kind) AS all_jobs
      FROM (SELECT h.kind, h.bucket, SUM(h.jobs) AS jobs, MAX(h.largest) AS largest
            FROM [$(schema)].[kind_history] AS h WITH (NOLOCK, FORCESEEK (kind_history_pk (queue_id, hour)))
            WHERE h.queue_id = @queue_id AND h.hour >= @since AND h.measure = 5 AND h.kind <> ' other kinds'
            GROUP BY h.kind, h.bucket) AS p) AS b
GROUP BY b.kind
OPTION (MAXDOP 1);
GO
