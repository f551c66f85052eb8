-- Returns the checkpoints of jobs that this worker holds under this fence. Called for jobs whose details contain
-- checkpointed. Result: job_id, checkpoint; no row for a job without a checkpoint. NOLOCK, because only the holder
-- changes a checkpoint, and an operator who is cancelling the job has locked its row.
CREATE OR ALTER PROCEDURE [$(schema)].[checkpoints]
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[job_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT p.job_id, p.[checkpoint]
FROM @jobs AS k
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = k.job_id
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id)))
    ON p.job_id = k.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = k.fence AND p.[checkpoint] IS NOT NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
