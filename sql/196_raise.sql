-- Raises an error whose text quotes a name, a value or another error. Doubles each %, which THROW reserves, and repairs
-- halves of surrogate pairs (mend_text).
CREATE OR ALTER PROCEDURE [$(schema)].[raise]
    @number  int,
    @message nvarchar(2048),
    @dooms   bit = 1  -- 0: a caller's transaction stays usable
AS
SET NOCOUNT ON;  -- keeps the caller's XACT_ABORT, for @on_bad of enqueue
DECLARE @percents int =
    (DATALENGTH(@message) - DATALENGTH(REPLACE(@message COLLATE Latin1_General_100_BIN2, N'%', N''))) / 2;

-- Cut before the doubling, so that no doubled % is cut in half.
SET @message = LEFT(@message COLLATE Latin1_General_100_BIN2, 2048 - @percents);
EXEC [$(schema)].[mend_text] @message OUTPUT;
SET @message = REPLACE(@message COLLATE Latin1_General_100_BIN2, N'%', N'%%');
IF @dooms = 0
    SET XACT_ABORT OFF;
THROW @number, @message, 1;
GO
