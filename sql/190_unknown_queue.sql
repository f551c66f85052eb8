-- Raises the error of a queue that does not exist. Every procedure looks for its queue by itself and calls this only if
-- there is none, so that a call that finds its queue pays nothing.
CREATE OR ALTER PROCEDURE [$(schema)].[unknown_queue]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048) =
    CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
EXEC [$(schema)].[raise] 58001, @message;
GO
