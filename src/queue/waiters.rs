//! The producers of a process that wait for jobs of one queue to finish. They share the polls of one task:
//!
//! ```text
//! wait ──▶ listed ──▶ the task: a pause, then one poll for all ──▶ callers of finished jobs get the outcome
//!                         ▲                │
//!                         └────────────────┴──permanent error, or its runtime stops──▶ each caller polls alone
//! ```
//!
//! The polling task is spawned, so that a caller whose future is not polled blocks no other caller. A caller polls
//! alone if the task stops, or if the task did not check the caller's job in time.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::id::JobId;
use crate::job::JobEnd;
use crate::sync_primitives::Mutex;

/// The shortest pause between two polls. It doubles up to [`LONGEST_PAUSE`] while no job finishes and no caller
/// arrives.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// How long a finished job may go unnoticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A pause is at least this many times as long as the poll before it. While SQL Server responds within a second, polls
/// thus use one connection for at most a fifth of the time, however many callers wait.
const PAUSE_PER_LOOK: u32 = 4;

/// The longest pause, however long the poll before it took: a poll that timed out says nothing about the next one.
const LONGEST_PAUSE_OF_SLOW: Duration = Duration::from_secs(5);

/// How long a caller whose time is up waits for a shared poll before it polls alone.
const GRACE: Duration = Duration::from_secs(1);

/// The callers that wait for jobs of a queue.
#[derive(Default)]
pub(super) struct Waiters {
    pub(super) listed: Mutex<Listed>,
    /// The number of the last poll that covered all listed jobs.
    pub(super) answered: watch::Sender<u64>,
    /// Notified when a caller arrives.
    pub(super) came: Notify,
}

/// A listed caller.
pub(super) struct Waiting {
    /// Receives the outcome; closed when the task stops polling.
    pub(super) end: oneshot::Receiver<JobEnd>,
    /// The first poll that checks the job.
    pub(super) first_look: u64,
    /// Whether the caller must start the task.
    pub(super) needs_task: bool,
}

#[derive(Default)]
pub(super) struct Listed {
    pub(super) jobs: HashMap<JobId, Vec<oneshot::Sender<JobEnd>>>,
    /// How many polls have begun.
    pub(super) looks: u64,
    pub(super) pace: Pace,
    /// Whether a task is polling.
    pub(super) has_task: bool,
}

/// When the next poll is due.
#[derive(Default, Clone, Copy)]
pub(super) struct Pace {
    pub(super) last: Option<Instant>,
    pub(super) took: Duration,
    pub(super) pause: Duration,
}

impl Pace {
    /// When the next poll is due; `came`: a caller has arrived meanwhile.
    pub(super) fn due_at(&self, came: bool) -> Option<Instant> {
        let pause = if came { SHORTEST_PAUSE } else { self.pause };
        self.last.map(|last| last + pause.max((self.took * PAUSE_PER_LOOK).min(LONGEST_PAUSE_OF_SLOW)))
    }

    /// Records a poll that began at `at` and has just ended.
    pub(super) fn looked(&mut self, at: Instant, told_an_end: bool) {
        let now = Instant::now();
        self.last = Some(now);
        self.took = now - at;
        self.pause = if told_an_end { SHORTEST_PAUSE } else { (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE) };
    }
}

/// The result of waiting for the shared polls.
pub(super) enum Waited {
    /// The job has finished.
    Ended(JobEnd),
    /// The time is up, and the job was checked.
    Over,
    /// No task is polling, or none has polled in time.
    Alone,
}

impl Waiters {
    /// Returns once the deadline has passed and a poll has checked the job or is taking too long.
    pub(super) async fn over(&self, deadline: Instant, first_look: u64) -> Waited {
        tokio::time::sleep_until(deadline).await;
        let mut answered = self.answered.subscribe();
        match tokio::time::timeout(GRACE, answered.wait_for(|look| *look >= first_look)).await {
            Ok(_) => Waited::Over,
            Err(_) => Waited::Alone,
        }
    }

    /// Returns when the next poll is due.
    pub(super) async fn pause(&self) {
        let pace = self.listed.lock().pace;
        let Some(due_at) = pace.due_at(false) else { return };
        tokio::select! {
            () = tokio::time::sleep_until(due_at) => return,
            () = self.came.notified() => {}
        }
        if let Some(due_at) = pace.due_at(true) {
            tokio::time::sleep_until(due_at).await;
        }
    }

    /// Lists a caller.
    pub(super) fn list(&self, job_id: JobId) -> Waiting {
        let (sender, end) = oneshot::channel();
        let mut listed = self.listed.lock();
        listed.jobs.entry(job_id).or_default().push(sender);
        let needs_task = !std::mem::replace(&mut listed.has_task, true);
        Waiting { end, first_look: listed.looks + 1, needs_task }
    }

    /// Releases all callers, because the task stops.
    pub(super) fn let_go(&self) {
        let mut listed = self.listed.lock();
        listed.has_task = false;
        listed.jobs.clear();
    }

    /// Starts a poll: returns the listed jobs and the poll's number.
    pub(super) fn begin_look(&self) -> (Vec<JobId>, u64) {
        let mut listed = self.listed.lock();
        listed.jobs.retain(|_, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
        listed.looks += 1;
        // Under the lock: a caller that is listed later must know whether it needs a task.
        listed.has_task = !listed.jobs.is_empty();
        (listed.jobs.keys().copied().collect(), listed.looks)
    }

    pub(super) fn tell(&self, ends: Vec<(JobId, JobEnd)>) {
        let mut listed = self.listed.lock();
        for (job_id, end) in ends {
            for sender in listed.jobs.remove(&job_id).unwrap_or_default() {
                let _ = sender.send(end.clone()); // an error: the caller has given up
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_nothing_ends_and_leave_a_slow_server_its_time() {
        let mut pace = Pace::default();
        assert_eq!(pace.due_at(false), None, "the first look is at once");
        let mut pauses = Vec::new();
        for _ in 0..7 {
            pace.looked(Instant::now(), false);
            pauses.push(pace.pause.as_millis());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 200, 200]);
        pace.looked(Instant::now(), true);
        assert_eq!(pace.pause, SHORTEST_PAUSE);
        pace.took = Duration::from_secs(1);
        assert_eq!(pace.due_at(true).unwrap() - pace.last.unwrap(), Duration::from_secs(4));
        pace.took = Duration::from_secs(30);
        assert_eq!(pace.due_at(true).unwrap() - pace.last.unwrap(), LONGEST_PAUSE_OF_SLOW);
    }
}
