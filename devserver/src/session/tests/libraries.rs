//! The scripts of libraries and tools: message buses, a job server, generated schemas. The scripts are our own; only
//! the ways of writing T-SQL are theirs.

use crate::session::tests::harness::{check, session};

/// The transport tables of message buses: created under an application lock, received by a DELETE through a CTE.
#[test]
fn message_bus_transports() {
    check(
        "EXEC sp_getapplock @Resource = 'dbo_input_lock', @LockMode = 'Exclusive', @LockOwner = 'Session'
             IF EXISTS (SELECT * FROM [readpast].sys.objects WHERE object_id = OBJECT_ID(N'[readpast].[dbo].[input]')
                 AND type in (N'U'))
             BEGIN
                 EXEC sp_releaseapplock @Resource = 'dbo_input_lock', @LockOwner = 'Session'
                 RETURN
             END
             BEGIN TRY
                 CREATE TABLE [readpast].[dbo].[input](Id uniqueidentifier NOT NULL, CorrelationId varchar(255),
                     Recoverable bit NOT NULL, Expires datetime, Headers nvarchar(max) NOT NULL, Body varbinary(max),
                     RowVersion bigint IDENTITY(1,1) NOT NULL);
                 CREATE NONCLUSTERED INDEX Index_RowVersion ON [readpast].[dbo].[input] ( [RowVersion] ASC )
                     WITH (PAD_INDEX = OFF, STATISTICS_NORECOMPUTE = OFF, SORT_IN_TEMPDB = OFF, DROP_EXISTING = OFF,
                     ONLINE = OFF, ALLOW_ROW_LOCKS = ON, ALLOW_PAGE_LOCKS = OFF)
                 CREATE NONCLUSTERED INDEX Index_Expires ON [readpast].[dbo].[input] ( Expires )
                     INCLUDE ( Id, RowVersion ) WHERE Expires IS NOT NULL WITH (PAD_INDEX = OFF, ALLOW_PAGE_LOCKS = ON)
             END TRY
             BEGIN CATCH
                 EXEC sp_releaseapplock @Resource = 'dbo_input_lock', @LockOwner = 'Session';
                 THROW;
             END CATCH;
             EXEC sp_releaseapplock @Resource = 'dbo_input_lock', @LockOwner = 'Session' => ok
         DECLARE @NOCOUNT VARCHAR(3) = 'OFF';
             IF ( (512 & @@OPTIONS) = 512 ) SET @NOCOUNT = 'ON'
             SET NOCOUNT ON;
             DECLARE @ttl int = 60000
             INSERT INTO [readpast].[dbo].[input] (Id, Recoverable, Expires, Headers, Body)
             VALUES (NEWID(), 1, CASE WHEN @ttl IS NOT NULL THEN DATEADD(ms, @ttl, GETUTCDATE()) END, N'{}', 0xAB);
             IF (@NOCOUNT = 'ON') SET NOCOUNT ON;
             IF (@NOCOUNT = 'OFF') SET NOCOUNT OFF; => ok
         SELECT isnull(cast(max([RowVersion]) - min([RowVersion]) + 1 AS int), 0) Id FROM [readpast].[dbo].[input]
             WITH (READPAST, READCOMMITTEDLOCK) => 1
         WITH message AS (SELECT TOP(1) * FROM [readpast].[dbo].[input] WITH (UPDLOCK, READPAST, ROWLOCK)
                 ORDER BY RowVersion)
             DELETE FROM message OUTPUT CASE WHEN deleted.Expires IS NULL THEN 0 ELSE
                 CASE WHEN deleted.Expires > GETUTCDATE() THEN 0 ELSE 1 END END AS Expired,
                 deleted.Headers, deleted.Body; => 0, '{}', Bytes([171])
         IF NOT EXISTS (SELECT * FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'dbo' AND TABLE_NAME = 'Messages')
             CREATE TABLE [dbo].[Messages] ([id] [bigint] IDENTITY(1,1) NOT NULL, [priority] [int] NOT NULL,
                 [expiration] [datetimeoffset] NOT NULL, [visible] [datetimeoffset] NOT NULL,
                 [body] [varbinary](max) NOT NULL, CONSTRAINT [PK_dbo_Messages] PRIMARY KEY NONCLUSTERED ([id] ASC)) ;;
             IF NOT EXISTS (SELECT * FROM sys.indexes WHERE name = 'IDX_RECEIVE_dbo_Messages')
                 CREATE CLUSTERED INDEX [IDX_RECEIVE_dbo_Messages] ON [dbo].[Messages]
                 ([priority] DESC, [visible] ASC, [id] ASC, [expiration] ASC) WITH (ALLOW_PAGE_LOCKS = ON) ;;
             INSERT INTO [dbo].[Messages] ([body], [priority], [visible], [expiration])
                 VALUES (0x02, 0, dateadd(millisecond, 0, dateadd(minute, 0, sysdatetimeoffset())),
                 dateadd(year, 1, sysdatetimeoffset())) => ok
         SET NOCOUNT ON
             ;WITH TopCTE AS (
                 SELECT TOP 1 [id], [body] FROM [dbo].[Messages] M WITH (ROWLOCK, READPAST)
                 WHERE M.[visible] <= sysdatetimeoffset() AND M.[expiration] > sysdatetimeoffset()
                 ORDER BY [priority] DESC, [visible] ASC, [id] ASC)
             DELETE FROM TopCTE OUTPUT deleted.[id] as [id], deleted.[body] as [body] => BigInt(1), Bytes([2])",
    );
}

