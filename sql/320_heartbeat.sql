-- Renews the lease of a worker: one row, however many jobs it holds. A lease that ran out but was not reaped yet is renewed too.
-- Error 58002 when the worker was marked lost: its jobs may run elsewhere.
CREATE OR ALTER PROCEDURE [$(schema)].[heartbeat]
    @worker_id uniqueidentifier
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;

UPDATE [$(schema)].[workers] WITH (ROWLOCK)
SET lease_until = DATEADD(MILLISECOND, lease_ms, SYSUTCDATETIME())
WHERE worker_id = @worker_id AND lost_at IS NULL;
IF @@ROWCOUNT = 0
    THROW 58002, N'this worker is not registered for the queue, or its lease was lost; register anew', 1;
GO
