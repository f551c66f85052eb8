-- The checkpoints of jobs that a worker has claimed: of those whose details say checkpointed.
-- Result: job_id, checkpoint. A job without one is not in it.
CREATE OR ALTER PROCEDURE [$(schema)].[checkpoints]
    @jobs [$(schema)].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT p.job_id, p.[checkpoint]
FROM @jobs AS k
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id))) ON p.job_id = k.job_id
WHERE p.[checkpoint] IS NOT NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
