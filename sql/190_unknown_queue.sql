-- Raises the error of an unknown queue. Procedures call it only after their own lookup has found no queue, so that a
-- check costs other calls nothing.
CREATE OR ALTER PROCEDURE [$(schema)].[unknown_queue]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;  -- keeps the caller's XACT_ABORT, for @on_bad of enqueue
DECLARE @message nvarchar(2048) =
    CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
EXEC [$(schema)].[raise] 58001, @message;
GO
