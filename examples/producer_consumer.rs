//! A producer and two worker processes against one server.
//!
//!     cargo run --release --example producer_consumer
//!
//! The process you start is the producer. It starts itself twice more as workers, enqueues orders for five seconds'
//! worth of work, waits until the queue is empty, asks the workers to stop, and shows who did what. Without
//! READPAST_URL it also runs the dev server.

use std::process::Stdio;
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{BoxError, Config, Handlers, Json, NewJob, Queue, Worker};
use readpast_devserver::DevServer;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

const ORDERS: u32 = 2_000;

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    work: Duration,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut config = Config::load(None)?;
    config.queue.name = "orders".into();
    match std::env::args().nth(1) {
        Some(name) => work(config, name).await,
        None => produce(config).await,
    }
}

/// The producer, and the parent of the workers.
async fn produce(mut config: Config) -> Result<(), BoxError> {
    let server = DevServer::start().await?;
    let url = std::env::var("READPAST_URL").unwrap_or_else(|_| server.connection_string());
    config.connection.url = url.as_str().into();
    let queue = Queue::connect(&config).await?;
    queue.admin().install().await?;
    queue.admin().create(QueueOptions::default().completion(CompletionPolicy::Archive)).await?;
    let archived_before = queue.admin().stats(None).await?.archived;

    let mut workers = [start_worker(&url, "worker-a")?, start_worker(&url, "worker-b")?];
    for batch in 0..ORDERS / 100 {
        let order = |number| Order { number, work: Duration::from_millis(u64::from(number % 10)) };
        let jobs = (batch * 100..(batch + 1) * 100).map(|number| NewJob::json(&order(number)));
        queue.enqueue_many(&jobs.collect::<Result<Vec<_>, _>>()?).await?;
    }
    println!("producer: {ORDERS} orders enqueued");

    loop {
        let stats = queue.admin().stats(None).await?;
        println!("producer: {} ready, {} claimed by {} workers", stats.ready, stats.claimed, stats.workers);
        if stats.ready + stats.scheduled + stats.claimed == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for worker in &mut workers {
        drop(worker.stdin.take()); // the end of its input asks a worker to stop
        worker.wait().await?;
    }
    let worked_off = queue.admin().stats(None).await?.archived - archived_before;
    println!("producer: {worked_off} of {ORDERS} orders are in the archive");
    if worked_off == u64::from(ORDERS) { Ok(()) } else { Err("orders are missing".into()) }
}

fn start_worker(url: &str, name: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(name)
        .env("READPAST_URL", url)
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// A worker process: runs until its standard input ends, or a signal comes.
async fn work(config: Config, name: String) -> Result<(), BoxError> {
    let queue = Queue::connect(&config).await?;
    let handlers = Handlers::any(|job, _context| {
        let order: Order = job.json()?;
        let until = Instant::now() + order.work;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        Ok(Json(order.number))
    });
    let worker = Worker::builder(&queue, handlers).name(&name).start().await?;
    let stop = worker.stop_handle();
    stop.stop_on_signals()?;
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
        stop.stop();
    });
    let summary = worker.run().await?;
    println!("{name}: {} orders done", summary.stats.done);
    Ok(())
}
