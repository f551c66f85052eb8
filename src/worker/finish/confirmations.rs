//! Handles SQL Server's responses to finish calls, for all sessions that send them: counts the jobs, forgets them, and
//! frees their memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connection::Session;
use crate::error::Error;
use crate::handler::retry_delay;
use crate::id::{Fence, JobId};
use crate::job::{NotedRun, Outcome};
use crate::procedures::worker::{Finish, FinishResult, UNCOMMITTED};
use crate::text::cut;
use crate::time::Pauses;
use crate::worker::lease::{GroupRun, HeldJob, Registration};
use crate::worker::state::{RunEnd, WorkerState};

use super::finish_tries::{FinishRefusals, FinishTries};
use super::notes_writer::{NOTES_BATCH, write_next};

/// A job that has run, and the outcome to report to SQL Server. Or one that has not, but is over or postponed.
pub(in crate::worker) struct Ran {
    pub(in crate::worker) finish: Finish,
    pub(in crate::worker) has_run: bool,
    /// When the job was enqueued, by the local clock.
    pub(in crate::worker) enqueued_at: Instant,
    /// Whether the job's handler has called [`finish_in`](crate::transaction::finish_in()), in a transaction that may
    /// still be open.
    pub(in crate::worker) by_handler: bool,
    /// Whether other jobs, of its group or behind it in a graph, may be waiting for it to finish.
    pub(in crate::worker) frees_turn: bool,
    /// Whether its log stays, and is noted.
    pub(in crate::worker) keeps_log: bool,
    /// The run that the job belongs to, if later results must not be confirmed before this one.
    pub(in crate::worker) run: Option<Arc<GroupRun>>,
    pub(in crate::worker) held: HeldJob,
}

impl Ran {
    /// Whether an earlier result of its run could not be confirmed in its place, so that the job must run again.
    pub(in crate::worker) fn must_run_again(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_broken())
    }

    /// Whether this outcome of the job must not be reported yet: the job could start again at once, and a later job of
    /// its run is still running.
    pub(in crate::worker) fn must_wait_with(&self, outcome: &Outcome) -> bool {
        !matches!(outcome, Outcome::Done { .. }) && self.run.as_ref().is_some_and(|run| !run.has_stopped())
    }
}

/// Shared by all sessions that finish jobs.
pub(in crate::worker) struct Confirmations {
    state: Arc<WorkerState>,
    /// Makes the pool check for jobs that can start now.
    pump: Box<dyn Fn() + Send + Sync>,
    refusals: FinishRefusals,
}

impl Confirmations {
    pub(in crate::worker) fn new(state: Arc<WorkerState>, pump: Box<dyn Fn() + Send + Sync>) -> Confirmations {
        Confirmations { refusals: FinishRefusals::new(state.clone()), pump, state }
    }

