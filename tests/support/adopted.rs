//! A database of a test's own with somebody else's table, and its adoption.

use std::collections::HashMap;
use std::path::Path;

use readpast_adopt::{Adoption, Mapping};

use crate::support::{Fixture, Session};

/// The tables and procedures of the queue articles, as their authors wrote them: shapes, names and ways of writing
/// T-SQL are theirs. Each is an article's own.
pub const SIMPLE_QUEUE: &str = "
CREATE TABLE SimpleQueue
(
    Id UNIQUEIDENTIFIER NOT NULL PRIMARY KEY,
    CreatedAt DATETIME2 NOT NULL,
    ProcessingStartedAt DATETIME2,
    Errors NVARCHAR(MAX),
    Payload NVARCHAR(MAX)
);
CREATE INDEX IX_SIMPLEQUEUE_POP on SimpleQueue (ProcessingStartedAt, CreatedAt ASC)
INCLUDE (Id)
WHERE ProcessingStartedAt IS NULL;
";

/// Without the indexes that it needs.
pub const STATUS_QUEUE: &str = "
CREATE TABLE [Queue]
(
    [Id] INT IDENTITY(1,1) NOT NULL,
    [Status] TINYINT NOT NULL, /* 1 - READY, 2 - IN PROGRESS */
    [Message] VARBINARY(MAX)
)
GO
CREATE PROCEDURE EnqueueMessage
    @message VARBINARY(MAX)
AS
BEGIN
    INSERT INTO [Queue] ([Status], [Message])
    VALUES (1, @message)
END
GO
CREATE PROCEDURE DequeueMessage
AS
BEGIN
    ;WITH NextMessage AS
    (
        SELECT TOP 1 *
        FROM [Queue] WITH (ROWLOCK READPAST)
        WHERE [Status] = 1
        ORDER BY Id
    )
    UPDATE NextMessage
    SET [Status] = 2
    OUTPUT
        inserted.[Id],
        inserted.[Message]
END
GO
CREATE PROCEDURE CompleteMessage
    @id INT
AS
BEGIN
    DELETE FROM [Queue] WHERE [Status] = 2 AND [Id] = @id
END
";

/// What the one above has to be given.
pub const STATUS_QUEUE_INDEXES: &str = "
CREATE UNIQUE INDEX readpast_key ON dbo.[Queue] (Id);
CREATE INDEX readpast_ready ON dbo.[Queue] (Status, Id);
";

pub const TABLES_AS_QUEUES: &str = "
create table HeapQueue (
  Payload varbinary(max));
go
create procedure usp_enqueueHeap
  @payload varbinary(max)
as
  set nocount on;
  insert into HeapQueue (Payload) values (@Payload);
go
create procedure usp_dequeueHeap
as
  set nocount on;
  delete top(1) from HeapQueue with (rowlock, readpast)
      output deleted.payload;
go
create table FifoQueue (
  Id bigint not null identity(1,1),
  Payload varbinary(max));
go
create clustered index cdxFifoQueue on FifoQueue (Id);
go
create procedure usp_enqueueFifo
  @payload varbinary(max)
as
  set nocount on;
  insert into FifoQueue (Payload) values (@Payload);
go
create procedure usp_dequeueFifo
as
  set nocount on;
  with cte as (
    select top(1) Payload
      from FifoQueue with (rowlock, readpast)
    order by Id)
  delete from cte
    output deleted.Payload;
go
create table PendingQueue (
  DueTime datetime not null,
  Payload varbinary(max));
go
create clustered index cdxPendingQueue on PendingQueue (DueTime);
go
create procedure usp_enqueuePending
  @dueTime datetime,
  @payload varbinary(max)
as
  set nocount on;
  insert into PendingQueue (DueTime, Payload) values (@dueTime, @payload);
go
create procedure usp_dequeuePending
as
  set nocount on;
  declare @now datetime;
  set @now = getutcdate();
  with cte as (
    select top(1) Payload
    from PendingQueue with (rowlock, readpast)
    where DueTime < @now
    order by DueTime)
  delete from cte
    output deleted.Payload;
";

/// But for the hint FASTFIRSTROW, which SQL Server has no more since 2012 ("Discontinued Database Engine
/// functionality"), and with a cursor that is DYNAMIC and has no TOP 1: it fetches one row in any case, and the dev
/// server has no KEYSET cursor over such a table.
pub const REQUESTS_QUEUE: &str = "
CREATE TABLE [dbo].[RequestsQueue](
[id] [uniqueidentifier] NOT NULL CONSTRAINT [DF_RequestsQueue_id] DEFAULT (newid()),
[request] [varchar](512) NOT NULL,
[InsertedDate] [datetime] NOT NULL CONSTRAINT [DF_RequestsQueue_InsertedDate] DEFAULT (getdate()),
CONSTRAINT [PK_RequestsQueue] PRIMARY KEY NONCLUSTERED
(
[id] ASC
)WITH (PAD_INDEX = OFF, IGNORE_DUP_KEY = OFF) ON [PRIMARY]
) ON [PRIMARY]
GO
CREATE TABLE [dbo].[RequestsCompleted](
[id] [uniqueidentifier] NOT NULL CONSTRAINT [DF_RequestsCompleted_id] DEFAULT (newid()),
[request] [varchar](512) NOT NULL,
[InsertedDate] [datetime] NOT NULL CONSTRAINT [DF_RequestsCompleted_InsertedDate] DEFAULT (getdate()),
[RemovedDate] [datetime] NOT NULL CONSTRAINT [DF_RequestsCompleted_RemovedDate] DEFAULT (getdate()),
[CompletedDate] [datetime] NULL
) ON [PRIMARY]
GO
CREATE PROCEDURE [dbo].[usp_Request_Pop]
AS
BEGIN
declare
@request varchar(512),
@id uniqueidentifier,
@InsertedDate datetime
SET NOCOUNT ON;
set @id=null
begin transaction
DECLARE Stack_Cursor CURSOR DYNAMIC FOR
SELECT id, request, InsertedDate
FROM RequestsQueue with (ROWLOCK, XLOCK)
OPEN Stack_Cursor;
FETCH NEXT FROM Stack_Cursor INTO @id, @request, @InsertedDate
IF @@FETCH_STATUS = 0
BEGIN
delete RequestsQueue where current of Stack_Cursor
END;
CLOSE Stack_Cursor;
DEALLOCATE Stack_Cursor;
commit transaction
if not @id is null
begin
insert into RequestsCompleted (id, request, insertedDate)
values (@id, @request, @InsertedDate)
select @id as id, @request as request, @InsertedDate as InsertedDate
end
END
GO
CREATE PROCEDURE [dbo].[usp_Request_Push]
@request varchar(512)
AS
BEGIN
SET NOCOUNT ON;
insert into RequestsQueue(request) values (@request)
END
";

