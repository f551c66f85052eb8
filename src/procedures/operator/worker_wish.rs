//! What an operator asks of running workers.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::id::WorkerId;

/// What to ask of running workers, for [`Admin::ask_workers`](crate::admin::Admin::ask_workers).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerWish {
    worker: String,
    wish: Wish,
    by_name: bool,
    pub(crate) of_all_queues: bool,
}

/// One thing to ask of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wish {
    /// Claim no more jobs, and finish those that it has. The worker keeps its lease and does the queue's maintenance.
    Quiet,
    /// Claim jobs again.
    Resume,
    /// Stop in order, as after a signal. This cannot be taken back, and whatever supervises the process may start
    /// another.
    Stop,
    /// Run this many jobs at once: 1 to 1,024, or 0 for as many as configured. Running jobs continue. A job that needs
    /// more threads, but not more than configured, gets all of them. No effect on a worker with a
    /// [`thread_pool`](crate::WorkerBuilder::thread_pool).
    Threads(u32),
    /// Write debug messages to the log for this long, up to a day; zero ends it. The program `readpast work` does so;
    /// other programs with [`WorkerBuilder::on_debug`](crate::WorkerBuilder::on_debug).
    Debug(Duration),
}

impl WorkerWish {
    /// Asks running workers with this name, or the one with this id.
    pub fn new(worker: impl Into<String>, wish: Wish) -> WorkerWish {
        WorkerWish { worker: worker.into(), wish, by_name: false, of_all_queues: false }
    }

    /// Asks also the workers of this name that start later, until it is taken back in the same way. Not for
    /// [`Wish::Stop`].
    pub fn by_name(mut self) -> WorkerWish {
        self.by_name = true;
        self
    }

    /// Asks the workers of all queues instead of one queue.
    pub fn of_all_queues(mut self) -> WorkerWish {
        self.of_all_queues = true;
        self
    }
}

/// The whole wish in words: `worker render-3: run 4 jobs at once, also after a restart`.
impl fmt::Display for WorkerWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerWish { worker, wish, by_name, .. } = self;
        write!(f, "worker {worker}: {wish}{}", if *by_name { ", also after a restart" } else { "" })
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wish::Quiet => f.write_str("claim no more jobs"),
            Wish::Resume => f.write_str("claim jobs again"),
            Wish::Stop => f.write_str("stop"),
            Wish::Threads(0) => f.write_str("run as many jobs at once as configured"),
            Wish::Threads(threads) => write!(f, "run {threads} {} at once", if *threads == 1 { "job" } else { "jobs" }),
            Wish::Debug(Duration::ZERO) => f.write_str("write no more debug messages"),
            Wish::Debug(span) => write!(f, "write debug messages for {} s", span.as_secs()),
        }
    }
}

/// A worker that was asked. Serialized with the fields' names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AskedWorker {
    /// The worker's id.
    pub worker_id: WorkerId,
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub name: String,
}

impl AskedWorker {
    fn read(mut row: Columns) -> Result<AskedWorker, Error> {
        Ok(AskedWorker {
            worker_id: WorkerId(row.required("worker_id")?),
            queue: row.required("queue")?,
            name: row.required("name")?,
        })
    }
}

impl Session {
    /// Asks workers of one queue or, with `None`, of all queues.
    pub(crate) async fn worker_wish(
        &mut self,
        queue: Option<&str>,
        wish: &WorkerWish,
    ) -> Result<Vec<AskedWorker>, Error> {
        let WorkerWish { worker, wish, by_name, .. } = wish;
        let mut command = self.action("worker_wish");
        command.bind_param("@worker", worker.as_str());
        command.bind_param("@queue", queue);
        command.bind_param("@by_name", *by_name);
        match *wish {
            Wish::Quiet => command.bind_param("@quiet", true),
            Wish::Resume => command.bind_param("@quiet", false),
            Wish::Stop => command.bind_param("@stop", true),
            Wish::Threads(threads) => command.bind_param("@threads", int(threads)),
            // A part of a second must not become "no longer".
            Wish::Debug(span) => command.bind_param("@debug_s", int(span.as_millis().div_ceil(1_000))),
        }
        self.rows("worker_wish", command).await?.into_iter().map(AskedWorker::read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_said_in_words() {
        let all = [
            (Wish::Quiet, "claim no more jobs"),
            (Wish::Threads(1), "run 1 job at once"),
            (Wish::Threads(4), "run 4 jobs at once"),
            (Wish::Threads(0), "run as many jobs at once as configured"),
            (Wish::Debug(Duration::from_secs(600)), "write debug messages for 600 s"),
        ];
        for (wish, words) in all {
            assert_eq!(WorkerWish::new("a", wish).to_string(), format!("worker a: {words}"));
        }
        let by_name = WorkerWish::new("a", Wish::Resume).by_name();
        assert_eq!(by_name.to_string(), "worker a: claim jobs again, also after a restart");
    }
}
