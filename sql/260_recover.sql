-- Lists jobs that the worker holds in the table but not in memory (@known): the jobs of a claim whose response was
-- lost. Result: job_id, fence. Changes nothing, so that a late call does no harm. The worker then releases the jobs
-- (release). Reads only the entries of jobs_claimed: if it also read the rows, it would lock in the opposite order of
-- finish. Waits for a claim of this worker that is still running on an abandoned connection.
CREATE OR ALTER PROCEDURE [$(schema)].[recover]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @known     [$(schema)].[job_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;

SELECT j.job_id, j.fence
FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = @worker_id
    AND NOT EXISTS (SELECT 1 FROM @known AS k WHERE k.job_id = j.job_id AND k.fence = j.fence)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
