//! The idioms of well-known articles and libraries about queues in tables, as scripts that sqlcmd would run. The
//! scripts are our own; only the ways of writing T-SQL are theirs.

use crate::session::tests::harness::{engine, login, ok, rows, script, session};

/// "Using tables as queues": a heap, a FIFO queue, a pending queue with due times, a stack.
#[test]
fn using_tables_as_queues() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "create table HeapQueue (
  Payload varbinary(max));
GO
create procedure usp_enqueueHeap
  @payload varbinary(max)
as
  set nocount on;
  insert into HeapQueue (Payload)
    values (@Payload);
GO
create procedure usp_dequeueHeap
as
  set nocount on;
  delete top(1) from HeapQueue
      with (rowlock, readpast)
      output deleted.payload;
GO
create table FifoQueue (
  Id bigint not null identity(1,1),
  Payload varbinary(max));
create clustered index cdxFifoQueue on FifoQueue (Id);
GO
create procedure usp_enqueueFifo
  @payload varbinary(max)
as
  set nocount on;
  insert into FifoQueue (Payload) values (@Payload);
GO
create procedure usp_dequeueFifo @count int = 1
as
  set nocount on;
  with cte as (
    select top(@count) Payload
      from FifoQueue with (rowlock, readpast)
    order by Id)
  delete from cte
    output deleted.Payload;
GO
create table PendingQueue (
  DueTime datetime not null,
  Payload varbinary(max));

create clustered index cdxPendingQueue on PendingQueue (DueTime);
GO
create procedure usp_enqueuePending
  @dueTime datetime,
  @payload varbinary(max)
as
  set nocount on;
  insert into PendingQueue (DueTime, Payload)
    values (@dueTime, @payload);
GO
create procedure usp_dequeuePending
as
  set nocount on;
  declare @now datetime;
  set @now = getutcdate();
  with cte as (
    select top(1)
      Payload
    from PendingQueue with (rowlock, readpast)
    where DueTime < @now
    order by DueTime)
  delete from cte
    output deleted.Payload;
GO
create table LifoStack (
  Id bigint not null identity(1,1),
  Payload varbinary(max));
create unique clustered index cdxLifoStack on LifoStack(Id desc);
GO
create procedure usp_popLifo
as
  set nocount on;
  with cte as (
    select top(1) Payload from LifoStack with (rowlock, readpast)
      order by Id desc)
  delete from cte output deleted.Payload;",
    );
    ok(&mut s, "exec usp_enqueueHeap 0x01; exec usp_enqueueHeap @payload = 0x02");
    assert_eq!(rows(&mut s, "exec usp_dequeueHeap; exec usp_dequeueHeap; exec usp_dequeueHeap").len(), 2);
    ok(&mut s, "exec usp_enqueueFifo 0x01; exec usp_enqueueFifo 0x02; exec usp_enqueueFifo 0x03");
    assert_eq!(rows(&mut s, "exec usp_dequeueFifo"), ["ROW(Bytes([1]))"]);
    assert_eq!(rows(&mut s, "exec usp_dequeueFifo @count = 10"), ["ROW(Bytes([2]))", "ROW(Bytes([3]))"]);
    ok(
        &mut s,
        "declare @due datetime = dateadd(second, -10, getutcdate()); exec usp_enqueuePending @due, 0x01;
         set @due = dateadd(second, -20, getutcdate()); exec usp_enqueuePending @due, 0x02;
         set @due = dateadd(day, 1, getutcdate()); exec usp_enqueuePending @due, 0x03",
    );
    assert_eq!(
        rows(&mut s, "exec usp_dequeuePending; exec usp_dequeuePending; exec usp_dequeuePending"),
        ["ROW(Bytes([2]))", "ROW(Bytes([1]))"]
    );
    ok(&mut s, "insert LifoStack (Payload) values (0x01), (0x02)");
    assert_eq!(rows(&mut s, "exec usp_popLifo"), ["ROW(Bytes([2]))"]);
}

