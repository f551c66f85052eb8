-- Ends a worker. Jobs that it still holds are left to the next reap.
CREATE OR ALTER PROCEDURE [$(schema)].[unregister_worker]
    @queue     nvarchar(128),
    @worker_id uniqueidentifier
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int;
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;

IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (INDEX (jobs_claimed))
           WHERE queue_id = @queue_id AND state = 2 AND worker_id = @worker_id)
    UPDATE [$(schema)].[workers] WITH (ROWLOCK) SET lost_at = SYSUTCDATETIME() WHERE worker_id = @worker_id AND lost_at IS NULL;
ELSE
    DELETE [$(schema)].[workers] WITH (ROWLOCK) WHERE worker_id = @worker_id;
GO
