//! The completion batcher: what has ended is acknowledged in batches.
//!
//! ```text
//! executor ──send──▶ channel ──▶ lane 0: collect a batch ─▶ finish / release ─▶ forget the jobs
//!                │         └───▶ lane 1: the same, while lane 0 waits for SQL Server
//!                └──large outputs──▶ a lane of their own, one a call (large_outputs.rs)
//! ```
//!
//! A lane takes what is there, up to a batch, waiting at most `finish_linger_ms` for it to fill, and sends it. While it waits for SQL
//! Server the other lane collects. A batch is repeated until SQL Server has answered; it leaves memory only then. One that is not answered
//! in time is sent in smaller and smaller parts. The channel needs no bound of its own: what is in it counts as in flight, and the
//! prefetcher stops at `max_in_flight` and `max_in_flight_bytes`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex as Lock;
use tokio::sync::{Mutex, Notify, mpsc};

use crate::config::{RetryConfig, WorkerConfig};
use crate::error::Error;
use crate::ids::{Fence, JobId};
use crate::metrics::WorkerMetrics;
use crate::outcome::Outcome;
use crate::queue::finish::{FINISH, Finish, FinishResult};
use crate::queue::lane::Lane;

use super::backoff::Backoff;
use super::batch_limit::BatchLimit;
use super::counts::Counts;
use super::held::Held;
use super::large_outputs::LargeOutput;
use super::lease::Registration;
use super::shutdown::{Phase, StopHandle};

/// A job that has left the executor.
pub(crate) struct Ended {
    pub(crate) held: Held,
    /// When the job was enqueued, on the local clock.
    pub(crate) enqueued_at: Instant,
    pub(crate) ending: Ending,
}

/// What SQL Server is to be told about it.
pub(crate) enum Ending {
    /// It ran.
    Finish(Finish),
    /// It did not start and is given back.
    Release { job_id: JobId, fence: Fence },
}

/// The executor's end of the channel.
#[derive(Clone)]
pub(crate) struct CompletionSender {
    ended: mpsc::UnboundedSender<Ended>,
    shared: Arc<Shared>,
}

impl CompletionSender {
    /// Hands over a job. Never waits.
    pub(crate) fn send(&self, ended: Ended) {
        self.shared.counts.awaiting_finish.fetch_add(1, Ordering::AcqRel);
        let ended = match ended {
            // (Without a row there is nothing to be sent, however large it is.)
            Ended { held, enqueued_at, ending: Ending::Finish(finish) }
                if finish.is_large() && finish.fence != Fence::NONE =>
            {
                return self.shared.set_aside(LargeOutput::new(Ran { finish, enqueued_at, held }));
            }
            ended => ended,
        };
        // Refused only when the completion was ended (a stop at once): the job is then the reaper's.
        let _ = self.ended.send(ended);
        if self.shared.queued.fetch_add(1, Ordering::AcqRel) + 1 == self.shared.batch_size {
            self.shared.full.notify_one();
        }
    }
}

pub(super) struct Shared {
    counts: Arc<Counts>,
    confirmed: Notify,
    large: mpsc::UnboundedSender<LargeOutput>,
    /// Jobs in the channel, about: a lane that takes a job at once counts it before its sender does.
    queued: AtomicIsize,
    batch_size: isize,
    /// The channel has got a full batch.
    full: Notify,
    prefetch_wake: Arc<Notify>,
    /// When SQL Server refused an acknowledgement for good, if it has accepted none since.
    refused_at: Lock<Option<Instant>>,
    stop: StopHandle,
    pub(super) metrics: Arc<WorkerMetrics>,
}

/// For how long acknowledgements that SQL Server refuses for good are tried again: a procedure that a deployment replaces is gone for less.
const GRACE: Duration = Duration::from_secs(3);

impl Shared {
    /// Hands a job over to the lane of large outputs.
    fn set_aside(&self, job: LargeOutput) {
        let _ = self.large.send(job); // refused only when the completion was ended
    }

    /// SQL Server has accepted an acknowledgement.
    fn accepted(&self) {
        *self.refused_at.lock() = None;
    }

    /// SQL Server has refused an acknowledgement, and will refuse it again until somebody mends the cause: the worker stops. In order, as
    /// long as others are accepted; when for a while none was, at once, because the results have nowhere to go.
    fn refused(&self, error: Error) {
        self.stop.fail(error);
        let refused_at = *self.refused_at.lock().get_or_insert_with(Instant::now);
        if refused_at.elapsed() >= GRACE {
            tracing::error!(
                awaiting_finish = self.counts.awaiting_finish(),
                "acknowledging is still refused; what is unacknowledged will run again"
            );
            self.stop.stop_now();
        }
    }
}

