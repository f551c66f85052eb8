-- readpast: start of the installation.
--
-- Run all numbered scripts of this folder in the order of their names, in one session, as a member of db_owner;
-- `readpast install --script` prints them as one. README.md says how. Running them again changes nothing; from two
-- sessions at once, the second waits for the first.

-- Filtered indexes demand these settings where procedures are created and where rows are changed (error 1934
-- otherwise). sqlcmd starts with QUOTED_IDENTIFIER OFF.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
SET NOCOUNT ON;
SET XACT_ABORT ON;
-- A statement that changes a table waits for everybody who reads it, and everybody who comes later waits behind it. So
-- it gives up soon, and the scripts say so (58012).
SET LOCK_TIMEOUT 3000;
GO

-- What the procedures need, before anything is made: STRING_AGG came with SQL Server 2017 (14), and CREATE OR ALTER
-- only with a service pack of 2016. The numbers of Azure SQL (EngineEdition 5 and higher) are no SQL Server's: it is
-- always new.
IF CAST(SERVERPROPERTY(N'EngineEdition') AS int) <= 4
    AND ISNULL(CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int), 0) < 14
    THROW 58003, N'this SQL Server is too old for readpast: SQL Server 2017 (14) or later is needed, or Azure SQL', 1;
-- Below 130 there is no OPENJSON: databases that were moved up from an old server keep their level.
-- By name: in Azure SQL Database the ids in sys.databases are others than DB_ID.
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
    THROW 58011, N'another session has been installing into schema $(schema) for a minute; wait for it to end and run the scripts again', 1;
GO

-- adopt: refuse_adoption
-- The adoption of a table has procedures of its own, which these would replace.
IF OBJECT_ID(N'[$(schema)].[adoption]', N'U') IS NOT NULL
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
    THROW 58003, N'schema $(schema) is the adoption of a table; install it again by readpast adopt MAPPING --install, or choose another schema', 1;
END;
GO
-- adopt: end

-- Owned by dbo, whoever runs this: the tables and procedures are the schema's owner's, and a user who owns something
-- cannot be dropped.
IF SCHEMA_ID(N'$(schema)') IS NULL
    EXEC (N'CREATE SCHEMA [$(schema)] AUTHORIZATION dbo');
GO

-- One row for every version that was installed; the highest is the one in force.
IF OBJECT_ID(N'[$(schema)].[schema_version]', N'U') IS NULL
    CREATE TABLE [$(schema)].[schema_version]
    (
        version        int          NOT NULL,
        -- the oldest version whose workers and producers work with this one's tables and procedures
        min_compatible int          NOT NULL,
        installed_at   datetime2(3) NOT NULL CONSTRAINT schema_version_installed_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT schema_version_pk PRIMARY KEY CLUSTERED (version)
    );
GO

-- A newer release has been here: its procedures must not be overwritten by older ones. Before the indexes, which the
-- newer release's scripts may have dropped: who has the wrong scripts must not build any for them.
DECLARE @installed int = (SELECT MAX(version) FROM [$(schema)].[schema_version]), @message nvarchar(2048);
IF @installed > 1
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
    SET @message = CONCAT(N'schema $(schema) has version ', @installed,
        N', these scripts would install version 1; use the scripts of the newer release');
    THROW 58010, @message, 1;
END;
GO

-- An index that somebody has dropped is not made again by the way where there are many rows: until it is there, whoever
-- enqueues or finishes waits, since CREATE INDEX holds S on the table for as long ("CREATE INDEX", ONLINE = OFF).
-- Whoever wants that now says so in this session, before the scripts:
--     CREATE TABLE #readpast_offline_builds (agreed bit NOT NULL);
-- Where the edition has ONLINE = ON (Enterprise, Developer, Azure SQL), make the index with it instead, as its script
-- has it.
DECLARE @index nvarchar(128), @rows bigint, @message nvarchar(2048);
SELECT TOP (1) @index = v.index_name, @rows = p.rows
FROM (VALUES (N'jobs', N'jobs_ready'), (N'jobs', N'jobs_ready_lifo'), (N'jobs', N'jobs_ready_alone'),
    (N'jobs', N'jobs_scheduled'),
             (N'jobs', N'jobs_claimed'), (N'jobs', N'jobs_finished'), (N'jobs', N'jobs_dedup'),
             (N'jobs', N'jobs_dead_keys'),
             (N'jobs', N'jobs_batch'), (N'jobs', N'jobs_waiting'), (N'archive', N'archive_finished')) AS v (table_name,
             index_name)
INNER JOIN sys.partitions AS p
    ON p.object_id = OBJECT_ID(CONCAT(N'[$(schema)].[', v.table_name, N']'), N'U') AND p.index_id IN (0, 1)
WHERE p.rows > 10000 AND INDEXPROPERTY(p.object_id, v.index_name, 'IndexID') IS NULL
ORDER BY v.index_name;
IF @index IS NOT NULL AND OBJECT_ID(N'tempdb..#readpast_offline_builds') IS NULL
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
    SET @message = CONCAT(N'index ', @index,
        N' of schema $(schema) is missing, and producers and workers would wait while it is built over ', @rows,
                          N' rows; build it with ONLINE = ON where the edition can, or run CREATE TABLE #readpast_offline_builds (agreed bit NOT NULL) before the scripts, in the same session');
    THROW 58014, @message, 1;
END;
GO
