//! The line of jobs whose rows another transaction may have locked. Their handlers finished them in a transaction that
//! may still be open ([`finish_in`](crate::transaction::finish_in())), or their finish timed out even alone. The line
//! has a connection of its own, which is opened when there is something to send, so that no other result waits for
//! these jobs.
//!
//! ```text
//! a list ──▶ finish ──answered──▶ confirmed
//!   ▲           └──a row is locked, a result refused, or no answer──▶ halved, each half a list ──one job is left──┐
//!   └────────────────────── again: after a pause, as failed, or with its output by large_outputs.rs ◀─────────────┘
//! ```
//!
//! A list that fails goes to the end of the line, so that it delays no other list.
//!
//! SQL Server waits for a lock no longer than [`LOCK_WAIT_MS`], and then reports a lock timeout. The worker can thus
//! tell a locked row from a server that is slow or down.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::connection::Session;
use crate::error::Error;
use crate::id::JobId;
use crate::job::Outcome;
use crate::procedures::worker::{FINISH, FINISH_WITH, FinishResult};
use crate::time::Pauses;
use crate::worker::lease::Registration;
use crate::worker::state::WorkerState;

use super::confirmations::{Confirmations, Ran, runs_to_note, settle_by_handler};
use super::finish_tries::FinishTries;
use super::large_outputs::{LargeOutput, LargeOutputSender};

/// How long SQL Server waits for a lock. A transaction that only has to commit takes less time. The wait must be short,
/// because a list of 500 jobs with one locked row takes nine such waits.
pub(super) const LOCK_WAIT_MS: u32 = 250;

/// The first and the longest pause before a locked job is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Jobs of one registration that are sent in one call.
struct List {
    jobs: Vec<Ran>,
    /// Whether a call timed out, and may have taken effect.
    is_open: bool,
    /// The pauses between tries of a job that is sent alone.
    pauses: Pauses,
    /// Whether the log already says that the job is locked.
    is_known: bool,
}

impl List {
    fn new(jobs: Vec<Ran>, is_open: bool) -> List {
        List { jobs, is_open, pauses: Pauses::new(PAUSES.0, PAUSES.1), is_known: false }
    }
}

/// The way into the line.
#[derive(Clone)]
pub(crate) struct LockedRowsSender(mpsc::UnboundedSender<List>);

impl LockedRowsSender {
    /// Adds jobs. `is_open` means that they were already sent in a call that may have taken effect.
    pub(crate) fn send(&self, jobs: Vec<Ran>, is_open: bool) {
        let _ = self.0.send(List::new(jobs, is_open)); // fails only after the stage was ended
    }
}

/// The stage: the receiving end of the line.
pub(in crate::worker) struct LockedRows {
    state: Arc<WorkerState>,
    confirmations: Arc<Confirmations>,
    arriving: mpsc::UnboundedReceiver<List>,
    lists: VecDeque<List>,
    /// The locked jobs, one per list, and when each is tried again.
    locked: Vec<(tokio::time::Instant, List)>,
    large: LargeOutputSender,
}

pub(crate) fn channel(
    state: &Arc<WorkerState>,
    confirmations: &Arc<Confirmations>,
    large: &LargeOutputSender,
) -> (LockedRowsSender, LockedRows) {
    let (sender, arriving) = mpsc::unbounded_channel();
    let (state, confirmations, large) = (state.clone(), confirmations.clone(), large.clone());
    let (lists, locked) = (VecDeque::new(), Vec::new());
    (LockedRowsSender(sender), LockedRows { state, confirmations, arriving, lists, locked, large })
}

impl LockedRows {
    /// Runs until its task is dropped.
    pub(in crate::worker) async fn run(mut self, mut session: Session) {
        let confirmations = self.confirmations.clone();
        let mut repeats = confirmations.repeats();
        loop {
            while let Ok(list) = self.arriving.try_recv() {
                self.lists.push_back(list);
            }
            let now = tokio::time::Instant::now();
            self.lists.extend(self.locked.extract_if(.., |(again_at, _)| *again_at <= now).map(|(_, list)| list));
            if let Some(list) = self.lists.pop_front() {
                let first = &list.jobs[0];
                if first.must_wait_with(&first.finish.outcome) {
                    self.locked.push((now + PAUSES.0, list));
                    continue;
                }
                // (If SQL Server has not responded and the list is gone, it has moved to another line.)
                if self.send(&mut session, list, &mut repeats).await || self.lists.is_empty() {
                    repeats = confirmations.repeats();
                }
            } else if let Some(again_at) = self.locked.iter().map(|(again_at, _)| *again_at).min() {
                match tokio::time::timeout_at(again_at, self.arriving.recv()).await {
                    Ok(Some(list)) => self.lists.push_back(list),
                    Ok(None) => tokio::time::sleep_until(again_at).await, // all senders are gone
                    Err(_) => {}
                }
            } else {
                session.disconnect();
                match self.arriving.recv().await {
                    Some(list) => self.lists.push_back(list),
                    None => return,
                }
            }
        }
    }