/// The stage as its owner sees it.
pub(crate) struct Completion {
    pub(super) queue: String,
    batch_size: usize,
    linger: Duration,
    ended: Mutex<mpsc::UnboundedReceiver<Ended>>,
    pub(super) large: Mutex<mpsc::UnboundedReceiver<LargeOutput>>,
    pub(super) retry: RetryConfig,
    pub(super) shared: Arc<Shared>,
}

impl Completion {
    pub(crate) fn new(
        queue: String,
        config: &WorkerConfig,
        stop: StopHandle,
        prefetch_wake: Arc<Notify>,
        counts: Arc<Counts>,
        metrics: Arc<WorkerMetrics>,
    ) -> (CompletionSender, Arc<Completion>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (large_sender, large_receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            counts,
            confirmed: Notify::new(),
            large: large_sender,
            queued: AtomicIsize::new(0),
            batch_size: config.finish_batch_size as isize,
            full: Notify::new(),
            prefetch_wake,
            refused_at: Lock::default(),
            stop,
            metrics,
        });
        let completion = Completion {
            queue,
            batch_size: config.finish_batch_size,
            linger: Duration::from_millis(config.finish_linger_ms),
            ended: Mutex::new(receiver),
            large: Mutex::new(large_receiver),
            retry: config.retry,
            shared: shared.clone(),
        };
        (CompletionSender { ended: sender, shared }, Arc::new(completion))
    }

    /// Returns when every ended job is confirmed.
    pub(crate) async fn flushed(&self) {
        loop {
            let confirmed = self.shared.confirmed.notified();
            if self.shared.counts.awaiting_finish() == 0 {
                return;
            }
            confirmed.await;
        }
    }

    /// One lane of the stage; runs until its task is ended.
    pub(crate) async fn run_lane(self: Arc<Completion>, mut lane: Lane) {
        let mut limit = BatchLimit::new(self.batch_size);
        loop {
            let batch = tokio::select! {
                batch = self.collect() => batch,
                never = lane.close_when_idle() => match never {},
            };
            if batch.is_empty() {
                return; // every sender is gone
            }
            for part in split_into_calls(batch) {
                self.acknowledge(&mut lane, &mut limit, part).await;
            }
        }
    }

    /// Waits for the first ended job, then for more of them until the batch is full or the linger time is over.
    ///
    /// It does not wait at the channel while that fills: each job would wake it, which costs the pool's threads more than the job's
    /// acknowledgement does.
    async fn collect(&self) -> Vec<Ended> {
        let mut ended = self.ended.lock().await;
        let mut batch = Vec::with_capacity(self.batch_size);
        ended.recv_many(&mut batch, self.batch_size).await;
        let mut lingers = !batch.is_empty();
        let until = tokio::time::Instant::now() + self.linger;
        while lingers && batch.len() < self.batch_size && self.shared.stop.is_running() {
            tokio::select! {
                () = self.shared.full.notified() => {}
                () = tokio::time::sleep_until(until) => lingers = false,
                () = self.shared.stop.reached(Phase::Stopping) => {}
            }
            while batch.len() < self.batch_size
                && let Ok(job) = ended.try_recv()
            {
                batch.push(job);
            }
        }
        self.shared.queued.fetch_sub(batch.len() as isize, Ordering::AcqRel);
        batch
    }

    /// Acknowledges a batch of one registration, again and again until SQL Server has answered.
    async fn acknowledge(&self, lane: &mut Lane, limit: &mut BatchLimit, batch: Batch) {
        let Batch { registration, mut ran, releases, .. } = batch;
        // A job of an at_most_once queue has no row any more, so nothing is to be said about it.
        let without_row: Vec<Ran> = ran.extract_if(.., |job| job.finish.fence == Fence::NONE).collect();
        if !without_row.is_empty() {
            self.confirmed(&registration, without_row, &[]);
        }
        self.finish(lane, limit, &registration, ran).await;
        if !releases.is_empty() {
            self.release(lane, &registration, &releases).await;
            registration.forget(releases.iter().copied());
            self.left_memory(releases.len());
        }
    }

    async fn finish(
        &self,
        lane: &mut Lane,
        limit: &mut BatchLimit,
        registration: &Registration,
        mut unconfirmed: Vec<Ran>,
    ) {
        let mut retry = Retry::new(&self.shared);
        let mut started_at = Instant::now();
        // How many of the first ones were sent in a call that left open whether SQL Server carried it out.
        let mut open = 0;
        while !unconfirmed.is_empty() {
            let alike = if open > 0 { open } else { unconfirmed.len() };
            let jobs = alike.min(limit.jobs());
            let call = unconfirmed[..jobs].iter().map(|job| &job.finish);
            match lane.finish(&self.queue, registration.worker_id, call).await {
                Ok(mut results) => {
                    limit.answered(jobs);
                    let any_lost = results.iter().any(|(_, result)| *result == FinishResult::Lost);
                    if any_lost && open > 0 && self.had_effect(lane, registration, &mut retry).await {
                        // (A retry that the lost answer reported as dead is counted as retried.)
                        results.retain(|(_, result)| *result != FinishResult::Lost);
                    }
                    let later = unconfirmed.split_off(jobs);
                    let confirmed = std::mem::replace(&mut unconfirmed, later);
                    open = open.saturating_sub(jobs);
                    self.answered(confirmed, &results, registration, started_at.elapsed());
                    started_at = Instant::now();
                }
                Err(error) => {
                    if error.leaves_open() {
                        open = open.max(jobs);
                    }
                    if is_time_out_of(&error, FINISH) {
                        limit.timed_out(jobs);
                        if jobs == 1 && unconfirmed[0].finish.outcome.output_bytes() > 0 {
                            // It does not get through even alone: others shall not wait for it.
                            let job = unconfirmed.remove(0);
                            open -= 1;
                            self.shared.set_aside(LargeOutput::tried_already(job));
                        }
                    }
                    retry.pause(FINISH, jobs, error).await;
                }
            }
        }
    }

    /// SQL Server has answered an acknowledgement; `results` are of the jobs that did not end as asked.
    pub(super) fn answered(
        &self,
        jobs: Vec<Ran>,
        results: &[(JobId, FinishResult)],
        registration: &Registration,
        took: Duration,
    ) {
        self.shared.accepted();
        let lost = results.iter().filter(|(_, result)| *result == FinishResult::Lost).count();
        self.shared.metrics.finished(jobs.len() - lost, took);
        tracing::debug!(batch = jobs.len(), lost, ?took, "acknowledged");
        self.confirmed(registration, jobs, results);
    }

    /// Counts jobs and forgets them.
    fn confirmed(&self, registration: &Registration, jobs: Vec<Ran>, results: &[(JobId, FinishResult)]) {
        self.count(&jobs, results);
        registration.forget(jobs.iter().map(|job| (job.finish.job_id, job.finish.fence)));
        let count = jobs.len();
        drop(jobs); // what they hold is given back before anybody looks
        self.left_memory(count);
    }

    fn left_memory(&self, jobs: usize) {
        self.shared.counts.awaiting_finish.fetch_sub(jobs, Ordering::AcqRel);
        self.shared.confirmed.notify_waiters();
        self.shared.prefetch_wake.notify_one();
    }

    fn count(&self, jobs: &[Ran], results: &[(JobId, FinishResult)]) {
        let results: HashMap<JobId, FinishResult> = results.iter().copied().collect();
        let counts = &self.shared.counts;
        let now = Instant::now();
        let mut lost = 0;
        for Ran { finish, enqueued_at, .. } in jobs {
            let result = results.get(&finish.job_id);
            if result == Some(&FinishResult::Lost) {
                tracing::debug!(job_id = %finish.job_id, fence = %finish.fence, "an acknowledgement came too late");
                lost += 1;
                continue;
            }
            let comes_back = finish.fence != Fence::NONE && result != Some(&FinishResult::Dead);
            match &finish.outcome {
                Outcome::Done { .. } => {
                    counts.done.fetch_add(1, Ordering::Relaxed);
                    self.shared.metrics.job_done(now.saturating_duration_since(*enqueued_at));
                }
                Outcome::Retry { .. } if comes_back => {
                    counts.retried.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Retry { error, .. } | Outcome::Dead { error } => {
                    counts.dead.fetch_add(1, Ordering::Relaxed);
                    self.shared.metrics.dead.increment(1);
                    tracing::warn!(job_id = %finish.job_id, attempt = finish.attempt, error, "a job is dead");
                }
            }
        }
        self.count_lost(lost);
    }

    async fn release(&self, lane: &mut Lane, registration: &Registration, releases: &[(JobId, Fence)]) {
        let mut retry = Retry::new(&self.shared);
        let mut is_open = false;
        let not_ours = loop {
            match lane.release(registration.worker_id, releases).await {
                Ok(not_ours) => break not_ours,
                Err(error) => {
                    is_open |= error.leaves_open();
                    retry.pause("release", releases.len(), error).await;
                }
            }
        };
        self.shared.accepted();
        let recognised = !not_ours.is_empty() && is_open && self.had_effect(lane, registration, &mut retry).await;
        let lost = if recognised { 0 } else { not_ours.len() };
        let released = (releases.len() - lost) as u64;
        self.shared.counts.released.fetch_add(released, Ordering::Relaxed);
        self.shared.metrics.released(released);
        self.count_lost(lost);
    }

    /// Whether jobs that SQL Server calls lost were ended by an earlier try, whose answer was lost and not its effect: where this worker
    /// was never marked lost, nobody but itself can have taken them away. Only SQL Server knows that. The local clock does not: the
    /// server's may have jumped, and this machine may have been suspended.
    pub(super) async fn had_effect(&self, lane: &mut Lane, registration: &Registration, retry: &mut Retry<'_>) -> bool {
        loop {
            match lane.heartbeat(registration.worker_id).await {
                Ok(_) => return true,
                Err(Error::LeaseLost) => return false,
                Err(error) => retry.pause("heartbeat", 0, error).await,
            }
        }
    }

    fn count_lost(&self, jobs: usize) {
        if jobs == 0 {
            return;
        }
        tracing::warn!(jobs, "jobs were no longer this worker's: they were given back when its lease ran out");
        self.shared.counts.lost.fetch_add(jobs as u64, Ordering::Relaxed);
        self.shared.metrics.lost(jobs);
    }
}

