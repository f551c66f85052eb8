//! How much memory the jobs of each kind have used (`worker.resources.learn_memory`): what a job needs if nobody has
//! stated it.
//!
//! ```text
//! kind_history ──at startup, every ten minutes──▶ by kind ─────────────────────▶ the need of a job that starts
//! a run ends ──its peak memory──▶ largest of its kind ──if not in the history──▶ ▲
//! ```
//!
//! A kind of which nothing is known needs no memory.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::connection::Session;
use crate::error::Error;

use super::kind_tally::{MOST_NAMED, name_in_history};

/// The most kinds that are kept of each source: as many as the history can name in a week. Kinds come from producers.
const MOST_KINDS: usize = MOST_NAMED * 24 * 7;

#[derive(Default)]
pub(in crate::worker) struct LearnedMemory {
    peaks: RwLock<Peaks>,
}

/// Bytes by kind.
#[derive(Default)]
struct Peaks {
    history: HashMap<Box<str>, u64>,
    /// The largest peaks of this worker's own runs since the last read, and between the two reads before it. Until then,
    /// they may be missing in the history, or be counted there without their kinds' names.
    own: HashMap<Box<str>, u64>,
    own_before: HashMap<Box<str>, u64>,
}

impl LearnedMemory {
    /// Reads the history of the queue.
    pub(in crate::worker) async fn read(&self, queue: &str, session: &mut Session) -> Result<(), Error> {
        self.replace_history(session.peaks_by_kind(queue).await?);
        Ok(())
    }

    fn replace_history(&self, history: Vec<(String, u64)>) {
        let mut peaks = self.peaks.write();
        peaks.history = history.into_iter().take(MOST_KINDS).map(|(kind, bytes)| (kind.into(), bytes)).collect();
        peaks.own_before = std::mem::take(&mut peaks.own);
    }

    /// Records the peak memory of a run.
    pub(in crate::worker) fn record(&self, kind: Option<&str>, peak: u64) {
        let kind = name_in_history(kind);
        if self.peaks.read().own.get(kind).is_some_and(|largest| *largest >= peak) {
            return;
        }
        let own = &mut self.peaks.write().own;
        if let Some(largest) = own.get_mut(kind) {
            *largest = peak.max(*largest);
        } else if own.len() < MOST_KINDS {
            own.insert(kind.into(), peak);
        }
    }

    /// How much memory a job of this kind is expected to use, in bytes, if anything is known.
    pub(in crate::worker) fn expected(&self, kind: Option<&str>) -> Option<u64> {
        let (kind, peaks) = (name_in_history(kind), self.peaks.read());
        let own = || peaks.own.get(kind).max(peaks.own_before.get(kind));
        peaks.history.get(kind).or_else(own).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_takes_precedence_over_recent_runs_of_this_worker() {
        let learned = LearnedMemory::default();
        let expected = || [Some("render"), Some("new"), None].map(|kind| learned.expected(kind));
        assert_eq!(expected(), [None; 3]);
        learned.replace_history(vec![("render".to_owned(), 300), (String::new(), 7)]);
        for peak in [5, 900, 20] {
            learned.record(Some("render"), peak);
            learned.record(Some(" new "), peak);
        }
        assert_eq!(expected(), [Some(300), Some(900), Some(7)]);
        learned.replace_history(vec![]);
        assert_eq!(expected(), [Some(900), Some(900), None], "the own runs may not be in the history yet");
        learned.replace_history(vec![("new".to_owned(), 30)]);
        assert_eq!(expected(), [None, Some(30), None]);
    }

    #[test]
    fn however_many_kinds_there_are_the_memory_for_them_is_bounded() {
        let learned = LearnedMemory::default();
        for kind in 0..2 * MOST_KINDS {
            learned.record(Some(&kind.to_string()), 1);
        }
        learned.replace_history((0..2 * MOST_KINDS).map(|kind| (kind.to_string(), 1)).collect());
        let peaks = learned.peaks.read();
        assert_eq!([peaks.history.len(), peaks.own.len(), peaks.own_before.len()], [MOST_KINDS, 0, MOST_KINDS]);
    }
}
