-- readpast: start of the installation.
--
-- Run all numbered scripts of this folder in the order of their names, in one session, as a member of db_owner (or with CREATE
-- SCHEMA, CREATE TABLE, CREATE TYPE, CREATE PROCEDURE and CREATE ROLE). $(schema) is the only variable. See README.md.
-- Running them again changes nothing; from two sessions at once, the second waits for the first.

-- Filtered indexes demand these settings where procedures are created and where rows are changed (error 1934 otherwise).
-- sqlcmd starts with QUOTED_IDENTIFIER OFF.
SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
SET NOCOUNT ON;
SET XACT_ABORT ON;
GO

DECLARE @granted int;
EXEC @granted = sys.sp_getapplock
    @Resource = N'readpast.install.$(schema)', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 60000;
IF @granted < 0
    THROW 58011, N'another session has been installing readpast into schema $(schema) for a minute; wait for it to end and run the scripts again', 1;
GO

IF SCHEMA_ID(N'$(schema)') IS NULL
    EXEC (N'CREATE SCHEMA [$(schema)]');
GO

-- One row for every version that was installed; the highest is the one in force.
IF OBJECT_ID(N'[$(schema)].[schema_version]', N'U') IS NULL
    CREATE TABLE [$(schema)].[schema_version]
    (
        version      int          NOT NULL,
        installed_at datetime2(3) NOT NULL CONSTRAINT schema_version_installed_at DEFAULT SYSUTCDATETIME(),
        CONSTRAINT schema_version_pk PRIMARY KEY CLUSTERED (version)
    );
GO

-- A newer release has been here: its tables are not ours to touch.
IF EXISTS (SELECT 1 FROM [$(schema)].[schema_version] WHERE version > 1)
BEGIN
    EXEC sys.sp_releaseapplock @Resource = N'readpast.install.$(schema)', @LockOwner = N'Session';
    THROW 58010, N'schema $(schema) was installed by a newer release of readpast than these scripts (version 1); use the scripts of that release', 1;
END;
GO
