//! What a claim and an acknowledgement take of an adopted table, beside one of readpast's own.
//!
//!     cargo bench --bench adopted
//!
//! Batches of 500 through the same driver; the payloads have 200 bytes everywhere. Of several rounds the fastest counts:
//! what else the machine does only adds to the others.

#[allow(dead_code)] // of the modules that it shares with the bench of the whole, this one needs less
mod throughput {
    pub mod bench;
    pub mod client;
    pub mod distance;
    pub mod server;
    pub mod usage;
    pub mod work;
}

use std::time::{Duration, Instant};

use readpast::{Mapping, Queue};
use tokio::runtime::Runtime;

use throughput::bench::{Bench, PAYLOAD_BYTES, fill};
use throughput::client::Client;
use throughput::server;

const BATCH: usize = 500;
const BATCHES: usize = 20;
const ROUNDS: usize = 5;

struct Table {
    mapping: &'static str,
    /// Makes the table, as in the mapping's head.
    create: &'static str,
    /// Adds so many rows with so many bytes.
    fill: fn(usize, usize) -> String,
}

const TABLES: [Table; 5] = [
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
        create: "CREATE TABLE four_queue (id bigint IDENTITY NOT NULL, in_process bit NOT NULL DEFAULT 0, reputation int NOT NULL,
                     scheduled_start_date datetime NULL DEFAULT GETDATE(), start_date datetime NULL, end_date datetime NULL,
                     duration_milliseconds AS DATEDIFF(MILLISECOND, start_date, end_date), app_server sysname NULL,
                     attempts tinyint NOT NULL DEFAULT 0,
                     CONSTRAINT big_idea PRIMARY KEY CLUSTERED (in_process, id),
                     INDEX fq_uq_r UNIQUE NONCLUSTERED (reputation) WITH (IGNORE_DUP_KEY = ON));",
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
                     payload nvarchar(max) NOT NULL, created_at datetime2 NOT NULL DEFAULT SYSUTCDATETIME(), processed_at datetime2 NULL);
                 CREATE INDEX outbox_unprocessed ON Outbox (id) WHERE processed_at IS NULL;",
        fill: |rows, bytes| {
            format!(
                "INSERT Outbox (type, payload) SELECT N'ordered', REPLICATE(N'x', {bytes} / 2)
                 FROM GENERATE_SERIES(1, {rows})"
            )
        },
    },
];

fn main() {
    if server::played_server() {
        return;
    }
    Runtime::new().expect("a runtime").block_on(measure());
}

async fn measure() {
    let bench = Bench::start().await;
    let mut client = bench.client().await;
    println!("µs a job, in batches of {BATCH}; the fastest of {ROUNDS} rounds of {BATCHES} batches");
    println!("{:<20} {:>8} {:>8} {:>8} {:>8}", "table", "claim", "finish", "both", "of own");

    let queue = bench.new_queue("own").await;
    let worker_id = client.register_worker("own").await;
    let mut own = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        fill(&queue, (BATCH * BATCHES) as u64).await;
        own = faster(own, round(&mut client, "readpast_bench", "own", worker_id).await);
    }
    print("readpast's own", own, own);

    for table in TABLES {
        let path = format!("{}/examples/adopt/{}", env!("CARGO_MANIFEST_DIR"), table.mapping);
        let mapping = Mapping::load(path).expect("the example is right");
        let schema = mapping.schema().expect("it names a schema").to_string();
        client.sql(table.create).await;
        let mut config = bench.config(mapping.queue());
        config.connection.schema = schema.clone();
        let queue = Queue::connect(&config).await.expect("the library connects");
        queue.adopt(&mapping).await.expect("the table can be adopted");
        let worker_id = client.register_worker_in(&schema, mapping.queue()).await;
        let mut times = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            client.sql(&(table.fill)(BATCH * BATCHES, PAYLOAD_BYTES)).await;
            times = faster(times, round(&mut client, &schema, mapping.queue(), worker_id).await);
        }
        print(&mapping.table(), times, own);
        client
            .sql(&format!(
                "EXEC [{schema}].[unregister_worker] @queue = N'{}', @worker_id = '{worker_id}'",
                mapping.queue()
            ))
            .await;
        queue.remove_adoption().await.expect("nothing is held");
        client.sql(&format!("DROP TABLE {}", mapping.table())).await;
    }
    bench.uninstall().await;
}

/// How long the claims and the acknowledgements of a round took.
async fn round(client: &mut Client, schema: &str, queue: &str, worker_id: uuid::Uuid) -> (Duration, Duration) {
    let (mut claims, mut finishes) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..BATCHES {
        let begin = Instant::now();
        let jobs = client.claim_in(schema, queue, worker_id, BATCH as i32).await;
        let claimed = Instant::now();
        client.finish_in(schema, queue, worker_id, &jobs).await;
        assert_eq!(jobs.len(), BATCH);
        claims += claimed - begin;
        finishes += claimed.elapsed();
    }
    (claims, finishes)
}

fn faster(one: (Duration, Duration), other: (Duration, Duration)) -> (Duration, Duration) {
    if one.0.saturating_add(one.1) <= other.0.saturating_add(other.1) { one } else { other }
}

fn print(name: &str, times: (Duration, Duration), own: (Duration, Duration)) {
    let each = |time: Duration| time.as_secs_f64() * 1e6 / (BATCH * BATCHES) as f64;
    let (both, of_own) = (each(times.0 + times.1), each(own.0 + own.1));
    println!("{name:<20} {:>8.2} {:>8.2} {both:>8.2} {:>8.2}", each(times.0), each(times.1), both / of_own);
}
