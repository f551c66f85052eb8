//! The finisher: finishes jobs in batches.
//!
//! ```text
//! executor ──send──▶ channel ──▶ session 0: collect a batch ─▶ finish / release ─▶ forget the jobs
//!                │         └───▶ session 1: the same, while session 0 waits for SQL Server
//!                │                  └──▶ perhaps locked: a session of their own (locked_rows.rs)
//!                └──large outputs──▶ a session of their own, one a call (large_outputs.rs)
//! ```
//!
//! A session takes jobs from the channel, up to a batch, waits at most `finish_linger_ms` for the batch to fill, and
//! sends it. It sends the batch immediately if other jobs are waiting for one of these jobs to finish, because that job
//! belongs to a group or the queue limits its claims. While the session waits for SQL Server, the other one collects. A
//! batch is sent again until SQL Server has responded, and leaves memory only then. A batch that times out, or that the
//! queue's sink rejects, is sent in smaller and smaller parts. Batches with results of a run are sent one at a time,
//! because these must be confirmed in order. The channel needs no bound of its own: the jobs in it
//! count as in flight, and the prefetcher stops at `max_in_flight` and `max_in_flight_bytes`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};

use crate::connection::Session;
use crate::error::Error;
use crate::id::{Fence, JobId};
use crate::job::Outcome;
use crate::procedures::worker::{FINISH, FINISH_WITH, FinishResult};
use crate::worker::lease::{HeldJob, Registration};
use crate::worker::state::{CallSize, Phase, WorkerState};

use super::confirmations::{Confirmations, Ran, runs_to_note, settle_by_handler};
use super::filling::Filling;
use super::large_outputs::{LargeOutput, LargeOutputSender, LargeOutputs};
use super::locked_rows::{LOCK_WAIT_MS, LockedRows, LockedRowsSender};
use super::refused_result_search::RefusedResultSearch;
use super::{large_outputs, locked_rows};

/// How long to wait for the response for jobs that their handlers have finished. If it takes longer, one of their rows
/// may be locked.
const LOCKED_AFTER: Duration = Duration::from_secs(1);

/// A job that has left the executor.
pub(in crate::worker) enum Ended {
    Ran(Ran),
    /// The job did not start and must be released.
    Unstarted {
        job_id: JobId,
        fence: Fence,
        has_turn: bool,
        held: HeldJob,
    },
}

impl Ended {
    fn job_id(&self) -> JobId {
        match self {
            Ended::Ran(ran) => ran.finish.job_id,
            Ended::Unstarted { job_id, .. } => *job_id,
        }
    }
}

/// The executor's end of the channel.
#[derive(Clone)]
pub(in crate::worker) struct FinishSender {
    ended: mpsc::UnboundedSender<Ended>,
    large: LargeOutputSender,
    filling: Arc<Filling>,
    state: Arc<WorkerState>,
}

impl FinishSender {
    /// Hands over a job. Never blocks.
    pub(in crate::worker) fn send(&self, ended: Ended) {
        let ended = match ended {
            // (A job without a row sends nothing, however large its output is. The large output of a run follows the
            // earlier results.)
            Ended::Ran(ran) if ran.finish.is_large() && ran.finish.fence != Fence::NONE && ran.run.is_none() => {
                return self.large.send(LargeOutput::new(ran));
            }
            ended => ended,
        };
        let urgent = matches!(&ended, Ended::Ran(ran) if ran.frees_turn) || self.state.arrivals.ends_make_room();
        // Sending fails only after an immediate stop has ended this stage: the reaper then returns the job.
        let _ = self.ended.send(ended);
        self.filling.added(urgent);
    }
}

/// The stage.
pub(in crate::worker) struct Finisher {
    state: Arc<WorkerState>,
    confirmations: Arc<Confirmations>,
    collecting: Mutex<Collecting>,
    /// Held while results of runs are sent. True if a session has panicked meanwhile: results are missing.
    in_order: Arc<Mutex<bool>>,
    filling: Arc<Filling>,
    large: LargeOutputSender,
    locked: LockedRowsSender,
}

/// The sessions that have a connection of their own.
pub(in crate::worker) struct OwnLines {
    pub(in crate::worker) large_outputs: LargeOutputs,
    pub(in crate::worker) locked_rows: LockedRows,
}

type Receiver = mpsc::UnboundedReceiver<Ended>;

