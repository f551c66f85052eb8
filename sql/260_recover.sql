-- Gives back the jobs that this worker holds in the table but does not know of: those of a claim whose answer never arrived.
-- @known is everything the worker has in memory. Ready again at once, the attempt not counted: nobody can have started them.
-- Waits for a claim of this worker that is still running on a connection the worker has given up.
-- Result: released.
CREATE OR ALTER PROCEDURE [$(schema)].[recover]
    @queue     nvarchar(128),
    @worker_id uniqueidentifier,
    @known     [$(schema)].[job_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;

UPDATE j
SET state = 0, attempt = j.attempt - 1
FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = @worker_id
    AND NOT EXISTS (SELECT 1 FROM @known AS k WHERE k.job_id = j.job_id AND k.fence = j.fence)
OPTION (MAXDOP 1);

SELECT CAST(@@ROWCOUNT AS int) AS released;
GO
