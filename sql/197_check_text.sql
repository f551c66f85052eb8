-- Rejects text with half of a surrogate pair.
CREATE OR ALTER PROCEDURE [$(schema)].[check_text]
    @what nvarchar(64),
    @text nvarchar(max)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @whole nvarchar(max) = @text, @message nvarchar(2048);

EXEC [$(schema)].[mend_text] @whole OUTPUT, 1;
IF @whole <> @text COLLATE Latin1_General_100_BIN2
BEGIN
    SET @message = CONCAT(@what, N' has half of a surrogate pair; it must have whole characters');
    THROW 58003, @message, 1;
END;
GO
