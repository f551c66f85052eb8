//! The completion batcher: what has ended is acknowledged in batches.
//!
//! ```text
//! executor ──send──▶ channel ──▶ lane 0: collect a batch ─▶ finish / release ─▶ forget the jobs
//!                          └───▶ lane 1: the same, while lane 0 waits for SQL Server
//! ```
//!
//! A lane takes what is there, up to a batch, waiting at most `finish_linger_ms` for it to fill, and sends it. While it waits for SQL
//! Server the other lane collects. A batch is repeated until SQL Server has answered; it leaves memory only then. The channel needs no
//! bound of its own: what is in it counts as in flight, and the prefetcher stops at `max_in_flight`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify, mpsc};

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::job::{Fence, JobId};
use crate::metrics::WorkerMetrics;
use crate::queue::connection::Lane;
use crate::queue::finish::{Finish, FinishOutcome, FinishResult};

use super::backoff::Backoff;
use super::counts::Counts;
use super::lease::Registration;
use super::shutdown::{Phase, StopHandle};

/// A job that has left the executor.
pub(crate) struct Ended {
    pub(crate) registration: Arc<Registration>,
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
        // Refused only when the completion was ended (a stop at once): the job is then the reaper's.
        let _ = self.ended.send(ended);
        if self.shared.queued.fetch_add(1, Ordering::AcqRel) + 1 == self.shared.batch_size {
            self.shared.full.notify_one();
        }
    }
}

struct Shared {
    counts: Arc<Counts>,
    confirmed: Notify,
    /// Jobs in the channel, about: a lane that takes a job at once counts it before its sender does.
    queued: AtomicIsize,
    batch_size: isize,
    /// The channel has got a full batch.
    full: Notify,
    prefetch_wake: Arc<Notify>,
    metrics: Arc<WorkerMetrics>,
}

