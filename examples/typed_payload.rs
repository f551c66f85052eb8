//! The lines of docs/start.md: a typed job that uses every core, and the answer.
//!
//!     cargo run --example typed_payload

use std::sync::atomic::{AtomicUsize, Ordering};

use readpast::admin::QueueOptions;
use readpast::{BoxError, Config, Context, Handlers, JobError, NewJob, Queue, TypedJob, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct CountPrimes {
    from: u64,
    to: u64,
}

static FOUND: AtomicUsize = AtomicUsize::new(0);

impl TypedJob for CountPrimes {
    const KIND: &'static str = "count-primes";
    type Output = ();

    fn run(self, _context: &Context) -> Result<(), BoxError> {
        if self.from > self.to {
            return Err(JobError::dead("the range is upside down").into());
        }
        let is_prime = |n: &u64| *n > 1 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
        FOUND.fetch_add((self.from..self.to).filter(is_prime).count(), Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = readpast_devserver::DevServer::start().await?;
    let mut config = Config::load(None)?;
    config.connection.url = std::env::var("READPAST_URL").unwrap_or_else(|_| server.connection_string()).into();
    config.queue.name = "primes".into();
    let queue = Queue::connect(&config).await?;
    queue.admin().install().await?;
    queue.admin().create(QueueOptions::default()).await?;

    let ranges = (0..100).map(|i| CountPrimes { from: i * 10_000, to: (i + 1) * 10_000 });
    let jobs: Vec<NewJob> = ranges.map(|range| NewJob::of(&range)).collect::<Result<_, _>>()?;
    queue.enqueue_many(&jobs).await?;

    let handlers = Handlers::new().job::<CountPrimes>();
    let worker = Worker::builder(&queue, handlers).start().await?;
    let summary = worker.drain().await?;
    println!("{} jobs found {} primes below a million", summary.stats.done, FOUND.load(Ordering::Relaxed));
    Ok(())
}

/// The job without a server: what a worker would acknowledge.
#[cfg(test)]
mod tests {
    use readpast::{Job, Outcome};

    use super::*;

    fn run(job: NewJob) -> Outcome {
        Handlers::new().job::<CountPrimes>().run_for_test(Context::for_test(Job::for_test(job)))
    }

    #[test]
    fn a_range_is_counted() {
        let before = FOUND.load(Ordering::Relaxed);
        assert_eq!(
            run(NewJob::of(&CountPrimes { from: 10, to: 20 }).unwrap()),
            Outcome::Done { output: None, follow_ups: vec![] }
        );
        assert_eq!(FOUND.load(Ordering::Relaxed) - before, 4); // 11, 13, 17, 19
    }

    #[test]
    fn a_range_that_is_upside_down_is_not_tried_again() {
        let outcome = run(NewJob::of(&CountPrimes { from: 20, to: 10 }).unwrap());
        assert_eq!(outcome, Outcome::Dead { error: "the range is upside down".to_owned() });
    }
}
