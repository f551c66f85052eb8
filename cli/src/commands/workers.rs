//! `readpast workers` and `readpast worker`.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use readpast::admin::{Wish, WorkerRow, WorkerWish};
use serde_json::json;

use crate::audit::{note, noted};
use crate::connection::Common;
use crate::exit::Exit;
use crate::output::Output;
use crate::texts;

/// List the workers: lease, held jobs, speed and bottleneck as of the last heartbeat.
///
/// Role: operator or monitor.
#[derive(Debug, Args)]
pub struct Workers {
    /// Only workers of this queue
    queue: Option<String>,
    /// Also list workers that stopped or were lost within the last day
    #[arg(long)]
    lost: bool,
}

/// Ask running workers to claim no more jobs, to claim again, to stop, to run more or fewer jobs at once, or for debug
/// messages.
///
/// A worker is asked by its name or its id; a name may be that of several workers. Their next heartbeats deliver it:
/// `readpast workers` shows what was asked, and `(not delivered yet)` until then. A worker that starts again has
/// forgotten it, except with --by-name.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Claim no more jobs, and finish those that it has
    ///
    /// Role: operator.
    Quiet {
        #[command(flatten)]
        asked: AskedOptions,
        #[command(flatten)]
        kept: KeptOptions,
    },
    /// Claim jobs again
    ///
    /// Role: operator.
    Resume {
        #[command(flatten)]
        asked: AskedOptions,
        #[command(flatten)]
        kept: KeptOptions,
    },
    /// Stop in order, as after a signal
    ///
    /// Whatever supervises the process may start another.
    ///
    /// Role: operator.
    Stop {
        #[command(flatten)]
        asked: AskedOptions,
    },
    /// Run this many jobs at once
    ///
    /// Running jobs continue.
    ///
    /// Role: operator.
    Threads {
        #[command(flatten)]
        asked: AskedOptions,
        /// 1 to 1024; 0: as many as configured
        #[arg(value_parser = clap::value_parser!(u32).range(0..=1024))]
        threads: u32,
        #[command(flatten)]
        kept: KeptOptions,
    },
    /// Write debug messages to its log for a while
    ///
    /// Role: operator.
    Debug {
        #[command(flatten)]
        asked: AskedOptions,
        /// For how long, up to 1d; 0s: no longer
        #[arg(long = "for", value_name = "DURATION", default_value = "10m", value_parser = texts::duration)]
        span: Duration,
        #[command(flatten)]
        kept: KeptOptions,
    },
}

/// Which workers to ask.
#[derive(Debug, Args)]
pub struct AskedOptions {
    /// Name or id
    worker: String,
    /// Only workers of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
}

#[derive(Debug, Args)]
pub struct KeptOptions {
    /// Also for workers of this name that start later, until it is taken back with --by-name
    #[arg(long)]
    by_name: bool,
}

impl WorkerCommand {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let (action, asked, wish, by_name) = match self {
            WorkerCommand::Quiet { asked, kept } => ("quiet_worker", asked, Wish::Quiet, kept.by_name),
            WorkerCommand::Resume { asked, kept } => ("resume_worker", asked, Wish::Resume, kept.by_name),
            WorkerCommand::Stop { asked } => ("stop_worker", asked, Wish::Stop, false),
            WorkerCommand::Threads { asked, threads, kept } => {
                ("set_worker_threads", asked, Wish::Threads(threads), kept.by_name)
            }
            WorkerCommand::Debug { asked, span, kept } => ("debug_worker", asked, Wish::Debug(span), kept.by_name),
        };
        let AskedOptions { worker, queue } = asked;
        let wish = WorkerWish::new(&worker, wish);
        let wish = if by_name { wish.by_name() } else { wish };
        let note = note(action).what(json!({ "worker": worker, "asked": wish.to_string() }));
        let (queue, wish, note) = match queue {
            Some(name) => (common.queue(&name).await?, wish, note),
            None => (common.schema().await?, wish.of_all_queues(), note.of_no_queue()),
        };
        let asked = noted(&queue, note, |admin| admin.ask_workers(&wish), |_| None).await?;
        output.one(&json!({ "asked": asked }), || {
            let all: Vec<String> = asked.iter().map(|worker| format!("{} of {}", worker.name, worker.queue)).collect();
            match &all[..] {
                [] => format!("no worker runs now; {wish}"),
                all => format!(
                    "asked {}; the next heartbeat delivers it: {}",
                    texts::counted(all.len() as u64, "worker"),
                    all.join(", ")
                ),
            }
        })?;
        Ok(Exit::Ok)
    }
}

impl Workers {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let mut workers = match &self.queue {
            Some(name) => common.queue(name).await?.admin().workers(Duration::MAX).await?,
            None => common.schema().await?.admin().all_workers(Duration::MAX).await?,
        };
        if !self.lost {
            workers.retain(WorkerRow::is_live);
        }
        output.many(
            &workers,
            if self.lost {
                "no worker has run within the last day"
            } else {
                "no worker has a lease; --lost includes stopped and lost workers"
            },
            &[
                "queue",
                "worker",
                "since",
                "lease",
                "holds",
                "oldest since",
                "running",
                "done",
                "failed",
                "done/s",
                "in use",
                "limit",
                "asked",
            ],
            &["since", "oldest since", "done", "failed", "lease", "done/s", "running", "in use"],
            |worker: &WorkerRow| {
                vec![
                    worker.queue.clone(),
                    worker.name.clone(),
                    texts::time(worker.registered_at),
                    worker
                        .lost_at
                        .map_or_else(|| texts::age(worker.lease_left), |at| format!("ended {}", texts::time(at))),
                    texts::number(worker.held),
                    texts::or_dash(worker.oldest_claimed_at.map(texts::time)),
                    texts::or_dash(worker.running),
                    texts::or_dash(worker.done.map(texts::number)),
                    texts::or_dash(worker.failed.map(texts::number)),
                    texts::or_dash(worker.done_per_s.map(texts::rate)),
                    in_use(worker),
                    texts::or_dash(worker.limited_by.as_deref()),
                    texts::or_dash((!worker.asked.is_nothing()).then_some(worker.asked)),
                ]
            },
        )?;
        Ok(Exit::Ok)
    }
}

/// What jobs use of the worker's resources: `4/8 threads, 3 GiB/8 GiB memory, 1/1 gpu`.
pub fn in_use(worker: &WorkerRow) -> String {
    let all: Vec<String> = worker.resources_in_use().iter().map(ToString::to_string).collect();
    if all.is_empty() { texts::or_dash(None::<&str>) } else { all.join(", ") }
}
