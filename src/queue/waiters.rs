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

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::error::Error;
use crate::id::JobId;
use crate::procedures::producer::{JobEnd, OUTCOMES};
use crate::time::TEN_YEARS;

use super::queue::Queue;

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

/// How many jobs one call asks for; what `outcomes` takes.
const JOBS_PER_CALL: usize = 1_000;

/// How many ends one call tells, about. Where it tells so many there may be more.
const ENDS_PER_CALL: usize = 100;

/// How long one whose time is over waits for a look that all share, before it looks alone.
const GRACE: Duration = Duration::from_secs(1);

/// All that wait for jobs of a queue.
#[derive(Default)]
pub(super) struct Waiters {
    listed: Mutex<Listed>,
    /// The number of the last look that SQL Server has answered for all.
    answered: watch::Sender<u64>,
    /// Somebody has come.
    came: Notify,
}

#[derive(Default)]
struct Listed {
    jobs: HashMap<JobId, Vec<oneshot::Sender<JobEnd>>>,
    /// How many looks have begun.
    looks: u64,
    pace: Pace,
    /// There is a task that looks.
    has_task: bool,
}

/// When the next look is due.
#[derive(Default, Clone, Copy)]
struct Pace {
    last: Option<Instant>,
    took: Duration,
    pause: Duration,
}

impl Pace {
    /// When the next look is due, where somebody has come meanwhile or not.
    fn due_at(&self, came: bool) -> Option<Instant> {
        let pause = if came { SHORTEST_PAUSE } else { self.pause };
        self.last.map(|last| last + pause.max((self.took * PAUSE_PER_LOOK).min(LONGEST_PAUSE_OF_SLOW)))
    }

    /// A look has ended that was begun at `at`, and has told an end or not.
    fn looked(&mut self, at: Instant, told_an_end: bool) {
        let now = Instant::now();
        self.last = Some(now);
        self.took = now - at;
        self.pause = if told_an_end { SHORTEST_PAUSE } else { (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE) };
    }
}

/// What waiting has come to.
enum Waited {
    /// The job has ended.
    Ended(JobEnd),
    /// The time is over, and it was looked for.
    Over,
    /// Nobody looks, or has looked in time.
    Alone,
}