#[test]
fn two_consumers_of_a_fifo_queue_do_not_meet() {
    let engine = engine();
    let mut a = login(&engine, "sa", "secret");
    let mut b = login(&engine, "sa", "secret");
    ok(
        &mut a,
        "create table q (Id bigint not null identity(1,1), Payload varchar(10)); create clustered index c on q (Id); insert q values ('a'), ('b'), ('c')",
    );
    let dequeue = "with cte as (select top(1) Payload from q with (rowlock, readpast) order by Id) delete from cte output deleted.Payload";
    ok(&mut b, "set lock_timeout 0");
    ok(&mut a, "begin tran");
    assert_eq!(rows(&mut a, dequeue), ["ROW(String(\"a\"))"]);
    assert_eq!(rows(&mut b, dequeue), ["ROW(String(\"b\"))"]);
    ok(&mut a, "rollback");
    assert_eq!(rows(&mut b, dequeue), ["ROW(String(\"a\"))"]);
}

/// A status column, UPDLOCK with READPAST, and a second pass for what was never finished.
#[test]
fn a_queue_with_a_status_column() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "SET ANSI_NULLS ON
GO
SET QUOTED_IDENTIFIER ON
GO
SET ANSI_PADDING ON
GO
IF  EXISTS (SELECT * FROM sys.objects WHERE object_id = OBJECT_ID(N'[dbo].[Queue]') AND type in (N'U'))
DROP TABLE [dbo].[Queue]
GO
IF OBJECT_ID('dbo.Queue', 'U') IS NULL
CREATE TABLE [dbo].[Queue](
	[QueueID] [int] IDENTITY(1,1) NOT NULL,
	[QueueDateTime] [datetime] NOT NULL CONSTRAINT [DF_Queue_QueueDateTime] DEFAULT (getdate()),
	[Title] [nvarchar](255) NOT NULL,
	[Status] [int] NOT NULL CONSTRAINT [DF_Queue_Status]  DEFAULT ((0)),
	[TextData] [nvarchar](max) NULL,
 CONSTRAINT [PK_Queue] PRIMARY KEY CLUSTERED
(
	[QueueID] ASC
)WITH (PAD_INDEX  = OFF, STATISTICS_NORECOMPUTE  = OFF, IGNORE_DUP_KEY = OFF, ALLOW_ROW_LOCKS  = ON, ALLOW_PAGE_LOCKS  = ON) ON [PRIMARY]
) ON [PRIMARY] TEXTIMAGE_ON [PRIMARY]
GO
SET ANSI_PADDING OFF
GO
CREATE NONCLUSTERED INDEX IX_Queue_Status ON dbo.[Queue] (Status) INCLUDE (QueueID) WITH FILLFACTOR = 80 ON [PRIMARY]
GO
CREATE PROC dbo.usp_GetNext (@batch int = 1) WITH RECOMPILE
AS
BEGIN
    SET NOCOUNT ON
    SET XACT_ABORT ON
    DECLARE @NextId INTEGER
    BEGIN TRANSACTION
    -- Find next available item available
    SELECT TOP 1 @NextId = QueueID
    FROM dbo.[Queue] WITH (UPDLOCK, READPAST)
    WHERE Status = 0
    ORDER BY QueueID ASC
    -- If found, flag it to prevent being picked up again
    IF (@NextId IS NOT NULL)
    BEGIN
        UPDATE dbo.[Queue] SET Status = 1 WHERE QueueID = @NextId
    END
    COMMIT TRANSACTION
    -- Now return the queue item, if we have one
    IF (@NextId IS NOT NULL)
        SELECT QueueID, Title FROM dbo.[Queue] (NOLOCK) WHERE QueueID = @NextId
    RETURN 0
END
GO
DECLARE @i int
SET @i = 0
WHILE @i < 5
BEGIN
    INSERT dbo.[Queue] (Title, TextData) SELECT 'Item ' + CAST(@i AS varchar(10)), REPLICATE('x', @i)
    SET @i = @i + 1
END",
    );
    assert_eq!(rows(&mut s, "EXEC dbo.usp_GetNext"), ["ROW(Int(1), String(\"Item 0\"))"]);
    let claim = "DECLARE @id int, @title nvarchar(255);
                 UPDATE TOP (1) dbo.[Queue] WITH (ROWLOCK, READPAST) SET Status = 1, @id = QueueID, @title = Title WHERE Status = 0
                 IF @@ROWCOUNT = 0 PRINT 'Nothing to do' ELSE SELECT @id, @title";
    assert_eq!(rows(&mut s, claim), ["ROW(Int(2), String(\"Item 1\"))"]);
    let output = "UPDATE q SET Status = 2 OUTPUT inserted.QueueID, deleted.Status
                  FROM dbo.[Queue] q WITH (ROWLOCK, READPAST) INNER JOIN (SELECT TOP 2 QueueID FROM dbo.[Queue] WITH (UPDLOCK, READPAST) WHERE Status = 0 ORDER BY QueueID) n ON n.QueueID = q.QueueID";
    assert_eq!(rows(&mut s, output).len(), 2);
}

