//! [`DutyFailures`] records the maintenance tasks that fail in this worker.
//!
//! The worker's jobs do not need these tasks, so their errors do not stop the worker. It logs new errors, counts all
//! errors, and shows them while they last. If only this worker lacks a permission, another worker may succeed, so this
//! one yields the maintenance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, grouping_key};
use crate::metrics::{DUTIES, WorkerMetrics};

use super::outage_log::OutageLog;

/// How long this worker yields the maintenance to other workers after a failure. Until another worker takes over, this
/// worker continues with the tasks that succeed.
const YIELDS_FOR: Duration = Duration::from_secs(300);

const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The maintenance tasks, in the order of [`DUTIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Duty {
    Promote,
    Reap,
    Sample,
    Expire,
    Schedules,
}

/// The last failure of each task.
#[derive(Debug, Default)]
pub(in crate::worker) struct DutyFailures {
    inner: Mutex<Inner>,
    outage: Arc<OutageLog>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The last failure of each task, in the order of [`DUTIES`].
    last: [Option<DutyFailure>; DUTIES.len()],
    yields_until: Option<Instant>,
}

#[derive(Debug)]
struct DutyFailure {
    error: String,
    sql_error: Option<i32>,
    logged_at: Instant,
    /// Whether the task has not succeeded since.
    stands: bool,
}

impl DutyFailures {
    pub(in crate::worker) fn new(outage: Arc<OutageLog>) -> DutyFailures {
        DutyFailures { inner: Mutex::default(), outage }
    }

    /// Records that a task's call failed. The task is called again at its next time.
    pub(in crate::worker) fn failed(&self, duty: Duty, error: &Error, metrics: &WorkerMetrics) {
        if self.outage.tells_of_one(DUTIES[duty as usize], error) {
            self.noted(duty, &error.to_string(), error.sql_number(), metrics);
        } else if error.is_transient() {
            self.failed_for_all(duty, error.to_string(), error.sql_number(), metrics);
        } else {
            self.failed_here(duty, error.to_string(), error.sql_number(), metrics);
        }
    }

    /// Records the failure of a task that may succeed in another worker.
    pub(in crate::worker) fn failed_here(
        &self,
        duty: Duty,
        error: String,
        sql_error: Option<i32>,
        metrics: &WorkerMetrics,
    ) {
        self.inner.lock().yields_until = Some(Instant::now() + YIELDS_FOR);
        self.failed_for_all(duty, error, sql_error, metrics);
    }

    /// Records the failure of a task that would have failed in any worker.
    pub(in crate::worker) fn failed_for_all(
        &self,
        duty: Duty,
        error: String,
        sql_error: Option<i32>,
        metrics: &WorkerMetrics,
    ) {
        // Without the lock, because a subscriber may be slow.
        if self.noted(duty, &error, sql_error, metrics) {
            let duty = DUTIES[duty as usize];
            tracing::warn!(
                duty,
                sql_error,
                error,
                "a maintenance task of the queue failed; it runs again at its next time"
            );
        }
    }

    /// Records a failure and returns whether it is news. An error that differs from the last one only in ids, names and
    /// times is not news.
    fn noted(&self, duty: Duty, error: &str, sql_error: Option<i32>, metrics: &WorkerMetrics) -> bool {
        metrics.duty_failed(duty as usize);
        let now = Instant::now();
        let last = &mut self.inner.lock().last[duty as usize];
        let is_alike =
            |last: &DutyFailure| last.sql_error == sql_error && grouping_key(&last.error) == grouping_key(error);
        let known = last.as_ref().filter(|last| now - last.logged_at < LOGGED_EVERY && is_alike(last));
        let (logged_at, is_news) = known.map_or((now, true), |last| (last.logged_at, false));
        *last = Some(DutyFailure { error: error.to_owned(), sql_error, logged_at, stands: true });
        is_news
    }

    pub(in crate::worker) fn succeeded(&self, duty: Duty) {
        if let Some(last) = &mut self.inner.lock().last[duty as usize] {
            last.stands = false;
        }
    }

    /// Forgets the failures, because another worker does the maintenance.
    pub(in crate::worker) fn are_another_s(&self) {
        self.inner.lock().last.iter_mut().flatten().for_each(|last| last.stands = false);
    }

    /// Whether another worker should do the maintenance, if there is one.
    pub(in crate::worker) fn yields(&self) -> bool {
        self.inner.lock().yields_until.is_some_and(|until| Instant::now() < until)
    }

    /// The tasks that failed the last time, with their errors.
    pub(in crate::worker) fn standing(&self) -> Vec<(&'static str, String)> {
        let inner = self.inner.lock();
        let standing = DUTIES.into_iter().zip(&inner.last);
        let standing = standing.filter_map(|(duty, last)| Some((duty, last.as_ref().filter(|last| last.stands)?)));
        standing.map(|(duty, last)| (duty, last.error.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_differs_in_ids_and_names_only_is_no_news_and_is_shown_as_it_was_last() {
        let (failures, metrics) = (DutyFailures::default(), WorkerMetrics::new("test"));
        let noted = |text: &str, number| failures.noted(Duty::Reap, text, number, &metrics);
        assert!(noted("Process ID 57 was chosen as the victim", Some(1205)));
        assert!(!noted("Process ID 61 was chosen as the victim", Some(1205)));
        assert_eq!(failures.standing(), [("reap", "Process ID 61 was chosen as the victim".to_owned())]);
        assert!(noted("Process ID 61 was chosen as the victim", Some(3960)), "another number");
        assert!(noted("The log for database 'a' is full", Some(9002)));
        assert!(!noted("The log for database 'b' is full", Some(9002)));
        assert!(noted("The log is full", Some(9002)), "other words");
    }
}
