//! Producers that wait for jobs to end. All of a process that wait for jobs of one queue share the looks at SQL Server:
//!
//! ```text
//! wait ──▶ listed ──▶ whose turn it is: a pause, then one look for all ──▶ who has ended is told
//!                         └── the next one's turn
//! ```
//!
//! The one whose turn it is may give up at any time: the next one looks then, and nobody is forgotten, because a job
//! stays listed until somebody has told its end.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify, oneshot, watch};
use tokio::time::Instant;

use super::job_end::JobEnd;
use super::lasting_session::Session;
use crate::error::Error;
use crate::ids::JobId;
use crate::maximums::TEN_YEARS;

/// The shortest pause between two looks; it doubles up to [`LONGEST_PAUSE`] while no job ends and nobody comes.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// How long an end may go unnoticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A pause is at least as many times as long as the look before it took: so looks keep no more than a fifth of one
/// connection busy, however many wait.
const PAUSE_PER_LOOK: u32 = 4;

/// How many jobs one call asks for; what `outcomes` takes.
const JOBS_PER_CALL: usize = 1_000;

/// All that wait for jobs of a queue.
#[derive(Default)]
pub(super) struct Waiters {
    listed: Mutex<Listed>,
    /// The number of the last look that has ended.
    ended: watch::Sender<u64>,
    /// Somebody has come.
    came: Notify,
    /// Held by the one who looks.
    turn: tokio::sync::Mutex<Pace>,
}

#[derive(Default)]
struct Listed {
    jobs: HashMap<JobId, Vec<oneshot::Sender<JobEnd>>>,
    /// How many looks have begun.
    looks: u64,
}

/// When the next look is due.
#[derive(Default)]
struct Pace {
    last: Option<Instant>,
    took: Duration,
    pause: Duration,
}

impl Pace {
    /// When the next look is due, where somebody has come meanwhile or not.
    fn due_at(&self, came: bool) -> Option<Instant> {
        let pause = if came { SHORTEST_PAUSE } else { self.pause };
        self.last.map(|last| last + pause.max(self.took * PAUSE_PER_LOOK))
    }

    /// A look has ended that was begun at `at`, and has told an end or not.
    fn looked(&mut self, at: Instant, told_an_end: bool) {
        let now = Instant::now();
        self.last = Some(now);
        self.took = now - at;
        self.pause = if told_an_end { SHORTEST_PAUSE } else { (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE) };
    }
}

/// One that waits for a job to end.
pub(super) struct Waiter {
    end: oneshot::Receiver<JobEnd>,
    deadline: Instant,
    /// The first look that is also for this one.
    first_look: u64,
}

/// What waiting has come to.
pub(super) enum Turn<'a> {
    /// The job has ended.
    Ended(JobEnd),
    /// The time is over, and it was looked at least once.
    Over,
    /// It is this one's turn to look.
    Look(Look<'a>),
}

/// A look at SQL Server for all that wait. Nobody else looks until it is dropped.
pub(super) struct Look<'a> {
    waiters: &'a Waiters,
    pace: MutexGuard<'a, Pace>,
    number: u64,
    began_at: Instant,
    jobs: Vec<JobId>,
}

impl Waiter {
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

impl Waiters {
    /// Lists one that waits for a job to end, for up to `limit`.
    pub(super) fn come(&self, job_id: JobId, limit: Duration) -> Waiter {
        let deadline = Instant::now() + limit.min(TEN_YEARS); // more may be more than the clock can tell
        let (sender, end) = oneshot::channel();
        let mut listed = self.listed.lock();
        listed.jobs.entry(job_id).or_default().push(sender);
        let first_look = listed.looks + 1;
        drop(listed);
        self.came.notify_one();
        Waiter { end, deadline, first_look }
    }

    /// Waits for the end, for the end of the time, or for the turn to look.
    pub(super) async fn wait(&self, waiter: &mut Waiter) -> Turn<'_> {
        let Waiter { end, deadline, first_look } = waiter;
        let pace = tokio::select! {
            biased;
            Ok(end) = end => return Turn::Ended(end),
            () = self.is_over(*deadline, *first_look) => return Turn::Over,
            pace = self.turn.lock() => pace,
        };
        tokio::select! {
            () = self.is_over(*deadline, *first_look) => return Turn::Over,
            () = self.pause(&pace) => {}
        }
        let (jobs, number) = self.begin_look();
        Turn::Look(Look { waiters: self, pace, number, began_at: Instant::now(), jobs })
    }

    /// Returns when the time is over and it was looked at least once since.
    async fn is_over(&self, deadline: Instant, first_look: u64) {
        tokio::time::sleep_until(deadline).await;
        let _ = self.ended.subscribe().wait_for(|look| *look >= first_look).await; // its sender is this one's
    }

    /// Returns when the next look is due.
    async fn pause(&self, pace: &Pace) {
        let Some(due_at) = pace.due_at(false) else { return };
        tokio::select! {
            () = tokio::time::sleep_until(due_at) => return,
            () = self.came.notified() => {}
        }
        if let Some(due_at) = pace.due_at(true) {
            tokio::time::sleep_until(due_at).await;
        }
    }

    /// The jobs that somebody waits for, and the look's number.
    fn begin_look(&self) -> (Vec<JobId>, u64) {
        let mut listed = self.listed.lock();
        listed.jobs.retain(|_, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
        listed.looks += 1;
        (listed.jobs.keys().copied().collect(), listed.looks)
    }
}

impl Look<'_> {
    /// Asks SQL Server for the ends of the jobs, and tells them. Returns whether there were any.
    pub(super) async fn ask(&self, session: &mut Session, queue: &str) -> Result<bool, Error> {
        let mut told_any = false;
        for jobs in self.jobs.chunks(JOBS_PER_CALL) {
            let ends = session.outcomes(queue, jobs).await?;
            told_any |= !ends.is_empty();
            let mut listed = self.waiters.listed.lock();
            for (job_id, end) in ends {
                for sender in listed.jobs.remove(&job_id).unwrap_or_default() {
                    let _ = sender.send(end.clone()); // an error: it has given up
                }
            }
        }
        Ok(told_any)
    }

    /// It has ended, and told the end of a job or not.
    pub(super) fn ended(mut self, told_any: bool) {
        self.pace.looked(self.began_at, told_any);
        self.waiters.ended.send_replace(self.number);
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
    }
}
