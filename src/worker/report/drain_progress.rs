//! The progress of a drain: jobs done and left, the rate, and the jobs by stage.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::time::{Duration, Instant};

use crate::queue::Queue;
use crate::worker::state::WorkerStats;

use super::worker_monitor::WorkerMonitor;

/// The window of the rate.
const WINDOW: Duration = Duration::from_secs(10);

/// The shortest interval between samples of the queue's depth. In between, the jobs that this worker has finished are
/// subtracted.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The progress of a worker with its queue, as passed on by [`Worker::drain_with`](crate::worker::Worker::drain_with).
/// Displays as one line.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct DrainProgress {
    /// Jobs that this worker has finished since its start: done, dead, cancelled and expired.
    pub finished: u64,
    /// Unfinished jobs of the queue, held by a worker or not, or `None` while unknown. The number is sampled: beyond
    /// 10,000 ready jobs per priority it is an estimate, and at most 100,000 scheduled and claimed jobs are counted.
    pub unfinished: Option<u64>,
    /// The scheduled jobs among them, or `None` while unknown.
    pub scheduled: Option<u64>,
    /// Jobs per second that this worker finished in the last ten seconds.
    pub jobs_per_second: f64,
    /// The time until the queue is empty, at the rate at which the number of unfinished jobs fell in the last ten
    /// seconds, or `None` if it did not fall.
    pub left: Option<Duration>,
    /// The jobs in each stage of this worker.
    pub stats: WorkerStats,
}

impl fmt::Display for DrainProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DrainProgress { finished, unfinished, scheduled, jobs_per_second, left, stats } = self;
        match unfinished {
            Some(unfinished) => write!(f, "{finished} of {}", jobs(finished + unfinished))?,
            None => f.write_str(&jobs(*finished))?,
        }
        write!(f, ", {jobs_per_second:.0}/s")?;
        if let Some(left) = left {
            let seconds = left.as_secs();
            match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
                (0, minutes, seconds) => write!(f, ", {minutes}:{seconds:02} left")?,
                (hours, minutes, seconds) => write!(f, ", {hours}:{minutes:02}:{seconds:02} left")?,
            }
        }
        let WorkerStats { buffered, running, awaiting_finish, .. } = stats;
        write!(f, " ({buffered} buffered, {running} running, {awaiting_finish} to finish")?;
        match scheduled {
            None | Some(0) => f.write_str(")"),
            Some(scheduled) => write!(f, ", {scheduled} scheduled)"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct Left {
    unfinished: u64,
    scheduled: u64,
}

impl Left {
    /// Reads the unfinished jobs from a sample. Returns `None` if they are unknown.
    pub(in crate::worker) async fn of(queue: &Queue, max_age: Duration) -> Option<Left> {
        let sample = async { queue.session().await?.sample(queue.name(), max_age).await };
        match sample.await {
            Ok(sample) => sample.map(|sample| Left { unfinished: sample.unfinished(), scheduled: sample.scheduled }),
            Err(error) => {
                tracing::debug!(%error, "the queue's depth could not be sampled");
                None
            }
        }
    }

    /// The unfinished jobs after this worker has finished this many more jobs.
    fn less(self, finished: u64) -> Left {
        Left { unfinished: self.unfinished.saturating_sub(finished), ..self }
    }
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    finished: u64,
    unfinished: Option<u64>,
}

/// The readings of the last seconds, the oldest first.
#[derive(Debug, Default)]
pub(in crate::worker) struct Readings(VecDeque<Reading>);

impl Readings {
    pub(in crate::worker) fn progress(&mut self, at: Instant, left: Option<Left>, stats: WorkerStats) -> DrainProgress {
        let (unfinished, scheduled) = (left.map(|left| left.unfinished), left.map(|left| left.scheduled));
        let now = Reading { at, finished: stats.done + stats.dead + stats.cancelled + stats.expired, unfinished };
        while self.0.front().is_some_and(|reading| at.saturating_duration_since(reading.at) > WINDOW) {
            self.0.pop_front();
        }
        self.0.push_back(now);
        let then = self.0[0];
        let seconds = (now.at - then.at).as_secs_f64();
        let per_second = |jobs: u64| if seconds > 0.0 { jobs as f64 / seconds } else { 0.0 };
        let known = self.0.iter().find(|reading| reading.unfinished.is_some());
        let left = known.and_then(|then| {
            let fewer = then.unfinished?.checked_sub(unfinished?).filter(|fewer| *fewer > 0)?;
            Some((at - then.at).mul_f64(unfinished? as f64 / fewer as f64))
        });
        DrainProgress {
            finished: now.finished,
            unfinished,
            scheduled,
            jobs_per_second: per_second(now.finished - then.finished),
            left,
            stats,
        }
    }
}

/// Shows the progress until the future is dropped.
pub(in crate::worker) async fn report_progress(
    queue: &Queue,
    monitor: &WorkerMonitor,
    every: Duration,
    readings: &mut Readings,
    show: &mut impl FnMut(&DrainProgress),
) -> Infallible {
    let finished = |stats: &WorkerStats| stats.done + stats.dead + stats.cancelled + stats.expired;
    let mut known: Option<(Left, u64)> = None; // the rest of the queue, and this worker's finished jobs at that moment
    let mut sample_at = Instant::now();
    loop {
        if Instant::now() >= sample_at {
            sample_at = Instant::now() + SAMPLE_INTERVAL;
            // If sampling fails, the numbers stand still; only the worker's own calls decide whether it stops.
            if let Some(left) = Left::of(queue, SAMPLE_INTERVAL).await {
                known = Some((left, finished(&monitor.stats())));
            }
        }
        let stats = monitor.stats();
        let left = known.map(|(left, at)| left.less(finished(&stats) - at));
        show(&readings.progress(Instant::now(), left, stats));
        tokio::time::sleep(every).await;
    }
}

fn jobs(jobs: u64) -> String {
    format!("{jobs} {}", if jobs == 1 { "job" } else { "jobs" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(done: u64) -> WorkerStats {
        WorkerStats { done, running: 3, ..WorkerStats::default() }
    }

    fn left(unfinished: u64, scheduled: u64) -> Option<Left> {
        Some(Left { unfinished, scheduled })
    }

    #[test]
    fn the_rate_and_what_is_left_follow_the_last_seconds() {
        let mut readings = Readings::default();
        let start = Instant::now();
        let first = readings.progress(start, None, done(0));
        assert_eq!((first.jobs_per_second, first.left), (0.0, None));
        readings.progress(start + Duration::from_secs(1), left(1_000, 0), done(100));
        let third = readings.progress(start + Duration::from_secs(5), left(600, 0), done(500));
        assert_eq!((third.jobs_per_second, third.left), (100.0, Some(Duration::from_secs(6))));
        assert_eq!(third.to_string(), "500 of 1100 jobs, 100/s, 0:06 left (0 buffered, 3 running, 0 to finish)");
        // The first readings are forgotten by now.
        let fourth = readings.progress(start + Duration::from_secs(13), left(600, 7), done(580));
        assert_eq!((fourth.jobs_per_second, fourth.left), (10.0, None), "the queue does not get shorter");
        assert_eq!(fourth.to_string(), "580 of 1180 jobs, 10/s (0 buffered, 3 running, 0 to finish, 7 scheduled)");
    }
}
