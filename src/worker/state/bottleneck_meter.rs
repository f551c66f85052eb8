//! What limits a worker right now: where its time goes while not every thread has a job.
//!
//! The prefetcher is always in one of few situations, and says so at each change ([`BottleneckMeter::begin`]): claiming,
//! waiting for room, waiting for jobs to come. Each stretch of time is put down to one of five limits:
//!
//! | the threads were | the prefetcher | the limit |
//! |---|---|---|
//! | busy (nine tenths of the time and more), or had jobs waiting for them | whatever it did | [`Bottleneck::Busy`] |
//! | partly idle | had got fewer jobs than it asked for | [`Bottleneck::Idle`] |
//! | partly idle | had got fewer jobs than it asked for, because of the queue's own limits | [`Bottleneck::QueueLimit`] |
//! | partly idle | waited for the answer to a claim that brought all it asked for, or that failed | [`Bottleneck::Claim`] |
//! | partly idle | was held back by ended jobs that are not acknowledged, or by what jobs weigh in memory | [`Bottleneck::Finish`] |
//!
//! The shares of the last [`WINDOW`] seconds are the metric `readpast_limited_ratio`; the largest is
//! [`WorkerStats::limited_by`](super::worker_stats::WorkerStats::limited_by).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::in_flight::InFlight;
use super::tally::Tally;
use super::worker_stats::Bottleneck;

/// Over how many readings, one a second, the shares are taken.
const WINDOW: usize = 3;

/// From which share of the time threads that run jobs count as busy.
const BUSY: f64 = 0.9;

/// Time by bottleneck, in the order of [`Bottleneck::ALL`].
type Totals = [Duration; Bottleneck::ALL.len()];

/// Where the time of a worker goes.
#[derive(Debug)]
pub(in crate::worker) struct BottleneckMeter {
    threads: usize,
    in_flight: Arc<InFlight>,
    tally: Arc<Tally>,
    state: Mutex<TimeByBottleneck>,
}

#[derive(Debug)]
struct TimeByBottleneck {
    totals: Totals,
    present: Stretch,
    /// The totals at the last readings, the oldest first.
    readings: VecDeque<Totals>,
}

/// The time since the prefetcher's situation changed last.
#[derive(Debug)]
struct Stretch {
    limit: Bottleneck,
    since: Instant,
    /// All run times of jobs that had ended by then.
    ended: Duration,
}

impl BottleneckMeter {
    pub(in crate::worker) fn new(threads: usize, in_flight: Arc<InFlight>, tally: Arc<Tally>) -> BottleneckMeter {
        let present = Stretch { limit: Bottleneck::Idle, since: Instant::now(), ended: Duration::ZERO };
        let state =
            TimeByBottleneck { totals: Totals::default(), present, readings: VecDeque::from([Totals::default()]) };
        BottleneckMeter { threads, in_flight, tally, state: Mutex::new(state) }
    }

    /// The prefetcher's situation changes: should threads be idle from now on, it is because of `limit`.
    pub(in crate::worker) fn begin(&self, limit: Bottleneck) {
        let mut state = self.state.lock();
        self.settle(&mut state);
        state.present.limit = limit;
    }

    /// It turns out that the present situation is another, and was since the last change or reading.
    pub(in crate::worker) fn correct(&self, limit: Bottleneck) {
        self.state.lock().present.limit = limit;
    }

    /// The shares of the last seconds, in the order of [`Bottleneck::ALL`], and the largest of them.
    pub(in crate::worker) fn shares(&self) -> ([f64; Bottleneck::ALL.len()], Bottleneck) {
        let state = self.state.lock();
        let now = self.totals(&state);
        let then = state.readings.front().copied().unwrap_or_default();
        drop(state);
        let spent: Vec<f64> = now.iter().zip(then).map(|(now, then)| (*now - then).as_secs_f64()).collect();
        let all: f64 = spent.iter().sum();
        let mut shares = [0.0; Bottleneck::ALL.len()];
        let mut largest = Bottleneck::Idle;
        for (index, limit) in Bottleneck::ALL.into_iter().enumerate() {
            shares[index] = if all > 0.0 { spent[index] / all } else { 0.0 };
            if shares[index] > shares[largest as usize] {
                largest = limit;
            }
        }
        (shares, largest)
    }

