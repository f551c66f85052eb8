-- Ends a worker: it is marked lost, and jobs that it still holds are left to the next reap. Its row stays for a day, even where it holds nothing: a
-- claim of it may still be on its way, and only by this row does reap find the jobs of it. Duties that it had pass to the next heartbeat.
CREATE OR ALTER PROCEDURE [$(schema)].[unregister_worker]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();

UPDATE [$(schema)].[workers] WITH (ROWLOCK) SET lost_at = @now WHERE worker_id = @worker_id AND lost_at IS NULL;

UPDATE d
SET until = @now
FROM [$(schema)].[queues] AS q
INNER JOIN [$(schema)].[duties] AS d WITH (ROWLOCK) ON d.queue_id = q.queue_id
WHERE q.name = @queue AND d.worker_id = @worker_id AND d.until > @now;
GO