/// The state of the session whose turn it is to collect.
struct Collecting {
    ended: Receiver,
    /// When to check for the next batch, if the last one had jobs.
    look_at: Option<tokio::time::Instant>,
}

/// Creates the stage, and the sender that passes jobs to it. The stage calls `pump` when jobs have left memory.
pub(in crate::worker) fn channel(
    state: &Arc<WorkerState>,
    pump: impl Fn() + Send + Sync + 'static,
) -> (FinishSender, Arc<Finisher>, OwnLines) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let confirmations = Arc::new(Confirmations::new(state.clone(), Box::new(pump)));
    let (large, large_outputs) = large_outputs::channel(state, &confirmations);
    let (locked, locked_rows) = locked_rows::channel(state, &confirmations, &large);
    let filling = Arc::new(Filling::new(state.config.finish_batch_size));
    let finisher = Finisher {
        state: state.clone(),
        confirmations,
        collecting: Mutex::new(Collecting { ended: receiver, look_at: None }),
        in_order: Arc::default(),
        filling: filling.clone(),
        large: large.clone(),
        locked,
    };
    let sender = FinishSender { ended: sender, large, filling, state: state.clone() };
    (sender, Arc::new(finisher), OwnLines { large_outputs, locked_rows })
}

impl Finisher {
    /// Runs one session of the stage until its task is dropped.
    pub(in crate::worker) async fn run_session(self: Arc<Finisher>, mut session: Session) {
        let mut limit = CallSize::new(self.state.config.finish_batch_size);
        loop {
            let (batch, mut in_order) = tokio::select! {
                collected = self.collect() => collected,
                never = session.close_when_idle() => match never {},
            };
            if batch.is_empty() {
                return; // all senders are gone
            }
            let has_gap = in_order.as_deref_mut().is_some_and(|sends| std::mem::replace(sends, true));
            let mut releases = Vec::new();
            for part in split_into_calls(batch) {
                if has_gap {
                    part.ran.iter().filter_map(|job| job.run.as_ref()).for_each(|run| run.break_up());
                }
                releases.extend(self.finish_batch(&mut session, &mut limit, part).await);
            }
            if let Some(mut sends) = in_order {
                *sends = has_gap;
            }
            // Last, because these calls may wait long for locks, and other results must not.
            for part in releases {
                self.release(&mut session, part).await;
            }
        }
    }

    /// Waits for the first job that has run, then for more until the batch is full or the linger time has passed.
    ///
    /// While the channel fills, the session does not wait at the channel: each job would wake it, which costs the
    /// pool's threads more than finishing the job does. While jobs keep coming, the session does not even wait for the
    /// first one: it checks one linger time after it took the last batch. No job waits longer than that, and only the
    /// timer wakes the thread.
    ///
    /// If there are results of runs, also returns the guard under which they are sent. It is taken before the other
    /// session can collect, so that the batches are sent in the order in which they were collected.
    async fn collect(&self) -> (Vec<Ended>, Option<OwnedMutexGuard<bool>>) {
        let WorkerState { config, stop, .. } = &*self.state;
        let most = config.finish_batch_size;
        let linger = config.finish_linger;
        let mut collecting = self.collecting.lock().await;
        let Collecting { ended, look_at } = &mut *collecting;
        let mut batch = Vec::with_capacity(most);
        if let Some(look_at) = look_at.take() {
            self.fill(&mut batch, ended, look_at).await;
        }
        if batch.is_empty() {
            ended.recv_many(&mut batch, most).await;
            if !batch.is_empty() {
                self.fill(&mut batch, ended, tokio::time::Instant::now() + linger).await;
            }
        }
        let mut in_order = None;
        if batch.iter().any(|ended| matches!(ended, Ended::Ran(Ran { run: Some(_), .. }))) {
            in_order = Some(self.in_order.clone().lock_owned().await);
            self.fill(&mut batch, ended, tokio::time::Instant::now()).await; // what came meanwhile
        }
        // If the worker is stopping, jobs are finished without lingering.
        if stop.is_running() {
            *look_at = Some(tokio::time::Instant::now() + linger);
        }
        self.filling.taken(batch.len());
        (batch, in_order)
    }

