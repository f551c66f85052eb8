//! What a claim and an acknowledgement take of an adopted table, beside one of readpast's own.
//!
//!     cargo bench --bench adopted
//!
//! Batches of 500 through the same driver; the payloads have 200 bytes everywhere. Measured is CPU time, of the client
//! and of the stand-in for SQL Server (of a real one only the client's can be seen, and wall time counts). Rounds of
//! both kinds of table alternate, and the cheapest of each counts: what else the machine does only adds to the others.

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
use uuid::Uuid;

use throughput::bench::{Bench, PAYLOAD_BYTES, fill};
use throughput::client::Client;
use throughput::server;
use throughput::usage;

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

fn main() {
    if server::played_server() {
        return;
    }
    Runtime::new().expect("a runtime").block_on(measure());
}

async fn measure() {
    let mut bench = Bench::start().await;
    let mut client = bench.client().await;
    println!("CPU µs a job, in batches of {BATCH}; the cheapest of {ROUNDS} rounds of {BATCHES} batches");
    println!(
        "{:<16} {:>8} {:>8} {:>8} {:>16} {:>8} {:>14}",
        "table", "claim", "finish", "both", "readpast's own", "times", "times, by wall"
    );

    let own_queue = bench.new_queue("own").await;
    let own_worker = client.register_worker("own").await;
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
        let (mut own, mut adopted) = (Cost::MAX, Cost::MAX);
        for _ in 0..ROUNDS {
            fill(&own_queue, (BATCH * BATCHES) as u64).await;
            own = own.least(round(&mut bench, &mut client, "readpast_bench", "own", own_worker).await);
            client.sql(&(table.fill)(BATCH * BATCHES, PAYLOAD_BYTES)).await;
            adopted = adopted.least(round(&mut bench, &mut client, &schema, mapping.queue(), worker_id).await);
        }
        println!(
            "{:<16} {:>8.2} {:>8.2} {:>8.2} {:>16.2} {:>8.2} {:>14.2}",
            mapping.table(),
            each(adopted.claims),
            each(adopted.finishes),
            each(adopted.both()),
            each(own.both()),
            adopted.both().as_secs_f64() / own.both().as_secs_f64(),
            adopted.wall.as_secs_f64() / own.wall.as_secs_f64()
        );
        let unregister = format!("EXEC [{schema}].[unregister_worker] @queue = N'{}'", mapping.queue());
        client.sql(&format!("{unregister}, @worker_id = '{worker_id}'")).await;
        queue.remove_adoption().await.expect("nothing is held");
        client.sql(&format!("DROP TABLE {}", mapping.table())).await;
    }
    bench.uninstall().await;
}

/// What the calls of a round took.
#[derive(Clone, Copy)]
struct Cost {
    claims: Duration,
    finishes: Duration,
    /// Both, by the clock on the wall; of another round perhaps.
    wall: Duration,
}

impl Cost {
    const MAX: Cost = Cost { claims: Duration::MAX, finishes: Duration::ZERO, wall: Duration::MAX };

    fn both(self) -> Duration {
        self.claims + self.finishes
    }

    fn least(self, other: Cost) -> Cost {
        let cheaper = if self.both() <= other.both() { self } else { other };
        Cost { wall: self.wall.min(other.wall), ..cheaper }
    }
}

fn each(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / (BATCH * BATCHES) as f64
}

async fn round(bench: &mut Bench, client: &mut Client, schema: &str, queue: &str, worker_id: Uuid) -> Cost {
    let began = Instant::now();
    let mut cost = Cost { claims: Duration::ZERO, finishes: Duration::ZERO, wall: Duration::ZERO };
    for _ in 0..BATCHES {
        let begin = now(bench, began);
        let jobs = client.claim_in(schema, queue, worker_id, BATCH as i32).await;
        let claimed = now(bench, began);
        client.finish_in(schema, queue, worker_id, &jobs).await;
        assert_eq!(jobs.len(), BATCH);
        cost.claims += claimed - begin;
        cost.finishes += now(bench, began) - claimed;
    }
    cost.wall = began.elapsed();
    cost
}

/// The CPU time so far or, where only a clock tells, the time since the round began.
fn now(bench: &mut Bench, began: Instant) -> Duration {
    if bench.server.is_dev_server() { usage::cpu() + bench.server.cpu() } else { began.elapsed() }
}