pub const FOUR_QUEUE: &str = "
CREATE TABLE
dbo.four_queue
(
id bigint IDENTITY NOT NULL,
in_process bit NOT NULL
DEFAULT 0,
reputation int NOT NULL,
scheduled_start_date datetime NULL
DEFAULT GETDATE(),
start_date datetime NULL
DEFAULT GETDATE(),
end_date datetime NULL
DEFAULT GETDATE() + 0.00001,
duration_milliseconds AS (DATEDIFF(MILLISECOND, start_date, end_date)),
app_server sysname NULL,
attempts tinyint NOT NULL
DEFAULT 0,
CONSTRAINT big_idea
PRIMARY KEY CLUSTERED (in_process, id),
INDEX fq_uq_r UNIQUE NONCLUSTERED (reputation)
WITH (IGNORE_DUP_KEY = ON)
);
-- Not the article's, see examples/adopt/four-queue.toml.
CREATE INDEX readpast_ready ON dbo.four_queue (in_process, scheduled_start_date, id);
";

pub const OUTBOX: &str = "
CREATE TABLE Outbox
(
    id bigint IDENTITY NOT NULL PRIMARY KEY,
    type nvarchar(64) NOT NULL,
    payload nvarchar(max) NOT NULL,
    created_at datetime2 NOT NULL DEFAULT SYSUTCDATETIME(),
    processed_at datetime2 NULL
);
CREATE INDEX outbox_unprocessed ON Outbox (id) WHERE processed_at IS NULL;
";

/// A mapping of `examples/adopt/`.
pub fn example(name: &str) -> Mapping {
    Mapping::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/adopt").join(name)).expect("an example is right")
}

/// A database with tables, of which one is adopted by a mapping of `examples/adopt/`.
pub async fn adopted(test_name: &str, tables: &str, mapping: &str) -> (Fixture, Adoption) {
    adopted_with(test_name, tables, &example(mapping)).await
}

/// The same with any mapping.
pub async fn adopted_with(test_name: &str, tables: &str, mapping: &Mapping) -> (Fixture, Adoption) {
    let mut fixture = Fixture::in_own_database(test_name).await;
    fixture.session().await.script(tables).await.expect("the tables are made");
    fixture.config.queue.name = mapping.queue().to_string();
    fixture.queue = fixture.connect().await;
    let adoption = readpast_adopt::adopt(&fixture.queue, mapping).await.unwrap_or_else(|error| panic!("{error}"));
    (fixture, adoption)
}

/// The settings with which a worker process finds the fixture's own database.
pub fn own_database(fixture: &Fixture) -> String {
    format!("{};Database={}", fixture.url(), fixture.database().expect("a database of its own"))
}

/// Everything that the catalog says about the tables of dbo, for comparisons.
pub async fn catalog(session: &mut Session) -> Vec<String> {
    let columns =
        "SELECT CONCAT(o.name, ' ', c.name, ' ', c.system_type_id, ' ', c.max_length, ' ', c.precision, ' ', \
                   c.scale, ' ',
                          c.is_nullable, ' ', c.is_identity, ' ', c.is_computed, ' ', c.default_object_id, ' ',
                          c.collation_name) AS line
                   FROM sys.objects AS o INNER JOIN sys.columns AS c ON c.object_id = o.object_id
                   WHERE o.schema_id = SCHEMA_ID('dbo') AND o.type = 'U'
                   UNION ALL
                   SELECT CONCAT(o.name, ' ', i.name, ' ', i.type_desc, ' ', i.is_unique, ' ', i.filter_definition, '
                   ', i.allow_page_locks)
                   FROM sys.objects AS o INNER JOIN sys.indexes AS i ON i.object_id = o.object_id
                   WHERE o.schema_id = SCHEMA_ID('dbo') AND o.type = 'U'
                   UNION ALL
                   SELECT CONCAT(SCHEMA_NAME(o.schema_id), ' ', o.name, ' ', o.type) FROM sys.objects AS o
                   UNION ALL
                   SELECT CONCAT('schema ', s.name) FROM sys.schemas AS s
                   UNION ALL
                   SELECT CONCAT('principal ', p.name) FROM sys.database_principals AS p";
    let mut lines: Vec<String> =
        session.sql(columns).await.iter().map(|row| crate::support::text(row, "line").unwrap_or_default()).collect();
    lines.sort();
    lines
}

/// How often each payload was handled.
pub type Handled = HashMap<String, u32>;