/// A worker loop with retries on 1205, WAITFOR and an application lock.
#[test]
fn a_worker_in_t_sql() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "create table dbo.Work (Id int not null identity primary key, Attempts tinyint not null default 0, Done bit not null default 0)
GO
create table dbo.Errors (Id int identity, Number int, Severity int, State int, Proc_ sysname null, Line int, Message nvarchar(4000), At datetime2(3) default sysdatetime())
GO
create procedure dbo.DoWork @max int = 100 as
begin
  set nocount on
  declare @rc int, @id int, @retry int = 5, @msg nvarchar(200), @sql nvarchar(max), @count int
  exec @rc = sp_getapplock @Resource = 'Work', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0
  if @rc < 0
  begin
    raiserror (N'Somebody else is at work (%d)', 16, 1, @rc) with nowait
    return (-1)
  end
  while (1 = 1)
  begin
    begin try
      set @id = null
      begin tran
        select top (1) @id = Id from dbo.Work with (updlock, readpast, rowlock) where Done = 0 order by Id
        if @id is null
        begin
          commit tran
          break
        end
        if @id = 2 and exists (select * from dbo.Work where Id = @id and Attempts < 2)
        begin
          update dbo.Work set Attempts += 1 where Id = @id
          commit
          continue
        end
        update dbo.Work set Done = 1 where Id = @id
        set @msg = N'done ' + convert(nvarchar(10), @id)
        raiserror (@msg, 0, 1) with nowait
      commit tran
    end try
    begin catch
      if xact_state() <> 0 rollback tran
      insert dbo.Errors (Number, Severity, State, Proc_, Line, Message)
        values (error_number(), error_severity(), error_state(), error_procedure(), error_line(), error_message())
      if error_number() in (1205, 1222, 3960) and @retry > 0
      begin
        set @retry -= 1
        waitfor delay '00:00:00.010'
        continue
      end
      exec sp_releaseapplock @Resource = 'Work', @LockOwner = 'Session'
      ;throw
    end catch
  end
  set @sql = N'select @n = count(*) from dbo.Work where Done = @done'
  exec sp_executesql @sql, N'@done bit, @n int output', @done = 1, @n = @count output
  exec sp_releaseapplock @Resource = 'Work', @LockOwner = 'Session'
  return @count
end
GO
insert dbo.Work default values
GO
insert dbo.Work default values
GO
insert dbo.Work default values",
    );
    assert_eq!(
        rows(&mut s, "declare @n int; exec @n = dbo.DoWork; select @n, (select max(Attempts) from Work)"),
        ["ROW(Int(3), TinyInt(2))"]
    );
}

/// Upserts: UPDATE then INSERT under UPDLOCK and SERIALIZABLE, MERGE with HOLDLOCK, INSERT and catch 2627.
#[test]
fn upserts() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE dbo.AccountDetails (Email nvarchar(400) NOT NULL CONSTRAINT PK_AccountDetails PRIMARY KEY, Etc nvarchar(max) NULL, Hits int NOT NULL DEFAULT (0))
GO
CREATE OR ALTER PROCEDURE dbo.s_Update_then_insert (@Email nvarchar(400), @Etc nvarchar(max)) AS
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
BEGIN TRAN
  UPDATE dbo.AccountDetails WITH (UPDLOCK) SET Etc = @Etc, Hits += 1 WHERE Email = @Email
  IF (@@ROWCOUNT = 0)
  BEGIN
    INSERT dbo.AccountDetails (Email, Etc) VALUES (@Email, @Etc)
  END
COMMIT
GO
CREATE OR ALTER PROCEDURE dbo.s_Exists (@Email nvarchar(400), @Etc nvarchar(max)) AS
BEGIN TRAN
  IF EXISTS (SELECT * FROM dbo.AccountDetails WITH (UPDLOCK, HOLDLOCK) WHERE Email = @Email)
    UPDATE dbo.AccountDetails SET Etc = @Etc, Hits += 1 WHERE Email = @Email;
  ELSE
    INSERT dbo.AccountDetails (Email, Etc) VALUES (@Email, @Etc);
