-- Lists the jobs that this worker holds in the table but does not know of: those of a claim whose answer never arrived.
-- @known is everything the worker has in memory. What it gets here it gives back by release, which names each fence:
-- this call itself changes nothing, so that it does no harm when it arrives late, after the worker has given it up and
-- claimed again. Reads entries of jobs_claimed alone (it has all columns that are asked for): going on to the rows
-- would be the order opposite to finish's. Waits for a claim of this worker that is still running on a connection the
-- worker has given up.
-- Result: job_id, fence.
CREATE OR ALTER PROCEDURE [$(schema)].[recover]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @known     [$(schema)].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;

SELECT j.job_id, j.fence
FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = @worker_id
    AND NOT EXISTS (SELECT 1 FROM @known AS k WHERE k.job_id = j.job_id AND k.fence = j.fence)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
