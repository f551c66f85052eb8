-- Stores failed attempts, and keeps the newest 20 of each job. Called by finish and reap, in their transaction. The
-- caller has locked the jobs.
CREATE OR ALTER PROCEDURE [$(schema)].[note_attempts]
    @queue_id int,
    @failed   [$(schema)].[attempt_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
INSERT [$(schema)].[attempts]
    WITH (ROWLOCK) (job_id, fence, queue_id, attempt, worker_id, worker, failed_at, run_us, cpu_us, peak_bytes, error)
SELECT f.job_id, f.fence, @queue_id, f.attempt, f.worker_id, f.worker, SYSUTCDATETIME(), f.run_us, f.cpu_us,
       f.peak_bytes, f.error
FROM @failed AS f
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- A job cannot have failed more often than it was claimed, and the fence counts claims.
IF EXISTS (SELECT 1 FROM @failed WHERE fence > 20)
    DELETE a
    FROM @failed AS f
    INNER LOOP JOIN [$(schema)].[attempts] AS a WITH (ROWLOCK, FORCESEEK, INDEX (attempts_pk)) ON a.job_id = f.job_id
    WHERE f.fence > 20
        AND 20 <= (SELECT COUNT(*)
            FROM [$(schema)].[attempts] AS n WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (attempts_pk (job_id, fence)))
                   WHERE n.job_id = a.job_id AND n.fence > a.fence)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
