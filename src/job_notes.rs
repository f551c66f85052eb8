//! What running jobs note about themselves: a checkpoint, for their next attempt, and how far they are, for people. The
//! latest value counts. It is kept here until the worker has written it.
//!
//! ```text
//! Context::checkpoint, Context::progress ──▶ Notes ──(a second later, or before the job's end)──▶ note_progress
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::Error;
use crate::ids::{Fence, JobId};
use crate::outcome::cut_to;

/// The most bytes of a checkpoint: what the driver takes for one value in a table-valued parameter.
pub(crate) const MAX_CHECKPOINT_BYTES: usize = 65_535;

/// The most UTF-16 units of a progress' text.
const MAX_TEXT_UNITS: usize = 400;

/// What a job has noted, as far as it is not written yet. `None`: nothing new.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Note {
    pub(crate) checkpoint: Option<Vec<u8>>,
    pub(crate) fraction: Option<f32>,
    pub(crate) text: Option<String>,
}

impl Note {
    /// # Errors
    ///
    /// [`Error::CheckpointTooLarge`].
    pub(crate) fn checkpoint(checkpoint: Vec<u8>) -> Result<Note, Error> {
        if checkpoint.len() > MAX_CHECKPOINT_BYTES {
            return Err(Error::CheckpointTooLarge { bytes: checkpoint.len() });
        }
        Ok(Note { checkpoint: Some(checkpoint), ..Note::default() })
    }

    /// What is not between 0 and 1 counts as the nearer of them, and a longer text is cut.
    pub(crate) fn progress(fraction: f32, text: &str) -> Note {
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        Note { fraction: Some(fraction), text: Some(cut_to(text, MAX_TEXT_UNITS).to_owned()), checkpoint: None }
    }

    /// What both have, `newer` before this.
    fn overtaken_by(self, newer: Note) -> Note {
        Note {
            checkpoint: newer.checkpoint.or(self.checkpoint),
            fraction: newer.fraction.or(self.fraction),
            text: newer.text.or(self.text),
        }
    }
}

/// The run of a job that has noted something.
pub(crate) type NotedRun = (JobId, Fence);

/// Of all jobs of a worker.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    unwritten: Mutex<BTreeMap<NotedRun, Note>>,
    /// Something was ever noted: without it nobody needs to look.
    used: AtomicBool,
    changed: Notify,
    writing: tokio::sync::Mutex<()>,
}

impl Notes {
    pub(crate) fn note(&self, run: NotedRun, newer: Note) {
        let mut unwritten = self.unwritten.lock();
        let note = unwritten.entry(run).or_default();
        *note = std::mem::take(note).overtaken_by(newer);
        drop(unwritten);
        self.used.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Returns when there is something to write.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Held while notes are taken out and written: who holds it knows that none is under way.
    pub(crate) async fn writing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    pub(crate) fn were_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// Takes up to `max` out, to write them.
    pub(crate) fn take(&self, max: usize) -> Vec<(NotedRun, Note)> {
        let mut unwritten = self.unwritten.lock();
        std::iter::from_fn(|| unwritten.pop_first()).take(max).collect()
    }

    /// Takes those of one run out.
    pub(crate) fn take_of(&self, run: NotedRun) -> Option<(NotedRun, Note)> {
        self.unwritten.lock().remove_entry(&run)
    }

    /// They could not be written. What was noted since wins.
    pub(crate) fn put_back(&self, notes: Vec<(NotedRun, Note)>) {
        let mut unwritten = self.unwritten.lock();
        for (run, note) in notes {
            let newer = unwritten.entry(run).or_default();
            *newer = note.overtaken_by(std::mem::take(newer));
        }
        drop(unwritten);
        self.changed.notify_one();
    }

    /// What a run has noted, for a test.
    pub(crate) fn of(&self, run: NotedRun) -> Option<Note> {
        self.unwritten.lock().get(&run).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_since_wins_over_what_could_not_be_written() {
        let (notes, run) = (Notes::default(), (JobId(1), Fence(2)));
        notes.note(run, Note::checkpoint(vec![1]).unwrap());
        notes.note(run, Note::progress(0.25, "a quarter"));
        let taken = notes.take(10);
        assert_eq!(taken.len(), 1);
        notes.note(run, Note::checkpoint(vec![2]).unwrap());
        notes.put_back(taken);
        let text = Some("a quarter".to_owned());
        let expected = Note { checkpoint: Some(vec![2]), fraction: Some(0.25), text };
        assert_eq!(notes.of(run), Some(expected));
    }
}
