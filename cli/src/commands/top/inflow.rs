//! About how many jobs come into a queue: nobody counts that, so it is what the depth has grown by and what went out.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::readings::QueueLine;

/// Over how long it is reckoned. Workers report with their heartbeats, every ten seconds by default: over less, what
/// they report and what the depth shows would be of different times.
const WINDOW: Duration = Duration::from_secs(10);

/// What was read of each queue within the window.
#[derive(Debug, Default)]
pub struct Inflow {
    queues: HashMap<String, VecDeque<Point>>,
}

#[derive(Debug)]
struct Point {
    at: Instant,
    not_done: u64,
    /// Jobs that went out since the first reading.
    out: f64,
}

impl Inflow {
    /// Notes what was read at `at`, and writes each queue's rate into it.
    pub fn note(&mut self, at: Instant, queues: &mut [QueueLine]) {
        self.queues.retain(|name, _| queues.iter().any(|queue| queue.name == *name));
        for queue in queues {
            let points = self.queues.entry(queue.name.clone()).or_default();
            let out = points.back().map_or(0.0, |last| {
                let seconds = at.duration_since(last.at).as_secs_f64();
                last.out + queue.done_per_s.unwrap_or_default() * seconds
            });
            points.push_back(Point { at, not_done: queue.not_done(), out });
            // The first one stays as long as it is needed to fill the window.
            while points.get(1).is_some_and(|second| at.duration_since(second.at) >= WINDOW) {
                points.pop_front();
            }
            queue.in_per_s = points.front().and_then(|first| rate(first, points.back()?));
        }
    }
}

fn rate(first: &Point, last: &Point) -> Option<f64> {
    let seconds = last.at.duration_since(first.at).as_secs_f64();
    let grown = last.not_done as f64 - first.not_done as f64;
    // Less than nothing: dead jobs were purged, or a worker's report is older than what the depth shows.
    (seconds > 0.0).then(|| ((grown + last.out - first.out) / seconds).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ready: u64, dead: u64, done_per_s: f64) -> [QueueLine; 1] {
        [QueueLine { name: "q".into(), ready, dead, done_per_s: Some(done_per_s), ..QueueLine::default() }]
    }

    #[test]
    fn what_came_in_is_what_the_depth_grew_by_and_what_went_out() {
        let (start, mut inflow) = (Instant::now(), Inflow::default());
        let mut note = |seconds, mut queues: [QueueLine; 1]| {
            inflow.note(start + Duration::from_secs(seconds), &mut queues);
            queues[0].in_per_s
        };
        assert_eq!(note(0, read(100, 0, 5.0)), None);
        assert_eq!(note(2, read(120, 0, 5.0)), Some(15.0));
        assert_eq!(note(4, read(120, 0, 5.0)), Some(10.0));
        // A job that dies has not gone out, so nothing came in for it.
        assert_eq!(note(10, read(80, 40, 0.0)), Some(4.0));
        // The window moves on: the beginning no longer counts.
        assert_eq!(note(14, read(80, 40, 0.0)), Some(0.0));
        // Purged jobs are not jobs that came in.
        assert_eq!(note(16, read(80, 0, 0.0)), Some(0.0));
    }
}
