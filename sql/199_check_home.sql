-- Called by the first claim, registration or look at schedules of each connection: finds out whether this database is
-- one of homes. If it is not, it was restored or copied. Its jobs may have run since in the original, and workers that
-- find it would run them again. All queues are then held (paused + 4), and all workers marked lost, so that what they
-- have claimed before counts no more. A restore or a fail-over ends all connections, so later calls of a connection
-- need no check.
--
-- Restored over itself, a database has another recovery_fork_guid; restored under another name, another database_guid;
-- attached elsewhere, another server or name. A fail-over within an availability group is no copy: all replicas have
-- one group_database_id. The partner of a geo-replication in Azure cannot be told from a copy, unless it was noted in
-- advance (confirm_copy). A copy that keeps all of these, such as a clone of a whole virtual machine, cannot be told
-- from its original.
CREATE OR ALTER PROCEDURE [$(schema)].[check_home]
    @confirm bit = 0  -- 1: this database becomes a home (confirm_copy)
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @database nvarchar(128) = DB_NAME(),
    @server nvarchar(128) = CAST(SERVERPROPERTY(N'ServerName') AS nvarchar(128)),
    @is_azure bit = CASE WHEN CAST(SERVERPROPERTY(N'EngineEdition') AS int) = 5 THEN 1 ELSE 0 END,
    @guid uniqueidentifier, @fork uniqueidentifier, @group uniqueidentifier, @created datetime2(3), @is_home bit = 0,
    @is_exact bit = 0;

IF @is_azure = 0
    SELECT @guid = r.database_guid, @fork = r.recovery_fork_guid
    FROM sys.database_recovery_status AS r WHERE r.database_id = DB_ID();
-- By name: see schema_info.
SELECT @group = d.group_database_id, @created = CASE WHEN @is_azure = 1 THEN d.create_date END
FROM sys.databases AS d WHERE d.name = DB_NAME();

IF @confirm = 1 OR NOT EXISTS (SELECT 1 FROM [$(schema)].[homes] WITH (NOLOCK))
    SET @is_home = 1;  -- the first use
ELSE
BEGIN
    SELECT @is_exact = 1, @is_home = 1
    FROM [$(schema)].[homes] AS h WITH (NOLOCK)
    WHERE h.server = @server AND h.database_name = @database
        AND (h.database_guid = @guid OR h.database_guid IS NULL OR @guid IS NULL)
        AND (h.recovery_fork_guid = @fork OR h.recovery_fork_guid IS NULL OR @fork IS NULL)
        AND (h.created_at = @created OR h.created_at IS NULL OR @created IS NULL)
    OPTION (MAXDOP 1);
    IF EXISTS (SELECT 1 FROM [$(schema)].[homes] AS h WITH (NOLOCK) WHERE h.group_database_id = @group)
        SET @is_home = 1;
END;

IF @is_home = 1 AND @is_exact = 0
    INSERT [$(schema)].[homes]
        (server, database_name, database_guid, recovery_fork_guid, group_database_id, created_at, noted_at, login)
    VALUES (@server, @database, @guid, @fork, @group, @created, @now, ISNULL(ORIGINAL_LOGIN(), USER_NAME()));
IF @is_home = 0
BEGIN
    INSERT [$(schema)].[holds] (hold, since, login)
    SELECT 4, @now, ISNULL(ORIGINAL_LOGIN(), USER_NAME())
    WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[holds] WITH (UPDLOCK, HOLDLOCK) WHERE hold = 4);
    IF @@ROWCOUNT = 1
        UPDATE [$(schema)].[workers] WITH (ROWLOCK) SET lost_at = @now WHERE lost_at IS NULL;
    UPDATE [$(schema)].[queues] WITH (ROWLOCK) SET paused = paused + 4 WHERE paused < 4;
END;
-- A transaction of the caller could still be rolled back.
IF @@TRANCOUNT = 0
    EXEC sys.sp_set_session_context @key = N'$(schema).home', @value = 1;
GO
