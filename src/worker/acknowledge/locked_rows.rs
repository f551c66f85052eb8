//! The line of jobs whose rows another transaction may have locked: those that their handlers acknowledged in a
//! transaction that may still be open ([`finish_in`](crate::finish_in())), and those that were not answered even alone.
//! It has a connection of its own, which is made when there is something to send, so that nothing else waits for them.
//!
//! ```text
//! a list ──▶ finish ──answered──▶ confirmed
//!   ▲           └──a row is locked──▶ halved, each half a list ──one job is left──▶ again after a pause ─┐
//!   └────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! SQL Server is told to wait for a lock no longer than [`LOCK_WAIT_MS`], and says then that this is why: a server that
//! is slow or away is told apart from a row that is locked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::error::Error;
use crate::error::transient::LOCK_TIME_OUT;
use crate::growing_pauses::Pauses;
use crate::ids::JobId;
use crate::queue::finish::{FINISH, FinishResult};
use crate::queue::lasting_session::Session;
use crate::worker::lease::worker_life::Registration;
use crate::worker::stage_context::StageContext;

use super::confirmations::{Confirmations, Ran, settle_acknowledged};
use super::finish_retries::Repeats;

/// How long SQL Server waits for a lock here: longer than a transaction that only commits, and short, because a list of
/// 500 jobs with one that is locked takes nine such waits.
const LOCK_WAIT_MS: u32 = 250;

/// The first and the longest pause before a job that is locked is asked about again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Jobs of one registration that go in one call.
struct List {
    jobs: Vec<Ran>,
    /// A call was not answered, and may have been carried out all the same.
    is_open: bool,
    /// Of a job that is alone.
    pauses: Pauses,
    /// The log has it that the job is locked.
    is_known: bool,
}

impl List {
    fn new(jobs: Vec<Ran>, is_open: bool) -> List {
        List { jobs, is_open, pauses: Pauses::new(PAUSES.0, PAUSES.1), is_known: false }
    }
}

/// The way into the line.
#[derive(Clone)]
pub(super) struct LockedRowsSender(mpsc::UnboundedSender<List>);

impl LockedRowsSender {
    /// `is_open`: these jobs were sent already, in a call that may have been carried out.
    pub(super) fn send(&self, jobs: Vec<Ran>, is_open: bool) {
        let _ = self.0.send(List::new(jobs, is_open)); // refused only when the completion was ended
    }
}

/// The stage: the line's other end.
pub(in crate::worker) struct LockedRows {
    state: Arc<StageContext>,
    confirmations: Arc<Confirmations>,
    arriving: mpsc::UnboundedReceiver<List>,
    /// The last one is the next.
    lists: Vec<List>,
    /// Jobs that are locked, one a list, and when each is asked about again.
    locked: Vec<(tokio::time::Instant, List)>,
}

pub(super) fn channel(state: &Arc<StageContext>, confirmations: &Arc<Confirmations>) -> (LockedRowsSender, LockedRows) {
    let (sender, arriving) = mpsc::unbounded_channel();
    let (state, confirmations) = (state.clone(), confirmations.clone());
    (LockedRowsSender(sender), LockedRows { state, confirmations, arriving, lists: Vec::new(), locked: Vec::new() })
}

impl LockedRows {
    /// Runs until its task is ended.
    pub(in crate::worker) async fn run(mut self, mut session: Session) {
        let confirmations = self.confirmations.clone();
        let mut repeats = confirmations.repeats();
        loop {
            while let Ok(list) = self.arriving.try_recv() {
                self.lists.push(list);
            }
            if let Some(list) = self.lists.pop() {
                if self.send(&mut session, list, &mut repeats).await {
                    repeats = confirmations.repeats();
                }
            } else if let Some(next) = self.next_locked() {
                let again_at = self.locked[next].0;
                match tokio::time::timeout_at(again_at, self.arriving.recv()).await {
                    Ok(Some(list)) => self.lists.push(list),
                    // (Should every sender be gone, the worker has nothing else to do.)
                    Ok(None) | Err(_) => self.lists.push(self.locked.swap_remove(next).1),
                }
            } else {
                session.disconnect();
                match self.arriving.recv().await {
                    Some(list) => self.lists.push(list),
                    None => return,
                }
            }
        }
    }

    fn next_locked(&self) -> Option<usize> {
        let places = self.locked.iter().enumerate();
        places.min_by_key(|(_, (again_at, _))| *again_at).map(|(place, _)| place)
    }

    /// Sends a list; what was not acknowledged of it is to be sent again. Returns whether SQL Server has answered.
    async fn send(&mut self, session: &mut Session, mut list: List, repeats: &mut Repeats<'_>) -> bool {
        let registration = list.jobs[0].held.registration().clone();
        let started_at = Instant::now();
        match self.finish(session, &registration, &list.jobs).await {
            Ok(mut results) => {
                settle_acknowledged(&mut list.jobs, &mut results);
                let any_lost = results.iter().any(|(_, result)| *result == FinishResult::Lost);
                if any_lost && list.is_open && self.confirmations.had_effect(session, &registration, repeats).await {
                    results.retain(|(_, result)| *result != FinishResult::Lost);
                }
                self.confirmations.answered(list.jobs, results, &registration, started_at.elapsed());
                true
            }
            Err(error) if error.sql_number() == Some(LOCK_TIME_OUT) => {
                self.state.metrics.finish_retries.increment(1);
                self.is_locked(list, &registration);
                true
            }
            Err(error) => {
                list.is_open |= error.leaves_open();
                repeats.pause(FINISH, list.jobs.len(), error).await;
                self.lists.push(list);
                false
            }
        }
    }

    async fn finish(
        &self,
        session: &mut Session,
        registration: &Registration,
        jobs: &[Ran],
    ) -> Result<Vec<(JobId, FinishResult)>, Error> {
        // With each call, because the connection may be another. (A call on one that knows nothing of it is ended by the
        // command time-out.)
        session.batch(FINISH, &format!("SET LOCK_TIMEOUT {LOCK_WAIT_MS}")).await?;
        session.finish(&self.state.queue, registration.worker_id, jobs.iter().map(|job| &job.finish)).await
    }

    /// A row of this list is locked.
    fn is_locked(&mut self, mut list: List, registration: &Registration) {
        if list.jobs.len() > 1 {
            let half = list.jobs.split_off(list.jobs.len() / 2);
            self.lists.push(List::new(half, list.is_open));
            self.lists.push(list);
            return;
        }
        let (finish, pause) = (&list.jobs[0].finish, list.pauses.next());
        if !std::mem::replace(&mut list.is_known, true) {
            // At a shutdown, giving it back would wait for the lock, and the others with it: it is the reaper's.
            registration.failed(finish.job_id, finish.fence);
            tracing::warn!(
                job_id = %finish.job_id,
                attempt = finish.attempt,
                kind = finish.kind.as_deref(),
                "a job cannot be acknowledged while an open transaction locks its row, as of a handler that called \
                 finish_in and returned before it committed or rolled back; others do not wait for it"
            );
        }
        self.locked.push((tokio::time::Instant::now() + pause, list));
    }
}
