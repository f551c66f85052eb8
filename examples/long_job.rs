//! A long job that is killed four times and goes on where it was.
//!
//!     cargo run --release --example long_job            # about a minute of work
//!     cargo run --release --example long_job -- 10      # about ten seconds of it
//!
//! The process you start enqueues one job, counting primes, and starts itself again as a worker, which it kills without
//! warning four times while the job runs. Each next worker finds the job's last checkpoint. Without READPAST_URL it
//! also runs the dev server.

use std::process::Command;
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{BoxError, Config, Context, Handlers, Json, NewJob, Queue, TypedJob, Worker};
use readpast_devserver::DevServer;
use serde::{Deserialize, Serialize};

/// Counts primes for so many seconds of computing.
#[derive(Serialize, Deserialize)]
struct CountPrimes {
    seconds: u64,
}

/// The checkpoint, and the result.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Counted {
    below: u64,
    primes: u64,
    computed: Duration,
}

impl TypedJob for CountPrimes {
    const KIND: &'static str = "count-primes";
    type Output = Json<Counted>;

    fn run(self, context: &Context) -> Result<Json<Counted>, BoxError> {
        let mut counted: Counted = match context.job().checkpoint() {
            Some(checkpoint) => serde_json::from_slice(checkpoint)?,
            None => Counted::default(),
        };
        println!("worker: attempt {} begins at {}", context.attempt(), counted.below);
        let length = Duration::from_secs(self.seconds);
        while counted.computed < length {
            let began = Instant::now();
            let is_prime = |n: &u64| *n > 1 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
            let numbers = counted.below..counted.below + 1_000;
            counted.primes += numbers.filter(is_prime).count() as u64;
            counted.below += 1_000;
            counted.computed += began.elapsed();
            context.checkpoint(serde_json::to_vec(&counted)?)?; // as often as one likes: it is written once a second
            context.progress(counted.computed.as_secs_f32() / length.as_secs_f32(), "counting");
        }
        Ok(Json(counted))
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut config = Config::load(None)?;
    config.queue.name = "long".into();
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("worker") {
        let queue = Queue::connect(&config).await?;
        // The next worker of this name does not wait until the lease has run out.
        Worker::builder(&queue, Handlers::new().job::<CountPrimes>()).take_over(true).start().await?.run().await?;
        return Ok(());
    }
    let seconds = argument.map_or(Ok(60), |seconds| seconds.parse())?;
    let server = DevServer::start().await?;
    let url = std::env::var("READPAST_URL").unwrap_or_else(|_| server.connection_string());
    config.connection.url = url.as_str().into();
    let queue = Queue::connect(&config).await?;
    queue.admin().install().await?;
    queue.admin().create(QueueOptions::default().completion(CompletionPolicy::Archive).max_attempts(10)).await?;
    let job_id = queue.enqueue(&NewJob::of(&CountPrimes { seconds })?).await?.job_id;

    let started = Instant::now();
    let start_worker = || Command::new(std::env::current_exe()?).arg("worker").env("READPAST_URL", &url).spawn();
    let mut worker = start_worker()?;
    let mut killed_at = 0.0;
    for kill in 1..=4 {
        // Spread over the job, and each worker has noted something.
        let reached = loop {
            let reached =
                queue.admin().progress_of(&[job_id]).await?.first().and_then(|job| job.fraction).unwrap_or_default();
            if reached > killed_at && reached >= kill as f32 / 5.0 {
                break reached;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        killed_at = reached;
        worker.kill()?;
        worker.wait()?;
        println!("kill {kill}, {:.0} s after the start", started.elapsed().as_secs_f64());
        worker = start_worker()?;
    }
    let job = loop {
        match queue.admin().job(job_id, None).await? {
            Some(job) if job.output.is_some() => break job,
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let took = started.elapsed().as_secs_f64();
    worker.kill()?;
    worker.wait()?;
    let counted: Counted = serde_json::from_slice(&job.output.unwrap_or_default())?;
    println!("{} primes below {}, after {} attempts", counted.primes, counted.below, job.attempt);
    println!("{took:.1} s for {seconds} s of computing: {:.2} times", took / seconds as f64);
    Ok(())
}
