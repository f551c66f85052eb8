//! How many jobs are wanted in memory: as many as the cores will want before the next claim can bring more, and no more
//! than that.
//!
//! It follows Little's law, `jobs = rate x time`: the rate is what the threads can do at the run times measured so far,
//! the time is what a claim takes (twice, for safety), and at least [`MIN_HORIZON`] so that short jobs come in large
//! batches. Long jobs give a product below one: then only idle threads get a job, and nothing is hoarded that another
//! worker could run. Where short jobs were expected and long ones came, what was claimed too far ahead is given back.
//!
//! Large jobs are wanted only as far as they fit into `max_in_flight_bytes`. Their number is estimated from earlier
//! jobs. The limit does not depend on the estimate: each claim says how long its payloads may be, and longer ones stay
//! in the table. Where the first of the queue is such a one, this worker keeps what becomes free for it, in turns with
//! letting others pass, so that neither starves ([`TooLong`]).
//!
//! Nothing here looks at a clock: who asks says what time it is, which may be a simulation (benches/scale).

use crate::config::WorkerConfig;
use crate::worker::state::{InFlight, RunTimes};
use std::time::{Duration, Instant};

/// For how much time jobs are kept in memory, at least: ten claims a second at the most when jobs are short.
const MIN_HORIZON: Duration = Duration::from_millis(100);

/// How often a worker whose threads are idle looks whether a job fits after all. Each look costs a claim and, in vain,
/// a release.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The longest of the turns in which the first of the queue waits for room, in seconds: a power of two, because each
/// turn is twice as long as the one before.
const LONGEST_TURN: u64 = 512;

/// For how long claims must not have met a job that is too long before its turns begin anew. A single claim proves
/// nothing: while another worker looks whether the job fits there, nobody else sees it.
const REMEMBERED: Duration = Duration::from_secs(10);

/// The most jobs beyond those for idle threads: the fixed buffer, or two full batches, so that one is claimed while the
/// other runs.
pub(in crate::worker) fn most_ahead(config: &WorkerConfig) -> usize {
    if config.buffer > 0 { config.buffer } else { 2 * config.batch_size }
}

/// How many jobs are wanted beyond those for idle threads.
pub(in crate::worker) struct Demand {
    /// How many the worker may have.
    threads: usize,
    batch_size: usize,
    most: usize,
    fixed: bool,
    seen: RunTimes,
    mean_run: Option<Duration>,
    max_in_flight: usize,
    max_bytes: u64,
    /// What the longest payload of a claim takes.
    payload: ExpectedBytes,
    /// The last claim met it first and had no room for it, or one did not long ago.
    too_long: Option<TooLong>,
    claim_time: Duration,
    /// When the last claim was answered.
    claimed_at: Instant,
    /// When `seen` last changed.
    seen_at: Instant,
    look: RunsSeen,
    /// The first of the looks that said that too much is held, up to now.
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

    /// Notes how many threads the worker may have beside others.
    pub(in crate::worker) fn has_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// For how much time jobs are kept in memory.
    pub(in crate::worker) fn horizon(&self) -> Duration {
        (2 * self.claim_time).max(MIN_HORIZON)
    }

    /// How long more may be held than is wanted: ten times the time that it was claimed for.
    fn patience(&self) -> Duration {
        // A buffer of a fixed size is what was asked for, however long its jobs wait.
        if self.fixed { Duration::MAX } else { 10 * self.horizon() }
    }

    /// Looks, once in a horizon, at how many jobs have ended since the look before. Where that says that too much is
    /// held, and has said so for as long as patience lasts, returns how many are wanted.
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

    /// Nothing is held. After a time without a job, whatever comes may be of another kind: one for each idle thread
    /// will tell.
    pub(in crate::worker) fn holds_nothing(&mut self, now: RunTimes, at: Instant) {
        if now.jobs == self.seen.jobs && at.saturating_duration_since(self.seen_at) >= self.patience() {
            self.mean_run = None; // not how large they are, which bounds memory
        }
    }

    /// Notes how many bytes the largest job of a claim has brought, if it found one.
    pub(in crate::worker) fn claimed_payloads(&mut self, largest: Option<usize>) {
        if let Some(largest) = largest {
            self.payload = self.payload.and(largest as f64);
            // One as long as the first has got its room. The next one's turns are its own.
            self.too_long = self.too_long.filter(|first| first.bytes > largest as u64);
        }
    }

    /// Notes the length of the first payload that a claim had no room for, if there was one, and whether the claim has
    /// brought as many jobs as it asked for beside it.
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

    /// The first of the queue, if the last claim had no room for it.
    fn too_long(&self) -> Option<TooLong> {
        self.too_long.filter(|first| first.missed_since.is_none())
    }

    /// What one more job takes, as payload or as output, whichever is more.
    fn job_bytes(&self, in_flight: &InFlight) -> u64 {
        (self.payload.0 as u64).max(in_flight.expected_output() as u64).max(1)
    }

    /// How many bytes more may be held.
    fn free(&self, in_flight: &InFlight) -> u64 {
        in_flight.free_bytes(self.max_bytes)
    }

    /// The first of the queue, if there is no room for it now.
    fn waiting_for_room(&self, in_flight: &InFlight) -> Option<TooLong> {
        self.too_long().filter(|first| first.bytes > self.free(in_flight) && !in_flight.takes_no_memory())
    }

    /// Whether those behind the first of the queue may be claimed while there is no room for it.
    pub(in crate::worker) fn lets_pass(&self, in_flight: &InFlight, at: Instant) -> bool {
        self.waiting_for_room(in_flight).is_some_and(|first| first.lets_pass(at))
    }

    /// How many more jobs fit into memory; one at least where nothing is in it.
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

