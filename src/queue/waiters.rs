//! Producers that wait for jobs to end. All of a process that wait for jobs of one queue share the looks at SQL Server,
//! which a task makes as long as anybody waits:
//!
//! ```text
//! wait ──▶ listed ──▶ the task: a pause, then one look for all ──▶ who has ended is told
//!                         ▲                │
//!                         └────────────────┴──error that stays, or its runtime ends──▶ each looks alone
//! ```
//!
//! The task is nobody's future: somebody who waits and is not polled holds up no other. And nobody needs it: who is let
//! go by it, or was not looked for in time, looks alone.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::id::JobId;
use crate::procedures::producer::JobEnd;
use crate::sync::Mutex;

/// The shortest pause between two looks; it doubles up to [`LONGEST_PAUSE`] while no job ends and nobody comes.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// How long an end may go unnoticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A pause is at least as many times as long as the look before it took: so looks keep no more than a fifth of one
/// connection busy, however many wait, while SQL Server answers within a second.
const PAUSE_PER_LOOK: u32 = 4;

/// A pause is at most so long, however long the look before it took: one that ran out of time says nothing about the
/// next one.
const LONGEST_PAUSE_OF_SLOW: Duration = Duration::from_secs(5);

/// How long one whose time is over waits for a look that all share, before it looks alone.
const GRACE: Duration = Duration::from_secs(1);

/// All that wait for jobs of a queue.
#[derive(Default)]
pub(super) struct Waiters {
    pub(super) listed: Mutex<Listed>,
    /// The number of the last look that SQL Server has answered for all.
    pub(super) answered: watch::Sender<u64>,
    /// Somebody has come.
    pub(super) came: Notify,
}

/// Somebody who is listed.
pub(super) struct Waiting {
    /// Gets the job's end; an error when nobody looks any more.
    pub(super) end: oneshot::Receiver<JobEnd>,
    /// The first look that asks for the job.
    pub(super) first_look: u64,
    /// There is no task: who waits starts one.
    pub(super) needs_task: bool,
}

#[derive(Default)]
pub(super) struct Listed {
    pub(super) jobs: HashMap<JobId, Vec<oneshot::Sender<JobEnd>>>,
    /// How many looks have begun.
    pub(super) looks: u64,
    pub(super) pace: Pace,
    /// There is a task that looks.
    pub(super) has_task: bool,
}

/// When the next look is due.
#[derive(Default, Clone, Copy)]
pub(super) struct Pace {
    pub(super) last: Option<Instant>,
    pub(super) took: Duration,
    pub(super) pause: Duration,
}

impl Pace {
    /// When the next look is due, where somebody has come meanwhile or not.
    pub(super) fn due_at(&self, came: bool) -> Option<Instant> {
        let pause = if came { SHORTEST_PAUSE } else { self.pause };
        self.last.map(|last| last + pause.max((self.took * PAUSE_PER_LOOK).min(LONGEST_PAUSE_OF_SLOW)))
    }

    /// A look has ended that was begun at `at`, and has told an end or not.
    pub(super) fn looked(&mut self, at: Instant, told_an_end: bool) {
        let now = Instant::now();
        self.last = Some(now);
        self.took = now - at;
        self.pause = if told_an_end { SHORTEST_PAUSE } else { (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE) };
    }
}

/// What waiting has come to.
pub(super) enum Waited {
    /// The job has ended.
    Ended(JobEnd),
    /// The time is over, and it was looked for.
    Over,
    /// Nobody looks, or has looked in time.
    Alone,
}

impl Waiters {
    /// Returns when the time is over, and it was looked since or that takes too long.
    pub(super) async fn over(&self, deadline: Instant, first_look: u64) -> Waited {
        tokio::time::sleep_until(deadline).await;
        let mut answered = self.answered.subscribe();
        match tokio::time::timeout(GRACE, answered.wait_for(|look| *look >= first_look)).await {
            Ok(_) => Waited::Over,
            Err(_) => Waited::Alone,
        }
    }

    /// Returns when the next look is due.
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

    /// Lists somebody who waits.
    pub(super) fn list(&self, job_id: JobId) -> Waiting {
        let (sender, end) = oneshot::channel();
        let mut listed = self.listed.lock();
        listed.jobs.entry(job_id).or_default().push(sender);
        let needs_task = !std::mem::replace(&mut listed.has_task, true);
        Waiting { end, first_look: listed.looks + 1, needs_task }
    }

    /// Nobody looks any more: all that wait are let go.
    pub(super) fn let_go(&self) {
        let mut listed = self.listed.lock();
        listed.has_task = false;
        listed.jobs.clear();
    }

    /// The jobs that somebody waits for, and the look's number.
    pub(super) fn begin_look(&self) -> (Vec<JobId>, u64) {
        let mut listed = self.listed.lock();
        listed.jobs.retain(|_, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
        listed.looks += 1;
        // Before anybody else can be listed, who would count on the task.
        listed.has_task = !listed.jobs.is_empty();
        (listed.jobs.keys().copied().collect(), listed.looks)
    }

    pub(super) fn tell(&self, ends: Vec<(JobId, JobEnd)>) {
        let mut listed = self.listed.lock();
        for (job_id, end) in ends {
            for sender in listed.jobs.remove(&job_id).unwrap_or_default() {
                let _ = sender.send(end.clone()); // an error: it has given up
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
