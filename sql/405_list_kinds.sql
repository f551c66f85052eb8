-- Lists the kinds of a queue: unfinished jobs by state, and what the workers have reported of the current hour and the
-- @hours before it (kind_history): runs by how they ended, and what they used. The 50 kinds with the most jobs have a
-- row each, the others have one together, and so have the jobs without a kind. Reads by NOLOCK: it neither blocks nor
-- is blocked. It reads the rows of at most @most jobs of each state, those that are claimed or due first, and the rows
-- of kind_history of these hours.
--
-- Result: kind (NULL: without a kind, or is_other), is_other (1: the other kinds together), is_partial (1: @most jobs
-- of some state were read, so that there may be more unfinished jobs of any kind), ready, scheduled, waiting, claimed,
-- since (the start of the first hour), done, failed (runs whose job was retried), died (runs that left the job dead),
-- run_mean_us, run_p95_us (run time of these runs), cpu_us (CPU time of all runs together), cpu_p50_us, cpu_p95_us,
-- cpu_max_us, peak_p50_bytes, peak_p95_bytes, peak_max_bytes (peak memory). Percentiles are accurate to a bucket: the
-- largest value in it. NULL: nothing is known.
CREATE OR ALTER PROCEDURE [$(schema)].[list_kinds]
    @queue nvarchar(129),
    @hours int    = 1,    -- 1 to 168 (7 days, the retention)
    @most  bigint = 1000  -- 1 or more
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @epoch datetime2(0) = '20000101', @since datetime2(0), @queue_id int,
    @is_partial bit = 0;
DECLARE @found TABLE (kind varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL, measure tinyint NOT NULL,
    bucket tinyint NOT NULL, jobs bigint NOT NULL, total float NOT NULL, largest bigint NOT NULL,
    PRIMARY KEY CLUSTERED (kind, measure, bucket));
DECLARE @shown TABLE (kind varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL, measure tinyint NOT NULL,
    bucket tinyint NOT NULL, jobs bigint NOT NULL, total float NOT NULL, largest bigint NOT NULL,
    PRIMARY KEY CLUSTERED (kind, measure, bucket));
DECLARE @named TABLE (kind varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @hours IS NULL OR @hours < 1 OR @hours > 168
    EXEC [$(schema)].[refuse] N'hours', @hours, N'1 to 168 (7 days)';
IF @most IS NULL OR @most < 1
    EXEC [$(schema)].[refuse] N'most', @most, N'1 or more';
SET @since = DATEADD(HOUR, DATEDIFF(HOUR, @epoch, @now) - @hours, @epoch);

-- Unfinished jobs have measure 10 and on: 10 ready, 11 scheduled, 12 claimed, 16 waiting. Only kinds of adopted tables
-- may begin with spaces, which workers leave out, too.
INSERT @found (kind, measure, bucket, jobs, total, largest)
SELECT ISNULL(LTRIM(j.kind), ''), j.measure, 0, COUNT_BIG(*), 0, 0
FROM (SELECT r.kind, 10 AS measure
      FROM (SELECT TOP (@most) j.kind FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready))
            WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0) AS r
      UNION ALL
      SELECT r.kind, 10
      FROM (SELECT TOP (@most) j.kind FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_ready_alone))
            WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 1) AS r
      -- adopt: count_rows
      UNION ALL
      SELECT s.kind, 11
      FROM (SELECT TOP (@most) j.kind FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
            WHERE j.queue_id = @queue_id AND j.state = 1) AS s
      UNION ALL
      SELECT c.kind, 12
      FROM (SELECT TOP (@most) j.kind FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
            WHERE j.queue_id = @queue_id AND j.state = 2) AS c
      UNION ALL
      SELECT w.kind, 16
      FROM (SELECT TOP (@most) j.kind FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
            WHERE j.queue_id = @queue_id AND j.state = 6) AS w) AS j
GROUP BY ISNULL(LTRIM(j.kind), ''), j.measure
OPTION (MAXDOP 1);
IF EXISTS (SELECT 1 FROM @found GROUP BY measure HAVING SUM(jobs) >= @most)
    SET @is_partial = 1;
