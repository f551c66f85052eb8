-- Confirms that this database may be used although it was restored or copied (check_home): its jobs run from now on.
-- Before that, delete or cancel those that must not run a second time. With @server and @database_name, only notes
-- another database in advance that is no copy, such as the partner of a geo-replication. Cannot run in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[confirm_copy]
    @server        nvarchar(128) = NULL,  -- as SERVERPROPERTY(N'ServerName') returns it there
    @database_name nvarchar(128) = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
IF @@TRANCOUNT > 0
    THROW 58003, N'confirm_copy would block all queues inside a transaction; COMMIT or ROLLBACK it first', 1;

IF @server IS NOT NULL AND @database_name IS NULL OR @server IS NULL AND @database_name IS NOT NULL
    THROW 58003, N'server and database_name must be given together', 1;

IF @server IS NOT NULL
BEGIN
    INSERT [$(schema)].[homes] (server, database_name, noted_at, login)
    VALUES (@server, @database_name, SYSUTCDATETIME(), ISNULL(ORIGINAL_LOGIN(), USER_NAME()));
    RETURN 0;
END;
EXEC [$(schema)].[check_home] @confirm = 1;
DELETE [$(schema)].[holds] WHERE hold = 4;
UPDATE [$(schema)].[queues] WITH (ROWLOCK) SET paused = paused - 4 WHERE paused >= 4;
GO
