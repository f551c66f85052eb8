-- Gives back to the adopted table what is held, and removes the adoption with its schema: all of it, or nothing. Stop its workers first.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
SET NOCOUNT ON;
SET XACT_ABORT ON;
-- Everybody else waits behind a statement that drops what somebody uses: so it gives up.
SET LOCK_TIMEOUT 10000;
DECLARE @gives_back bit = /*{gives_back}*/, @held bit, @table nvarchar(517), @give_back nvarchar(max), @message nvarchar(2048);

BEGIN TRANSACTION;
-- A claim that is under way ends first. One that comes later waits, finds no table, and undoes what it did to their rows.
SET @held = CASE WHEN EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (TABLOCKX, HOLDLOCK)) THEN 1 ELSE 0 END;
SELECT @table = table_name, @give_back = give_back FROM [$(schema)].[adoption];
IF EXISTS (SELECT 1 FROM [$(schema)].[workers] WHERE lost_at IS NULL AND lease_until >= SYSUTCDATETIME())
BEGIN
    SET @message = CONCAT(N'workers of ', @table, N' are running; stop them first');
    THROW 58003, @message, 1;
END;

-- As the installation has written it, for the table as it was then.
IF @held = 1 AND @gives_back = 1
BEGIN TRY
    EXEC sys.sp_executesql @give_back;
END TRY
BEGIN CATCH
    IF ERROR_NUMBER() IN (1205, 1222)
        THROW;
    SET @message = CONCAT(N'what is held of ', @table, N' cannot be given back: ', ERROR_MESSAGE());
    IF ERROR_NUMBER() <> 58003
        SET @message = CONCAT(@message, N' (if the table is gone or will not come back to what it was, remove the adoption by --force, which gives nothing back)');
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    THROW 58003, @message, 1;
END CATCH;
DELETE [$(schema)].[jobs];

/*{uninstall}*/
COMMIT TRANSACTION;
SET LOCK_TIMEOUT -1;
GO
