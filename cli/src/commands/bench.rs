//! `readpast bench`: measures this server and this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use readpast::admin::QueueOptions;
use readpast::crates::uuid::Uuid;
use readpast::{BoxError, Config, Context, Error, Handlers, Job, NewJob, Queue, Worker};
use serde::Serialize;

use crate::connection::{Common, thread_count};
use crate::exit::{Exit, failure, say};
use crate::interrupt::StopSignals;
use crate::output::Output;
use crate::progress::Progress;
use crate::texts;

/// Measure this server with jobs that do nothing.
///
/// The jobs have their own queue, which is deleted afterwards. A job counts as enqueued when its call has returned, and
/// as processed when SQL Server has confirmed its finish. That rate runs from the first confirmation to the last.
/// Latency runs from the call of `enqueue` to the start of the handler, one job at a time, with an idle worker in this
/// process. The settings are those of the worker (--config, READPAST_WORKER_…). Compare only runs on the same machines,
/// and say whether client and server shared one.
///
/// Role: worker and operator.
#[derive(Debug, Args)]
pub struct Bench {
    /// Number of jobs, 1 to 10000000
    #[arg(long, default_value_t = 100_000, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: u64,
    /// Payload size, 0 to 65535
    #[arg(long, default_value_t = 200, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(0..=65_535))]
    payload: u64,
    /// Number of jobs whose latency is measured, 1 to 10000
    #[arg(long, default_value_t = 100, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    single: u64,
}

/// Jobs per enqueue call.
const CHUNK: u64 = 1_000;

/// How often the worker's counts are read.
const TICK: Duration = Duration::from_millis(2);

/// The longest time without a confirmed finish.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize)]
struct Figures {
    jobs: u64,
    payload_bytes: u64,
    threads: usize,
    enqueued_per_s: f64,
    worked_off_per_s: f64,
    latency_p50_ms: f64,
    latency_p99_ms: f64,
    latency_max_ms: f64,
}