COMMIT
GO
CREATE OR ALTER PROCEDURE dbo.s_Merge (@Email nvarchar(400), @Etc nvarchar(max)) AS
MERGE dbo.AccountDetails WITH (HOLDLOCK) AS myTarget
USING (SELECT @Email Email, @Etc Etc) AS mySource ON mySource.Email = myTarget.Email
WHEN MATCHED THEN UPDATE SET Etc = mySource.Etc, Hits = myTarget.Hits + 1
WHEN NOT MATCHED THEN INSERT (Email, Etc) VALUES (mySource.Email, mySource.Etc);
GO
CREATE OR ALTER PROCEDURE dbo.s_JFDI (@Email nvarchar(400), @Etc nvarchar(max)) AS
BEGIN TRY
  INSERT INTO dbo.AccountDetails (Email, Etc) VALUES (@Email, @Etc);
END TRY
BEGIN CATCH
  -- ignore duplicate key errors, throw the rest.
  IF ERROR_NUMBER() IN (2601, 2627)
    UPDATE dbo.AccountDetails SET Etc = @Etc, Hits += 1 WHERE Email = @Email;
  ELSE
    THROW;
END CATCH
GO
EXEC dbo.s_Update_then_insert N'a@b', N'1'; EXEC dbo.s_Exists N'a@b', N'2'; EXEC dbo.s_Merge N'a@b', N'3'; EXEC dbo.s_JFDI N'a@b', N'4'",
    );
    assert_eq!(rows(&mut s, "SELECT Etc, Hits FROM dbo.AccountDetails"), ["ROW(String(\"4\"), Int(3))"]);
}

/// The transport tables of message buses: created under an application lock, received by a DELETE through a CTE.
#[test]
fn message_bus_transports() {
    let (_e, mut s) = session();
    let create = "IF EXISTS (
    SELECT *
    FROM [readpast].sys.objects
    WHERE object_id = OBJECT_ID(N'[readpast].[dbo].[input]')
        AND type in (N'U'))
RETURN
EXEC sp_getapplock @Resource = 'dbo_input_lock', @LockMode = 'Exclusive', @LockOwner = 'Session'
IF EXISTS (
    SELECT *
    FROM [readpast].sys.objects
    WHERE object_id = OBJECT_ID(N'[readpast].[dbo].[input]') AND type in (N'U'))
BEGIN
    EXEC sp_releaseapplock @Resource = 'dbo_input_lock', @LockOwner = 'Session'
    RETURN
END
BEGIN TRY
    CREATE TABLE [readpast].[dbo].[input](
        Id uniqueidentifier NOT NULL,
        CorrelationId varchar(255),
        ReplyToAddress varchar(255),
        Recoverable bit NOT NULL,
        Expires datetime,
        Headers nvarchar(max) NOT NULL,
        Body varbinary(max),
        RowVersion bigint IDENTITY(1,1) NOT NULL
    );
    CREATE NONCLUSTERED INDEX Index_RowVersion ON [readpast].[dbo].[input]
    ( [RowVersion] ASC )
    WITH (PAD_INDEX = OFF, STATISTICS_NORECOMPUTE = OFF, SORT_IN_TEMPDB = OFF, DROP_EXISTING = OFF, ONLINE = OFF, ALLOW_ROW_LOCKS = ON, ALLOW_PAGE_LOCKS = OFF)
    CREATE NONCLUSTERED INDEX Index_Expires ON [readpast].[dbo].[input] ( Expires )
    INCLUDE ( Id, RowVersion )
    WHERE Expires IS NOT NULL
    WITH (PAD_INDEX = OFF, ALLOW_PAGE_LOCKS = ON)
END TRY
BEGIN CATCH
    EXEC sp_releaseapplock @Resource = 'dbo_input_lock', @LockOwner = 'Session';
    THROW;