/// A job server's install script with versions, and how it fetches.
#[test]
fn a_job_servers_schema() {
    let (_e, mut s) = session();
    let install = "SET NOCOUNT ON
        SET XACT_ABORT ON
        DECLARE @TARGET_SCHEMA_VERSION INT;
        SET @TARGET_SCHEMA_VERSION = 2;
        PRINT 'Installing SQL objects...';
        BEGIN TRANSACTION;
        DECLARE @SchemaLockResult INT;
        EXEC @SchemaLockResult = sp_getapplock @Resource = '$(js):SchemaLock', @LockMode = 'Exclusive'
        IF NOT EXISTS (SELECT 1 FROM [sys].[schemas] WHERE [name] = 'js')
            EXEC (N'CREATE SCHEMA [js]');
        ELSE
            PRINT 'Database schema [js] already exists';
        DECLARE @SCHEMA_ID int;
        SELECT @SCHEMA_ID = [schema_id] FROM [sys].[schemas] WHERE [name] = 'js';
        IF NOT EXISTS(SELECT [object_id] FROM [sys].[tables] WHERE [name] = 'Schema' AND [schema_id] = @SCHEMA_ID)
            CREATE TABLE [js].[Schema]([Version] [int] NOT NULL,
                CONSTRAINT [PK_js_Schema] PRIMARY KEY CLUSTERED ([Version] ASC));
        DECLARE @CURRENT_SCHEMA_VERSION int;
        SELECT @CURRENT_SCHEMA_VERSION = [Version] FROM [js].[Schema];
        PRINT 'Current schema version: ' + CASE WHEN @CURRENT_SCHEMA_VERSION IS NULL THEN 'none'
            ELSE CONVERT(nvarchar, @CURRENT_SCHEMA_VERSION) END;
        IF @CURRENT_SCHEMA_VERSION IS NOT NULL AND @CURRENT_SCHEMA_VERSION > @TARGET_SCHEMA_VERSION
        BEGIN
            ROLLBACK TRANSACTION;
            RETURN;
        END
        IF @CURRENT_SCHEMA_VERSION IS NULL
        BEGIN
            CREATE TABLE [js].[Job] ([Id] [int] IDENTITY(1,1) NOT NULL, [StateName] [nvarchar](20) NULL,
                [ExpireAt] [datetime] NULL, CONSTRAINT [PK_js_Job] PRIMARY KEY CLUSTERED ([Id] ASC));
            CREATE TABLE [js].[JobQueue]([Id] [int] IDENTITY(1,1) NOT NULL, [JobId] [int] NOT NULL,
                [Queue] [nvarchar](20) NOT NULL, [FetchedAt] [datetime] NULL,
                CONSTRAINT [PK_js_JobQueue] PRIMARY KEY CLUSTERED ([Id] ASC));
            CREATE NONCLUSTERED INDEX [IX_js_JobQueue_JobIdAndQueue] ON [js].[JobQueue] ([JobId] ASC, [Queue] ASC);
            SET @CURRENT_SCHEMA_VERSION = 1;
        END
        IF @CURRENT_SCHEMA_VERSION = 1
        BEGIN
            DROP INDEX [IX_js_JobQueue_JobIdAndQueue] ON [js].[JobQueue];
            ALTER TABLE [js].[JobQueue] DROP CONSTRAINT [PK_js_JobQueue];
            ALTER TABLE [js].[JobQueue] ALTER COLUMN [Queue] [nvarchar](50) NOT NULL;
            ALTER TABLE [js].[JobQueue] ALTER COLUMN [Id] [bigint] NOT NULL;
            ALTER TABLE [js].[JobQueue] ADD CONSTRAINT [PK_js_JobQueue] PRIMARY KEY CLUSTERED ([Queue] ASC, [Id] ASC)
                WITH (IGNORE_DUP_KEY = OFF);
            EXEC (N'ALTER TABLE [js].[Job] ADD [Version] AS ([Id] + 1), [Extra] [nvarchar](10) NULL');
            CREATE NONCLUSTERED INDEX [IX_js_Job_ExpireAt] ON [js].[Job] ([ExpireAt]) INCLUDE ([StateName])
                WHERE [ExpireAt] IS NOT NULL;
            ALTER TABLE [js].[Job] DROP COLUMN [Extra];
            SET @CURRENT_SCHEMA_VERSION = 2;
        END
        UPDATE [js].[Schema] SET [Version] = @CURRENT_SCHEMA_VERSION
        IF @@ROWCOUNT = 0
            INSERT INTO [js].[Schema] ([Version]) VALUES (@CURRENT_SCHEMA_VERSION)
        COMMIT TRANSACTION;";
    s.check(install);
    s.check(install);
    s.check(
        "SELECT Version FROM js.[Schema] => 2
         insert js.JobQueue (JobId, Queue) values (1, N'default'), (2, N'other') => ok
         set nocount on;set xact_abort on;set tran isolation level read committed;
             update top (1) JQ set FetchedAt = GETUTCDATE() output INSERTED.Id, INSERTED.JobId, INSERTED.Queue
             from [js].JobQueue JQ with (forceseek, readpast, updlock, rowlock) where Queue in (N'default', N'low')
             and (FetchedAt is null or FetchedAt < DATEADD(second, -30, GETUTCDATE())) => BigInt(1), 1, 'default'
         declare @count int = 1000; set lock_timeout 0; delete top (@count) from [js].[Job] with (xlock)
             where ExpireAt < GETUTCDATE() option (loop join, optimize for (@count = 20000)) => ok",
    );
}

