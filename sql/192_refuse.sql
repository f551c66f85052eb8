-- Raises the error of a parameter with an invalid value. A text is quoted, a number is not.
CREATE OR ALTER PROCEDURE [$(schema)].[refuse]
    @what    nvarchar(100),
    @value   nvarchar(1000),
    @allowed nvarchar(400)
AS
SET NOCOUNT ON;  -- keeps the caller's XACT_ABORT, for @on_bad of enqueue
-- TRY_CAST would convert an empty text to 0.
DECLARE @shown nvarchar(1002) = CASE WHEN @value IS NULL THEN N'NULL'
    WHEN TRY_CAST(NULLIF(@value, N'') AS bigint) IS NULL THEN CONCAT(N'''', @value, N'''') ELSE @value END;
DECLARE @message nvarchar(2048) = CONCAT(@what, N' is ', @shown, N'; it must be ', @allowed);
EXEC [$(schema)].[raise] 58003, @message;
GO