END CATCH;
EXEC sp_releaseapplock @Resource = 'dbo_input_lock', @LockOwner = 'Session'";
    ok(&mut s, create);
    ok(&mut s, create);
    ok(
        &mut s,
        "DECLARE @NOCOUNT VARCHAR(3) = 'OFF';
         IF ( (512 & @@OPTIONS) = 512 ) SET @NOCOUNT = 'ON'
         SET NOCOUNT ON;
         DECLARE @ttl int = 60000
         INSERT INTO [readpast].[dbo].[input] (Id, Recoverable, Expires, Headers, Body)
         VALUES (NEWID(), 1, CASE WHEN @ttl IS NOT NULL THEN DATEADD(ms, @ttl, GETUTCDATE()) END, N'{}', 0xAB);
         IF (@NOCOUNT = 'ON') SET NOCOUNT ON;
         IF (@NOCOUNT = 'OFF') SET NOCOUNT OFF;",
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT isnull(cast(max([RowVersion]) - min([RowVersion]) + 1 AS int), 0) Id FROM [readpast].[dbo].[input] WITH (READPAST, READCOMMITTEDLOCK)"
        ),
        ["ROW(Int(1))"]
    );
    let receive = "WITH message AS (
             SELECT TOP(1) *
             FROM [readpast].[dbo].[input] WITH (UPDLOCK, READPAST, ROWLOCK)
             ORDER BY RowVersion)
         DELETE FROM message
         OUTPUT CASE WHEN deleted.Expires IS NULL THEN 0 ELSE CASE WHEN deleted.Expires > GETUTCDATE() THEN 0 ELSE 1 END END AS Expired,
             deleted.Headers, deleted.Body;";
    assert_eq!(rows(&mut s, receive), ["ROW(Int(0), String(\"{}\"), Bytes([171]))"]);
    script(
        &mut s,
        "IF NOT EXISTS (SELECT * FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'dbo' AND TABLE_NAME = 'Messages')
CREATE TABLE [dbo].[Messages] (
    [id] [bigint] IDENTITY(1,1) NOT NULL,
    [priority] [int] NOT NULL,
    [expiration] [datetimeoffset] NOT NULL,
    [visible] [datetimeoffset] NOT NULL,
    [headers] [varbinary](max) NOT NULL,
    [body] [varbinary](max) NOT NULL,
    CONSTRAINT [PK_dbo_Messages] PRIMARY KEY NONCLUSTERED ([id] ASC)
)
GO
IF NOT EXISTS (SELECT * FROM sys.indexes WHERE name = 'IDX_RECEIVE_dbo_Messages')
CREATE CLUSTERED INDEX [IDX_RECEIVE_dbo_Messages] ON [dbo].[Messages]
([priority] DESC, [visible] ASC, [id] ASC, [expiration] ASC) WITH (ALLOW_PAGE_LOCKS = ON)
GO
IF EXISTS (SELECT * FROM sys.indexes WHERE name = 'nothing' AND object_id = OBJECT_ID('dbo.Messages')) DROP INDEX [nothing] ON dbo.Messages
GO
INSERT INTO [dbo].[Messages] ([headers], [body], [priority], [visible], [expiration])
VALUES (0x01, 0x02, 0, dateadd(millisecond, 0, dateadd(second, 0, dateadd(minute, 0, sysdatetimeoffset()))), dateadd(year, 1, sysdatetimeoffset()))",
    );
    let receive = "SET NOCOUNT ON
        ;WITH TopCTE AS (
            SELECT TOP 1 [id], [headers], [body]
            FROM [dbo].[Messages] M WITH (ROWLOCK, READPAST)
            WHERE M.[visible] <= sysdatetimeoffset() AND M.[expiration] > sysdatetimeoffset()
            ORDER BY [priority] DESC, [visible] ASC, [id] ASC)
        DELETE FROM TopCTE
        OUTPUT deleted.[id] as [id], deleted.[headers] as [headers], deleted.[body] as [body]";
    assert_eq!(rows(&mut s, receive), ["ROW(BigInt(1), Bytes([1]), Bytes([2]))"]);
}