    /// Moves the window on; called once a second.
    pub(in crate::worker) fn read(&self) {
        let mut state = self.state.lock();
        self.settle(&mut state); // so that a correction later on does not take away what was read
        let totals = state.totals;
        state.readings.push_back(totals);
        if state.readings.len() > WINDOW {
            state.readings.pop_front();
        }
    }

    /// Adds the present stretch to the totals; from now on there is another.
    fn settle(&self, state: &mut TimeByBottleneck) {
        state.totals = self.totals(state);
        state.present.since = Instant::now();
        state.present.ended = self.tally.run_times().total;
    }

    /// The totals with the present stretch.
    fn totals(&self, state: &TimeByBottleneck) -> Totals {
        let Stretch { limit, since, ended } = &state.present;
        let took = since.elapsed();
        // The run time of a job counts when it ends; a thread whose job has not ended yet is taken to be busy since the
        // change.
        let ran = self.tally.run_times().total.saturating_sub(*ended) + took * self.in_flight.running() as u32;
        let busy = ran.as_secs_f64() >= BUSY * took.as_secs_f64() * self.threads as f64;
        let limit = if busy { Bottleneck::Busy } else { *limit };
        let mut totals = state.totals;
        totals[limit as usize] += took;
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::state::in_flight::Stage;

    fn limited_by() -> BottleneckMeter {
        BottleneckMeter::new(2, Arc::default(), Arc::default())
    }

    /// Lets the present stretch have begun `ms` ago.
    fn passed(limited_by: &BottleneckMeter, ms: u64) {
        limited_by.state.lock().present.since -= Duration::from_millis(ms);
    }

    #[test]
    fn time_goes_to_the_situation_that_the_prefetcher_is_in() {
        let limited_by = limited_by();
        for (limit, ms) in [(Bottleneck::Idle, 100_000), (Bottleneck::Claim, 300_000), (Bottleneck::Finish, 600_000)] {
            limited_by.begin(limit);
            passed(&limited_by, ms);
        }
        let (shares, largest) = limited_by.shares();
        assert_eq!(shares.map(|share| (share * 10.0).round()), [1.0, 3.0, 0.0, 6.0, 0.0]);
        assert_eq!(largest, Bottleneck::Finish);
    }

    #[test]
    fn busy_threads_are_the_limit_whatever_the_prefetcher_does() {
        let running = limited_by();
        running.begin(Bottleneck::Claim);
        running.in_flight.enter(Stage::Running, 2);
        passed(&running, 1_000);
        assert_eq!(running.shares().1, Bottleneck::Busy);

        let ended = limited_by();
        ended.begin(Bottleneck::Claim);
        ended.tally.ran(Duration::from_millis(1_900));
        passed(&ended, 1_000);
        assert_eq!(ended.shares().1, Bottleneck::Busy);

        let half_idle = limited_by();
        half_idle.begin(Bottleneck::Claim);
        half_idle.in_flight.enter(Stage::Running, 1);
        passed(&half_idle, 1_000);
        assert_eq!(half_idle.shares().1, Bottleneck::Claim);
    }

    #[test]
    fn a_correction_holds_since_the_last_reading() {
        let limited_by = limited_by();
        limited_by.begin(Bottleneck::Claim);
        passed(&limited_by, 1_000);
        limited_by.read();
        passed(&limited_by, 2_000);
        limited_by.correct(Bottleneck::Idle);
        let (shares, largest) = limited_by.shares();
        assert_eq!(shares.map(|share| (share * 3.0).round()), [2.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(largest, Bottleneck::Idle);
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let limited_by = limited_by();
        limited_by.begin(Bottleneck::Finish);
        passed(&limited_by, 60_000);
        for _ in 0..WINDOW {
            limited_by.read();
        }
        limited_by.begin(Bottleneck::Claim);
        passed(&limited_by, 1_000);
        assert_eq!(limited_by.shares().1, Bottleneck::Claim);
    }
}