    /// Takes jobs from the channel until the batch is full or has an urgent job, the time has passed, or the worker
    /// stops.
    async fn fill(&self, batch: &mut Vec<Ended>, ended: &mut Receiver, until: tokio::time::Instant) {
        let stop = &self.state.stop;
        let enough = async {
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = stop.reached(Phase::Stopping) => {}
            }
        };
        self.filling.fill(batch, ended, enough).await;
    }

    /// Finishes a batch of one registration, with as many tries as it takes until SQL Server has responded. Returns the
    /// jobs to release.
    async fn finish_batch(&self, session: &mut Session, limit: &mut CallSize, batch: Batch) -> Option<Releases> {
        let Batch { registration, mut ran, mut releases, .. } = batch;
        // A job of an at_most_once queue no longer has a row, so there is nothing to report.
        let without_row: Vec<Ran> = ran.extract_if(.., |job| job.finish.fence == Fence::NONE).collect();
        if !without_row.is_empty() {
            self.confirmations.confirmed(&registration, without_row, &[]);
        }
        let mut run_again: Vec<Ran> = ran.extract_if(.., |job| job.must_run_again()).collect();
        let large: Vec<Ran> = ran.extract_if(.., |job| job.finish.is_large()).collect();
        let mut by_handlers: Vec<Ran> = ran.extract_if(.., |job| job.by_handler).collect();
        self.confirmations.write_notes(session, &registration, runs_to_note(&ran)).await;
        run_again.extend(self.finish(session, limit, &registration, ran).await);
        run_again.extend(by_handlers.extract_if(.., |job| job.must_run_again()));
        self.settle_those_of_handlers(session, limit, &registration, by_handlers).await;
        for large in large {
            if large.must_run_again() { run_again.push(large) } else { self.large.send(LargeOutput::new(large)) }
        }
        if !run_again.is_empty() {
            tracing::warn!(
                jobs = run_again.len(),
                "these jobs run again, because an earlier job of their group has not finished as it should"
            );
        }
        let run_again = run_again.into_iter().map(|Ran { finish, held, .. }| (finish.job_id, finish.fence, true, held));
        releases.extend(run_again);
        (!releases.is_empty()).then_some(Releases { registration, jobs: releases })
    }

    /// Returns the jobs that must run again, because an earlier job of their run could not be finished in its place.
    async fn finish(
        &self,
        session: &mut Session,
        limit: &mut CallSize,
        registration: &Registration,
        mut unconfirmed: Vec<Ran>,
    ) -> Vec<Ran> {
        let mut run_again = Vec::new();
        let mut repeats = self.confirmations.repeats();
        let mut started_at = Instant::now();
        let (mut search, mut refused) = (RefusedResultSearch::default(), RefusedResults::default());
        // How many of the first jobs were sent in a call that may or may not have taken effect.
        let mut open = 0;
        // After a timeout, calls limit their lock waits, to find out whether a row is locked. Smaller calls would not
        // help then.
        let mut limits_lock_waits = false;
        while !unconfirmed.is_empty() {
            let alike = if open > 0 { open } else { unconfirmed.len() };
            let jobs = alike.min(limit.jobs()).min(search.next().unwrap_or(usize::MAX));
            let call = unconfirmed[..jobs].iter().map(|job| &job.finish);
            let answer = async {
                if limits_lock_waits {
                    session.limit_lock_waits(FINISH, LOCK_WAIT_MS).await?;
                }
                session.finish(&self.state.queue, registration.worker_id, registration.settings.completion, call).await
            };
            match answer.await {
                Ok(mut results) => {
                    limit.answered(jobs);
                    search.accepted(jobs);
                    settle_by_handler(&mut unconfirmed[..jobs], &mut results);
                    let any_lost = results.iter().any(|(_, result)| *result == FinishResult::Lost);
                    if any_lost && open > 0 && self.confirmations.had_effect(session, registration, &mut repeats).await
                    {
                        // If the lost response reported a retried job as dead, the job is nevertheless counted as
                        // retried.
                        results.retain(|(_, result)| *result != FinishResult::Lost);
                    }
                    let later = unconfirmed.split_off(jobs);
                    let confirmed = std::mem::replace(&mut unconfirmed, later);
                    open = open.saturating_sub(jobs);
                    self.confirmations.answered(confirmed, results, registration, started_at.elapsed());
                    started_at = Instant::now();
                }
                Err(error) if error.blames_a_job() => {
                    // If that call took effect, its jobs come back as lost when they are sent again.
                    let may_be_done = error.leaves_open() && open == 0;
                    if error.leaves_open() {
                        open = open.max(jobs);
                    }
                    if may_be_done && jobs == 1 {
                        continue;
                    }
                    if search.refused(jobs) {
                        let mut culprit = unconfirmed.remove(0);
                        open = open.saturating_sub(1);
                        let was_a_result = matches!(culprit.finish.outcome, Outcome::Done { .. } | Outcome::ByHandler);
                        self.confirmations.refused(&mut culprit, &error);
                        if let Some(run) = &culprit.run {
                            // (Only after a sink was assigned to the queue.)
                            run.break_up();
                            let sent = |jobs: &[Ran]| jobs.iter().filter(|job| job.must_run_again()).count();
                            open -= sent(&unconfirmed[..open]);
                            run_again.extend(unconfirmed.extract_if(.., |job| job.must_run_again()));
                            self.locked.send(vec![culprit], false); // which waits until its run has stopped
                            refused.note(error);
                            continue;
                        }
                        let run = (culprit.finish.job_id, culprit.finish.fence);
                        self.confirmations.write_notes(session, registration, vec![run]).await;
                        unconfirmed.push(culprit);
                        if was_a_result {
                            refused.note(error);
                        } else {
                            repeats.pause(FINISH, 1, error).await; // even the report that it failed is rejected
                        }
                    }
                }
                Err(error) => {
                    if error.leaves_open() {
                        open = open.max(jobs);
                    }
                    let timed_out = error.is_time_out_of(FINISH) || error.is_time_out_of(FINISH_WITH);
                    if timed_out {
                        limit.timed_out(jobs);
                        limits_lock_waits = true;
                    }
                    let is_locked = error.is_lock_time_out();
                    if is_locked && jobs > 1 && unconfirmed[..jobs].iter().any(|job| job.run.is_some()) {
                        limit.timed_out(jobs); // only the locked one leaves its place
                    } else if is_locked || (timed_out && jobs == 1) {
                        // Other jobs must not wait for a locked row, or for a job that times out even alone.
                        search.accepted(jobs);
                        let is_open = open > 0;
                        let later = unconfirmed.split_off(jobs);
                        let sent = std::mem::replace(&mut unconfirmed, later);
                        open = open.saturating_sub(jobs);
                        if let Some(run) = &sent[0].run {
                            run.break_up();
                            open -= unconfirmed[..open].iter().filter(|job| job.must_run_again()).count();
                            run_again.extend(unconfirmed.extract_if(.., |job| job.must_run_again()));
                        }
                        self.locked.send(sent, is_open);
                    }
                    repeats.pause(FINISH, jobs, error).await;
                }
            }
        }
        refused.log();
        if limits_lock_waits {
            session.disconnect(); // the limit ends with the connection
        }
        run_again
    }

    /// Asks SQL Server about jobs that their handlers have finished, in a separate call. If a handler has left its
    /// transaction open, its job is locked, and no other result must wait for that.
    async fn settle_those_of_handlers(
        &self,
        session: &mut Session,
        limit: &mut CallSize,
        registration: &Registration,
        mut jobs: Vec<Ran>,
    ) {
        if jobs.is_empty() {
            return;
        }
        let wait = LOCKED_AFTER.min(session.command_timeout());
        let runs = runs_to_note(&jobs);
        let writing = self.confirmations.try_to_write_notes(session, registration, &runs);
        if !matches!(tokio::time::timeout(wait, writing).await, Ok(Ok(()))) {
            tracing::debug!(jobs = jobs.len(), "jobs that their handlers finished wait: one of them may be locked");
            return self.locked.send(jobs, false);
        }
        let started_at = Instant::now();
        let call = jobs.iter().map(|job| &job.finish);
        let mut calling = session.within(wait);
        let completion = registration.settings.completion;
        let answer = calling.finish(&self.state.queue, registration.worker_id, completion, call).await;
        drop(calling);
        match answer {
            Ok(mut results) => {
                settle_by_handler(&mut jobs, &mut results);
                self.confirmations.answered(jobs, results, registration, started_at.elapsed());
            }
            // (They are the last of their runs.)
            Err(error) if error.blames_a_job() => drop(self.finish(session, limit, registration, jobs).await),
            Err(error) => {
                tracing::debug!(jobs = jobs.len(), %error, "asking again about jobs that their handlers finished");
                self.locked.send(jobs, error.leaves_open());
            }
        }
    }

    async fn release(&self, session: &mut Session, releases: Releases) {
        let Releases { registration, jobs } = releases;
        let list: Vec<(JobId, Fence)> = jobs.iter().map(|(job_id, fence, ..)| (*job_id, *fence)).collect();
        let mut repeats = self.confirmations.repeats();
        let mut is_open = false;
        let not_ours = loop {
            match session.release(registration.worker_id, &list).await {
                Ok(not_ours) => break not_ours,
                Err(error) => {
                    is_open |= error.leaves_open();
                    repeats.pause("release", list.len(), error).await;
                }
            }
        };
        let is_ours = !not_ours.is_empty() && is_open;
        let recognised = is_ours && self.confirmations.had_effect(session, &registration, &mut repeats).await;
        self.confirmations.released(list.len(), if recognised { 0 } else { not_ours.len() });
        registration.forget(list.into_iter());
        let frees_turns = jobs.iter().any(|(_, _, has_turn, _)| *has_turn);
        drop(jobs);
        self.confirmations.have_left();
        if frees_turns {
            self.state.arrivals.expect();
        }
    }
}

