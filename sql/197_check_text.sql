-- Rejects text with half of a surrogate pair and, in a key (@is_key), control characters (U+0000 to U+001F).
CREATE OR ALTER PROCEDURE [$(schema)].[check_text]
    @what   nvarchar(64),
    @text   nvarchar(max),
    @is_key bit = 0
AS
SET NOCOUNT ON;  -- keeps the caller's XACT_ABORT, for @on_bad of enqueue
DECLARE @whole nvarchar(max) = @text, @message nvarchar(2048);

-- The pattern finds a character that is not between U+0020 and U+FFFF.
IF @is_key = 1
    AND @text COLLATE Latin1_General_100_BIN2 LIKE CONCAT(N'%[^ -', CAST(0xFFFF AS nvarchar(1)), N']%')
BEGIN
    SET @message = CONCAT(@what, N' has a control character; it must have none (U+0000 to U+001F)');
    THROW 58003, @message, 1;
END;
EXEC [$(schema)].[mend_text] @whole OUTPUT, 1;
IF @whole <> @text COLLATE Latin1_General_100_BIN2
BEGIN
    SET @message = CONCAT(@what, N' has half of a surrogate pair; it must have whole characters');
    THROW 58003, @message, 1;
END;
GO