INSERT @found (kind, measure, bucket, jobs, total, largest)
SELECT h.kind, h.measure, h.bucket, SUM(h.jobs), SUM(h.total), MAX(h.largest)
FROM [$(schema)].[kind_history] AS h WITH (NOLOCK, FORCESEEK (kind_history_pk (queue_id, hour)))
WHERE h.queue_id = @queue_id AND h.hour >= @since AND h.measure BETWEEN 1 AND 5
GROUP BY h.kind, h.measure, h.bucket
OPTION (MAXDOP 1);

INSERT @named (kind)
SELECT TOP (50) f.kind
FROM @found AS f
WHERE f.kind NOT IN ('', ' other kinds')
GROUP BY f.kind
ORDER BY SUM(CASE WHEN f.measure IN (4, 5) THEN 0 ELSE f.jobs END) DESC, f.kind;
INSERT @shown (kind, measure, bucket, jobs, total, largest)
SELECT f.kind, f.measure, f.bucket, SUM(f.jobs), SUM(f.total), MAX(f.largest)
FROM (SELECT CASE WHEN f.kind = '' OR n.kind IS NOT NULL THEN f.kind ELSE ' other kinds' END AS kind, f.measure,
             f.bucket, f.jobs, f.total, f.largest
      FROM @found AS f
      LEFT JOIN @named AS n ON n.kind = f.kind) AS f
GROUP BY f.kind, f.measure, f.bucket;
-- Measure 0: the run time of all runs.
INSERT @shown (kind, measure, bucket, jobs, total, largest)
SELECT kind, 0, bucket, SUM(jobs), SUM(total), MAX(largest)
FROM @shown
WHERE measure IN (1, 2, 3)
GROUP BY kind, bucket;

SELECT CASE WHEN m.kind NOT IN ('', ' other kinds') THEN m.kind END AS kind,
       CAST(CASE WHEN m.kind = ' other kinds' THEN 1 ELSE 0 END AS bit) AS is_other, @is_partial AS is_partial,
       SUM(CASE WHEN m.measure = 10 THEN m.jobs ELSE 0 END) AS ready,
       SUM(CASE WHEN m.measure = 11 THEN m.jobs ELSE 0 END) AS scheduled,
       SUM(CASE WHEN m.measure = 16 THEN m.jobs ELSE 0 END) AS waiting,
       SUM(CASE WHEN m.measure = 12 THEN m.jobs ELSE 0 END) AS claimed,
       @since AS since,
       SUM(CASE WHEN m.measure = 1 THEN m.jobs ELSE 0 END) AS done,
       SUM(CASE WHEN m.measure = 2 THEN m.jobs ELSE 0 END) AS failed,
       SUM(CASE WHEN m.measure = 3 THEN m.jobs ELSE 0 END) AS died,
       MAX(CASE WHEN m.measure = 0 THEN m.total / NULLIF(m.jobs, 0) END) AS run_mean_us,
       MAX(CASE WHEN m.measure = 0 THEN m.p95 END) AS run_p95_us,
       MAX(CASE WHEN m.measure = 4 THEN m.total END) AS cpu_us,
       MAX(CASE WHEN m.measure = 4 THEN m.p50 END) AS cpu_p50_us,
       MAX(CASE WHEN m.measure = 4 THEN m.p95 END) AS cpu_p95_us,
       MAX(CASE WHEN m.measure = 4 THEN m.largest END) AS cpu_max_us,
       MAX(CASE WHEN m.measure = 5 THEN m.p50 END) AS peak_p50_bytes,
       MAX(CASE WHEN m.measure = 5 THEN m.p95 END) AS peak_p95_bytes,
       MAX(CASE WHEN m.measure = 5 THEN m.largest END) AS peak_max_bytes
FROM (SELECT b.kind, b.measure, SUM(b.jobs) AS jobs, SUM(b.total) AS total, MAX(b.largest) AS largest,
             MIN(CASE WHEN b.up_to * 2 >= b.all_jobs THEN b.largest END) AS p50,
             MIN(CASE WHEN b.up_to * 100 >= b.all_jobs * 95 THEN b.largest END) AS p95
      FROM (SELECT kind, measure, jobs, total, largest,
                   SUM(jobs) OVER (PARTITION BY kind, measure ORDER BY bucket) AS up_to,
                   SUM(jobs) OVER (PARTITION BY kind, measure) AS all_jobs
            FROM @shown) AS b
      GROUP BY b.kind, b.measure) AS m
GROUP BY m.kind
ORDER BY CASE WHEN m.kind = ' other kinds' THEN 1 ELSE 0 END, m.kind
OPTION (MAXDOP 1);
GO