/// Tables with long scripts made by tools: old catalog views, constraints one by one.
#[test]
fn generated_scripts() {
    check(
        "USE [readpast] => ok
         IF EXISTS (SELECT * FROM dbo.sysobjects WHERE id = OBJECT_ID(N'[dbo].[LOCKS]')
             AND OBJECTPROPERTY(id, N'ISUSERTABLE') = 1)
             DROP TABLE [dbo].[LOCKS] => ok
         CREATE TABLE [dbo].[LOCKS] (
               [SCHED_NAME] [NVARCHAR] (120) NOT NULL,
               [LOCK_NAME] [NVARCHAR] (40) NOT NULL
             ) => ok
         CREATE TABLE [dbo].[FIRED] ([ENTRY_ID] nvarchar(140) NOT NULL, [SCHED_NAME] [NVARCHAR] (120) NOT NULL, [STATE]
             nvarchar(16) NOT NULL, [DATA] varbinary(max) NULL) ON [PRIMARY] => ok
         ALTER TABLE [dbo].[LOCKS] WITH NOCHECK ADD
             CONSTRAINT [PK_LOCKS] PRIMARY KEY CLUSTERED
             (
               [SCHED_NAME],
               [LOCK_NAME]
             ) => ok
         ALTER TABLE [dbo].[FIRED] ADD CONSTRAINT [DF_STATE] DEFAULT (N'WAITING') FOR [STATE],
             CONSTRAINT [CK_STATE] CHECK ([STATE] <> N'') => ok
         IF NOT EXISTS (SELECT * FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.FIRED') AND name = 'REQUESTS')
             ALTER TABLE dbo.FIRED ADD REQUESTS bit NULL => ok
         IF COL_LENGTH('dbo.FIRED', 'REQUESTS') IS NOT NULL
             AND COLUMNPROPERTY(OBJECT_ID('dbo.FIRED'), 'REQUESTS', 'AllowsNull') = 1
             BEGIN
                 UPDATE dbo.FIRED SET REQUESTS = 0 WHERE REQUESTS IS NULL
                 ALTER TABLE dbo.FIRED ALTER COLUMN REQUESTS bit NOT NULL
             END => ok
         IF EXISTS (SELECT 1 FROM sys.default_constraints WHERE name = 'DF_STATE'
             AND parent_object_id = OBJECT_ID('dbo.FIRED'))
             ALTER TABLE dbo.FIRED DROP CONSTRAINT DF_STATE => ok
         INSERT dbo.LOCKS VALUES (N'S', N'TRIGGER_ACCESS') ;; EXEC sp_rename 'dbo.FIRED.DATA', 'PHASE', 'COLUMN' ;;
             EXEC sp_rename N'dbo.FIRED', N'FIRED_TRIGGERS' ;;
             EXEC sys.sp_executesql N'SELECT PHASE FROM dbo.FIRED_TRIGGERS' => ok
         SELECT LOCK_NAME FROM LOCKS WITH (UPDLOCK,ROWLOCK) WHERE SCHED_NAME = N'S'
             AND LOCK_NAME = N'TRIGGER_ACCESS' => 'TRIGGER_ACCESS'",
    );
}
