//! Decides how many jobs to hold in memory: as many as the cores will need before the next claim can bring more, and no
//! more than that.
//!
//! The number follows Little's law, `jobs = rate x time`. The rate is what the threads can do at the run times measured
//! so far. The time is twice the duration of a claim, and at least [`MIN_HORIZON`] so that short jobs come in large
//! batches. For long jobs the product is below one. Then only idle threads get a job, and the worker holds no job that
//! another worker could run. If jobs take much longer than expected, the jobs that were claimed too far ahead are
//! released.
//!
//! Large jobs are wanted only as far as they fit into `max_in_flight_bytes`. Their number is estimated from earlier
//! jobs, but the limit holds even if the estimate is wrong: each claim states how long its payloads may be, and jobs
//! with longer payloads stay in the table. If the first job of the queue does not fit, this worker alternates between
//! keeping freed memory for it and letting other jobs pass, so that neither starves ([`TooLong`]).
//!
//! Nothing in this module reads a clock: the caller passes the current time, which may be simulated (benches/scale).

use crate::config::WorkerConfig;
use crate::worker::state::{InFlight, RunTimes};
use std::time::{Duration, Instant};

/// The least time for which jobs are held in memory: three times `finish_linger_ms` by default. Two thirds of the jobs
/// are used up when every second finish call is answered. The claim that is due then wakes no thread of its own, and
/// there are ten claims a second.
const MIN_HORIZON: Duration = Duration::from_millis(150);

/// How often a worker with idle threads checks whether the first job of the queue fits after all. Each check costs a
/// claim and, if the job does not fit, a release.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The longest turn in which the first job of the queue waits for memory, in seconds. It is a power of two, because
/// each turn is twice as long as the previous one.
const LONGEST_TURN: u64 = 512;

/// For how long claims must meet no job that is too long before the turns start again at the shortest. A single claim
/// proves nothing: while another worker checks whether the job fits there, no other worker sees it.
const REMEMBERED: Duration = Duration::from_secs(10);

/// The most jobs beyond the jobs for idle threads: the fixed buffer, or two full batches, so that one can be claimed
/// while the other runs.
pub(in crate::worker) fn most_ahead(config: &WorkerConfig) -> usize {
    if config.buffer > 0 { config.buffer } else { 2 * config.batch_size }
}

/// Decides how many jobs are wanted in addition to the jobs for idle threads.
pub(in crate::worker) struct Demand {
    /// The upper limit on jobs that the worker may hold.
    threads: usize,
    batch_size: usize,
    most: usize,
    fixed: bool,
    seen: RunTimes,
    mean_run: Option<Duration>,
    max_in_flight: usize,
    max_bytes: u64,
    /// The size of the longest payload of a claim.
    payload: ExpectedBytes,
    /// The queue's first job, if the last claim or another recent claim had no memory for it.
    too_long: Option<TooLong>,
    claim_time: Duration,
    /// When the last claim returned.
    claimed_at: Instant,
    /// When `seen` last changed.
    seen_at: Instant,
    look: RunsSeen,
    /// The first of the latest checks that all found too many jobs held.
    too_much_since: Option<RunsSeen>,
}

impl Demand {
    pub(in crate::worker) fn new(config: &WorkerConfig, threads: usize, at: Instant) -> Demand {
        Demand {
            threads,
            batch_size: config.batch_size,
            most: most_ahead(config),
            fixed: config.buffer > 0,
            seen: RunTimes::default(),
            mean_run: None,
            max_in_flight: config.max_in_flight,
            max_bytes: config.max_in_flight_bytes,
            payload: ExpectedBytes(0.0),
            too_long: None,
            claim_time: Duration::ZERO,
            claimed_at: at,
            seen_at: at,
            look: RunsSeen { at, jobs: 0 },
            too_much_since: None,
        }
    }

    /// Records how many threads the worker may use, if it shares them with other workers.
    pub(in crate::worker) fn has_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// Returns for how much time jobs are held in memory.
    pub(in crate::worker) fn horizon(&self) -> Duration {
        (2 * self.claim_time).max(MIN_HORIZON)
    }

