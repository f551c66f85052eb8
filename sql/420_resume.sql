-- Lets the claims of a queue go on. Not in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[resume]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- a client's would leave a transaction open behind this call
IF @@TRANCOUNT > 0
    THROW 58003, N'resume locks the queue''s row, for which everybody would wait: call it outside of a transaction (COMMIT or ROLLBACK the open one first)', 1;

UPDATE q
SET paused = 0
FROM [$(schema)].[queues] AS q WITH (ROWLOCK, FORCESEEK, INDEX (queues_name))
WHERE q.name = @queue;
IF @@ROWCOUNT = 0
    EXEC [$(schema)].[unknown_queue] @queue;
GO