/// The stage as its owner sees it.
pub(crate) struct Completion {
    queue: String,
    batch_size: usize,
    linger: Duration,
    ended: Mutex<mpsc::UnboundedReceiver<Ended>>,
    shared: Arc<Shared>,
    stop: StopHandle,
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
        let shared = Arc::new(Shared {
            counts,
            confirmed: Notify::new(),
            queued: AtomicIsize::new(0),
            batch_size: config.finish_batch_size as isize,
            full: Notify::new(),
            prefetch_wake,
            metrics,
        });
        let completion = Completion {
            queue,
            batch_size: config.finish_batch_size,
            linger: Duration::from_millis(config.finish_linger_ms),
            ended: Mutex::new(receiver),
            shared: shared.clone(),
            stop,
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
        loop {
            let batch = self.collect().await;
            if batch.is_empty() {
                return; // every sender is gone
            }
            for part in split_into_calls(batch) {
                self.acknowledge(&mut lane, part).await;
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
        while lingers && batch.len() < self.batch_size && self.stop.is_running() {
            tokio::select! {
                () = self.shared.full.notified() => {}
                () = tokio::time::sleep_until(until) => lingers = false,
                () = self.stop.reached(Phase::Stopping) => {}
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
    async fn acknowledge(&self, lane: &mut Lane, batch: Batch) {
        let Batch { registration, finishes, enqueued_at, releases, .. } = batch;
        let jobs = finishes.len() + releases.len();
        if !finishes.is_empty() {
            self.finish(lane, &registration, &finishes, &enqueued_at).await;
        }
        if !releases.is_empty() {
            self.release(lane, &registration, &releases).await;
        }
        registration.forget(finishes.iter().map(|finish| (finish.job_id, finish.fence)));
        registration.forget(releases.iter().copied());
        self.shared.counts.awaiting_finish.fetch_sub(jobs, Ordering::AcqRel);
        self.shared.confirmed.notify_waiters();
        self.shared.prefetch_wake.notify_one();
    }

    async fn finish(&self, lane: &mut Lane, registration: &Registration, finishes: &[Finish], enqueued_at: &[Instant]) {
        // A job of an at_most_once queue has no row any more, so nothing is to be said about it.
        let has_rows = finishes.iter().any(|finish| finish.fence != Fence::NONE);
        let mut results = Vec::new();
        if has_rows {
            let mut retry = Retry::new(&self.stop);
            let started_at = Instant::now();
            results = loop {
                match lane.finish(&self.queue, registration.worker_id, finishes).await {
                    Ok(results) => break results,
                    Err(error) => retry.pause("finish", finishes.len(), error, &self.shared.metrics).await,
                }
            };
            let any_lost = results.iter().any(|(_, result)| *result == FinishResult::Lost);
            if any_lost && self.had_effect(lane, registration, &mut retry).await {
                // (A retry that the lost answer reported as dead is counted as retried.)
                results.retain(|(_, result)| *result != FinishResult::Lost);
            }
            let lost = results.iter().filter(|(_, result)| *result == FinishResult::Lost).count();
            let took = started_at.elapsed();
            self.shared.metrics.finished(finishes.len() - lost, took);
            tracing::debug!(batch = finishes.len(), lost, ?took, "acknowledged");
        }
        self.count(finishes, enqueued_at, &results);
    }

    fn count(&self, finishes: &[Finish], enqueued_at: &[Instant], results: &[(JobId, FinishResult)]) {
        let results: HashMap<JobId, FinishResult> = results.iter().copied().collect();
        let counts = &self.shared.counts;
        let now = Instant::now();
        let mut lost = 0;
        for (finish, enqueued_at) in finishes.iter().zip(enqueued_at) {
            let result = results.get(&finish.job_id);
            if result == Some(&FinishResult::Lost) {
                tracing::debug!(job_id = %finish.job_id, fence = %finish.fence, "an acknowledgement came too late");
                lost += 1;
                continue;
            }
            let comes_back = finish.fence != Fence::NONE && result != Some(&FinishResult::Dead);
            match &finish.outcome {
                FinishOutcome::Done { .. } => {
                    counts.done.fetch_add(1, Ordering::Relaxed);
                    self.shared.metrics.job_done(now.saturating_duration_since(*enqueued_at));
                }
                FinishOutcome::Retry { .. } if comes_back => {
                    counts.retried.fetch_add(1, Ordering::Relaxed);
                }
                FinishOutcome::Retry { error, .. } | FinishOutcome::Dead { error } => {
                    counts.dead.fetch_add(1, Ordering::Relaxed);
                    self.shared.metrics.dead.increment(1);
                    tracing::warn!(job_id = %finish.job_id, attempt = finish.attempt, error, "a job is dead");
                }
            }
        }
        self.count_lost(lost);
    }

    async fn release(&self, lane: &mut Lane, registration: &Registration, releases: &[(JobId, Fence)]) {
        let mut retry = Retry::new(&self.stop);
        let not_ours = loop {
            match lane.release(registration.worker_id, releases).await {
                Ok(not_ours) => break not_ours,
                Err(error) => retry.pause("release", releases.len(), error, &self.shared.metrics).await,
            }
        };
        let recognised = !not_ours.is_empty() && self.had_effect(lane, registration, &mut retry).await;
        let lost = if recognised { 0 } else { not_ours.len() };
        let released = (releases.len() - lost) as u64;
        self.shared.counts.released.fetch_add(released, Ordering::Relaxed);
        self.shared.metrics.released(released);
        self.count_lost(lost);
    }

    /// Whether jobs that SQL Server calls lost were ended by an earlier try, whose answer was lost and not its effect: where this worker
    /// was never marked lost, nobody but itself can have taken them away. Only SQL Server knows that. The local clock does not: the
    /// server's may have jumped, and this machine may have been suspended.
    async fn had_effect(&self, lane: &mut Lane, registration: &Registration, retry: &mut Retry<'_>) -> bool {
        if !retry.may_have_been_applied {
            return false;
        }
        loop {
            match lane.heartbeat(registration.worker_id).await {
                Ok(()) => return true,
                Err(Error::LeaseLost) => return false,
                Err(error) => retry.pause("heartbeat", 0, error, &self.shared.metrics).await,
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

/// Ended jobs of one registration.
struct Batch {
    registration: Arc<Registration>,
    finishes: Vec<Finish>,
    /// Of each finish, at the same place.
    enqueued_at: Vec<Instant>,
    releases: Vec<(JobId, Fence)>,
    output_bytes: usize,
}

/// How many bytes of output one call carries at the most, but for a single larger one: they must arrive within the command time-out.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// Parts what has ended into calls: by worker id, because `finish` takes one (more than one only just after a lease was lost), and by the
/// size of the outputs. A job that stands twice (it was run again before its first result was acknowledged) goes into a call of its own,
/// because the list's key is the job.
fn split_into_calls(ended: Vec<Ended>) -> Vec<Batch> {
    let mut batches: Vec<(Batch, HashSet<JobId>)> = Vec::new();
    for Ended { registration, enqueued_at, ending } in ended {
        let job_id = match &ending {
            Ending::Finish(finish) => finish.job_id,
            Ending::Release { job_id, .. } => *job_id,
        };
        let bytes = match &ending {
            Ending::Finish(Finish { outcome: FinishOutcome::Done { output: Some(output) }, .. }) => output.len(),
            _ => 0,
        };
        let fits = batches.iter_mut().position(|(batch, job_ids)| {
            Arc::ptr_eq(&batch.registration, &registration)
                && (batch.output_bytes + bytes <= MAX_OUTPUT_BYTES || batch.output_bytes == 0)
                && job_ids.insert(job_id)
        });
        let index = fits.unwrap_or_else(|| {
            let batch = Batch {
                registration,
                finishes: Vec::new(),
                enqueued_at: Vec::new(),
                releases: Vec::new(),
                output_bytes: 0,
            };
            batches.push((batch, HashSet::from([job_id])));
            batches.len() - 1
        });
        let (batch, _) = &mut batches[index];
        batch.output_bytes += bytes;
        match ending {
            Ending::Finish(finish) => {
                batch.finishes.push(finish);
                batch.enqueued_at.push(enqueued_at);
            }
            Ending::Release { job_id, fence } => batch.releases.push((job_id, fence)),
        }
    }
    batches.into_iter().map(|(batch, _)| batch).collect()
}

/// Repeats a call that failed.
struct Retry<'a> {
    stop: &'a StopHandle,
    backoff: Backoff,
    /// How many have failed.
    tries: u32,
    /// A try failed in a way that leaves open whether SQL Server carried it out.
    may_have_been_applied: bool,
}

impl<'a> Retry<'a> {
    /// The first and the longest pause between tries: short enough for a deadlock victim, long enough not to press a server that is
    /// just starting.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

    fn new(stop: &'a StopHandle) -> Retry<'a> {
        Retry { stop, backoff: Backoff::new(Self::PAUSES.0, Self::PAUSES.1), tries: 0, may_have_been_applied: false }
    }

    async fn pause(&mut self, procedure: &'static str, batch: usize, error: Error, metrics: &WorkerMetrics) {
        self.tries += 1;
        metrics.finish_retries.increment(1);
        self.may_have_been_applied |= error.leaves_open();
        let pause = self.backoff.next();
        if error.is_transient() {
            let (attempt, sql_error) = (self.tries, error.sql_number());
            tracing::warn!(procedure, batch, attempt, sql_error, %error, retry_in = ?pause, "acknowledging failed and is repeated");
        } else {
            // Nothing is dropped: should the cause be mended before the shutdown deadline, the results still arrive.
            self.stop.fail(error);
        }
        tokio::time::sleep(pause).await;
    }
}
