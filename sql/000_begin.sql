-- Starts the installation. Run all numbered scripts of this folder in the order of their names, in one session, as a
-- member of db_owner (README.md). Running them again changes nothing; a second session waits for the first.

-- Filtered indexes require these settings (error 1934 otherwise); sqlcmd starts with QUOTED_IDENTIFIER OFF.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
SET NOCOUNT, XACT_ABORT ON;
-- All later sessions queue behind a statement that is waiting to change a table, so the installation soon gives up
-- (58012).
SET LOCK_TIMEOUT 3000;
GO

-- STRING_AGG needs SQL Server 2017 (14). Azure SQL (EngineEdition 5 and higher) has version numbers of its own.
IF CAST(SERVERPROPERTY(N'EngineEdition') AS int) <= 4
    AND ISNULL(CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int), 0) < 14
    THROW 58003, N'this SQL Server is too old for readpast; use SQL Server 2017 (14) or later, or Azure SQL', 1;
-- OPENJSON needs level 130, but a database from an older server keeps its level. The database is found by name, because
-- in Azure SQL Database the ids in sys.databases differ from DB_ID.
DECLARE @level int = (SELECT d.compatibility_level FROM sys.databases AS d WHERE d.name = DB_NAME()),
    @message nvarchar(2048);
IF @level < 130
BEGIN
    -- THROW reserves %.
    SET @message = REPLACE(CONCAT(N'the compatibility level of database ', DB_NAME(), N' is ', @level,
                                  N', and readpast needs 130 or higher: ALTER DATABASE ', QUOTENAME(DB_NAME()),
                                  N' SET COMPATIBILITY_LEVEL = 130'), N'%', N'%%');
    THROW 58003, @message, 1;
END;
GO

DECLARE @granted int;
EXEC @granted = sys.sp_getapplock
    @Resource = N'$(schema).install', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 60000;
IF @granted < 0
    THROW 58011, N'another session is installing into schema $(schema); run the scripts again when it has finished', 1;
GO

-- adopt: refuse_adoption
-- An adopted table has its own version of these procedures.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NOT NULL
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
    THROW 58003, N'schema $(schema) adopts a table; run readpast adopt MAPPING --install, or choose another schema', 1;
END;
GO
-- adopt: end

-- Owned by dbo, because a user who owns the schema could not be dropped.
IF SCHEMA_ID(N'$(schema)') IS NULL
    EXEC (N'CREATE SCHEMA [$(schema)] AUTHORIZATION dbo');
GO

-- One row for each version that was installed. The highest version is the current one.
IF OBJECT_ID(N'[$(schema)].[schema_version]', N'U') IS NULL
    CREATE TABLE [$(schema)].[schema_version]
    (
        version        int          NOT NULL,
        -- the oldest version whose workers and producers work with these tables and procedures
        min_compatible int          NOT NULL,
        installed_at   datetime2(3) NOT NULL CONSTRAINT schema_version_installed_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT schema_version_pk PRIMARY KEY CLUSTERED (version)
    );
GO

-- Older scripts must not overwrite the procedures of a newer release, or build indexes that it has dropped.
DECLARE @installed int = (SELECT MAX(version) FROM [$(schema)].[schema_version]), @message nvarchar(2048);
IF @installed > 1
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
    SET @message = CONCAT(N'schema $(schema) has version ', @installed,
        N', these scripts would install version 1; use the scripts of the newer release');
    THROW 58010, @message, 1;
END;
GO

-- CREATE INDEX without ONLINE = ON locks the table (S) while it runs. A missing index of a large table is therefore
-- built only if the session has created #readpast_offline_builds before (README.md).
DECLARE @index nvarchar(128), @rows bigint, @message nvarchar(2048);
SELECT TOP (1) @index = v.index_name, @rows = p.rows
FROM (SELECT object_id, rows FROM sys.partitions WHERE index_id IN (0, 1) AND rows > 10000) AS p
INNER JOIN (VALUES (N'jobs', N'jobs_ready'), (N'jobs', N'jobs_ready_alone'),
        (N'jobs', N'jobs_scheduled'), (N'jobs', N'jobs_claimed'), (N'jobs', N'jobs_finished'), (N'jobs', N'jobs_dedup'),
        (N'jobs', N'jobs_dead_keys'), (N'jobs', N'jobs_batch'), (N'jobs', N'jobs_start_by'), (N'jobs', N'jobs_waiting'),
        (N'archive', N'archive_finished')) AS v (table_name, index_name)
    ON p.object_id = OBJECT_ID(CONCAT(N'[$(schema)].[', v.table_name, N']'), N'U')
WHERE INDEXPROPERTY(p.object_id, v.index_name, 'IndexID') IS NULL
ORDER BY v.index_name;
IF @index IS NOT NULL AND OBJECT_ID(N'tempdb..#readpast_offline_builds') IS NULL
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
    SET @message = CONCAT(N'index ', @index, N' of schema $(schema) is missing, and building it over ', @rows,
        N' rows would block producers and workers; build it with ONLINE = ON if the edition supports that, or run ',
        N'CREATE TABLE #readpast_offline_builds (agreed bit NOT NULL) before the scripts, in the same session');
    THROW 58014, @message, 1;
END;
GO
