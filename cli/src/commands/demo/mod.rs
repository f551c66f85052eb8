//! `readpast demo`: everything in one process, without setup.
//!
//! [`producer`] enqueues ─▶ the dev server ─▶ one worker per queue runs the [`handlers`]; `top` shows it

mod handlers;
mod producer;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use readpast::admin::QueueOptions;
use readpast::{Config, Queue, Worker, WorkerMonitor, WorkerStats};
use readpast_devserver::DevServer;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::commands::top;
use crate::commands::web::serve_page;
use crate::dev_server;
use crate::exit::Exit;
use crate::interrupt::StopSignals;
use crate::output::Output;
use crate::texts;

/// Try readpast without a server: dev server, producers and workers in one process.
///
/// On a terminal it shows `readpast top` until q is pressed. Otherwise it prints a line per second for ten seconds;
/// with --json only the summary. It reads no settings and leaves nothing behind.
#[derive(Debug, Args)]
pub struct Demo {
    /// Stop after this many seconds
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Serve the web UI on this port of 127.0.0.1 [default: 7380]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "7380")]
    web: Option<u16>,
}

/// How long the demo runs if there is no terminal.
const SECONDS: u32 = 10;

/// How often the screen and the lines are updated.
const INTERVAL: Duration = Duration::from_secs(1);

struct Lane {
    queue: Queue,
    worker: Worker,
}

/// Totals of all workers.
#[derive(Serialize)]
struct Summary {
    seconds: f64,
    done: u64,
    retried: u64,
    dead: u64,
    jobs_per_s: f64,
}

impl Demo {
    /// Serves the web UI until Ctrl-C, if asked for.
    async fn show_page(&self, queue: &Queue, output: Output) -> Result<bool> {
        let Some(port) = self.web else { return Ok(false) };
        let mut stop = StopSignals::watch()?;
        let seconds = self.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let end = async move {
            tokio::select! {
                () = stop.next() => {}
                () = tokio::time::sleep(seconds.unwrap_or_default()), if seconds.is_some() => {}
            }
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        serve_page(queue.clone(), address, readpast_web::Options::default(), output, end).await?;
        Ok(true)
    }

    pub async fn run(self, output: Output) -> Result<Exit> {
        let mut config = settings();
        let server = dev_server::start(DevServer::builder(), &mut config).await?;
        let started = Instant::now();
        let (mut lanes, mut producers) = (Vec::new(), JoinSet::new());
        for (name, handlers) in [("hash", handlers::hash()), ("sort", handlers::sort())] {
            let queue = dev_server::create_queue(&config, name, QueueOptions::default().max_attempts(3)).await?;
            let worker = Worker::builder(&queue, handlers).config(&config.worker).start().await?;
            producers.spawn(producer::run(queue.clone(), worker.monitor()));
            lanes.push(Lane { queue, worker });
        }
        lanes[0].queue.admin().set_schedule(&producer::schedule()).await?;

        if self.show_page(&lanes[0].queue, output).await? {
            // The web UI has been shown.
        } else if top::is_possible() && !output.is_json() {
            let ends = self.seconds.map(|seconds| Duration::from_secs(seconds.into()));
            top::show(config, "readpast demo".to_owned(), INTERVAL, ends).await?;
        } else {
            print_lines(output, &lanes, self.seconds.unwrap_or(SECONDS)).await?;
        }
        producers.shutdown().await;
        let mut all = Vec::new();
        for lane in lanes {
            all.push(lane.worker.shutdown().await?.stats);
        }
        let summary = Summary::new(&all, started.elapsed());
        output.one(&summary, || summary.words())?;
        server.shutdown().await;
        Ok(Exit::Ok)
    }
}

/// The library's defaults, except that reports reach the screen within a second, failed jobs are retried soon, and the
/// shutdown does not wait.
fn settings() -> Config {
    let mut config = Config::default();
    config.worker.name = "demo".to_owned();
    config.worker.heartbeat_interval = Duration::from_secs(1);
    config.worker.retry.base = Duration::from_millis(500);
    config.worker.shutdown_deadline = Duration::from_secs(1);
    // Two workers, the server and the producers share the machine. With one thread, a long job would block its queue.
    config.worker.threads = (thread::available_parallelism().map_or(1, NonZero::get) / 2).max(2);
    config
}

/// One line per second, for a log or a pipe.
async fn print_lines(output: Output, lanes: &[Lane], seconds: u32) -> Result<()> {
    let mut stop = StopSignals::watch()?;
    let monitors: Vec<WorkerMonitor> = lanes.iter().map(|lane| lane.worker.monitor()).collect();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.tick().await; // the first comes at once
    let mut done_before = vec![0; lanes.len()];
    for second in 1..=seconds {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.next() => return Ok(()),
        }
        if output.is_json() {
            continue; // the summary alone
        }
        let mut parts = Vec::new();
        for ((lane, monitor), before) in lanes.iter().zip(&monitors).zip(&mut done_before) {
            let (depth, worker) = (lane.queue.admin().stats(None).await?, monitor.stats());
            let (ready, running, dead) = (texts::number(depth.ready), depth.claimed, depth.dead);
            let done = worker.done - std::mem::replace(before, worker.done);
            let name = lane.queue.name();
            parts.push(format!("{name}: {ready} ready, {running} claimed, {done} done, {dead} dead"));
        }
        output.line(&format!("{second:>3} s  {}", parts.join("  |  ")))?;
    }
    Ok(())
}

impl Summary {
    fn new(workers: &[WorkerStats], elapsed: Duration) -> Summary {
        let sum = |of: fn(&WorkerStats) -> u64| workers.iter().map(of).sum::<u64>();
        let (seconds, done) = (elapsed.as_secs_f64(), sum(|worker| worker.done));
        Summary {
            seconds,
            done,
            retried: sum(|worker| worker.retried),
            dead: sum(|worker| worker.dead),
            jobs_per_s: done as f64 / seconds,
        }
    }

    fn words(&self) -> String {
        format!(
            "{} done in {:.1} s ({:.0} per second), {} retried, {} dead.\nTo run your own programs: readpast dev",
            texts::counted(self.done, "job"),
            self.seconds,
            self.jobs_per_s,
            texts::counted(self.retried, "attempt"),
            texts::counted(self.dead, "job")
        )
    }
}