    /// Sends a list, and queues the jobs that were not confirmed to be sent again. Returns whether SQL Server
    /// responded.
    async fn send(&mut self, session: &mut Session, mut list: List, repeats: &mut FinishTries<'_>) -> bool {
        let registration = list.jobs[0].held.registration().clone();
        let started_at = Instant::now();
        match self.finish(session, &registration, &list.jobs).await {
            Ok(mut results) => {
                settle_by_handler(&mut list.jobs, &mut results);
                let any_lost = results.iter().any(|(_, result)| *result == FinishResult::Lost);
                if any_lost && list.is_open && self.confirmations.had_effect(session, &registration, repeats).await {
                    results.retain(|(_, result)| *result != FinishResult::Lost);
                }
                self.confirmations.answered(list.jobs, results, &registration, started_at.elapsed());
                true
            }
            Err(error) if error.is_lock_time_out() => {
                self.state.metrics.finish_retries.increment(1);
                self.is_locked(list, &error, &registration);
                true
            }
            Err(error) if error.blames_a_job() => {
                self.is_refused(list, error, repeats).await;
                true
            }
            Err(error) => {
                list.is_open |= error.leaves_open();
                let timed_out = error.is_time_out_of(FINISH) || error.is_time_out_of(FINISH_WITH);
                let outcome = &list.jobs[0].finish.outcome;
                let carries_something =
                    matches!(outcome, Outcome::Done { .. }) && (registration.settings.has_sink || outcome.bytes() > 0);
                repeats.pause(FINISH, list.jobs.len(), error).await;
                if !timed_out {
                    self.lists.push_back(list);
                } else if list.jobs.len() > 1 {
                    self.halve(list);
                } else if carries_something {
                    list.jobs.into_iter().for_each(|job| self.large.send(LargeOutput::tried_already(job)));
                } else {
                    self.lists.push_back(list);
                }
                false
            }
        }
    }

    /// Handles an error that one of the list's jobs has caused.
    async fn is_refused(&mut self, mut list: List, error: Error, repeats: &mut FinishTries<'_>) {
        // If the call took effect, its jobs come back as lost when they are sent again.
        let may_be_done = error.leaves_open() && !list.is_open;
        list.is_open |= error.leaves_open();
        if list.jobs.len() > 1 {
            return self.halve(list);
        }
        if !may_be_done {
            let job = &mut list.jobs[0];
            tracing::warn!(job_id = %job.finish.job_id, %error, "the sink rejected a result or a follow-up; the attempt failed");
            let was_a_result = matches!(job.finish.outcome, Outcome::Done { .. } | Outcome::ByHandler);
            self.confirmations.refused(job, &error);
            if !was_a_result {
                repeats.pause(FINISH, 1, error).await; // even the report that it failed is rejected
            }
        }
        self.lists.push_back(list);
    }

    fn halve(&mut self, mut list: List) {
        let half = list.jobs.split_off(list.jobs.len() / 2);
        self.lists.push_back(List::new(half, list.is_open));
        self.lists.push_back(list);
    }

    async fn finish(
        &self,
        session: &mut Session,
        registration: &Registration,
        jobs: &[Ran],
    ) -> Result<Vec<(JobId, FinishResult)>, Error> {
        // (A call on a dead connection is ended by the command timeout.)
        session.limit_lock_waits(FINISH, LOCK_WAIT_MS).await?;
        self.confirmations.try_to_write_notes(session, registration, &runs_to_note(jobs)).await?;
        let (worker_id, completion) = (registration.worker_id, registration.settings.completion);
        session.finish(&self.state.queue, worker_id, completion, jobs.iter().map(|job| &job.finish)).await
    }

    /// Handles a lock on a row of this list, or on something that its sink needs.
    fn is_locked(&mut self, mut list: List, error: &Error, registration: &Registration) {
        if list.jobs.len() > 1 {
            return self.halve(list);
        }
        let (finish, pause) = (&list.jobs[0].finish, list.pauses.next());
        if !std::mem::replace(&mut list.is_known, true) {
            // During a shutdown, releasing this job would wait for the lock and delay the others: it is left to the
            // reaper.
            registration.failed(finish.job_id, finish.fence);
            tracing::warn!(
                job_id = %finish.job_id,
                attempt = finish.attempt,
                kind = finish.kind.as_deref(),
                %error,
                "cannot finish a job while an open transaction locks its row, as that of a handler that called \
                 finish_in and returned before it committed or rolled back; others do not wait for it"
            );
        }
        self.locked.push((tokio::time::Instant::now() + pause, list));
    }
}