impl Bench {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let mut config = common.config()?;
        let number = Uuid::new_v4().simple().to_string();
        config.queue.name = format!("readpast-bench-{}", &number[..8]);
        config.metrics.listen.clear();
        let queue = Queue::connect(&config).await?;
        // Signals are watched before there is anything to clean up.
        let mut stop = StopSignals::watch()?;
        let interrupted = || failure(Exit::Interrupted, "nothing was measured");
        tokio::select! {
            created = queue.admin().create(QueueOptions::default()) => { created?; }
            () = stop.next() => {
                remove(&queue, &mut stop).await?;
                return Err(interrupted());
            }
        }
        let measured = tokio::select! {
            figures = self.measure(&queue, &config) => figures,
            () = stop.next() => Err(interrupted()),
        };
        remove(&queue, &mut stop).await?;
        let figures = measured?;
        output.record(&figures, || fields(&figures))?;
        Ok(Exit::Ok)
    }

    async fn measure(&self, queue: &Queue, config: &Config) -> Result<Figures> {
        let enqueued_per_s = self.enqueue(queue).await?;
        let worked_off_per_s = self.work_off(queue).await?;
        let mut latencies = self.latencies(queue).await?;
        latencies.sort();
        let at = |share: f64| {
            let index = ((latencies.len() as f64 * share).ceil() as usize).clamp(1, latencies.len()) - 1;
            latencies[index].as_secs_f64() * 1_000.0
        };
        Ok(Figures {
            jobs: self.jobs,
            payload_bytes: self.payload,
            threads: thread_count(config),
            enqueued_per_s,
            worked_off_per_s,
            latency_p50_ms: at(0.5),
            latency_p99_ms: at(0.99),
            latency_max_ms: at(1.0),
        })
    }

    async fn enqueue(&self, queue: &Queue) -> Result<f64> {
        let progress = Progress::new("enqueued", Some(self.jobs));
        let begin = Instant::now();
        let mut left = self.jobs;
        while left > 0 {
            let count = left.min(CHUNK);
            let jobs: Vec<NewJob> = (0..count).map(|_| NewJob::bytes(vec![b'x'; self.payload as usize])).collect();
            queue.enqueue_many(&jobs).await?;
            left -= count;
            progress.advance(count);
        }
        progress.end();
        Ok(self.jobs as f64 / begin.elapsed().as_secs_f64())
    }

    async fn work_off(&self, queue: &Queue) -> Result<f64> {
        let progress = Progress::new("processed", Some(self.jobs));
        let worker = Worker::builder(queue, Handlers::any(nothing)).start().await?;
        let mut first: Option<(Instant, u64)> = None;
        let mut last = (Instant::now(), 0);
        let rate = loop {
            let done = worker.stats().done;
            if done > last.1 {
                last = (Instant::now(), done);
                first.get_or_insert(last);
                progress.set(done, self.jobs);
            }
            if let Some((began_at, begun)) = first
                && done >= self.jobs
            {
                // One finish call confirmed all jobs, so there is no interval.
                break (done - begun).max(1) as f64 / (last.0 - began_at).max(TICK).as_secs_f64();
            }
            if last.0.elapsed() > PATIENCE {
                progress.end();
                return Err(failure(Exit::Failed, format!("no job was confirmed as finished for {PATIENCE:?}")));
            }
            tokio::time::sleep(TICK).await;
        };
        progress.end();
        worker.shutdown().await?;
        Ok(rate)
    }

    async fn latencies(&self, queue: &Queue) -> Result<Vec<Duration>> {
        let begin = Instant::now();
        let started_at = Arc::new(AtomicU64::new(0));
        let noted = started_at.clone();
        let note = move |_: &Job, _: &Context| -> Result<(), BoxError> {
            noted.store(begin.elapsed().as_nanos() as u64, Ordering::Release);
            Ok(())
        };
        let worker = Worker::builder(queue, Handlers::any(note)).start().await?;
        let mut latencies = Vec::new();
        for _ in 0..self.single {
            started_at.store(0, Ordering::Release);
            let enqueued_at = begin.elapsed();
            queue.enqueue(&NewJob::bytes(vec![b'x'; self.payload as usize])).await?;
            let started = loop {
                match started_at.load(Ordering::Acquire) {
                    0 if begin.elapsed() - enqueued_at > PATIENCE => {
                        return Err(failure(Exit::Failed, format!("a job did not start within {PATIENCE:?}")));
                    }
                    0 => tokio::time::sleep(TICK).await,
                    nanoseconds => break Duration::from_nanos(nanoseconds),
                }
            };
            latencies.push(started.saturating_sub(enqueued_at));
        }
        worker.shutdown().await?;
        Ok(latencies)
    }
}

fn nothing(_: &Job, _: &Context) -> Result<(), BoxError> {
    Ok(())
}

/// Deletes the queue. If that fails, or a second signal arrives, prints how to delete it. After a signal, the dropped
/// worker may still have its lease, or the queue may not exist yet.
async fn remove(queue: &Queue, stop: &mut StopSignals) -> Result<()> {
    let name = queue.name();
    let later = format!("delete it later: readpast queue delete {name} --with-jobs");
    tokio::select! {
        deleted = queue.admin().delete(true) => match deleted {
            Ok(_) | Err(Error::UnknownQueue { .. }) => {}
            Err(error) => say(&format!("queue {name} was not deleted ({error}); {later}")),
        },
        () = stop.next() => {
            return Err(failure(Exit::Interrupted, format!("queue {name} may still exist; {later}")));
        }
    }
    Ok(())
}

fn fields(figures: &Figures) -> Vec<(&'static str, String)> {
    vec![
        ("jobs", format!("{} of {}", texts::number(figures.jobs), texts::counted(figures.payload_bytes, "byte"))),
        ("threads", figures.threads.to_string()),
        ("enqueued", format!("{}/s", texts::rate(figures.enqueued_per_s))),
        ("processed", format!("{}/s", texts::rate(figures.worked_off_per_s))),
        ("enqueue to start", format!("{:.1} ms (median)", figures.latency_p50_ms)),
        ("", format!("{:.1} ms (99 %)", figures.latency_p99_ms)),
        ("", format!("{:.1} ms (longest)", figures.latency_max_ms)),
    ]
}