    /// Returns for how long the worker may hold more jobs than are wanted: ten times the time for which they were
    /// claimed.
    fn patience(&self) -> Duration {
        // A buffer of a fixed size was requested, however long its jobs wait.
        if self.fixed { Duration::MAX } else { 10 * self.horizon() }
    }

    /// Checks, once per horizon, how many jobs have finished since the last check. If checks have found too many jobs
    /// held for longer than [`patience`](Self::patience), returns how many are wanted.
    pub(in crate::worker) fn wanted_at_last(
        &mut self,
        now: RunTimes,
        unstarted: usize,
        all_busy: bool,
        at: Instant,
    ) -> Option<usize> {
        let last = self.look;
        if at.saturating_duration_since(last.at) < self.horizon() {
            return None;
        }
        self.look = RunsSeen { at, jobs: now.jobs };
        if !all_busy || unstarted <= self.jobs_in_horizon_at(last.mean_run(now, self.threads, at)) {
            self.too_much_since = None;
            return None;
        }
        let since = *self.too_much_since.get_or_insert(last);
        if at.saturating_duration_since(since.at) < self.patience() {
            return None;
        }
        self.too_much_since = None;
        let mean_run = since.mean_run(now, self.threads, at);
        self.notice(now, at);
        self.mean_run = Some(mean_run);
        Some(self.jobs_in_horizon_at(mean_run))
    }

    /// Records that no job is held. After a time without jobs, the next ones may be of another kind. One job for each
    /// idle thread is then claimed to measure them.
    pub(in crate::worker) fn holds_nothing(&mut self, now: RunTimes, at: Instant) {
        if now.jobs == self.seen.jobs && at.saturating_duration_since(self.seen_at) >= self.patience() {
            self.mean_run = None; // the estimated size stays, because it bounds memory
        }
    }

    /// Records the size in bytes of the largest job of a claim, if it found one.
    pub(in crate::worker) fn claimed_payloads(&mut self, largest: Option<usize>) {
        if let Some(largest) = largest {
            self.payload = self.payload.and(largest as f64);
            // A job as long as the first one has got its memory, so the turns of the next one start again.
            self.too_long = self.too_long.filter(|first| first.bytes > largest as u64);
        }
    }

    /// Records the result of a claim: the length of the first payload that it had no memory for, if there was one, and
    /// whether it returned as many other jobs as it asked for.
    pub(in crate::worker) fn withheld(&mut self, bytes: Option<u64>, is_full: bool, at: Instant) {
        let before = self.too_long;
        self.too_long = match bytes {
            Some(bytes) => {
                let since = before.map_or(at, |before| before.since);
                Some(TooLong { bytes, since, missed_since: None, is_full })
            }
            None => before.and_then(|before| before.missed(at)),
        };
    }

    /// The first job of the queue, if the last claim had no memory for it.
    fn too_long(&self) -> Option<TooLong> {
        self.too_long.filter(|first| first.missed_since.is_none())
    }

    /// Returns the memory for one more job: its payload or its output, whichever is larger.
    fn job_bytes(&self, in_flight: &InFlight) -> u64 {
        (self.payload.0 as u64).max(in_flight.expected_output() as u64).max(1)
    }

    /// Returns how many more bytes may be held.
    fn free(&self, in_flight: &InFlight) -> u64 {
        in_flight.free_bytes(self.max_bytes)
    }

    /// The first job of the queue, if there is no memory for it now.
    fn waiting_for_room(&self, in_flight: &InFlight) -> Option<TooLong> {
        self.too_long().filter(|first| first.bytes > self.free(in_flight) && !in_flight.takes_no_memory())
    }

    /// Returns whether jobs behind the first one may be claimed while there is no memory for the first.
    pub(in crate::worker) fn lets_pass(&self, in_flight: &InFlight, at: Instant) -> bool {
        self.waiting_for_room(in_flight).is_some_and(|first| first.lets_pass(at))
    }

