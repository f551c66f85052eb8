//! The tables that are adopted: those of the examples.

use readpast_adopt::Mapping;

pub struct Table {
    /// The file in `examples/adopt`.
    pub mapping: &'static str,
    /// Makes the table, as in the mapping's head.
    pub create: &'static str,
    /// Adds so many rows with so many bytes.
    pub fill: fn(usize, usize) -> String,
}

impl Table {
    pub fn mapping(&self) -> Mapping {
        let path = format!("{}/../examples/adopt/{}", env!("CARGO_MANIFEST_DIR"), self.mapping);
        Mapping::load(path).expect("the example is right")
    }
}

pub const TABLES: [Table; 5] = [
    Table {
        mapping: "simple-queue.toml",
        create: "CREATE TABLE SimpleQueue (Id uniqueidentifier NOT NULL PRIMARY KEY, CreatedAt datetime2 NOT NULL,
                     ProcessingStartedAt datetime2, Errors nvarchar(max), Payload nvarchar(max));
                 CREATE INDEX IX_SIMPLEQUEUE_POP ON SimpleQueue (ProcessingStartedAt, CreatedAt) INCLUDE (Id)
                     WHERE ProcessingStartedAt IS NULL;",
        fill: |rows, bytes| {
            format!(
                "INSERT SimpleQueue (Id, CreatedAt, Payload)
                 SELECT NEWID(), DATEADD(MILLISECOND, value, SYSUTCDATETIME()), REPLICATE(N'x', {bytes} / 2)
                 FROM GENERATE_SERIES(1, {rows})"
            )
        },
    },
    Table {
        mapping: "status-queue.toml",
        create: "CREATE TABLE [Queue] (Id int IDENTITY NOT NULL, Status tinyint NOT NULL, Message varbinary(max));
                 CREATE UNIQUE INDEX readpast_key ON dbo.[Queue] (Id);
                 CREATE INDEX readpast_ready ON dbo.[Queue] (Status, Id);",
        fill: |rows, bytes| {
            format!(
                "INSERT [Queue] (Status, Message) SELECT 1, CAST(REPLICATE('x', {bytes}) AS varbinary(max))
                 FROM GENERATE_SERIES(1, {rows})"
            )
        },
    },
    Table {
        mapping: "fifo-queue.toml",
        create: "CREATE TABLE FifoQueue (Id bigint NOT NULL IDENTITY(1, 1), Payload varbinary(max));
                 CREATE CLUSTERED INDEX cdxFifoQueue ON FifoQueue (Id);",
        fill: |rows, bytes| {
            format!(
                "INSERT FifoQueue (Payload) SELECT CAST(REPLICATE('x', {bytes}) AS varbinary(max))
                 FROM GENERATE_SERIES(1, {rows})"
            )
        },
    },
    Table {
        mapping: "four-queue.toml",
        create: "CREATE TABLE four_queue (id bigint IDENTITY NOT NULL, in_process bit NOT NULL DEFAULT 0, reputation \
                 int NOT NULL,
                     scheduled_start_date datetime NULL DEFAULT GETDATE(), start_date datetime NULL, end_date datetime
                     NULL,
                     duration_milliseconds AS DATEDIFF(MILLISECOND, start_date, end_date), app_server sysname NULL,
                     attempts tinyint NOT NULL DEFAULT 0,
                     CONSTRAINT big_idea PRIMARY KEY CLUSTERED (in_process, id),
                     INDEX fq_uq_r UNIQUE NONCLUSTERED (reputation) WITH (IGNORE_DUP_KEY = ON));
                 CREATE INDEX readpast_ready ON four_queue (in_process, scheduled_start_date, id);",
        fill: |rows, _| {
            format!(
                "DECLARE @last int = (SELECT ISNULL(MAX(reputation), 0) FROM four_queue);
                 INSERT four_queue (reputation) SELECT @last + value FROM GENERATE_SERIES(1, {rows})"
            )
        },
    },
    Table {
        mapping: "outbox.toml",
        create: "CREATE TABLE Outbox (id bigint IDENTITY NOT NULL PRIMARY KEY, type nvarchar(64) NOT NULL,
                     payload nvarchar(max) NOT NULL, created_at datetime2 NOT NULL DEFAULT SYSUTCDATETIME(),
                     processed_at datetime2 NULL);
                 CREATE INDEX outbox_unprocessed ON Outbox (id) WHERE processed_at IS NULL;",
        fill: |rows, bytes| {
            format!(
                "INSERT Outbox (type, payload) SELECT N'ordered', REPLICATE(N'x', {bytes} / 2)
                 FROM GENERATE_SERIES(1, {rows})"
            )
        },
    },
];
