//! The session for large outputs: outputs that do not fit into a list, and outputs whose list timed out. Each takes one
//! call, on a connection that is opened when there is something to send, so that no other result waits for them.
//!
//! ```text
//! line: ▶ send the first ──answered──▶ confirmed
//!       │        └──no response──▶ is SQL Server there? (a heartbeat) ──yes──▶ one try more
//!       └────────────── to the end of the line ◀───────────────────────────────────┘
//! ```
//!
//! An output that cannot be delivered would hold its job and be sent again for ever. After [`MAX_TRIES`], the attempt
//! is reported as failed instead. A try counts only if SQL Server responded to other calls meanwhile, so that no job
//! fails because the server is down.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::connection::Session;
use crate::error::Error;
use crate::handler::retry_delay;
use crate::job::{CompletionPolicy, Outcome};
use crate::procedures::worker::{FINISH_ONE, Finish, FinishResult};
use crate::worker::lease::Registration;
use crate::worker::state::WorkerState;

use super::confirmations::{Confirmations, Ran};
use super::finish_tries::FinishTries;
use super::locked_rows::LOCK_WAIT_MS;

/// After how many tries an output is considered undeliverable. Each try takes the whole command timeout, so a network
/// that is slow for a while has time to recover.
const MAX_TRIES: u32 = 5;

/// How long to wait before checking again whether a job's run has stopped.
const UNTIL_RUN_STOPS: Duration = Duration::from_millis(250);

/// After how long without a large output the connection is closed.
const IDLE: Duration = Duration::from_secs(10);

/// A job whose output is sent by itself.
pub(in crate::worker) struct LargeOutput {
    job: Ran,
    /// The number of tries that count, and when the first of them began.
    tries: u32,
    tried_since: Option<Instant>,
    /// Whether a try timed out, and may have taken effect.
    is_open: bool,
    /// Like `is_open`, for the finish that reports the attempt as failed.
    failed_is_open: bool,
}

impl LargeOutput {
    pub(in crate::worker) fn new(job: Ran) -> LargeOutput {
        LargeOutput { job, tries: 0, tried_since: None, is_open: false, failed_is_open: false }
    }

    /// Creates an entry for a job that another session has sent without getting a response.
    pub(in crate::worker) fn tried_already(job: Ran) -> LargeOutput {
        LargeOutput { is_open: true, ..LargeOutput::new(job) }
    }

    /// Returns whether to give up. The time also counts, because a connection that breaks repeatedly uses up tries
    /// fast. Only the output of a done job is given up. Any other outcome has no output and does not call a sink, so
    /// neither can be the reason, and the outcome is sent again as it is.
    fn is_undeliverable(&self, limit: Duration) -> bool {
        if !matches!(self.job.finish.outcome, Outcome::Done { .. }) {
            return false;
        }
        let tried_for = self.tried_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.tries >= MAX_TRIES && tried_for >= limit * MAX_TRIES
    }

    fn forget_tries(&mut self) {
        self.tries = 0;
        self.tried_since = None;
    }
}

/// The way into this session.
#[derive(Clone)]
pub(in crate::worker) struct LargeOutputSender(mpsc::UnboundedSender<LargeOutput>);

impl LargeOutputSender {
    pub(in crate::worker) fn send(&self, job: LargeOutput) {
        let _ = self.0.send(job); // fails only after the stage was ended
    }
}

/// The stage: the receiving end of the line.
pub(in crate::worker) struct LargeOutputs {
    state: Arc<WorkerState>,
    confirmations: Arc<Confirmations>,
    arriving: mpsc::UnboundedReceiver<LargeOutput>,
}

pub(in crate::worker) fn channel(
    state: &Arc<WorkerState>,
    confirmations: &Arc<Confirmations>,
) -> (LargeOutputSender, LargeOutputs) {
    let (sender, arriving) = mpsc::unbounded_channel();
    let stage = LargeOutputs { state: state.clone(), confirmations: confirmations.clone(), arriving };
    (LargeOutputSender(sender), stage)
}

impl LargeOutputs {
    /// Runs until its task is dropped.
    pub(in crate::worker) async fn run(mut self, mut session: Session) {
        let confirmations = self.confirmations.clone();
        let mut line = VecDeque::new();
        let mut repeats = confirmations.repeats();
        loop {
            if line.is_empty() {
                let first = match tokio::time::timeout(IDLE, self.arriving.recv()).await {
                    Ok(first) => first,
                    Err(_) => {
                        session.disconnect();
                        self.arriving.recv().await
                    }
                };
                line.extend(first);
            }
            while let Ok(next) = self.arriving.try_recv() {
                line.push_back(next);
            }
            let Some(next) = line.pop_front() else {
                return; // all senders are gone
            };
            match self.try_one(&mut session, next, &mut repeats).await {
                Some(again) => line.push_back(again),
                None => repeats = confirmations.repeats(),
            }
        }
    }