impl Queue {
    /// As [`Queue::wait`].
    pub(super) async fn wait_for_end(&self, job_id: JobId, limit: Duration) -> Result<Option<JobEnd>, Error> {
        let deadline = Instant::now() + limit.min(TEN_YEARS); // more may be more than the clock can tell
        loop {
            match self.wait_listed(job_id, deadline).await {
                Waited::Ended(end) => return Ok(Some(end)),
                Waited::Over => return Ok(None),
                Waited::Alone => {}
            }
            let asked = match self.session().await {
                Ok(mut session) => session.outcomes(self.name(), &[job_id]).await,
                Err(error) => Err(error),
            };
            let is_over = Instant::now() >= deadline;
            match asked {
                Ok(ends) => match ends.into_iter().next() {
                    Some((_, end)) => return Ok(Some(end)),
                    None if is_over => return Ok(None),
                    None => {}
                },
                Err(error) if !error.is_transient() || is_over => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Waits among those that share the looks.
    async fn wait_listed(&self, job_id: JobId, deadline: Instant) -> Waited {
        if Instant::now() >= deadline {
            return Waited::Alone;
        }
        let (sender, mut end) = oneshot::channel();
        let (first_look, has_task) = {
            let mut listed = self.waiters.listed.lock();
            listed.jobs.entry(job_id).or_default().push(sender);
            (listed.looks + 1, std::mem::replace(&mut listed.has_task, true))
        };
        if !has_task {
            let looking = Looking { queue: self.clone(), jobs_per_call: JOBS_PER_CALL, lets_go: true };
            tokio::spawn(looking.run()); // not under the lock: a runtime that ends drops it at once
        }
        self.waiters.came.notify_one();
        let over = tokio::select! {
            biased;
            told = &mut end => return told.map_or(Waited::Alone, Waited::Ended),
            over = self.waiters.over(deadline, first_look) => over,
        };
        end.try_recv().map_or(over, Waited::Ended) // told meanwhile
    }
}

impl Waiters {
    /// Returns when the time is over, and it was looked since or that takes too long.
    async fn over(&self, deadline: Instant, first_look: u64) -> Waited {
        tokio::time::sleep_until(deadline).await;
        let mut answered = self.answered.subscribe();
        match tokio::time::timeout(GRACE, answered.wait_for(|look| *look >= first_look)).await {
            Ok(_) => Waited::Over,
            Err(_) => Waited::Alone,
        }
    }

    /// Returns when the next look is due.
    async fn pause(&self) {
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

    /// The jobs that somebody waits for, and the look's number.
    fn begin_look(&self) -> (Vec<JobId>, u64) {
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

    fn tell(&self, ends: Vec<(JobId, JobEnd)>) {
        let mut listed = self.listed.lock();
        for (job_id, end) in ends {
            for sender in listed.jobs.remove(&job_id).unwrap_or_default() {
                let _ = sender.send(end.clone()); // an error: it has given up
            }
        }
    }
}

/// The task that looks at SQL Server for all that wait.
struct Looking {
    queue: Queue,
    /// Fewer than it may be, where the outputs of so many did not arrive in time.
    jobs_per_call: usize,
    /// Whether there are any to be let go when it ends.
    lets_go: bool,
}

/// What a look has come to.
#[derive(Default)]
struct Seen {
    told_any: bool,
    /// It may have left some out.
    in_part: bool,
}

impl Looking {
    /// Looks until nobody waits any more, or SQL Server refuses it for good.
    async fn run(mut self) {
        loop {
            self.queue.waiters.pause().await;
            let (jobs, number) = self.queue.waiters.begin_look();
            if jobs.is_empty() {
                self.lets_go = false; // who has come since has a task of their own
                return;
            }
            let began_at = Instant::now();
            let seen = self.look(&jobs).await;
            let waiters = &self.queue.waiters;
            waiters.listed.lock().pace.looked(began_at, matches!(seen, Ok(Seen { told_any: true, .. })));
            match seen {
                Ok(Seen { in_part: false, .. }) => drop(waiters.answered.send_replace(number)),
                Ok(_) => {}
                Err(error) if error.is_transient() => {}
                Err(_) => return, // each gets it by the look that it makes alone
            }
        }
    }

    /// Asks SQL Server for the ends of jobs, and tells them.
    async fn look(&mut self, jobs: &[JobId]) -> Result<Seen, Error> {
        let mut session = self.queue.session().await?;
        let mut seen = Seen::default();
        let mut in_time = true;
        let mut rest = jobs;
        while !rest.is_empty() {
            let (asked, later) = rest.split_at(rest.len().min(self.jobs_per_call));
            match session.outcomes(self.queue.name(), asked).await {
                Ok(ends) => {
                    seen.told_any |= !ends.is_empty();
                    seen.in_part |= ends.len() >= ENDS_PER_CALL;
                    self.queue.waiters.tell(ends);
                    rest = later;
                }
                // There may be more outputs than arrive in time, or than fit into memory.
                Err(error) if error.is_time_out_of(OUTCOMES) || error.is_too_much() => {
                    in_time = false;
                    if asked.len() == 1 {
                        seen.in_part = true; // the others shall not wait for it
                        rest = later;
                    }
                    self.jobs_per_call = (asked.len() / 2).max(1);
                }
                Err(error) => return Err(error),
            }
        }
        if in_time {
            self.jobs_per_call = (self.jobs_per_call * 2).min(JOBS_PER_CALL);
        }
        Ok(seen)
    }
}

impl Drop for Looking {
    /// However it ends, also with its runtime: nobody goes on waiting for it.
    fn drop(&mut self) {
        if self.lets_go {
            let mut listed = self.queue.waiters.listed.lock();
            listed.has_task = false;
            listed.jobs.clear();
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