/// A job server's install script with versions, and how it fetches.
#[test]
fn a_job_servers_schema() {
    let (_e, mut s) = session();
    let install = "SET NOCOUNT ON
SET XACT_ABORT ON
DECLARE @TARGET_SCHEMA_VERSION INT;
SET @TARGET_SCHEMA_VERSION = 3;
PRINT 'Installing SQL objects...';
BEGIN TRANSACTION;
DECLARE @SchemaLockResult INT;
EXEC @SchemaLockResult = sp_getapplock @Resource = '$(js):SchemaLock', @LockMode = 'Exclusive'
IF NOT EXISTS (SELECT 1 FROM [sys].[schemas] WHERE [name] = 'js')
BEGIN
    EXEC (N'CREATE SCHEMA [js]');
    PRINT 'Created database schema [js]';
END
ELSE
    PRINT 'Database schema [js] already exists';
DECLARE @SCHEMA_ID int;
SELECT @SCHEMA_ID = [schema_id] FROM [sys].[schemas] WHERE [name] = 'js';
IF NOT EXISTS(SELECT [object_id] FROM [sys].[tables] WHERE [name] = 'Schema' AND [schema_id] = @SCHEMA_ID)
BEGIN
    CREATE TABLE [js].[Schema]([Version] [int] NOT NULL, CONSTRAINT [PK_js_Schema] PRIMARY KEY CLUSTERED ([Version] ASC));
    PRINT 'Created table [js].[Schema]';
END
DECLARE @CURRENT_SCHEMA_VERSION int;
SELECT @CURRENT_SCHEMA_VERSION = [Version] FROM [js].[Schema];
PRINT 'Current schema version: ' + CASE WHEN @CURRENT_SCHEMA_VERSION IS NULL THEN 'none' ELSE CONVERT(nvarchar, @CURRENT_SCHEMA_VERSION) END;
IF @CURRENT_SCHEMA_VERSION IS NOT NULL AND @CURRENT_SCHEMA_VERSION > @TARGET_SCHEMA_VERSION
BEGIN
    ROLLBACK TRANSACTION;
    RETURN;
END
IF @CURRENT_SCHEMA_VERSION IS NULL
BEGIN
    CREATE TABLE [js].[Job] (
        [Id] [int] IDENTITY(1,1) NOT NULL,
        [StateName] [nvarchar](20) NULL,
        [InvocationData] [nvarchar](max) NOT NULL,
        [CreatedAt] [datetime] NOT NULL,
        [ExpireAt] [datetime] NULL,
        CONSTRAINT [PK_js_Job] PRIMARY KEY CLUSTERED ([Id] ASC));
    CREATE NONCLUSTERED INDEX [IX_js_Job_StateName] ON [js].[Job] ([StateName] ASC);
    CREATE TABLE [js].[JobQueue](
        [Id] [int] IDENTITY(1,1) NOT NULL,
        [JobId] [int] NOT NULL,
        [Queue] [nvarchar](20) NOT NULL,
        [FetchedAt] [datetime] NULL,
        CONSTRAINT [PK_js_JobQueue] PRIMARY KEY CLUSTERED ([Id] ASC));
    CREATE NONCLUSTERED INDEX [IX_js_JobQueue_JobIdAndQueue] ON [js].[JobQueue] ([JobId] ASC, [Queue] ASC);
    SET @CURRENT_SCHEMA_VERSION = 1;
END
IF @CURRENT_SCHEMA_VERSION = 1
BEGIN
    PRINT 'Installing schema version 2';
    DROP INDEX [IX_js_JobQueue_JobIdAndQueue] ON [js].[JobQueue];
    ALTER TABLE [js].[JobQueue] DROP CONSTRAINT [PK_js_JobQueue];
    ALTER TABLE [js].[JobQueue] ALTER COLUMN [Queue] [nvarchar](50) NOT NULL;
    ALTER TABLE [js].[JobQueue] ALTER COLUMN [Id] [bigint] NOT NULL;
    ALTER TABLE [js].[JobQueue] ADD CONSTRAINT [PK_js_JobQueue] PRIMARY KEY CLUSTERED ([Queue] ASC, [Id] ASC) WITH (IGNORE_DUP_KEY = OFF);
    EXEC (N'ALTER TABLE [js].[Job] ADD [Version] AS ([Id] + 1), [Extra] [nvarchar](10) NULL');
    SET @CURRENT_SCHEMA_VERSION = 2;
END
IF @CURRENT_SCHEMA_VERSION = 2
BEGIN
    CREATE NONCLUSTERED INDEX [IX_js_Job_ExpireAt] ON [js].[Job] ([ExpireAt]) INCLUDE ([StateName]) WHERE [ExpireAt] IS NOT NULL;
    ALTER TABLE [js].[Job] DROP COLUMN [Extra];
    SET @CURRENT_SCHEMA_VERSION = 3;
END
UPDATE [js].[Schema] SET [Version] = @CURRENT_SCHEMA_VERSION
IF @@ROWCOUNT = 0
    INSERT INTO [js].[Schema] ([Version]) VALUES (@CURRENT_SCHEMA_VERSION)
COMMIT TRANSACTION;
PRINT 'SQL objects installed';";
    ok(&mut s, install);
    ok(&mut s, install);
    assert_eq!(rows(&mut s, "SELECT Version FROM js.[Schema]"), ["ROW(Int(3))"]);
    ok(&mut s, "insert js.JobQueue (JobId, Queue) values (1, N'default'), (2, N'other')");
    let fetch = "set nocount on;set xact_abort on;set tran isolation level read committed;
        update top (1) JQ
        set FetchedAt = GETUTCDATE()
        output INSERTED.Id, INSERTED.JobId, INSERTED.Queue
        from [js].JobQueue JQ with (forceseek, readpast, updlock, rowlock)
        where Queue in (N'default', N'low') and (FetchedAt is null or FetchedAt < DATEADD(second, -30, GETUTCDATE()))";
    assert_eq!(rows(&mut s, fetch), ["ROW(BigInt(1), Int(1), String(\"default\"))"]);
    assert!(rows(&mut s, fetch).is_empty());
    let expire = "set transaction isolation level read committed; set nocount on; set lock_timeout 0;
        delete top (@count) from [js].[Job] with (xlock) where ExpireAt < GETUTCDATE() option (loop join, optimize for (@count = 20000))";
    ok(&mut s, &format!("declare @count int = 1000; {expire}; set lock_timeout -1"));
}

