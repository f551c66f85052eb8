//! A queue's depth and the work of its workers, for live displays.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::procedures::operator::{QueueStats, WorkerRow};

/// A queue's depth and settings, and the speed of its workers. The JSON form contains the fields of [`QueueStats`], and
/// `done_per_s`, `failed_per_s` and `limits` (pairs of a name and a number).
///
/// ```no_run
/// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
/// use readpast::admin::QueueActivity;
///
/// let workers = queue.admin().all_workers(std::time::Duration::ZERO).await?;
/// for stats in queue.admin().all_stats(None).await? {
///     let activity = QueueActivity::new(stats, Some(&workers));
///     println!("{}: {} ready, {:?} a second", activity.stats.queue, activity.stats.ready, activity.done_per_s);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueActivity {
    /// The queue's depth and settings.
    #[serde(flatten)]
    pub stats: QueueStats,
    /// Jobs done per second by all workers of the queue combined, each between its last two heartbeats. `None` if no
    /// worker has reported yet, or if the login may not see workers.
    pub done_per_s: Option<f64>,
    /// Failed attempts per second, measured like `done_per_s`.
    pub failed_per_s: Option<f64>,
    /// The bottlenecks of the workers ([`WorkerRow::limited_by`]) with the number of workers, the most frequent first.
    pub limits: Vec<(String, usize)>,
}

impl QueueActivity {
    /// Creates the activity of a queue from all workers of the schema, or from `None` if the login may not see them.
    pub fn new(stats: QueueStats, workers: Option<&[WorkerRow]>) -> QueueActivity {
        let of_queue = |worker: &&WorkerRow| worker.queue == stats.queue && worker.is_live();
        let live: Option<Vec<&WorkerRow>> = workers.map(|workers| workers.iter().filter(of_queue).collect());
        let rate = |of: fn(&WorkerRow) -> Option<f64>| {
            let rates: Vec<Option<f64>> = live.as_ref()?.iter().map(|worker| of(worker)).collect();
            // Without workers, the rate is known to be 0.
            let nobody_knows = !rates.is_empty() && rates.iter().all(Option::is_none);
            (!nobody_knows).then(|| rates.into_iter().flatten().fold(0.0, |sum, rate| sum + rate))
        };
        let (done_per_s, failed_per_s) = (rate(|worker| worker.done_per_s), rate(|worker| worker.failed_per_s));
        let mut limits: Vec<(String, usize)> = Vec::new();
        for word in live.iter().flatten().filter_map(|worker| worker.limited_by.as_ref()) {
            match limits.iter_mut().find(|(known, _)| known == word) {
                Some((_, workers)) => *workers += 1,
                None => limits.push((word.clone(), 1)),
            }
        }
        limits.sort_by(|(a, some), (b, others)| others.cmp(some).then_with(|| a.cmp(b)));
        QueueActivity { stats, done_per_s, failed_per_s, limits }
    }
}

/// Estimates how many jobs per second are enqueued, because SQL Server does not count them: the growth of the depth
/// plus the done jobs, over the last ten seconds. Workers report with their heartbeats, every ten seconds by default.
/// Over a shorter window, their reports and the depth would be from different times.
#[derive(Debug, Clone, Default)]
pub struct Inflow {
    points: VecDeque<Point>,
}

/// The window of the estimate.
const WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct Point {
    at: Instant,
    not_done: u64,
    /// Jobs done since the first reading.
    out: f64,
}

impl Inflow {
    /// Adds a reading of the queue at `at`, later than the reading before: [`QueueStats::not_done`] and
    /// [`QueueActivity::done_per_s`]. Returns the rate, or `None` after the first reading.
    pub fn note(&mut self, at: Instant, not_done: u64, done_per_s: Option<f64>) -> Option<f64> {
        let out = self.points.back().map_or(0.0, |last| {
            let seconds = at.duration_since(last.at).as_secs_f64();
            last.out + done_per_s.unwrap_or_default() * seconds
        });
        let last = Point { at, not_done, out };
        self.points.push_back(last);
        // The first reading stays as long as it is needed to fill the window.
        while self.points.get(1).is_some_and(|second| at.duration_since(second.at) >= WINDOW) {
            self.points.pop_front();
        }
        let first = self.points.front()?;
        let seconds = at.duration_since(first.at).as_secs_f64();
        let grown = not_done as f64 - first.not_done as f64;
        // It is negative if dead jobs were purged, or if a worker's report is older than the depth.
        (seconds > 0.0).then(|| ((grown + last.out - first.out) / seconds).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_is_what_the_depth_grew_by_and_what_went_out() {
        let (start, mut inflow) = (Instant::now(), Inflow::default());
        let mut note = |seconds, (not_done, done_per_s)| {
            inflow.note(start + Duration::from_secs(seconds), not_done, Some(done_per_s))
        };
        assert_eq!(note(0, (100, 5.0)), None);
        assert_eq!(note(2, (120, 5.0)), Some(15.0));
        assert_eq!(note(4, (120, 5.0)), Some(10.0));
        // A dead job is still in the depth, so nothing was enqueued.
        assert_eq!(note(10, (120, 0.0)), Some(4.0));
        // The window moves on: the first reading no longer counts.
        assert_eq!(note(14, (120, 0.0)), Some(0.0));
        // Purged jobs do not count as negative.
        assert_eq!(note(16, (80, 0.0)), Some(0.0));
    }
}
