//! Jobs of a kind that this worker has no handler for: while a deployment rolls, those that know it and those that do
//! not yet claim from one queue. Such a job is put off, without a counted attempt, for a worker that knows its kind;
//! after a time it is dead.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::WorkerConfig;
use crate::ids::Fence;
use crate::job::Job;
use crate::outcome::Outcome;

/// How often they are logged at the most.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct UnknownKinds {
    delay: Duration,
    keep: Duration,
    unlogged: Mutex<Unlogged>,
}

#[derive(Default)]
struct Unlogged {
    jobs: u64,
    logged_at: Option<Instant>,
}

impl UnknownKinds {
    pub(crate) fn new(config: &WorkerConfig) -> UnknownKinds {
        UnknownKinds {
            delay: Duration::from_millis(config.unknown_kind_delay_ms),
            keep: Duration::from_millis(config.unknown_kind_keep_ms),
            unlogged: Mutex::default(),
        }
    }

    /// What becomes of such a job.
    pub(crate) fn outcome(&self, job: &Job) -> Outcome {
        let error = match job.kind() {
            Some(kind) => format!("the worker has no handler for jobs of kind '{kind}'"),
            None => "the worker has no handler for jobs without a kind".to_owned(),
        };
        // A job of an at_most_once queue has no row that it could be put back to.
        if job.fence() == Fence::NONE {
            return Outcome::Dead { error };
        }
        if job.age() >= self.keep {
            let error = format!("{error}, and it was enqueued {} s ago", job.age().as_secs());
            return Outcome::Dead { error };
        }
        self.log(&error); // (a dead one is logged as such)
        // Half at random: what was claimed together does not come back together.
        let delay_ms = self.delay.as_millis() as u64;
        let delay = Duration::from_millis(delay_ms - fastrand::u64(0..=delay_ms / 2));
        Outcome::Snooze { delay, error }
    }

    fn log(&self, error: &str) {
        let mut unlogged = self.unlogged.lock();
        unlogged.jobs += 1;
        if unlogged.logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            let jobs = std::mem::take(&mut unlogged.jobs);
            unlogged.logged_at = Some(Instant::now());
            tracing::warn!(jobs, error, "jobs are put off for a worker that knows their kind");
        }
    }
}