    /// How long the payloads of a claim of `jobs` jobs may be, so that all of them fit into memory. Where nothing
    /// is in it, one job may always be as long as an earlier claim reported.
    pub(in crate::worker) fn max_payload_bytes(&self, jobs: usize, in_flight: &InFlight) -> u64 {
        let share = self.free(in_flight) / jobs as u64;
        if jobs > 1 || !in_flight.takes_no_memory() {
            return share;
        }
        share.max(self.payload.0 as u64).max(self.too_long().map_or(0, |first| first.bytes))
    }

    /// Whether the outputs that wait for their acknowledgement are most of what may be held.
    pub(in crate::worker) fn outputs_are_most(&self, in_flight: &InFlight) -> bool {
        in_flight.output_bytes() as u64 > self.max_bytes / 2
    }

    pub(in crate::worker) fn claimed(&mut self, took: Duration, at: Instant) {
        self.claimed_at = at;
        self.claim_time = if self.claim_time.is_zero() { took } else { (self.claim_time + took) / 2 };
    }

    /// How many jobs to claim now, where `to_fill` threads want one; 0: none, until something changes.
    pub(in crate::worker) fn room(
        &mut self,
        now: RunTimes,
        in_flight: &InFlight,
        to_fill: usize,
        at: Instant,
    ) -> usize {
        let unstarted = in_flight.unstarted();
        let ahead = self.ahead(now, in_flight, at);
        let low_water = self.low_water(ahead);
        in_flight.set_low_water(low_water);
        if unstarted > low_water && unstarted >= to_fill {
            return 0;
        }
        let wanted = (to_fill + ahead).saturating_sub(unstarted);
        let allowed = self.max_in_flight.saturating_sub(in_flight.jobs());
        let fit = self.jobs_that_fit(in_flight, at);
        // What is expected may have changed: another worker took the first of the queue, or smaller ones came.
        let looks = to_fill > unstarted
            && self.free(in_flight) > 0
            && at.saturating_duration_since(self.claimed_at) >= LOOK_AGAIN;
        match self.waiting_for_room(in_flight).filter(|first| first.lets_pass(at)) {
            None if fit == 0 => wanted.min(allowed).min(usize::from(looks)),
            None => wanted.min(allowed).min(fit),
            Some(first) if wanted > 0 && (looks || (first.is_full && fit > 0)) => {
                // It is one of those that are claimed, and has its share of the bytes: another worker may take it just
                // before, and then one more job comes.
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
            // Before one has ended: one job for each idle thread will tell.
            None => 0,
        };
        // What is wanted decides when the next claim is worth its while, and more than fits it never gets.
        wanted.min(((self.max_bytes / self.job_bytes(in_flight)) as usize).saturating_sub(self.threads))
    }

    /// At how many unstarted jobs the next claim is worth its while: when it can get a full batch, or when as many are
    /// left as run while two claims take their time, which is between a quarter and half of what is wanted `ahead`.
    /// Fewer claims get more jobs each.
    fn low_water(&self, ahead: usize) -> usize {
        let while_claiming = self.mean_run.map_or(0, |mean_run| self.jobs_in(2 * self.claim_time, mean_run));
        while_claiming.clamp(ahead / 4, ahead / 2).max(ahead.saturating_sub(self.batch_size))
    }

    /// Learns from the jobs that have ended since the last time.
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

    /// How many jobs the threads run in `time`.
    fn jobs_in(&self, time: Duration, mean_run: Duration) -> usize {
        let jobs_per_second = self.threads as f64 / mean_run.as_secs_f64().max(1e-9);
        (jobs_per_second * time.as_secs_f64()) as usize
    }
}

/// The first of the queue, which is too long for what is free.
///
/// In turns, nothing is claimed until there is room for it, and others pass that fit: for a second, two, four, and so
/// on, up to [`LONGEST_TURN`]. The turns of waiting become longer than most jobs take, so that it gets its room; and
/// those of passing as long, so that threads are not idle for most of the time while one long job keeps the room.
#[derive(Debug, Clone, Copy)]
struct TooLong {
    bytes: u64,
    /// When one was met that was too long, of whatever length, and since when claims have met one again and again.
    since: Instant,
    /// When the first of the latest claims was answered that did not meet one.
    missed_since: Option<Instant>,
    /// The last claim brought all that it asked for beside it: there may be more behind.
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

    /// A claim has not met it.
    fn missed(self, at: Instant) -> Option<TooLong> {
        let missed_since = self.missed_since.unwrap_or(at);
        let is_remembered = at.saturating_duration_since(missed_since) < REMEMBERED;
        is_remembered.then_some(TooLong { missed_since: Some(missed_since), ..self })
    }
}

/// How large the next one may be, estimated from earlier ones: it follows larger ones immediately and smaller ones
/// slowly. A job too many is given back, one too few only costs another claim.
#[derive(Debug, Clone, Copy)]
struct ExpectedBytes(f64);

impl ExpectedBytes {
    fn and(self, bytes: f64) -> ExpectedBytes {
        ExpectedBytes(bytes.max((3.0 * self.0 + bytes) / 4.0))
    }
}

/// How many jobs had ended at a time.
#[derive(Clone, Copy)]
struct RunsSeen {
    at: Instant,
    jobs: u64,
}

impl RunsSeen {
    /// How long jobs have taken since, at least, where all threads were busy: those that run now count as if they had
    /// ended.
    fn mean_run(&self, now: RunTimes, threads: usize, at: Instant) -> Duration {
        let jobs = (now.jobs - self.jobs) as usize + threads;
        (at.saturating_duration_since(self.at) * threads as u32).div_f64(jobs as f64)
    }
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
