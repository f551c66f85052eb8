//! The idioms of well-known articles about queues in tables, as scripts that sqlcmd would run. The scripts are our own;
//! only the ways of writing T-SQL are theirs.

use crate::session::tests::harness::check;

#[test]
fn using_tables_as_queues() {
    check(
        r#"== using tables as queues
         -- "Using tables as queues": a heap, a FIFO queue, a pending queue with due times, a stack.
         create table HeapQueue (Payload varbinary(max)); => ok
         create procedure usp_enqueueHeap @payload varbinary(max) as
             set nocount on;
             insert into HeapQueue (Payload) values (@Payload); => ok
         create procedure usp_dequeueHeap as
             set nocount on;
             delete top(1) from HeapQueue with (rowlock, readpast) output deleted.payload; => ok
         create table FifoQueue (Id bigint not null identity(1,1), Payload varbinary(max));
             create clustered index cdxFifoQueue on FifoQueue (Id); => ok
         create procedure usp_enqueueFifo @payload varbinary(max) as
             insert into FifoQueue (Payload) values (@Payload); => ok
         create procedure usp_dequeueFifo @count int = 1 as
             with cte as (select top(@count) Payload from FifoQueue with (rowlock, readpast) order by Id)
               delete from cte output deleted.Payload; => ok
         create table PendingQueue (DueTime datetime not null, Payload varbinary(max));
             create clustered index cdxPendingQueue on PendingQueue (DueTime); => ok
         create procedure usp_enqueuePending @dueTime datetime, @payload varbinary(max) as
             insert into PendingQueue (DueTime, Payload) values (@dueTime, @payload); => ok
         create procedure usp_dequeuePending as
             declare @now datetime; set @now = getutcdate();
             with cte as (
               select top(1) Payload from PendingQueue with (rowlock, readpast) where DueTime < @now order by DueTime)
               delete from cte output deleted.Payload; => ok
         create table LifoStack (Id bigint not null identity(1,1), Payload varbinary(max));
             create unique clustered index cdxLifoStack on LifoStack(Id desc); => ok
         create procedure usp_popLifo as
             with cte as (select top(1) Payload from LifoStack with (rowlock, readpast) order by Id desc)
               delete from cte output deleted.Payload; => ok
         exec usp_enqueueHeap 0x01; exec usp_enqueueHeap @payload = 0x02 => ok
         exec usp_dequeueHeap; exec usp_dequeueHeap; exec usp_dequeueHeap => Bytes([1]) | Bytes([2])
         exec usp_enqueueFifo 0x01; exec usp_enqueueFifo 0x02; exec usp_enqueueFifo 0x03 => ok
         exec usp_dequeueFifo => Bytes([1])
         exec usp_dequeueFifo @count = 10 => Bytes([2]) | Bytes([3])
         declare @due datetime = dateadd(second, -10, getutcdate()); exec usp_enqueuePending @due, 0x01;
             set @due = dateadd(second, -20, getutcdate()); exec usp_enqueuePending @due, 0x02;
             set @due = dateadd(day, 1, getutcdate()); exec usp_enqueuePending @due, 0x03 => ok
         exec usp_dequeuePending; exec usp_dequeuePending; exec usp_dequeuePending => Bytes([2]) | Bytes([1])
         insert LifoStack (Payload) values (0x01), (0x02) => ok
         exec usp_popLifo => Bytes([2])
         == two consumers of a fifo queue do not meet
         create table q (Id bigint not null identity(1,1), Payload varchar(10)); create clustered index c on q (Id);
             insert q values ('a'), ('b'), ('c') => ok
         2: set lock_timeout 0 => ok
         begin tran => ok
         with cte as (select top(1) Payload from q with (rowlock, readpast) order by Id) delete from cte output
             deleted.Payload => 'a'
         2: with cte as (select top(1) Payload from q with (rowlock, readpast) order by Id) delete from cte output
             deleted.Payload => 'b'
         rollback => ok
         2: with cte as (select top(1) Payload from q with (rowlock, readpast) order by Id) delete from cte output
             deleted.Payload => 'a'"#,
    );
}

