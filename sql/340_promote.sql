-- Makes scheduled jobs ready whose time has come, up to @max. Any number of workers may run it at once: each skips what another has
-- locked. Result: promoted.
CREATE OR ALTER PROCEDURE [$(schema)].[promote]
    @queue nvarchar(128),
    @max   int = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;

WITH due_jobs AS
(
    SELECT TOP (@max) state
    FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at <= @now
    ORDER BY due_at
)
UPDATE due_jobs SET state = 0
OPTION (MAXDOP 1);

SELECT CAST(@@ROWCOUNT AS int) AS promoted;
GO