    /// The tries of one call.
    pub(in crate::worker) fn repeats(&self) -> FinishTries<'_> {
        FinishTries::new(&self.refusals)
    }

    /// Turns the job's outcome into a failed attempt, because the queue's sink rejected the result, or the follow-ups
    /// could not be enqueued.
    pub(crate) fn refused(&self, job: &mut Ran, error: &Error) {
        let Finish { job_id, fence, attempt, .. } = job.finish;
        let delay = retry_delay(&self.state.config.retry, attempt);
        job.finish.outcome = Outcome::Retry { delay, error: cut(&error.to_string()).to_owned(), needs: None };
        job.held.registration().failed(job_id, fence);
        self.state.metrics.refused_results(1);
    }

    /// Handles SQL Server's response to a finish. `results` contains the jobs that did not finish as requested. Jobs
    /// that handlers have finished themselves must be [settled](settle_by_handler) first.
    pub(in crate::worker) fn answered(
        &self,
        jobs: Vec<Ran>,
        results: Vec<(JobId, FinishResult)>,
        registration: &Registration,
        took: Duration,
    ) {
        self.refusals.accepted();
        let lost = results.iter().filter(|(_, result)| *result == FinishResult::Lost).count();
        self.state.metrics.confirmed(jobs.len() - lost, took);
        tracing::debug!(batch = jobs.len(), lost, ?took, "finished");
        self.confirmed(registration, jobs, &results);
    }

    /// Counts jobs and forgets them.
    pub(in crate::worker) fn confirmed(
        &self,
        registration: &Registration,
        jobs: Vec<Ran>,
        results: &[(JobId, FinishResult)],
    ) {
        self.count(registration, &jobs, results);
        let runs = || jobs.iter().map(|job| (job.finish.job_id, job.finish.fence));
        registration.forget(runs());
        self.state.notes.forget(runs());
        let next_in_turn =
            jobs.iter().any(|job| job.frees_turn) || results.iter().any(|(_, result)| *result == FinishResult::Next);
        drop(jobs); // before the signal, so that their memory and permits are free
        self.have_left();
        if next_in_turn || self.state.arrivals.ends_make_room() {
            self.state.arrivals.expect();
        }
    }

    /// Signals that jobs have left memory: claims may have been waiting for their bytes.
    pub(crate) fn have_left(&self) {
        self.state.in_flight.confirmed();
        (self.pump)();
    }

    fn count(&self, registration: &Registration, jobs: &[Ran], results: &[(JobId, FinishResult)]) {
        let results: HashMap<JobId, FinishResult> = results.iter().copied().collect();
        let WorkerState { tally, metrics, .. } = &*self.state;
        let mut runs = Vec::with_capacity(jobs.len());
        let now = Instant::now();
        let mut lost = 0;
        for Ran { finish, has_run, enqueued_at, .. } in jobs {
            let result = results.get(&finish.job_id);
            if result == Some(&FinishResult::Lost) {
                tracing::debug!(job_id = %finish.job_id, fence = %finish.fence, "a finish came too late");
                lost += 1;
                continue;
            }
            let comes_back = finish.fence != Fence::NONE && result != Some(&FinishResult::Dead);
            let kind = finish.kind.as_deref();
            let end = match &finish.outcome {
                // not sent: it has no row
                Outcome::ByHandler => {
                    tally.done();
                    Some(RunEnd::Done)
                }
                Outcome::Done { follow_ups, .. } => {
                    tally.done();
                    metrics.job_done(now.saturating_duration_since(*enqueued_at));
                    if !follow_ups.is_empty() {
                        metrics.followed_up(follow_ups.len());
                        if follow_ups.iter().any(|follow_up| follow_up.queue == self.state.queue) {
                            self.state.arrivals.expect();
                        }
                    }
                    Some(RunEnd::Done)
                }
                _ if registration.cancellations().is_asked(finish.job_id, finish.fence) => {
                    tally.cancelled();
                    metrics.cancelled.increment(1);
                    None
                }
                Outcome::Expired { error } => {
                    if finish.fence == Fence::NONE {
                        tracing::warn!(job_id = %finish.job_id, kind, error, "a job expired, and has no row any more");
                    } else {
                        tracing::debug!(job_id = %finish.job_id, kind, error, "a job expired");
                    }
                    self.state.expired(1);
                    None
                }
                Outcome::Retry { .. } if comes_back => {
                    tally.retried();
                    Some(RunEnd::Failed)
                }
                Outcome::Move { queue, error } if comes_back => {
                    tally.retried();
                    tracing::info!(job_id = %finish.job_id, attempt = finish.attempt, kind, error, to = queue, "a job was moved");
                    Some(RunEnd::Failed)
                }
                Outcome::Snooze { .. } if comes_back => {
                    tally.snoozed();
                    None
                }
                Outcome::Retry { error, .. }
                | Outcome::Snooze { error, .. }
                | Outcome::Move { error, .. }
                | Outcome::Dead { error } => {
                    tally.dead();
                    metrics.dead.increment(1);
                    tracing::warn!(job_id = %finish.job_id, attempt = finish.attempt, kind, error, "a job is dead");
                    Some(RunEnd::Died)
                }
            };
            if *has_run {
                runs.push((kind, end, finish.run, finish.usage));
            }
        }
        self.state.kinds.add(runs);
        metrics.finished(jobs.len() - lost);
        self.count_lost(lost);
    }

    /// Writes the checkpoints, progress and logs of these runs, because their jobs will run again and need them. Takes no
    /// longer than one call may take, because other results wait behind it. The notes writer writes the rest, perhaps
    /// too late.
    pub(crate) async fn write_notes(&self, session: &mut Session, registration: &Registration, runs: Vec<NotedRun>) {
        let limit = session.command_timeout();
        let written = async {
            let mut pauses = Pauses::for_errors();
            while self.try_to_write_notes(session, registration, &runs).await.is_err() {
                tokio::time::sleep(pauses.next()).await;
            }
        };
        if tokio::time::timeout(limit, written).await.is_err() {
            tracing::warn!(after = ?limit, "the last progress or checkpoint of jobs was not written before they finished");
        }
    }

    /// One try of [`write_notes`](Self::write_notes), for runs whose rows may be locked.
    pub(crate) async fn try_to_write_notes(
        &self,
        session: &mut Session,
        registration: &Registration,
        runs: &[NotedRun],
    ) -> Result<(), Error> {
        let notes = &self.state.notes;
        if !notes.were_used() || runs.is_empty() {
            return Ok(());
        }
        let _writing = notes.writing().await;
        let mut taken = notes.take(runs.iter().copied());
        while !taken.is_empty() {
            write_next(session, registration.worker_id, &mut taken, NOTES_BATCH).await?;
        }
        Ok(())
    }

    /// Counts released jobs, without those that were `lost`.
    pub(in crate::worker) fn released(&self, jobs: usize, lost: usize) {
        self.refusals.accepted();
        let released = (jobs - lost) as u64;
        self.state.tally.released(released);
        self.state.metrics.released(released);
        self.count_lost(lost);
    }

    /// Returns whether the jobs that SQL Server reports as lost were finished by an earlier try, which took effect
    /// although its response was lost. This is so if the worker was never marked lost, because then no other session
    /// can have taken the jobs. SQL Server must be asked: the local clock proves nothing, because the server's clock
    /// may have jumped, and this machine may have been suspended.
    pub(in crate::worker) async fn had_effect(
        &self,
        session: &mut Session,
        registration: &Registration,
        repeats: &mut FinishTries<'_>,
    ) -> bool {
        loop {
            match session.heartbeat(registration.worker_id, None).await {
                Ok(_) => return true,
                Err(Error::LeaseLost) => return false,
                Err(error) => repeats.pause("heartbeat", 0, error).await,
            }
        }
    }

    fn count_lost(&self, jobs: usize) {
        if jobs == 0 {
            return;
        }
        tracing::warn!(
            jobs,
            "jobs no longer belong to this worker: they were returned to the queue when its lease expired"
        );
        self.state.tally.lost(jobs as u64);
        self.state.metrics.lost(jobs);
    }
}

/// Returns the runs of those jobs in the list that will run again, or whose log stays.
pub(crate) fn runs_to_note(jobs: &[Ran]) -> Vec<NotedRun> {
    let noted = jobs.iter().filter(|job| job.keeps_log || !matches!(job.finish.outcome, Outcome::Done { .. }));
    noted.map(|job| (job.finish.job_id, job.finish.fence)).collect()
}

/// Sets the outcomes of jobs that their handlers have finished. They were sent as failed, so the jobs that SQL Server
/// reports as lost are done. Must be called before lost jobs are handled in any other way.
pub(crate) fn settle_by_handler(jobs: &mut [Ran], results: &mut Vec<(JobId, FinishResult)>) {
    for Ran { finish, .. } in jobs.iter_mut().filter(|job| job.finish.outcome == Outcome::ByHandler) {
        let lost = results.iter().position(|result| *result == (finish.job_id, FinishResult::Lost));
        finish.outcome = match lost {
            Some(position) => {
                results.swap_remove(position);
                Outcome::Done { output: None, follow_ups: Vec::new() }
            }
            None => Outcome::Retry { delay: Duration::ZERO, error: UNCOMMITTED.to_owned(), needs: None },
        };
    }
}
