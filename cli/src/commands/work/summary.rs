//! The totals of a worker.

use std::time::Duration;

use serde::Serialize;

use crate::texts::{age, number};

/// The counts of `readpast::WorkerStats`, by the same names.
#[derive(Debug, Serialize)]
pub struct Summary {
    done: u64,
    retried: u64,
    snoozed: u64,
    dead: u64,
    cancelled: u64,
    expired: u64,
    released: u64,
    lost: u64,
    overdue: u64,
    unknown_kind: u64,
    elapsed_s: f64,
    cut_off: usize,
    pub ended_in_order: bool,
    pub recycled: bool,
}

impl From<&readpast::Summary> for Summary {
    fn from(summary: &readpast::Summary) -> Summary {
        let stats = &summary.stats;
        Summary {
            done: stats.done,
            retried: stats.retried,
            snoozed: stats.snoozed,
            dead: stats.dead,
            cancelled: stats.cancelled,
            expired: stats.expired,
            released: stats.released,
            lost: stats.lost,
            overdue: stats.overdue,
            unknown_kind: stats.unknown_kind,
            elapsed_s: summary.elapsed.as_secs_f64(),
            cut_off: summary.cut_off,
            ended_in_order: summary.ended_in_order,
            recycled: summary.recycled,
        }
    }
}

impl Summary {
    /// `1,240 done, 3 retried, 1 dead in 5m 3s`; other counts only if not zero.
    pub fn in_words(&self) -> String {
        let always = [(self.done, "done"), (self.retried, "retried"), (self.dead, "dead")];
        let others = [
            (self.snoozed, "snoozed"),
            (self.cancelled, "cancelled"),
            (self.expired, "expired"),
            (self.released, "given back unstarted"),
            (self.lost, "lost to other workers"),
            (self.overdue, "over their time limit"),
            (self.cut_off as u64, "cut off"),
        ];
        let named = always.iter().chain(others.iter().filter(|(count, _)| *count > 0));
        let counts: Vec<_> = named.map(|(count, name)| format!("{} {name}", number(*count))).collect();
        format!("{} in {}", counts.join(", "), age(Duration::from_secs_f64(self.elapsed_s)))
    }
}
