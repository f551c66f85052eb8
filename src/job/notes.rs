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
use crate::id::{Fence, JobId};
use crate::text::cut_to;

use super::new_job::MAX_TABLE_VALUE_BYTES;

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
        if checkpoint.len() > MAX_TABLE_VALUE_BYTES {
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

/// Of all jobs of a worker: of each, those of the run under the highest fence. (Where a lease was lost, a job may run
/// twice in one process; what the older run notes is nobody's any more.)
#[derive(Debug, Default)]
pub(crate) struct Notes {
    unwritten: Mutex<BTreeMap<JobId, (Fence, Note)>>,
    /// Something was ever noted: without it nobody needs to look.
    used: AtomicBool,
    changed: Notify,
    writing: tokio::sync::Mutex<()>,
}

impl Notes {
    pub(crate) fn note(&self, run: NotedRun, newer: Note) {
        add(&mut self.unwritten.lock(), run, |older| older.overtaken_by(newer));
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

    /// Takes out what there is at this moment, to write it.
    pub(crate) fn take_all(&self) -> Taken<'_> {
        let all = std::mem::take(&mut *self.unwritten.lock());
        Taken {
            notes: self,
            unwritten: all.into_iter().map(|(job_id, (fence, note))| ((job_id, fence), note)).collect(),
            put_off: Vec::new(),
        }
    }

    /// Takes out what there is of these runs.
    pub(crate) fn take(&self, runs: impl Iterator<Item = NotedRun>) -> Taken<'_> {
        let mut unwritten = self.unwritten.lock();
        let taken = runs.filter_map(|run| Some((run, remove(&mut unwritten, run)?))).collect();
        Taken { notes: self, unwritten: taken, put_off: Vec::new() }
    }

    /// These runs are over: nobody needs what they have noted.
    pub(crate) fn forget(&self, runs: impl Iterator<Item = NotedRun>) {
        if self.were_used() {
            let mut unwritten = self.unwritten.lock();
            runs.for_each(|run| drop(remove(&mut unwritten, run)));
        }
    }

    /// What a run has noted, for a test.
    pub(crate) fn of(&self, (job_id, fence): NotedRun) -> Option<Note> {
        self.unwritten.lock().get(&job_id).filter(|noted| noted.0 == fence).map(|noted| noted.1.clone())
    }
}

fn add(unwritten: &mut BTreeMap<JobId, (Fence, Note)>, (job_id, fence): NotedRun, merge: impl FnOnce(Note) -> Note) {
    let noted = unwritten.entry(job_id).or_insert_with(|| (fence, Note::default()));
    if noted.0 < fence {
        *noted = (fence, Note::default());
    }
    if noted.0 == fence {
        noted.1 = merge(std::mem::take(&mut noted.1));
    }
}

fn remove(unwritten: &mut BTreeMap<JobId, (Fence, Note)>, (job_id, fence): NotedRun) -> Option<Note> {
    let noted = unwritten.remove(&job_id)?;
    if noted.0 == fence {
        return Some(noted.1);
    }
    unwritten.insert(job_id, noted);
    None
}

/// What was taken out to be written. What is not written when this is dropped goes back; what was noted since wins.
pub(crate) struct Taken<'a> {
    notes: &'a Notes,
    unwritten: Vec<(NotedRun, Note)>,
    /// Goes back in any case.
    put_off: Vec<(NotedRun, Note)>,
}

impl Taken<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.unwritten.is_empty()
    }

    /// The next to write, `max` at the most.
    pub(crate) fn next(&self, max: usize) -> &[(NotedRun, Note)] {
        &self.unwritten[..max.min(self.unwritten.len())]
    }

    /// So many of them were written, or are given up.
    pub(crate) fn settle(&mut self, notes: usize) {
        self.unwritten.drain(..notes);
    }

    /// The next cannot be written now: it goes back when this is dropped.
    pub(crate) fn put_off_next(&mut self) {
        self.put_off.push(self.unwritten.remove(0));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.unwritten.is_empty() && self.put_off.is_empty() {
            return;
        }
        let mut unwritten = self.notes.unwritten.lock();
        for (run, older) in self.unwritten.drain(..).chain(self.put_off.drain(..)) {
            add(&mut unwritten, run, |newer| older.overtaken_by(newer));
        }
        drop(unwritten);
        self.notes.changed.notify_one();
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
        let taken = notes.take_all();
        assert_eq!(taken.next(10).len(), 1);
        notes.note(run, Note::checkpoint(vec![2]).unwrap());
        drop(taken);
        let text = Some("a quarter".to_owned());
        let expected = Note { checkpoint: Some(vec![2]), fraction: Some(0.25), text };
        assert_eq!(notes.of(run), Some(expected));
    }

    #[test]
    fn of_two_runs_of_a_job_the_one_with_the_higher_fence_counts() {
        let (notes, old, new) = (Notes::default(), (JobId(1), Fence(1)), (JobId(1), Fence(2)));
        let checkpoint = |byte| Note::checkpoint(vec![byte]).unwrap();
        notes.note(old, checkpoint(1));
        let taken = notes.take_all();
        notes.note(new, checkpoint(2));
        notes.note(old, checkpoint(3));
        drop(taken);
        assert_eq!((notes.of(old), notes.of(new)), (None, Some(checkpoint(2))));
        notes.forget([old].into_iter());
        assert_eq!(notes.take([old, new].into_iter()).next(10), [(new, checkpoint(2))]);
    }
}