/// A status column, UPDLOCK with READPAST, and a second pass for what was never finished.
#[test]
fn a_queue_with_a_status_column() {
    check(
        "SET ANSI_NULLS ON => ok
         SET QUOTED_IDENTIFIER ON ;; SET ANSI_PADDING ON => ok
         IF  EXISTS (SELECT * FROM sys.objects WHERE object_id = OBJECT_ID(N'[dbo].[Queue]') AND type in (N'U'))
             DROP TABLE [dbo].[Queue] => ok
         IF OBJECT_ID('dbo.Queue', 'U') IS NULL CREATE TABLE [dbo].[Queue](
                 [QueueID] [int] IDENTITY(1,1) NOT NULL,
                 [QueueDateTime] [datetime] NOT NULL CONSTRAINT [DF_Queue_QueueDateTime] DEFAULT (getdate()),
                 [Title] [nvarchar](255) NOT NULL,
                 [Status] [int] NOT NULL CONSTRAINT [DF_Queue_Status]  DEFAULT ((0)),
                 [TextData] [nvarchar](max) NULL,
              CONSTRAINT [PK_Queue] PRIMARY KEY CLUSTERED ([QueueID] ASC) WITH (PAD_INDEX  = OFF,
             STATISTICS_NORECOMPUTE  = OFF, IGNORE_DUP_KEY = OFF,
             ALLOW_ROW_LOCKS  = ON, ALLOW_PAGE_LOCKS  = ON) ON [PRIMARY] ) ON [PRIMARY] TEXTIMAGE_ON [PRIMARY] => ok
         SET ANSI_PADDING OFF => ok
         CREATE NONCLUSTERED INDEX IX_Queue_Status ON dbo.[Queue] (Status) INCLUDE (QueueID)
             WITH FILLFACTOR = 80 ON [PRIMARY] => ok
         CREATE PROC dbo.usp_GetNext (@batch int = 1) WITH RECOMPILE AS
             BEGIN
                 SET NOCOUNT ON
                 SET XACT_ABORT ON
                 DECLARE @NextId INTEGER
                 BEGIN TRANSACTION
                 -- Find next available item available
                 SELECT TOP 1 @NextId = QueueID FROM dbo.[Queue] WITH (UPDLOCK, READPAST)
                 WHERE Status = 0 ORDER BY QueueID ASC
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
             END => ok
         DECLARE @i int = 0
             WHILE @i < 5
             BEGIN
                 INSERT dbo.[Queue] (Title, TextData) SELECT 'Item ' + CAST(@i AS varchar(10)), REPLICATE('x', @i)
                 SET @i = @i + 1
             END => ok
         EXEC dbo.usp_GetNext => 1, 'Item 0'
         DECLARE @id int, @title nvarchar(255);
             UPDATE TOP (1) dbo.[Queue] WITH (ROWLOCK, READPAST) SET Status = 1, @id = QueueID, @title = Title
             WHERE Status = 0
             IF @@ROWCOUNT = 0 PRINT 'Nothing to do' ELSE SELECT @id, @title => 2, 'Item 1'
         UPDATE q SET Status = 2 OUTPUT inserted.QueueID, deleted.Status
             FROM dbo.[Queue] q WITH (ROWLOCK, READPAST) INNER JOIN (SELECT TOP 2 QueueID FROM dbo.[Queue]
             WITH (UPDLOCK, READPAST) WHERE Status = 0 ORDER BY QueueID) n ON n.QueueID = q.QueueID => 3, 0 | 4, 0",
    );
}

#[test]
fn a_worker_and_upserts() {
    check(
        "== a worker in t sql
         -- A worker loop with retries on 1205, WAITFOR and an application lock.
         create table dbo.Work (Id int not null identity primary key, Attempts tinyint not null default 0, Done bit not
             null default 0) => ok
         create table dbo.Errors (Id int identity, Number int, Severity int, State int, Proc_ sysname null, Line int,
             Message nvarchar(4000), At datetime2(3) default sysdatetime()) => ok
         create procedure dbo.DoWork @max int = 100 as
             begin
               set nocount on
               declare @rc int, @id int, @retry int = 5, @msg nvarchar(200), @sql nvarchar(max), @count int
               exec @rc = sp_getapplock @Resource = 'Work', @LockMode = 'Exclusive', @LockOwner = 'Session',
               @LockTimeout = 0
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
                     values (error_number(), error_severity(), error_state(), error_procedure(), error_line(),
                     error_message())
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
             end => ok
         insert dbo.Work default values ;; insert dbo.Work default values ;; insert dbo.Work default values => ok
         declare @n int; exec @n = dbo.DoWork; select @n, (select max(Attempts) from Work) => 3, TinyInt(2)
         == upserts
         -- Upserts: UPDATE then INSERT under UPDLOCK and SERIALIZABLE, MERGE with HOLDLOCK, INSERT and catch 2627.
         CREATE TABLE dbo.AccountDetails (Email nvarchar(400) NOT NULL
             CONSTRAINT PK_AccountDetails PRIMARY KEY, Etc nvarchar(max) NULL, Hits int NOT NULL DEFAULT (0)) => ok
         CREATE OR ALTER PROCEDURE dbo.s_Update_then_insert (@Email nvarchar(400), @Etc nvarchar(max)) AS
             SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
             BEGIN TRAN
               UPDATE dbo.AccountDetails WITH (UPDLOCK) SET Etc = @Etc, Hits += 1 WHERE Email = @Email
               IF (@@ROWCOUNT = 0)
               BEGIN
                 INSERT dbo.AccountDetails (Email, Etc) VALUES (@Email, @Etc)
               END
             COMMIT => ok
         CREATE OR ALTER PROCEDURE dbo.s_Exists (@Email nvarchar(400), @Etc nvarchar(max)) AS
             BEGIN TRAN
               IF EXISTS (SELECT * FROM dbo.AccountDetails WITH (UPDLOCK, HOLDLOCK) WHERE Email = @Email)
                 UPDATE dbo.AccountDetails SET Etc = @Etc, Hits += 1 WHERE Email = @Email;
               ELSE
                 INSERT dbo.AccountDetails (Email, Etc) VALUES (@Email, @Etc);
             COMMIT => ok
         CREATE OR ALTER PROCEDURE dbo.s_Merge (@Email nvarchar(400), @Etc nvarchar(max)) AS
             MERGE dbo.AccountDetails WITH (HOLDLOCK) AS myTarget
             USING (SELECT @Email Email, @Etc Etc) AS mySource ON mySource.Email = myTarget.Email
             WHEN MATCHED THEN UPDATE SET Etc = mySource.Etc, Hits = myTarget.Hits + 1
             WHEN NOT MATCHED THEN INSERT (Email, Etc) VALUES (mySource.Email, mySource.Etc); => ok
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
             END CATCH => ok
         EXEC dbo.s_Update_then_insert N'a@b', N'1'; EXEC dbo.s_Exists N'a@b', N'2'; EXEC dbo.s_Merge N'a@b', N'3';
             EXEC dbo.s_JFDI N'a@b', N'4' => ok
         SELECT Etc, Hits FROM dbo.AccountDetails => '4', 3",
    );
}
