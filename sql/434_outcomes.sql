-- What has become of jobs that have ended: for producers that wait. Of up to 1,000 jobs (@jobs), those that have ended,
-- about @max of them; the others are left out. Ask again at once where @max rows or more came: outputs may be large.
-- It waits for nobody but for a job that is being deleted or moved to the archive at this moment: what is not committed
-- has not ended.
-- Results, up to three of one shape: job_id, state (done, dead, cancelled, gone), error, output. gone: the queue does
-- not have the job. Where it deletes done jobs, that is what a done one looks like, and also one that was purged, has
-- expired, or has never been.
CREATE OR ALTER PROCEDURE [$(schema)].[outcomes]
    @queue nvarchar(129),
    @jobs  [$(schema)].[id_list] READONLY,
    @max   int = 100
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;
DECLARE @absent TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1
    THROW 58003, N'max must be 1 or more', 1;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must be up to 1000', 1;

-- READPAST: whoever has locked a job is changing it, and it has not ended yet, or is asked for again.
SELECT TOP (@max) j.job_id,
    CAST(CASE j.state WHEN 3 THEN 'done' WHEN 4 THEN 'dead' ELSE 'cancelled' END AS varchar(9)) AS state, j.error,
    j.output
FROM @jobs AS a
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = a.job_id
WHERE j.queue_id = @queue_id AND j.ended = 1
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- Not there, not even locked.
INSERT @absent (job_id)
SELECT a.job_id
FROM @jobs AS a
WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                  WHERE j.job_id = a.job_id AND j.queue_id = @queue_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    RETURN;

-- What NOLOCK has not seen may come back with a rollback: this waits for its end. What is gone then is in the archive,
-- or nowhere.
DELETE a
FROM @absent AS a
WHERE EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
              WHERE j.job_id = a.job_id AND j.queue_id = @queue_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT TOP (@max) r.job_id, CAST('done' AS varchar(9)) AS state, r.error, r.output
FROM @absent AS a
INNER LOOP JOIN [$(schema)].[archive] AS r WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
    ON r.job_id = a.job_id
WHERE r.queue_id = @queue_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT a.job_id, CAST('gone' AS varchar(9)) AS state, CAST(NULL AS nvarchar(4000)) AS error,
    CAST(NULL AS varbinary(max)) AS output
FROM @absent AS a
WHERE NOT EXISTS (SELECT 1
    FROM [$(schema)].[archive] AS r WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
                  WHERE r.job_id = a.job_id AND r.queue_id = @queue_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
