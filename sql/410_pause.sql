-- Stops the claims of a queue; jobs that are claimed already are finished, and enqueueing goes on. Not in a
-- transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[pause]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- a client's would leave a transaction open behind this call
IF @@TRANCOUNT > 0
    THROW 58003, N'pause locks the queue''s row, for which everybody would wait: call it outside of a transaction (COMMIT or ROLLBACK the open one first)', 1;

UPDATE q
SET paused = 1
FROM [$(schema)].[queues] AS q WITH (ROWLOCK, FORCESEEK, INDEX (queues_name))
WHERE q.name = @queue;
IF @@ROWCOUNT = 0
    EXEC [$(schema)].[unknown_queue] @queue;
GO