/// Tables with long scripts made by tools: old catalog views, constraints one by one.
#[test]
fn generated_scripts() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "USE [readpast]
GO
IF EXISTS (SELECT * FROM dbo.sysobjects WHERE id = OBJECT_ID(N'[dbo].[LOCKS]') AND OBJECTPROPERTY(id, N'ISUSERTABLE') = 1)
DROP TABLE [dbo].[LOCKS]
GO
CREATE TABLE [dbo].[LOCKS] (
  [SCHED_NAME] [NVARCHAR] (120) NOT NULL,
  [LOCK_NAME] [NVARCHAR] (40) NOT NULL
)
GO
CREATE TABLE [dbo].[FIRED] ([ENTRY_ID] nvarchar(140) NOT NULL, [SCHED_NAME] [NVARCHAR] (120) NOT NULL, [STATE] nvarchar(16) NOT NULL, [DATA] varbinary(max) NULL) ON [PRIMARY]
GO
ALTER TABLE [dbo].[LOCKS] WITH NOCHECK ADD
  CONSTRAINT [PK_LOCKS] PRIMARY KEY  CLUSTERED
  (
    [SCHED_NAME],
    [LOCK_NAME]
  )
GO
ALTER TABLE [dbo].[FIRED] ADD CONSTRAINT [DF_STATE] DEFAULT (N'WAITING') FOR [STATE], CONSTRAINT [CK_STATE] CHECK ([STATE] <> N'')
GO
IF NOT EXISTS (SELECT * FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.FIRED') AND name = 'REQUESTS')
ALTER TABLE dbo.FIRED ADD REQUESTS bit NULL
GO
IF COL_LENGTH('dbo.FIRED', 'REQUESTS') IS NOT NULL AND COLUMNPROPERTY(OBJECT_ID('dbo.FIRED'), 'REQUESTS', 'AllowsNull') = 1
BEGIN
    UPDATE dbo.FIRED SET REQUESTS = 0 WHERE REQUESTS IS NULL
    ALTER TABLE dbo.FIRED ALTER COLUMN REQUESTS bit NOT NULL
END
GO
IF EXISTS (SELECT 1 FROM sys.default_constraints WHERE name = 'DF_STATE' AND parent_object_id = OBJECT_ID('dbo.FIRED'))
ALTER TABLE dbo.FIRED DROP CONSTRAINT DF_STATE
GO
INSERT dbo.LOCKS VALUES (N'S', N'TRIGGER_ACCESS')
GO
EXEC sp_rename 'dbo.FIRED.DATA', 'PHASE', 'COLUMN'
GO
EXEC sp_rename N'dbo.FIRED', N'FIRED_TRIGGERS'
GO
EXEC sys.sp_executesql N'SELECT PHASE FROM dbo.FIRED_TRIGGERS'",
    );
    assert_eq!(
        rows(&mut s, "SELECT LOCK_NAME FROM LOCKS WITH (UPDLOCK,ROWLOCK) WHERE SCHED_NAME = N'S' AND LOCK_NAME = N'TRIGGER_ACCESS'").len(),
        1
    );
}
