-- Replaces each half of a surrogate pair with U+FFFD. Conversions and functions that cut text, such as LEFT, can leave
-- halves, which strict clients cannot decode. The ranges are written in binary, because NCHAR returns no halves under
-- some collations.
CREATE OR ALTER PROCEDURE [$(schema)].[mend_text]
    @text nvarchar(max) OUTPUT,
    @most int = 2147483647  -- how many halves to replace at most
AS
SET NOCOUNT ON;
DECLARE @first nvarchar(3) = CONCAT(CAST(0x00D8 AS nvarchar(1)), N'-', CAST(0xFFDB AS nvarchar(1))),
    @second nvarchar(3) = CONCAT(CAST(0x00DC AS nvarchar(1)), N'-', CAST(0xFFDF AS nvarchar(1))), @at bigint;
WHILE @most > 0
BEGIN
    SET @most = @most - 1;
    SET @at = PATINDEX(CONCAT(N'%[', @first, N'][^', @second, N']%'), (@text + N'.') COLLATE Latin1_General_100_BIN2);
    IF @at = 0
        SET @at = PATINDEX(CONCAT(N'%[^', @first, N'][', @second, N']%'),
            (N'.' + @text) COLLATE Latin1_General_100_BIN2);
    IF @at IS NULL OR @at = 0
        RETURN 0;
    SET @text = STUFF(@text COLLATE Latin1_General_100_BIN2, @at, 1, NCHAR(65533));
END;
GO