    /// Makes one try; returns the job if another is necessary.
    async fn try_one(
        &self,
        session: &mut Session,
        mut large: LargeOutput,
        repeats: &mut FinishTries<'_>,
    ) -> Option<LargeOutput> {
        let registration = large.job.held.registration().clone();
        let limit = session.command_timeout();
        let started_at = Instant::now();
        large.tried_since.get_or_insert(started_at);
        let run = (large.job.finish.job_id, large.job.finish.fence);
        let failed = large.is_undeliverable(limit).then(|| self.failed(&large, limit));
        if large.job.must_wait_with(&failed.as_ref().unwrap_or(&large.job.finish).outcome) {
            tokio::time::sleep(UNTIL_RUN_STOPS).await;
            return Some(large);
        }
        if failed.is_some() || large.job.keeps_log {
            self.confirmations.write_notes(session, &registration, vec![run]).await;
        }
        let finish = failed.as_ref().unwrap_or(&large.job.finish);
        let answer = async {
            session.limit_lock_waits(FINISH_ONE, LOCK_WAIT_MS).await?;
            session.finish_one(&self.state.queue, registration.worker_id, finish).await
        };
        let error = match answer.await {
            Ok(result) => {
                let mut results: Vec<_> = result.map(|result| (finish.job_id, result)).into_iter().collect();
                let is_lost = matches!(results[..], [(_, FinishResult::Lost)]);
                if is_lost
                    && large.failed_is_open
                    && self.confirmations.had_effect(session, &registration, repeats).await
                {
                    results.clear(); // the report that it failed has arrived, and its response was lost
                    large.job.finish = self.failed(&large, limit);
                } else if is_lost
                    && large.is_open
                    && self.confirmations.had_effect(session, &registration, repeats).await
                {
                    results.clear(); // the output has arrived after all
                } else if let Some(failed) = failed {
                    tracing::warn!(job_id = %failed.job_id, attempt = failed.attempt, "an output could not be delivered");
                    large.job.finish = failed;
                }
                self.confirmations.answered(vec![large.job], results, &registration, started_at.elapsed());
                return None;
            }
            Err(error) if error.blames_a_job() && error.leaves_open() && !large.is_open => {
                large.is_open = true; // if the call took effect, the job comes back as lost when it is sent again
                return Some(large);
            }
            Err(error) if error.blames_a_job() => {
                let job_id = large.job.finish.job_id;
                tracing::warn!(%job_id, %error, "the sink rejected a result or a follow-up; the attempt failed");
                let was_a_result = matches!(large.job.finish.outcome, Outcome::Done { .. });
                self.confirmations.refused(&mut large.job, &error);
                self.confirmations.write_notes(session, &registration, vec![run]).await;
                if !was_a_result {
                    repeats.pause(FINISH_ONE, 1, error).await; // even the report that it failed is rejected
                }
                return Some(large);
            }
            // The output is not the reason.
            Err(error) if error.is_lock_time_out() => {
                repeats.pause(FINISH_ONE, 1, error).await;
                return Some(large);
            }
            Err(error) => error,
        };
        match failed {
            None => large.is_open |= error.leaves_open(),
            Some(_) => large.failed_is_open |= error.leaves_open(),
        }
        let timed_out = error.is_time_out_of(FINISH_ONE);
        let got_no_answer = timed_out || matches!(error, Error::ConnectionLost { .. });
        if timed_out {
            repeats.note(FINISH_ONE, 1, error, Duration::ZERO);
        } else {
            repeats.pause(FINISH_ONE, 1, error).await;
        }
        if got_no_answer && self.is_there(session, &registration, repeats).await {
            match failed {
                None => large.tries += 1,
                // Even a finish as small as this timed out: the output is not the reason.
                Some(_) => large.forget_tries(),
            }
        }
        Some(large)
    }

    /// Returns the finish for a job whose output cannot be delivered. Its attempt has failed or, if the queue keeps no
    /// outputs, the job is done without its output.
    fn failed(&self, large: &LargeOutput, limit: Duration) -> Finish {
        let Finish { job_id, fence, attempt, ref kind, run, usage, .. } = large.job.finish;
        let kind = kind.clone();
        let settings = &large.job.held.registration().settings;
        let keeps_nothing = settings.completion == CompletionPolicy::Delete && !settings.has_sink;
        if keeps_nothing && large.job.finish.outcome.follow_ups().is_empty() {
            let outcome = Outcome::Done { output: None, follow_ups: Vec::new() };
            return Finish { job_id, fence, attempt, kind, outcome, run, usage };
        }
        let what = match large.job.finish.outcome.bytes() {
            0 => "the finish call got no response".to_owned(),
            bytes => format!("the output of {bytes} bytes could not be delivered"),
        };
        let message = format!("{what} in {} tries of {} ms", large.tries, limit.as_millis());
        let delay = retry_delay(&self.state.config.retry, attempt);
        let outcome = Outcome::Retry { delay, error: message, needs: None };
        Finish { job_id, fence, attempt, kind, outcome, run, usage }
    }

    /// Returns whether SQL Server responds promptly to another call, after one that timed out.
    async fn is_there(
        &self,
        session: &mut Session,
        registration: &Registration,
        repeats: &mut FinishTries<'_>,
    ) -> bool {
        match session.heartbeat(registration.worker_id, None).await {
            Ok(_) | Err(Error::LeaseLost) => true,
            Err(error) => {
                repeats.pause("heartbeat", 0, error).await;
                false
            }
        }
    }
}