    /// Returns how many more jobs fit into memory: at least one if memory is empty.
    pub(in crate::worker) fn jobs_that_fit(&self, in_flight: &InFlight, at: Instant) -> usize {
        let fit = |bytes| (self.free(in_flight) / bytes) as usize;
        let job_bytes = self.job_bytes(in_flight);
        match (self.too_long(), self.waiting_for_room(in_flight)) {
            (_, Some(first)) if !first.lets_pass(at) => 0,
            (Some(first), None) => fit(first.bytes.max(job_bytes)).max(1),
            (None, _) if in_flight.takes_no_memory() => fit(job_bytes).max(1),
            _ => fit(job_bytes),
        }
    }

    /// Returns how long each payload of a claim of `jobs` jobs may be, so that all of them fit into memory. If memory
    /// is empty, one job may always be as long as an earlier claim reported.
    pub(in crate::worker) fn max_payload_bytes(&self, jobs: usize, in_flight: &InFlight) -> u64 {
        let share = self.free(in_flight) / jobs as u64;
        if jobs > 1 || !in_flight.takes_no_memory() {
            return share;
        }
        share.max(self.payload.0 as u64).max(self.too_long().map_or(0, |first| first.bytes))
    }

    /// Returns whether outputs that are not yet confirmed use most of the permitted memory.
    pub(in crate::worker) fn outputs_are_most(&self, in_flight: &InFlight) -> bool {
        in_flight.output_bytes() as u64 > self.max_bytes / 2
    }

    pub(in crate::worker) fn claimed(&mut self, took: Duration, at: Instant) {
        self.claimed_at = at;
        self.claim_time = if self.claim_time.is_zero() { took } else { (self.claim_time + took) / 2 };
    }

    /// Returns how many jobs to claim now if `to_fill` threads have no job, or 0 to claim nothing until something
    /// changes.
    pub(in crate::worker) fn room(
        &mut self,
        now: RunTimes,
        in_flight: &InFlight,
        to_fill: usize,
        at: Instant,
    ) -> usize {
        let ahead = self.ahead(now, in_flight, at);
        let low_water = self.low_water(ahead);
        // Jobs behind others of their run fill no thread, and leave room for jobs that do. (Jobs start between the two
        // readings.)
        let startable = in_flight.startable();
        let unstarted = startable + in_flight.unstarted().saturating_sub(startable).min(ahead / 2);
        in_flight.set_low_water(low_water, to_fill > 0);
        if unstarted > low_water.max(ahead / 2) && startable >= to_fill {
            return 0;
        }
        let wanted = (to_fill + ahead).saturating_sub(unstarted).max(to_fill.saturating_sub(startable));
        let allowed = self.max_in_flight.saturating_sub(in_flight.jobs());
        let fit = self.jobs_that_fit(in_flight, at);
        // The queue may have changed: another worker took its first job, or smaller jobs came.
        let looks = to_fill > startable
            && self.free(in_flight) > 0
            && at.saturating_duration_since(self.claimed_at) >= LOOK_AGAIN;
        match self.waiting_for_room(in_flight).filter(|first| first.lets_pass(at)) {
            None if fit == 0 => wanted.min(allowed).min(usize::from(looks)),
            None => wanted.min(allowed).min(fit),
            Some(first) if wanted > 0 && (looks || (first.is_full && fit > 0)) => {
                // The first job is one of the claimed jobs, and has its share of the bytes. If another worker has just
                // taken it, this claim gets one more other job instead.
                let room = (self.most + self.threads).saturating_sub(unstarted);
                (wanted + 1).min(fit.max(2)).min(allowed).min(room)
            }
            Some(_) => 0,
        }
    }

    fn ahead(&mut self, now: RunTimes, in_flight: &InFlight, at: Instant) -> usize {
        self.notice(now, at);
        let wanted = match self.mean_run {
            _ if self.fixed => self.most,
            Some(mean_run) => self.jobs_in_horizon_at(mean_run),
            // Until a first job has finished, nothing is known of run times: one job for each idle thread will show
            // them.
            None => 0,
        };
        // The number of wanted jobs determines when the next claim pays off. A claim never gets more jobs than fit into
        // memory.
        wanted.min(((self.max_bytes / self.job_bytes(in_flight)) as usize).saturating_sub(self.threads))
    }

