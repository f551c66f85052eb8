-- Raises the error of a parameter whose value is not allowed. Text is quoted, numbers are not.
CREATE OR ALTER PROCEDURE [$(schema)].[refuse]
    @what    nvarchar(64),
    @value   nvarchar(1000),
    @allowed nvarchar(400)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @quote nvarchar(1) = CASE WHEN TRY_CAST(@value AS bigint) IS NULL THEN N'''' ELSE N'' END;
DECLARE @message nvarchar(2048) = CONCAT(@what, N' is ', @quote, @value, @quote, N'; it must be ', @allowed);
EXEC [$(schema)].[raise] 58003, @message;
GO