/// Jobs to release.
struct Releases {
    registration: Arc<Registration>,
    /// Each with whether it belongs to a group.
    jobs: Vec<(JobId, Fence, bool, HeldJob)>,
}

/// The results of one batch that a sink rejected: one line in the log.
#[derive(Default)]
struct RefusedResults {
    jobs: usize,
    first: Option<Error>,
}

impl RefusedResults {
    fn note(&mut self, error: Error) {
        self.jobs += 1;
        self.first.get_or_insert(error);
    }

    fn log(self) {
        if let Some(error) = self.first {
            let jobs = self.jobs;
            tracing::warn!(jobs, first = %error, "the sink or the table rejected results or follow-ups; the attempts of their jobs failed");
        }
    }
}

/// Jobs of one registration that have run.
struct Batch {
    registration: Arc<Registration>,
    ran: Vec<Ran>,
    releases: Vec<(JobId, Fence, bool, HeldJob)>,
    /// The size of the outputs, of the follow-ups and of the errors.
    bytes: usize,
    follow_ups: usize,
}

/// The most bytes of one call: they must arrive within the command timeout.
const MAX_CALL_BYTES: usize = 8 << 20;

/// The most follow-ups of one call for several jobs, so that its transaction locks few rows.
const MAX_CALL_FOLLOW_UPS: usize = 1_000;

