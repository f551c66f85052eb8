-- The database that the tests, the plan test and the bench run in, and how it reads and locks.
--
--     sqlcmd -b -C -I -i docs/real-server/database.sql -v database=readpast_kit read_committed_snapshot=ON accelerated_database_recovery=OFF optimized_locking=OFF compatibility_level=DEFAULT contained=OFF
--
-- Creates the database if it is missing, and switches the settings, for which it must have the database to itself: sessions in it are
-- cut off. Never a database in which somebody works. Run as a member of sysadmin, or with CREATE ANY DATABASE.
SET NOCOUNT ON;
GO

IF N'$(database)' NOT LIKE N'readpast[_]%'
    THROW 58900, N'the name of the database must begin with readpast_: its sessions are cut off', 1;
IF DB_ID(N'$(database)') IS NULL
    CREATE DATABASE [$(database)];
GO

-- Dynamic, because a server that does not know a setting does not parse it either. The order: optimized locking needs accelerated database
-- recovery, so it goes first and comes last.
DECLARE @version int = CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int), @message nvarchar(2048);
IF '$(accelerated_database_recovery)' = 'ON' AND @version < 15
    THROW 58901, N'accelerated database recovery is there from SQL Server 2019 (15) on', 1;
IF '$(optimized_locking)' = 'ON' AND @version < 17
    THROW 58901, N'optimized locking is there from SQL Server 2025 (17) on', 1;
IF '$(optimized_locking)' = 'ON' AND '$(accelerated_database_recovery)' <> 'ON'
    THROW 58901, N'optimized locking needs accelerated database recovery', 1;

-- A contained database compares the names in its catalog by a collation of its own. The server must allow such databases.
IF '$(contained)' = 'ON'
BEGIN
    EXEC sys.sp_configure N'contained database authentication', 1;
    RECONFIGURE;
    EXEC (N'ALTER DATABASE [$(database)] SET CONTAINMENT = PARTIAL WITH ROLLBACK IMMEDIATE');
END;
IF '$(compatibility_level)' <> 'DEFAULT'
    EXEC (N'ALTER DATABASE [$(database)] SET COMPATIBILITY_LEVEL = $(compatibility_level)');
EXEC (N'ALTER DATABASE [$(database)] SET READ_COMMITTED_SNAPSHOT $(read_committed_snapshot) WITH ROLLBACK IMMEDIATE');
IF @version >= 17
    EXEC (N'ALTER DATABASE [$(database)] SET OPTIMIZED_LOCKING = OFF WITH ROLLBACK IMMEDIATE');
IF @version >= 15
    EXEC (N'ALTER DATABASE [$(database)] SET ACCELERATED_DATABASE_RECOVERY = $(accelerated_database_recovery) WITH ROLLBACK IMMEDIATE');
IF @version >= 17 AND '$(optimized_locking)' = 'ON'
    EXEC (N'ALTER DATABASE [$(database)] SET OPTIMIZED_LOCKING = ON WITH ROLLBACK IMMEDIATE');
GO

-- What it is now, for the report: NULL where the server has no such setting.
DECLARE @version int = CAST(SERVERPROPERTY(N'ProductMajorVersion') AS int), @recovery bit, @locking bit;
IF @version >= 15
    EXEC sys.sp_executesql
        N'SELECT @on = is_accelerated_database_recovery_on FROM sys.databases WHERE name = N''$(database)''',
        N'@on bit OUTPUT', @on = @recovery OUTPUT;
IF @version >= 17
    EXEC sys.sp_executesql
        N'SELECT @on = is_optimized_locking_on FROM sys.databases WHERE name = N''$(database)''', N'@on bit OUTPUT', @on = @locking OUTPUT;
SELECT CAST(SERVERPROPERTY(N'ProductVersion') AS nvarchar(32)) AS version,
       CAST(SERVERPROPERTY(N'Edition') AS nvarchar(64)) AS edition,
       name,
       compatibility_level,
       collation_name,
       containment_desc,
       is_read_committed_snapshot_on AS read_committed_snapshot,
       @recovery AS accelerated_database_recovery,
       @locking AS optimized_locking
FROM sys.databases
WHERE name = N'$(database)';
GO
