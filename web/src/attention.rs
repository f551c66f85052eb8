//! Compares a queue with the minutes before, for the overview and for `readpast queues`.

use std::time::{Duration, SystemTime};

use readpast::admin::{HistoryRow, QueueStats, ScheduleRow};

use crate::texts::number;

/// Dead jobs are compared over this time.
pub const LATELY: Duration = Duration::from_secs(15 * 60);

/// A schedule this much behind is late. It normally fires within seconds, but clocks differ.
const LATE: Duration = Duration::from_secs(120);

/// Facts about a queue besides its counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lately {
    /// Dead jobs 15 minutes before the last row of the history.
    pub dead_before: Option<u64>,
    /// Schedules that are late or cannot be fired.
    pub late_schedules: usize,
}

impl Lately {
    pub fn new(history: &[HistoryRow], schedules: &[ScheduleRow], now: SystemTime) -> Lately {
        let last = history.last().map(|row| row.at);
        let is_recent = |row: &&HistoryRow| last.is_some_and(|last| row.at + LATELY >= last);
        Lately {
            dead_before: history.iter().find(is_recent).map(|row| row.dead),
            late_schedules: schedules.iter().filter(|row| is_late(row, now)).count(),
        }
    }

    /// How many jobs died lately, less those that were requeued or deleted.
    pub fn more_dead(&self, stats: &QueueStats) -> u64 {
        self.dead_before.map_or(0, |before| stats.dead.saturating_sub(before))
    }

    /// The tags; empty if all is well.
    pub fn words(&self, stats: &QueueStats) -> Vec<String> {
        let mut words = Vec::new();
        if !stats.paused && stats.claimable() > 0 && stats.workers == 0 {
            words.push("no worker".to_owned());
        }
        if let more @ 1.. = self.more_dead(stats) {
            words.push(format!("{} more dead", number(more)));
        }
        if stats.max_depth.is_some_and(|max| stats.unfinished() >= max.into()) {
            words.push("full".to_owned());
        }
        match self.late_schedules {
            0 => {}
            1 => words.push("1 schedule is late".to_owned()),
            late => words.push(format!("{late} schedules are late")),
        }
        words
    }
}

/// Whether a schedule is late or cannot be fired.
pub fn is_late(row: &ScheduleRow, now: SystemTime) -> bool {
    !row.paused && (row.error.is_some() || row.next_at + LATE < now)
}

/// This machine's time, for comparison with schedules.
#[expect(clippy::disallowed_methods, reason = "a word for the reader, with minutes of tolerance; it decides nothing")]
pub fn now() -> SystemTime {
    SystemTime::now()
}
