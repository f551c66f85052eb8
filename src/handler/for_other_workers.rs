//! Jobs that only other workers can run: their kind has no handler in this worker, or they need more than it has. During
//! a rolling deployment, workers with and without the handler claim from one queue; and the workers of a queue may have
//! machines of different sizes. The worker postpones such a job, without using up an attempt, so that another worker can
//! claim it. If none does in time, the job becomes dead. The time counts from when this worker first postponed the job,
//! so a job that was delayed, requeued or waiting also gets the full time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::WorkerConfig;
use crate::id::{Fence, JobId};
use crate::job::{Job, Needs, Outcome};

/// The shortest interval between log entries about such jobs.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The maximum number of jobs for which the time of the first postponement is kept, including jobs that other workers
/// have taken since. If there are more, the time of all of them starts again. They then wait longer, but none becomes
/// dead too early.
const MOST_PUT_OFF: usize = 100_000;

const NO_HANDLER: &str = "the worker has no handler for jobs";
const HAS_LESS: &str = "the worker has less than the job needs";

/// Whether a job's error says that the worker which wrote it cannot run the job.
pub(crate) fn is_for_other_workers(error: &str) -> bool {
    error.starts_with(NO_HANDLER) || error.starts_with(HAS_LESS)
}

pub(crate) struct ForOtherWorkers {
    delay: Duration,
    keep: Duration,
    /// When the job was first postponed, and its attempt.
    first_put_off: Mutex<HashMap<JobId, (Instant, u32)>>,
    unlogged: Mutex<Unlogged>,
}

#[derive(Default)]
struct Unlogged {
    jobs: u64,
    logged_at: Option<Instant>,
}

impl ForOtherWorkers {
    pub(crate) fn new(config: &WorkerConfig) -> ForOtherWorkers {
        ForOtherWorkers {
            delay: config.unknown_kind_delay,
            keep: config.unknown_kind_keep,
            first_put_off: Mutex::default(),
            unlogged: Mutex::default(),
        }
    }

    /// Decides what happens to a job whose kind has no handler. With `leaves`, it is left to others for as long as it
    /// takes.
    pub(crate) fn unknown_kind(&self, job: &Job, leaves: bool) -> Outcome {
        let error = match job.kind() {
            Some(kind) => format!("{NO_HANDLER} of kind '{kind}'"),
            None => format!("{NO_HANDLER} without a kind"),
        };
        self.outcome(job, error, leaves)
    }

    /// Decides what happens to a job that needs more than this worker `has`. `most` returns the largest amount of each
    /// resource that any worker of the queue has had, if it is known.
    pub(crate) fn needs_too_much(
        &self,
        job: &Job,
        needs: &Needs,
        has: &Needs,
        most: impl FnOnce() -> Option<Needs>,
    ) -> Outcome {
        let mut outcome = self.outcome(job, format!("{HAS_LESS}: it needs {needs}, the worker has {has}"), false);
        if let Outcome::Dead { error } = &mut outcome
            && let Some(most) = most()
        {
            error.push_str(&format!("; the largest amounts on any worker of the queue in the last day: {most}"));
        }
        outcome
    }

    fn outcome(&self, job: &Job, error: String, leaves: bool) -> Outcome {
        // The row of a job of an at_most_once queue is gone, so the job cannot be postponed.
        if job.fence() == Fence::NONE {
            return Outcome::Dead { error };
        }
        if !leaves && let Some(put_off) = self.put_off_too_long(job.id(), job.attempt(), Instant::now()) {
            let error = format!("{error}; it first postponed this job {} s ago", put_off.as_secs());
            return Outcome::Dead { error };
        }
        // (Dead jobs are logged elsewhere.)
        if leaves {
            tracing::debug!(job_id = %job.id(), error, "left a job to other workers");
        } else if let Some(jobs) = self.to_be_logged() {
            tracing::warn!(jobs, error, "postponed jobs that another worker must run");
        }
        // Up to half of the delay is subtracted at random, so that jobs that were claimed together do not become ready
        // together.
        let delay_ms = self.delay.as_millis() as u64;
        let delay = Duration::from_millis(delay_ms - fastrand::u64(0..=delay_ms / 2));
        Outcome::Snooze { delay, error }
    }

