//! The twenty lines of the README: a typed payload, a handler that uses every core, and the answer.
//!
//!     cargo run --example typed_payload

use readpast::{Config, JobError, NewJob, Output, Queue, QueueOptions, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Range {
    from: u64,
    to: u64,
}

fn primes(range: &Range) -> Result<usize, JobError> {
    if range.from > range.to {
        return Err(JobError::dead("the range is upside down"));
    }
    let is_prime = |n: &u64| *n > 1 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    Ok((range.from..range.to).filter(is_prime).count())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = readpast_devserver::DevServer::start().await?; // or: set READPAST_URL and leave this out
    let mut config = Config::load(None)?;
    if config.connection.url.is_empty() {
        config.connection.url = server.connection_string().into();
    }
    config.queue.name = "primes".into();
    let queue = Queue::connect(&config).await?;
    queue.install().await?;
    queue.create(QueueOptions::default()).await?;

    let ranges = (0..100).map(|i| Range { from: i * 10_000, to: (i + 1) * 10_000 });
    let jobs: Vec<NewJob> = ranges.map(|range| NewJob::json(&range)).collect::<Result<_, _>>()?;
    queue.enqueue_many(jobs).await?;

    let (found, counts) = std::sync::mpsc::channel();
    let worker = Worker::start(&queue, &config.worker, move |job, _context| {
        let count = primes(&job.json()?)?;
        found.send(count)?;
        Ok(Output::none())
    })
    .await?;
    let summary = worker.drain().await?;
    println!("{} jobs found {} primes below a million", summary.stats.done, counts.try_iter().sum::<usize>());
    Ok(())
}
