//! Measures the bottleneck of a worker that has threads without a job.
//!
//! The prefetcher reports each change of its situation ([`BottleneckMeter::begin`]). Each interval between two changes
//! counts for one of eight bottlenecks:
//!
//! | threads | prefetcher | bottleneck |
//! |---|---|---|
//! | busy (at least nine tenths of the time), or jobs were waiting for them | any | [`Bottleneck::Busy`] |
//! | partly idle | its claim returned fewer jobs than it asked for | [`Bottleneck::Idle`] |
//! | partly idle | its claim returned fewer jobs because of the queue's own limits | [`Bottleneck::QueueLimit`] |
//! | partly idle | waiting for a claim that returned all it asked for, or failed | [`Bottleneck::Claim`] |
//! | partly idle | held back by unconfirmed jobs or by the memory of the jobs | [`Bottleneck::Finish`] |
//! | partly idle | its claim returned fewer jobs, and jobs wait for the worker's resources | [`Bottleneck::Resources`] |
//! | any | the machine has too little free memory to start a job | [`Bottleneck::Memory`] |
//! | partly idle | an operator has asked the worker to claim no more jobs | [`Bottleneck::Quiet`] |
//!
//! The shares of the last [`WINDOW`] seconds are the metric `readpast_limited_ratio`; the largest is
//! [`WorkerStats::limited_by`](super::worker_stats::WorkerStats::limited_by).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::in_flight::InFlight;
use super::tally::Tally;
use super::worker_stats::Bottleneck;

/// The number of readings, one per second, that the shares cover.
const WINDOW: usize = 3;

/// The share of the time from which the threads count as busy.
const BUSY: f64 = 0.9;

/// Time by bottleneck, in the order of [`Bottleneck::ALL`].
type Totals = [Duration; Bottleneck::ALL.len()];

#[derive(Debug)]
pub(in crate::worker) struct BottleneckMeter {
    threads: Arc<AtomicUsize>,
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

/// The time since the last change of the prefetcher's situation.
#[derive(Debug)]
struct Stretch {
    limit: Bottleneck,
    since: Instant,
    /// The total run time of finished runs at that moment.
    ended: Duration,
}

impl BottleneckMeter {
    pub(in crate::worker) fn new(
        threads: Arc<AtomicUsize>,
        in_flight: Arc<InFlight>,
        tally: Arc<Tally>,
    ) -> BottleneckMeter {
        let present = Stretch { limit: Bottleneck::Idle, since: Instant::now(), ended: Duration::ZERO };
        let state =
            TimeByBottleneck { totals: Totals::default(), present, readings: VecDeque::from([Totals::default()]) };
        BottleneckMeter { threads, in_flight, tally, state: Mutex::new(state) }
    }

    /// Records a change of the prefetcher's situation: from now on, the reason for idle threads is `limit`.
    pub(in crate::worker) fn begin(&self, limit: Bottleneck) {
        let mut state = self.state.lock();
        self.settle(&mut state);
        state.present.limit = limit;
    }

    /// Corrects the reason for idle threads since the last change or reading.
    pub(in crate::worker) fn correct(&self, limit: Bottleneck) {
        self.state.lock().present.limit = limit;
    }

    /// Returns the shares of the last seconds, in the order of [`Bottleneck::ALL`], and the largest.
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

    /// Moves the window; called once a second.
    pub(in crate::worker) fn read(&self) {
        let mut state = self.state.lock();
        self.settle(&mut state); // a later correction must not change this reading
        let totals = state.totals;
        state.readings.push_back(totals);
        if state.readings.len() > WINDOW {
            state.readings.pop_front();
        }
    }

    /// Adds the current interval to the totals and starts another.
    fn settle(&self, state: &mut TimeByBottleneck) {
        state.totals = self.totals(state);
        state.present.since = Instant::now();
        state.present.ended = self.tally.run_times().total;
    }

    /// The totals including the current interval.
    fn totals(&self, state: &TimeByBottleneck) -> Totals {
        let Stretch { limit, since, ended } = &state.present;
        let took = since.elapsed();
        // A run time is counted when the run has finished. A thread with a running job counts as busy since the last
        // change.
        let ran = self.tally.run_times().total.saturating_sub(*ended) + took * self.in_flight.busy_threads() as u32;
        let busy = ran.as_secs_f64() >= BUSY * took.as_secs_f64() * self.threads.load(Ordering::Relaxed) as f64;
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
        BottleneckMeter::new(Arc::new(2.into()), Arc::default(), Arc::default())
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
        assert_eq!(shares.map(|share| (share * 10.0).round()), [1.0, 3.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0]);
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
        assert_eq!(shares.map(|share| (share * 3.0).round()), [2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
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
