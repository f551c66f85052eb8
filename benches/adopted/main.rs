//! What a claim and an acknowledgement take of an adopted table, beside one of readpast's own.
//!
//!     cargo bench --bench adopted                                     # times
//!     cargo bench --profile instructions --bench adopted -- --count   # the dev server's instructions; needs Valgrind
//!
//! Batches of 500 through the same driver; the payloads have 200 bytes everywhere. Measured is CPU time, of the client
//! and of the stand-in for SQL Server (of a real one only the client's can be seen, and wall time counts). Rounds of
//! both kinds of table alternate, and the cheapest of each counts: what else the machine does only adds to the others.

mod counts;
mod tables;

#[allow(dead_code)] // of the modules that it shares with the bench of the whole, this one needs less
#[path = "../throughput"]
mod throughput {
    pub mod bench;
    pub mod client;
    pub mod distance;
    pub mod server;
    pub mod usage;
    pub mod work;
}

use std::time::{Duration, Instant};

use readpast::Queue;
use tokio::runtime::Runtime;
use uuid::Uuid;

use tables::TABLES;
use throughput::bench::{Bench, PAYLOAD_BYTES, fill};
use throughput::client::Client;
use throughput::server;
use throughput::usage;

const BATCH: usize = 500;
const BATCHES: usize = 20;
const ROUNDS: usize = 5;

fn main() {
    if server::played_server() {
        return;
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Runtime::new().expect("a runtime").block_on(measure()),
        ["--count"] => counts::measure(),
        // What is counted is this program again, under Valgrind.
        [counts::ROLE, table, call] => counts::run(table, call),
        _ => {
            eprintln!("{}: must be --count or nothing", arguments.join(" "));
            std::process::exit(2);
        }
    }
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
        let mapping = table.mapping();
        let schema = mapping.schema().expect("it names a schema").to_string();
        client.sql(table.create).await;
        let mut config = bench.config(mapping.queue());
        config.connection.schema = schema.clone();
        let queue = Queue::connect(&config).await.expect("the library connects");
        readpast_adopt::adopt(&queue, &mapping).await.expect("the table can be adopted");
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
        readpast_adopt::remove(&queue).await.expect("nothing is held");
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