/// Whether SQL Server did not answer this call in time. (A connection that took too long to make is another thing: nothing was sent.)
pub(super) fn is_time_out_of(error: &Error, call: &str) -> bool {
    matches!(error, Error::TimedOut { call: timed_out, .. } if timed_out == call)
}

/// Ended jobs of one registration.
struct Batch {
    registration: Arc<Registration>,
    ran: Vec<Ran>,
    releases: Vec<(JobId, Fence)>,
    output_bytes: usize,
}

/// A job that ran.
pub(super) struct Ran {
    pub(super) finish: Finish,
    pub(super) enqueued_at: Instant,
    pub(super) held: Held,
}

/// How many bytes of output one call carries at the most: they must arrive within the command time-out.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// Parts what has ended into calls: by worker id, because `finish` takes one (more than one only just after a lease was lost), and by the
/// size of the outputs. A job that stands twice (it was run again before its first result was acknowledged) goes into a call of its own,
/// because the list's key is the job.
fn split_into_calls(ended: Vec<Ended>) -> Vec<Batch> {
    let mut batches: Vec<(Batch, HashSet<JobId>)> = Vec::new();
    for Ended { held, enqueued_at, ending } in ended {
        let (job_id, bytes) = match &ending {
            Ending::Finish(finish) => (finish.job_id, finish.outcome.output_bytes()),
            Ending::Release { job_id, .. } => (*job_id, 0),
        };
        let fits = batches.iter_mut().position(|(batch, job_ids)| {
            Arc::ptr_eq(&batch.registration, held.registration())
                && batch.output_bytes + bytes <= MAX_OUTPUT_BYTES
                && job_ids.insert(job_id)
        });
        let index = fits.unwrap_or_else(|| {
            let registration = held.registration().clone();
            let batch = Batch { registration, ran: Vec::new(), releases: Vec::new(), output_bytes: 0 };
            batches.push((batch, HashSet::from([job_id])));
            batches.len() - 1
        });
        let (batch, _) = &mut batches[index];
        batch.output_bytes += bytes;
        match ending {
            Ending::Finish(finish) => batch.ran.push(Ran { finish, enqueued_at, held }),
            Ending::Release { job_id, fence } => batch.releases.push((job_id, fence)),
        }
    }
    batches.into_iter().map(|(batch, _)| batch).collect()
}