/// Divides jobs that have run into calls: by size, and by worker id, because `finish` takes one worker id. (There are
/// several only just after a lease was lost.) If a job appears twice, because it ran again before its first result was
/// confirmed, its second result goes into another call, because the job is the key of the list. A result of a run goes
/// into no earlier call than the results before it.
fn split_into_calls(mut ended: Vec<Ended>) -> Vec<Batch> {
    // Sorting puts both entries of a job next to each other. (Jobs finish nearly in this order.)
    ended.sort_by_key(Ended::job_id);
    let mut batches: Vec<(Batch, JobId)> = Vec::new();
    let most = ended.len();
    let mut in_order_from = 0;
    for ended in ended {
        let job_id = ended.job_id();
        let (follow_ups, held) = match &ended {
            Ended::Ran(Ran { finish, held, .. }) => (finish.outcome.follow_ups().len(), held),
            Ended::Unstarted { held, .. } => (0, held),
        };
        let is_of_run = matches!(&ended, Ended::Ran(Ran { run: Some(_), .. }));
        let from = if is_of_run { in_order_from } else { 0 };
        let fits = batches.iter().skip(from).position(|(batch, last)| {
            Arc::ptr_eq(&batch.registration, held.registration())
                && batch.bytes + held.bytes() <= MAX_CALL_BYTES
                && batch.follow_ups + follow_ups <= MAX_CALL_FOLLOW_UPS
                && *last != job_id
        });
        let index = fits.map(|place| from + place).unwrap_or_else(|| {
            let registration = held.registration().clone();
            let (ran, releases) = (Vec::with_capacity(most), Vec::new());
            batches.push((Batch { registration, ran, releases, bytes: 0, follow_ups: 0 }, job_id));
            batches.len() - 1
        });
        if is_of_run {
            in_order_from = index;
        }
        let (batch, last) = &mut batches[index];
        *last = job_id;
        batch.bytes += held.bytes();
        batch.follow_ups += follow_ups;
        match ended {
            Ended::Ran(ran) => batch.ran.push(ran),
            Ended::Unstarted { job_id, fence, has_turn, held } => batch.releases.push((job_id, fence, has_turn, held)),
        }
    }
    batches.into_iter().map(|(batch, _)| batch).collect()
}
