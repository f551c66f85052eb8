-- Lets the claims of a queue go on.
CREATE OR ALTER PROCEDURE [$(schema)].[resume]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048);

UPDATE [$(schema)].[queues] SET paused = 0 WHERE name = @queue;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
GO
