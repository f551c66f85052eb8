//! `readpast workers`.

use anyhow::Result;
use clap::Args;
use readpast::admin::WorkerRow;

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

impl Workers {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let mut workers = match &self.queue {
            Some(name) => common.queue(name).await?.admin().workers(std::time::Duration::MAX).await?,
            None => common.schema().await?.admin().all_workers(std::time::Duration::MAX).await?,
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
