//! Counts how many jobs a queue has in each state, at a bounded cost.
//!
//! Each second, up to [`MOST`] jobs of each state are counted. If there are more, all jobs are counted too, but so
//! seldom that these counts take only a small part of the time. The page shows `2,000+` before the first full count,
//! then `≈ 5,000,000`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use readpast::admin::{JobState, QueueStats};

use crate::job_search::STATES;
use crate::texts::number;

/// How many jobs of a state are counted each second. On the dev server, this takes a millisecond per state.
pub const MOST: u64 = 2_000;

/// The shortest pause between full counts, which take at most a twentieth of the time.
const SELDOM: Duration = Duration::from_secs(10);
const SHARE: u32 = 20;

/// A full count of all queues.
#[derive(Debug)]
pub struct Exact {
    pub at: Instant,
    took: Duration,
    queues: HashMap<String, QueueStats>,
}

impl Exact {
    pub fn new(begun_at: Instant, queues: Vec<QueueStats>) -> Exact {
        let queues = queues.into_iter().map(|stats| (stats.queue.clone(), stats)).collect();
        Exact { at: Instant::now(), took: begun_at.elapsed(), queues }
    }

    /// Whether the next full count is due.
    pub fn is_old(&self) -> bool {
        self.at.elapsed() >= SELDOM.max(self.took * SHARE)
    }

    pub fn queue(&self, name: &str) -> Option<&QueueStats> {
        self.queues.get(name)
    }
}

/// Records which of a queue's counts are not exact.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    large: Vec<JobState>,
    all_were_counted: bool,
}

impl Counts {
    /// Replaces counts cut at [`MOST`] by those of the full count.
    pub fn complete(stats: &mut QueueStats, exact: Option<&QueueStats>) -> Counts {
        let large: Vec<JobState> =
            STATES.iter().map(|(state, _)| *state).filter(|state| stats.jobs(*state) >= MOST).collect();
        if let Some(exact) = exact {
            for state in &large {
                if let Some(count_now) = count_mut(stats, *state) {
                    *count_now = exact.jobs(*state).max(MOST);
                }
            }
        }
        Counts { large, all_were_counted: exact.is_some() }
    }

    pub fn are_exact(&self) -> bool {
        self.large.is_empty()
    }

    /// The count of a state as text.
    pub fn text(&self, stats: &QueueStats, state: JobState) -> String {
        let count = number(stats.jobs(state));
        match (self.large.contains(&state), self.all_were_counted) {
            (false, _) => count,
            (true, true) => format!("≈ {count}"),
            (true, false) => format!("{count}+"),
        }
    }
}

fn count_mut(stats: &mut QueueStats, state: JobState) -> Option<&mut u64> {
    Some(match state {
        JobState::Ready => &mut stats.ready,
        JobState::Scheduled => &mut stats.scheduled,
        JobState::Waiting => &mut stats.waiting,
        JobState::Claimed => &mut stats.claimed,
        JobState::Dead => &mut stats.dead,
        JobState::Cancelled => &mut stats.cancelled,
        JobState::Done => &mut stats.done,
        JobState::Archived => &mut stats.archived,
        _ => return None,
    })
}
