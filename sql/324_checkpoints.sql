-- The checkpoints of jobs that a worker has claimed: of those whose details say checkpointed. Only of jobs that this
-- worker holds under this fence. NOLOCK: no more than who holds the job, which nobody changes while this worker does;
-- an operator who is cancelling it has its row locked.
-- Result: job_id, checkpoint. A job without one is not in it.
CREATE OR ALTER PROCEDURE [$(schema)].[checkpoints]
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT p.job_id, p.[checkpoint]
FROM @jobs AS k
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = k.job_id
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id)))
    ON p.job_id = k.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = k.fence AND p.[checkpoint] IS NOT NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