/// Repeats calls that fail.
pub(super) struct Retry<'a> {
    shared: &'a Shared,
    backoff: Backoff,
    /// How many have failed.
    tries: u32,
}

impl<'a> Retry<'a> {
    /// The first and the longest pause between tries: short enough for a deadlock victim, long enough not to press a server that is
    /// just starting.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

    pub(super) fn new(shared: &'a Shared) -> Retry<'a> {
        Retry { shared, backoff: Backoff::new(Self::PAUSES.0, Self::PAUSES.1), tries: 0 }
    }

    pub(super) async fn pause(&mut self, procedure: &'static str, batch: usize, error: Error) {
        let mut pause = self.backoff.next();
        if !error.is_transient() {
            pause = pause.min(GRACE / 10);
        }
        self.note(procedure, batch, error, pause);
        tokio::time::sleep(pause).await;
    }

    /// Counts and logs a failure after which the call is repeated in `retry_in`.
    pub(super) fn note(&mut self, procedure: &'static str, batch: usize, error: Error, retry_in: Duration) {
        self.tries += 1;
        self.shared.metrics.finish_retries.increment(1);
        if error.is_transient() {
            let (attempt, sql_error) = (self.tries, error.sql_number());
            tracing::warn!(procedure, batch, attempt, sql_error, %error, ?retry_in, "acknowledging failed and is repeated");
        } else {
            // Nothing is dropped yet: should the cause be mended soon, the results still arrive.
            self.shared.refused(error);
        }
    }
}
