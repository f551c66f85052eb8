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

use std::time::{Duration, Instant};

use crate::config::WorkerConfig;
use crate::worker::state::{InFlight, RunTimes};

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
    look: Look,
    /// The first of the looks that said that too much is held, up to now.
    too_much_since: Option<Look>,
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
            look: Look { at, jobs: 0 },
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
        self.look = Look { at, jobs: now.jobs };
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
struct Look {
    at: Instant,
    jobs: u64,
}

impl Look {
    /// How long jobs have taken since, at least, where all threads were busy: those that run now count as if they had
    /// ended.
    fn mean_run(&self, now: RunTimes, threads: usize, at: Instant) -> Duration {
        let jobs = (now.jobs - self.jobs) as usize + threads;
        (at.saturating_duration_since(self.at) * threads as u32).div_f64(jobs as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::state::Stage;

    /// Without a literal, which it has in this crate alone: benches/scale includes this file.
    fn changed(change: impl FnOnce(&mut WorkerConfig)) -> WorkerConfig {
        let mut config = WorkerConfig::default();
        change(&mut config);
        config
    }

    fn ahead(mean_run: Duration, claim: Duration) -> usize {
        let mut demand = Demand::new(&WorkerConfig::default(), 8, Instant::now());
        demand.claimed(claim, Instant::now());
        demand.ahead(RunTimes { jobs: 100, total: mean_run * 100 }, &InFlight::default(), Instant::now())
    }

    #[test]
    fn nothing_is_wanted_ahead_before_a_run_time_is_known() {
        let mut demand = Demand::new(&WorkerConfig::default(), 8, Instant::now());
        assert_eq!(demand.ahead(RunTimes::default(), &InFlight::default(), Instant::now()), 0);
    }

    #[test]
    fn short_jobs_are_wanted_in_full_batches_and_long_jobs_not_at_all() {
        let claim = Duration::from_millis(5);
        assert_eq!(ahead(Duration::from_micros(1), claim), 1_000, "two batches");
        assert_eq!(ahead(Duration::from_millis(10), claim), 80, "0.1 s of 8 threads");
        assert_eq!(ahead(Duration::from_secs(60), claim), 0);
    }

    #[test]
    fn jobs_are_claimed_ahead_for_the_threads_that_the_worker_may_have() {
        let mut demand = Demand::new(&WorkerConfig::default(), 8, Instant::now());
        let seen = RunTimes { jobs: 100, total: Duration::from_secs(1) };
        demand.has_threads(2);
        assert_eq!(demand.ahead(seen, &InFlight::default(), Instant::now()), 20, "0.1 s of 2 threads at 10 ms a job");
        demand.has_threads(8);
        assert_eq!(demand.ahead(seen, &InFlight::default(), Instant::now()), 80);
    }

    #[test]
    fn a_slow_claim_is_covered_twice() {
        assert_eq!(ahead(Duration::from_millis(100), Duration::from_millis(500)), 80);
    }

    #[test]
    fn a_claim_is_made_at_a_quarter_of_what_is_wanted_unless_claims_are_slow() {
        let low_water = |claim_ms: u64| {
            let mut demand = Demand::new(&WorkerConfig::default(), 2, Instant::now());
            demand.claimed(Duration::from_millis(claim_ms), Instant::now());
            let ms = Duration::from_millis(1);
            let ahead = demand.ahead(RunTimes { jobs: 100, total: ms * 100 }, &InFlight::default(), Instant::now());
            (ahead, demand.low_water(ahead))
        };
        assert_eq!(low_water(1), (200, 50));
        assert_eq!(low_water(20), (200, 80));
        assert_eq!(low_water(100), (400, 200));
        assert_eq!(low_water(1_000), (1_000, 500), "a full batch of them is free");
    }

    #[test]
    fn long_jobs_after_short_ones_lower_the_demand_before_one_of_them_has_ended() {
        let (begun, minute) = (Instant::now(), Duration::from_secs(60));
        let mut demand = Demand::new(&WorkerConfig::default(), 2, begun);
        demand.claimed(Duration::from_millis(1), Instant::now());
        let short = RunTimes { jobs: 1_000, total: Duration::from_millis(1) };
        assert_eq!(demand.ahead(short, &InFlight::default(), begun), 1_000);
        assert_eq!(demand.wanted_at_last(short, 1_000, false, begun + minute), None, "a thread is idle");
        let wanted = demand.wanted_at_last(short, 1_000, true, begun + 2 * minute);
        assert_eq!(wanted, Some(0), "two threads, two jobs, a minute");
        assert_eq!(demand.ahead(short, &InFlight::default(), begun + 2 * minute), 0, "and it stays so while none ends");
    }

    #[test]
    fn after_a_time_without_jobs_what_was_known_of_them_is_forgotten() {
        let begun = Instant::now();
        let mut demand = Demand::new(&WorkerConfig::default(), 2, begun);
        let short = RunTimes { jobs: 1_000, total: Duration::from_millis(1) };
        assert_eq!(demand.ahead(short, &InFlight::default(), begun), 1_000);
        demand.holds_nothing(short, begun);
        assert_eq!(demand.ahead(short, &InFlight::default(), begun), 1_000, "they have just ended");
        let later = begun + Duration::from_secs(60);
        demand.holds_nothing(short, later);
        assert_eq!(demand.ahead(short, &InFlight::default(), later), 0);
    }

    /// A demand that has seen payloads of this size, may hold 64 MiB, and would like 1,000 jobs ahead.
    fn of_payloads(payload: usize) -> Demand {
        let config = changed(|config| config.max_in_flight_bytes = 64 << 20);
        let mut demand = Demand::new(&config, 2, Instant::now());
        demand.claimed_payloads(Some(payload));
        demand.notice(RunTimes { jobs: 10, total: Duration::from_micros(10) }, Instant::now());
        demand
    }

    #[test]
    fn no_more_is_claimed_than_fits_by_the_size_of_those_before() {
        let in_flight = InFlight::default();
        let mut demand = of_payloads(2 << 20);
        let now = Instant::now();
        assert_eq!(demand.jobs_that_fit(&in_flight, now), 32);
        assert_eq!(demand.ahead(demand.seen, &InFlight::default(), Instant::now()), 30, "beside two that run");
        in_flight.enter(Stage::Unstarted, 20);
        in_flight.grow(40 << 20);
        assert_eq!(demand.jobs_that_fit(&in_flight, now), 12);
        in_flight.grow(60 << 20);
        assert_eq!(demand.jobs_that_fit(&in_flight, now), 0);

        let in_flight = InFlight::default();
        assert_eq!(of_payloads(1 << 30).jobs_that_fit(&in_flight, now), 1, "one is always allowed");
        in_flight.enter(Stage::Running, 1);
        in_flight.grow(1 << 30);
        assert_eq!(of_payloads(1 << 30).jobs_that_fit(&in_flight, now), 0);
    }

    #[test]
    fn the_payloads_of_a_claim_fit_into_memory_whatever_came_before() {
        let in_flight = InFlight::default();
        let small = of_payloads(200);
        assert_eq!(small.max_payload_bytes(500, &in_flight), (64 << 20) / 500);
        in_flight.enter(Stage::Running, 1);
        in_flight.grow(60 << 20);
        assert_eq!(small.max_payload_bytes(2, &in_flight), 2 << 20);
        assert_eq!(of_payloads(1 << 30).max_payload_bytes(1, &in_flight), 4 << 20);
        in_flight.grow(60 << 20);
        assert_eq!(small.max_payload_bytes(1, &in_flight), 0);

        let in_flight = InFlight::default();
        assert_eq!(of_payloads(1 << 30).max_payload_bytes(1, &in_flight), 1 << 30, "one is always allowed");
    }

    #[test]
    fn jobs_that_will_leave_large_outputs_count_as_if_they_had() {
        let (demand, now) = (of_payloads(100), Instant::now());
        let in_flight = InFlight::default();
        in_flight.learn_output(4 << 20);
        assert_eq!(demand.jobs_that_fit(&in_flight, now), 16);
        in_flight.enter(Stage::Running, 2);
        in_flight.enter(Stage::Unstarted, 8);
        in_flight.grow(1_000);
        assert_eq!(demand.jobs_that_fit(&in_flight, now), 6);
        in_flight.hold_output(32 << 20);
        assert!(!demand.outputs_are_most(&in_flight));
        in_flight.hold_output(1);
        assert!(demand.outputs_are_most(&in_flight));
    }

    /// A job of 60 MiB runs, and a thread is idle.
    fn holding_much() -> InFlight {
        let in_flight = InFlight::default();
        in_flight.enter(Stage::Running, 1);
        in_flight.grow(60 << 20);
        in_flight
    }

    /// A claim every tenth of a second at the most, for so long; each finds that the first of the queue does not fit.
    /// Returns when it was claimed and how many jobs were asked for.
    fn claims_in(seconds: u32, brings_all: bool) -> Vec<(u32, usize)> {
        let (in_flight, mut demand, begun) = (holding_much(), of_payloads(200), Instant::now());
        demand.withheld(Some(10 << 20), false, begun);
        let mut claims = Vec::new();
        for tenth in 0..10 * seconds {
            let at = begun + Duration::from_millis(100) * tenth;
            let room = demand.room(demand.seen, &in_flight, 1, at);
            if room > 0 {
                claims.push((tenth / 10, room));
                demand.claimed(Duration::from_millis(1), at);
                demand.withheld(Some(10 << 20), brings_all, at);
            }
        }
        claims
    }

    #[test]
    fn while_the_first_of_the_queue_does_not_fit_a_worker_looks_once_a_second() {
        let claims = claims_in(1_000, false);
        assert!((900..=1_000).contains(&claims.len()), "{} claims", claims.len());
    }

    #[test]
    fn those_behind_the_first_pass_and_keep_it_waiting_in_turns_that_grow() {
        let claims = claims_in(31, true);
        for (turns, seconds) in [1..3, 3..7, 7..15, 15..31].into_iter().enumerate() {
            let of_turn: Vec<usize> =
                claims.iter().filter(|(second, _)| seconds.contains(second)).map(|(_, room)| *room).collect();
            if turns % 2 == 0 {
                assert!(of_turn.len() > 5 && of_turn.iter().all(|room| *room > 100), "they pass: {of_turn:?}");
            } else {
                assert!(of_turn.iter().all(|room| *room == 1), "the first alone is looked at: {of_turn:?}");
            }
        }
    }

    #[test]
    fn jobs_as_long_as_those_before_pass_the_first_though_few_of_them_fit() {
        const JOB: usize = 4 << 20;
        for fit in 2..16 {
            let (in_flight, mut demand, begun) = (InFlight::default(), of_payloads(JOB), Instant::now());
            in_flight.enter(Stage::Running, 1);
            in_flight.grow((64 << 20) - fit * JOB);
            demand.withheld(Some(64 << 20), false, begun);
            let room = demand.room(demand.seen, &in_flight, 1, begun + LOOK_AGAIN);
            assert_eq!(room, fit, "with the first");
            assert!(demand.max_payload_bytes(room, &in_flight) >= JOB as u64, "{fit} fit");
        }
    }

    #[test]
    fn no_turn_is_longer_than_about_ten_minutes() {
        let begun = Instant::now();
        let first = TooLong { bytes: 1, since: begun, missed_since: None, is_full: false };
        let passes: Vec<bool> =
            (0..20_000).map(|second| first.lets_pass(begun + Duration::from_secs(second))).collect();
        let turns: Vec<usize> = passes.chunk_by(|one, next| one == next).map(<[bool]>::len).collect();
        assert_eq!(turns[..12], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512]);
        assert_eq!(turns.iter().max(), Some(&512));
    }

    #[test]
    fn the_turns_of_the_first_go_on_though_a_claim_of_a_fleet_does_not_meet_it() {
        let (in_flight, mut demand, begun) = (holding_much(), of_payloads(200), Instant::now());
        let second = |second| begun + Duration::from_secs(second);
        demand.withheld(Some(10 << 20), false, begun);
        demand.withheld(None, false, second(30)); // another worker has it for a moment
        assert!(!demand.lets_pass(&in_flight, second(30)) && demand.room(demand.seen, &in_flight, 1, second(30)) > 1);
        demand.withheld(Some(20 << 20), false, second(31)); // and this is the one behind it
        assert!(demand.lets_pass(&in_flight, second(31)), "the sixth turn, not the first of new ones");
        assert!(!demand.lets_pass(&in_flight, second(63)), "the seventh");

        for missed in [60, 65, 70] {
            demand.withheld(None, false, second(missed));
        }
        demand.withheld(Some(20 << 20), false, second(71));
        assert!(
            !demand.lets_pass(&in_flight, second(71)) && demand.lets_pass(&in_flight, second(72)),
            "from the start"
        );
    }

    #[test]
    fn a_job_that_has_got_its_room_leaves_its_turns_to_no_other() {
        let (in_flight, mut demand, begun) = (holding_much(), of_payloads(200), Instant::now());
        let later = begun + Duration::from_secs(31);
        demand.withheld(Some(10 << 20), false, begun);
        demand.claimed_payloads(Some(10 << 20));
        demand.withheld(Some(20 << 20), false, later);
        assert!(!demand.lets_pass(&in_flight, later) && demand.lets_pass(&in_flight, later + LOOK_AGAIN));
    }

    #[test]
    fn one_larger_than_all_that_is_allowed_is_claimed_beside_ended_jobs_whose_rows_are_locked() {
        let (in_flight, mut demand, now) = (InFlight::default(), of_payloads(200), Instant::now());
        in_flight.enter(Stage::AwaitingFinish, 3);
        demand.withheld(Some(1 << 30), false, now);
        assert_eq!(demand.room(demand.seen, &in_flight, 2, now), 1);
        assert_eq!(demand.max_payload_bytes(1, &in_flight), 1 << 30);
        in_flight.grow(1);
        in_flight.hold_output(1);
        assert_eq!(demand.room(demand.seen, &in_flight, 2, now), 0, "an output is held");
    }

    #[test]
    fn the_first_is_claimed_as_soon_as_there_is_room_for_it() {
        let (in_flight, mut demand, now) = (holding_much(), of_payloads(200), Instant::now());
        demand.withheld(Some(10 << 20), false, now);
        assert_eq!(demand.room(demand.seen, &in_flight, 1, now), 0);
        in_flight.shrink(10 << 20);
        let room = demand.room(demand.seen, &in_flight, 1, now);
        assert!(room > 0 && demand.max_payload_bytes(room, &in_flight) >= 10 << 20, "{room}");

        demand.withheld(Some(1 << 30), false, now);
        assert_eq!(demand.room(demand.seen, &in_flight, 1, now), 0);
        in_flight.shrink(50 << 20);
        in_flight.leave(Stage::Running);
        assert_eq!(demand.room(demand.seen, &in_flight, 2, now), 1);
        assert_eq!(demand.max_payload_bytes(1, &in_flight), 1 << 30, "one is always allowed");
        demand.withheld(None, true, now);
        assert!(demand.room(demand.seen, &in_flight, 2, now) > 100, "it is gone");
    }

    #[test]
    fn an_idle_thread_does_not_wait_for_as_much_room_as_one_large_job_took() {
        let (in_flight, mut demand, now) = (InFlight::default(), of_payloads(1 << 30), Instant::now());
        in_flight.enter(Stage::Running, 1);
        demand.claimed(Duration::from_millis(1), now);
        assert_eq!(demand.room(demand.seen, &in_flight, 1, now), 0);
        assert_eq!(demand.room(demand.seen, &in_flight, 0, now + LOOK_AGAIN), 0, "no thread is idle");
        assert_eq!(demand.room(demand.seen, &in_flight, 1, now + LOOK_AGAIN), 1);
    }

    #[test]
    fn an_expected_size_grows_at_once_and_shrinks_slowly() {
        let mut expected = ExpectedBytes(100.0);
        for (seen, next) in [(1_000.0, 1_000.0), (200.0, 800.0), (200.0, 650.0)] {
            expected = expected.and(seen);
            assert_eq!(expected.0, next);
        }
    }

    #[test]
    fn a_fixed_buffer_is_what_is_wanted() {
        let config = changed(|config| config.buffer = 7);
        assert_eq!(
            Demand::new(&config, 8, Instant::now()).ahead(RunTimes::default(), &InFlight::default(), Instant::now()),
            7
        );
    }
}