    /// Returns the number of unstarted jobs at which the prefetcher is woken for the next claim: when it can get a full
    /// batch, or when only as many jobs are left as run during two claims. This is between a quarter and half of the
    /// jobs that are wanted `ahead`. Fewer claims get more jobs each. If the prefetcher is awake anyway, it already
    /// claims when half of the jobs are left.
    fn low_water(&self, ahead: usize) -> usize {
        let while_claiming = self.mean_run.map_or(0, |mean_run| self.jobs_in(2 * self.claim_time, mean_run));
        while_claiming.clamp(ahead / 4, ahead / 2).max(ahead.saturating_sub(self.batch_size))
    }

    /// Learns from the jobs that have finished since the last call.
    pub(in crate::worker) fn notice(&mut self, now: RunTimes, at: Instant) {
        let jobs = now.jobs - self.seen.jobs;
        if jobs > 0 {
            let mean = (now.total - self.seen.total).div_f64(jobs as f64);
            self.mean_run = Some(self.mean_run.map_or(mean, |before| (before + mean) / 2));
            self.seen = now;
            self.seen_at = at;
        }
    }

    fn jobs_in_horizon_at(&self, mean_run: Duration) -> usize {
        self.jobs_in(self.horizon(), mean_run).min(self.most)
    }

    /// Returns how many jobs the threads run in `time`.
    fn jobs_in(&self, time: Duration, mean_run: Duration) -> usize {
        let jobs_per_second = self.threads as f64 / mean_run.as_secs_f64().max(1e-9);
        (jobs_per_second * time.as_secs_f64()) as usize
    }
}

/// The first job of the queue, if it is too long for the free memory.
///
/// Two kinds of turns alternate. In a waiting turn, nothing is claimed until there is memory for this job. In a passing
/// turn, jobs that fit pass it. The turns last one second, two, four, and so on, up to [`LONGEST_TURN`]. The waiting
/// turns become longer than most jobs take, so that this job gets its memory. The passing turns are equally long, so
/// that threads are not idle most of the time while one long job keeps the memory.
#[derive(Debug, Clone, Copy)]
struct TooLong {
    bytes: u64,
    /// Since when claims have repeatedly met a job that is too long, whatever its length.
    since: Instant,
    /// When the first of the latest claims that met no such job returned.
    missed_since: Option<Instant>,
    /// Whether the last claim returned, apart from this job, as many jobs as it asked for. Then there may be more jobs
    /// behind this one.
    is_full: bool,
}

impl TooLong {
    fn lets_pass(&self, at: Instant) -> bool {
        let seconds = at.saturating_duration_since(self.since).as_secs() + 1;
        let turn = match seconds / LONGEST_TURN {
            0 => u64::from(seconds.ilog2()),
            longest => u64::from(LONGEST_TURN.ilog2()) + longest - 1,
        };
        turn % 2 == 1
    }

    /// Records that a claim has not met this job.
    fn missed(self, at: Instant) -> Option<TooLong> {
        let missed_since = self.missed_since.unwrap_or(at);
        let is_remembered = at.saturating_duration_since(missed_since) < REMEMBERED;
        is_remembered.then_some(TooLong { missed_since: Some(missed_since), ..self })
    }
}

/// The expected size of the next job, estimated from earlier ones. The estimate follows larger jobs immediately and
/// smaller ones slowly: a job too many must be released, but a job too few only costs another claim.
#[derive(Debug, Clone, Copy)]
struct ExpectedBytes(f64);

impl ExpectedBytes {
    fn and(self, bytes: f64) -> ExpectedBytes {
        ExpectedBytes(bytes.max((3.0 * self.0 + bytes) / 4.0))
    }
}

/// How many jobs had finished at a given time.
#[derive(Clone, Copy)]
struct RunsSeen {
    at: Instant,
    jobs: u64,
}

impl RunsSeen {
    /// Returns the least possible average run time since this reading, if all threads were busy: running jobs count as
    /// if they had just finished.
    fn mean_run(&self, now: RunTimes, threads: usize, at: Instant) -> Duration {
        let jobs = (now.jobs - self.jobs) as usize + threads;
        (at.saturating_duration_since(self.at) * threads as u32).div_f64(jobs as f64)
    }
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
