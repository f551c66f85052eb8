-- Raises an error whose text quotes a name, a value or another error. THROW reserves %, which has to be doubled
-- ("THROW" in Microsoft's documentation); half of a surrogate pair becomes U+FFFD.
CREATE OR ALTER PROCEDURE [$(schema)].[raise]
    @number  int,
    @message nvarchar(2048)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @percents int =
    (DATALENGTH(@message) - DATALENGTH(REPLACE(@message COLLATE Latin1_General_100_BIN2, N'%', N''))) / 2;

-- Cut before they are doubled, so that no pair of them is.
SET @message = LEFT(@message COLLATE Latin1_General_100_BIN2, 2048 - @percents);
EXEC [$(schema)].[mend_text] @message OUTPUT;
SET @message = REPLACE(@message COLLATE Latin1_General_100_BIN2, N'%', N'%%');
THROW @number, @message, 1;
GO