    /// Returns how long the job has been postponed, if that is long enough, and forgets the job. A requeued job counts
    /// as new. So does a job that has run elsewhere meanwhile, because its attempt differs.
    fn put_off_too_long(&self, job_id: JobId, attempt: u32, now: Instant) -> Option<Duration> {
        let mut jobs = self.first_put_off.lock();
        if jobs.len() >= MOST_PUT_OFF {
            jobs.clear();
        }
        let put_off = jobs.entry(job_id).or_insert((now, attempt));
        if put_off.1 != attempt {
            *put_off = (now, attempt);
        }
        let put_off = now.duration_since(put_off.0);
        if put_off < self.keep {
            return None;
        }
        jobs.remove(&job_id);
        Some(put_off)
    }

    /// Counts a job. If it is time to log, returns the number of jobs. The caller logs, because a subscriber may take
    /// long, and this function holds a lock.
    fn to_be_logged(&self) -> Option<u64> {
        let mut unlogged = self.unlogged.lock();
        unlogged.jobs += 1;
        if unlogged.logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            return None;
        }
        unlogged.logged_at = Some(Instant::now());
        Some(std::mem::take(&mut unlogged.jobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::NewJob;
    use crate::log_capture;

    #[test]
    fn other_jobs_are_put_off_while_one_is_logged() {
        let kinds = std::sync::Arc::new(ForOtherWorkers::new(&WorkerConfig::default()));
        let observed = kinds.clone();
        let is_free = move || observed.unlogged.try_lock_for(Duration::from_secs(5)).is_some();
        let job = Job::for_test(NewJob::text("x").kind("unknown"));
        let seen =
            log_capture::seen(is_free, || drop((kinds.unknown_kind(&job, false), kinds.unknown_kind(&job, false))));
        assert_eq!(seen, [true], "one event, and the lock was free");
    }

    #[test]
    fn only_jobs_of_other_kinds_can_be_left_to_others_for_as_long_as_it_takes() {
        let config = WorkerConfig { unknown_kind_keep: Duration::ZERO, ..WorkerConfig::default() };
        let (kinds, job) = (ForOtherWorkers::new(&config), Job::for_test(NewJob::text("x").kind("unknown")));
        assert!(matches!(kinds.unknown_kind(&job, true), Outcome::Snooze { .. }));
        assert!(matches!(kinds.unknown_kind(&job, false), Outcome::Dead { .. }));
        let needs = [2, 1].map(|bytes| Needs::new().memory(bytes));
        let most = || Some(Needs::new().memory(2048).threads(8));
        let Outcome::Dead { error } = kinds.needs_too_much(&job, &needs[0], &needs[1], most) else {
            panic!("it waits")
        };
        assert!(
            error.ends_with(
                "; the largest amounts on any worker of the queue in the last day: 2 KiB of memory, 8 threads"
            )
        );
    }

    #[test]
    fn a_job_is_dead_after_the_time_and_new_when_it_comes_again() {
        let config = WorkerConfig { unknown_kind_keep: Duration::from_secs(1), ..WorkerConfig::default() };
        let kinds = ForOtherWorkers::new(&config);
        let (start, job) = (Instant::now(), JobId(1));
        let after = |ms| start + Duration::from_millis(ms);
        assert_eq!(kinds.put_off_too_long(job, 1, start), None);
        assert_eq!(kinds.put_off_too_long(JobId(2), 1, after(900)), None);
        assert_eq!(kinds.put_off_too_long(job, 1, after(999)), None);
        assert_eq!(kinds.put_off_too_long(job, 1, after(1_000)), Some(Duration::from_secs(1)));
        assert_eq!(kinds.put_off_too_long(job, 1, after(5_000)), None, "requeued");
        assert_eq!(kinds.put_off_too_long(JobId(2), 1, after(5_000)), Some(Duration::from_millis(4_100)));
        assert_eq!(kinds.put_off_too_long(job, 2, after(9_000)), None, "it has run elsewhere");
    }

    #[test]
    fn the_memory_of_jobs_that_are_put_off_is_bounded() {
        let kinds = ForOtherWorkers::new(&WorkerConfig::default());
        let now = Instant::now();
        for job_id in 0..3 * MOST_PUT_OFF as i64 {
            assert_eq!(kinds.put_off_too_long(JobId(job_id), 1, now), None);
        }
        assert!(kinds.first_put_off.lock().len() <= MOST_PUT_OFF);
    }
}
