-- Called when a connection first claims, registers a worker or reads schedules, and once a minute by sample: finds
-- out whether this database is one of homes. If it is not, it was restored or copied. Its jobs may have run since in
-- the original, and workers that find it would run them again. All queues are then held (paused + 4), and all workers
-- marked lost, so that what they have claimed before counts no more. A restore or a failover ends the connections to a
-- database, so a connection is checked only once.
--
-- Restored over itself, a database has another recovery_fork_guid; restored under another name, another database_guid;
-- attached elsewhere, another server or name. A failover within an availability group is no copy: all replicas have
-- one group_database_id. In Azure, only server and name count, because it is not documented which ids a failover
-- keeps. The partner of a geo-replication cannot be told from a copy, unless it was noted in advance (confirm_copy).
-- Neither can a copy that keeps all of these, such as a clone of a whole virtual machine, be told from its original.
CREATE OR ALTER PROCEDURE [$(schema)].[check_home]
    @confirm bit = 0  -- 1: this database becomes a home (confirm_copy)
AS
SET NOCOUNT, XACT_ABORT ON;
-- A client's setting would begin a transaction with the first read.
SET IMPLICIT_TRANSACTIONS OFF;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @database nvarchar(128) = DB_NAME(),
    @place nvarchar(150) = CONCAT(DB_ID(), N' $(schema)'),
    @server nvarchar(128) = CAST(SERVERPROPERTY(N'ServerName') AS nvarchar(128)),
    @guid uniqueidentifier, @fork uniqueidentifier, @group uniqueidentifier, @home_id int, @homes int,
    @is_in_group bit, @is_home bit = 0, @since datetime2(3);

-- 5: Azure SQL Database, 8: Azure SQL Managed Instance
IF CAST(SERVERPROPERTY(N'EngineEdition') AS int) NOT IN (5, 8)
BEGIN
    SELECT @guid = r.database_guid, @fork = r.recovery_fork_guid
    FROM sys.database_recovery_status AS r WHERE r.database_id = DB_ID();
    SELECT @group = d.group_database_id FROM sys.databases AS d WHERE d.database_id = DB_ID();
END;

-- One statement reads all of it. Between two, another connection could note the first home.
-- The case of a server's name differs between versions of SQL Server: "SERVERPROPERTY", ServerName.
SELECT @homes = COUNT(*), @is_in_group = MAX(CASE WHEN h.group_database_id = @group THEN 1 ELSE 0 END),
    @home_id = NULLIF(MIN(
        CASE WHEN (h.server COLLATE Latin1_General_100_CI_AS = @server COLLATE Latin1_General_100_CI_AS
                   OR h.server IS NULL)
                AND h.database_name COLLATE Latin1_General_100_CI_AS = @database COLLATE Latin1_General_100_CI_AS
                AND (h.database_guid = @guid OR h.database_guid IS NULL OR @guid IS NULL)
                AND (h.recovery_fork_guid = @fork OR h.recovery_fork_guid IS NULL OR @fork IS NULL)
            THEN h.home_id ELSE 2147483647 END), 2147483647)
FROM [$(schema)].[homes] AS h WITH (NOLOCK)
OPTION (MAXDOP 1);
IF @home_id IS NOT NULL OR @confirm = 1 OR @homes = 0 OR @is_in_group = 1
    SET @is_home = 1;

IF @@TRANCOUNT > 0
    -- What is written could be rolled back, and would keep rows locked until then. The caller claims nothing in a copy.
    RETURN 1 - @is_home;
-- Confirmed by a login that sees no ids, a copy gets a row whose ids the next one that sees them fills in.
IF @is_home = 1
    AND (@home_id IS NULL
         OR (@confirm = 1 AND (@guid IS NULL OR @fork IS NULL)
             AND EXISTS (SELECT 1 FROM [$(schema)].[holds] WITH (NOLOCK) WHERE hold = 4)))
    INSERT [$(schema)].[homes]
        (server, database_name, database_guid, recovery_fork_guid, group_database_id, noted_at, login)
    SELECT @server, @database, @guid, @fork, @group, @now, ISNULL(ORIGINAL_LOGIN(), USER_NAME())
    -- Two connections at once note the first home once: a second row without ids would fit any later restore.
    WHERE @homes > 0 OR NOT EXISTS (SELECT 1 FROM [$(schema)].[homes] WITH (UPDLOCK, HOLDLOCK));
ELSE IF @home_id IS NOT NULL
    -- What was unknown, and the group that the database has joined since.
    UPDATE [$(schema)].[homes] WITH (ROWLOCK)
    SET database_guid = ISNULL(database_guid, @guid), recovery_fork_guid = ISNULL(recovery_fork_guid, @fork),
        group_database_id = ISNULL(@group, group_database_id)
    WHERE home_id = @home_id
        AND ((database_guid IS NULL AND @guid IS NOT NULL) OR (recovery_fork_guid IS NULL AND @fork IS NOT NULL)
             OR (@group IS NOT NULL AND (group_database_id IS NULL OR group_database_id <> @group)));
IF @is_home = 0
BEGIN
    INSERT [$(schema)].[holds] (hold, since, login)
    SELECT 4, @now, ISNULL(ORIGINAL_LOGIN(), USER_NAME())
    WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[holds] WITH (UPDLOCK, HOLDLOCK) WHERE hold = 4);
    -- Each call does the rest, in case another one was cut off.
    SET @since = (SELECT since FROM [$(schema)].[holds] WHERE hold = 4);
    UPDATE [$(schema)].[workers] WITH (ROWLOCK) SET lost_at = @now WHERE lost_at IS NULL AND registered_at < @since;
    EXEC [$(schema)].[set_hold] 4, 1;
END;
-- (A key has at most 128 bytes, a schema's name more.)
EXEC sys.sp_set_session_context @key = N'readpast.home', @value = @place;
RETURN 1 - @is_home;
GO
