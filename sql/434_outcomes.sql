-- For waiting producers: returns the outcomes of about @max finished jobs among up to 1,000 jobs (@jobs). @max limits
-- the rows because outputs may be large; if @max rows or more are returned, call it again at once. Waits only for a job
-- that is being deleted or archived, because an uncommitted finish does not count. Results, up to three with the same
-- columns: job_id, state (done, dead, cancelled, gone), error, output. gone means that no queue has the job: it is done
-- and was deleted, was purged, has expired, or never existed. A job may have been moved to another queue since.
CREATE OR ALTER PROCEDURE [$(schema)].[outcomes]
    @queue nvarchar(129),
    @jobs  [$(schema)].[id_list] READONLY,
    @max   int = 100
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;
DECLARE @absent TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1
    EXEC [$(schema)].[refuse] N'max', @max, N'1 or more';
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;

-- READPAST, because a locked job is being changed, and the next call returns it.
SELECT TOP (@max) j.job_id,
    CAST(CASE j.state WHEN 3 THEN 'done' WHEN 4 THEN 'dead' ELSE 'cancelled' END AS varchar(9)) AS state, j.error,
    j.output
FROM @jobs AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = a.job_id
WHERE j.ended = 1
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- Jobs that even NOLOCK does not find.
INSERT @absent (job_id)
SELECT a.job_id
FROM @jobs AS a
WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                  WHERE j.job_id = a.job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    RETURN;

-- A rollback may restore these jobs, so this read waits for it. All others are in the archive or gone.
DELETE a
FROM @absent AS a
WHERE EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
              WHERE j.job_id = a.job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT TOP (@max) r.job_id, CAST('done' AS varchar(9)) AS state, r.error, r.output
FROM @absent AS a
INNER LOOP JOIN [$(schema)].[archive] AS r WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
    ON r.job_id = a.job_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT a.job_id, CAST('gone' AS varchar(9)) AS state, CAST(NULL AS nvarchar(4000)) AS error,
    CAST(NULL AS varbinary(max)) AS output
FROM @absent AS a
WHERE NOT EXISTS (SELECT 1
    FROM [$(schema)].[archive] AS r WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
                  WHERE r.job_id = a.job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
