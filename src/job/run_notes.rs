//! Checkpoints, progress and logs that running jobs report: a checkpoint for the next attempt, the rest for people. The
//! latest values are kept here until the worker has written them.
//!
//! ```text
//! Context::checkpoint, progress, log ──▶ Notes ──(a second later, or before the job's end)──▶ note_progress
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::Error;
use crate::id::{Fence, JobId};
use crate::text::cut_to;

use super::new_job::MAX_TABLE_VALUE_BYTES;
use super::run_log::RunLog;

/// The longest text of a progress, in UTF-16 units.
const MAX_TEXT_UNITS: usize = 400;

/// The values that a job has reported and the worker has not written. `None`: no new value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Note {
    pub(crate) checkpoint: Option<Vec<u8>>,
    pub(crate) fraction: Option<f32>,
    pub(crate) text: Option<String>,
    pub(crate) log: Option<NotedLog>,
}

/// The log of a run. Its end is read when it is written.
#[derive(Debug, Clone)]
pub(crate) struct NotedLog {
    pub(crate) log: Arc<RunLog>,
    /// Whether the run has ended, and the log stays.
    pub(crate) is_kept: bool,
}

impl PartialEq for NotedLog {
    fn eq(&self, other: &NotedLog) -> bool {
        Arc::ptr_eq(&self.log, &other.log) && self.is_kept == other.is_kept
    }
}

impl Note {
    /// Creates a note of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`Error::CheckpointTooLarge`] if the checkpoint is too large.
    pub(crate) fn checkpoint(checkpoint: Vec<u8>) -> Result<Note, Error> {
        if checkpoint.len() > MAX_TABLE_VALUE_BYTES {
            return Err(Error::CheckpointTooLarge { bytes: checkpoint.len() });
        }
        Ok(Note { checkpoint: Some(checkpoint), ..Note::default() })
    }

    /// Creates a note of progress. A fraction outside 0 to 1 is clamped, and a longer text is cut.
    pub(crate) fn progress(fraction: f32, text: &str) -> Note {
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        Note { fraction: Some(fraction), text: Some(cut_to(text, MAX_TEXT_UNITS).to_owned()), ..Note::default() }
    }

    /// Creates a note of a log.
    pub(crate) fn log(log: &Arc<RunLog>, is_kept: bool) -> Note {
        Note { log: Some(NotedLog { log: log.clone(), is_kept }), ..Note::default() }
    }

    fn bytes(&self) -> usize {
        self.checkpoint.as_ref().map_or(0, Vec::len) + self.log.as_ref().map_or(0, |noted| noted.log.limit())
    }

    fn overtaken_by(self, newer: Note) -> Note {
        Note {
            checkpoint: newer.checkpoint.or(self.checkpoint),
            fraction: newer.fraction.or(self.fraction),
            text: newer.text.or(self.text),
            log: newer.log.or(self.log),
        }
    }
}

pub(crate) type NotedRun = (JobId, Fence);

/// The notes of all jobs of a worker; for each job, those of the run with the highest fence. If a lease was lost, a job
/// may run twice in one process. The notes of the older run are then ignored.
#[derive(Debug, Default)]
pub(crate) struct RunNotes {
    unwritten: Mutex<BTreeMap<JobId, (Fence, Note)>>,
    /// The size of the checkpoints and logs in memory, including those that are being written.
    bytes: Arc<AtomicUsize>,
    /// Whether a job has ever reported a note.
    used: AtomicBool,
    changed: Notify,
    writing: tokio::sync::Mutex<()>,
}

impl RunNotes {
    /// Notes whose size is counted in `bytes`.
    pub(crate) fn counted_in(bytes: Arc<AtomicUsize>) -> RunNotes {
        RunNotes { bytes, ..RunNotes::default() }
    }

    pub(crate) fn note(&self, run: NotedRun, newer: Note) {
        self.bytes.fetch_add(newer.bytes(), Ordering::AcqRel);
        let mut unwritten = self.unwritten.lock();
        self.dropped(add(&mut unwritten, run, newer, Note::overtaken_by));
        drop(unwritten);
        self.used.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Locks the writing of notes. A writer holds the lock while it takes notes out and writes them; for any other
    /// holder, no write is in progress.
    pub(crate) async fn writing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    pub(crate) fn were_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    pub(crate) fn take_all(&self) -> Taken<'_> {
        let all = std::mem::take(&mut *self.unwritten.lock());
        Taken {
            notes: self,
            unwritten: all.into_iter().map(|(job_id, (fence, note))| ((job_id, fence), note)).collect(),
            put_off: Vec::new(),
        }
    }

    pub(crate) fn take(&self, runs: impl Iterator<Item = NotedRun>) -> Taken<'_> {
        let mut unwritten = self.unwritten.lock();
        let taken = runs.filter_map(|run| Some((run, remove(&mut unwritten, run)?))).collect();
        Taken { notes: self, unwritten: taken, put_off: Vec::new() }
    }

    pub(crate) fn forget(&self, runs: impl Iterator<Item = NotedRun>) {
        if self.were_used() {
            let mut unwritten = self.unwritten.lock();
            self.dropped(runs.filter_map(|run| remove(&mut unwritten, run)).map(|note| note.bytes()).sum());
        }
    }

    fn dropped(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub(crate) fn of(&self, (job_id, fence): NotedRun) -> Option<Note> {
        self.unwritten.lock().get(&job_id).filter(|noted| noted.0 == fence).map(|noted| noted.1.clone())
    }
}

/// Merges a note with the job's existing note. Returns the size of the checkpoint that was dropped.
fn add(
    unwritten: &mut BTreeMap<JobId, (Fence, Note)>,
    (job_id, fence): NotedRun,
    note: Note,
    merge: impl FnOnce(Note, Note) -> Note,
) -> usize {
    let noted = unwritten.entry(job_id).or_insert_with(|| (fence, Note::default()));
    let bytes = noted.1.bytes() + note.bytes();
    if noted.0 < fence {
        *noted = (fence, Note::default());
    }
    if noted.0 == fence {
        noted.1 = merge(std::mem::take(&mut noted.1), note);
    }
    bytes - noted.1.bytes()
}

fn remove(unwritten: &mut BTreeMap<JobId, (Fence, Note)>, (job_id, fence): NotedRun) -> Option<Note> {
    let noted = unwritten.remove(&job_id)?;
    if noted.0 == fence {
        return Some(noted.1);
    }
    unwritten.insert(job_id, noted);
    None
}

/// Notes that were taken out to be written. On drop, unwritten notes are put back, unless there are newer ones.
pub(crate) struct Taken<'a> {
    notes: &'a RunNotes,
    unwritten: Vec<(NotedRun, Note)>,
    /// Notes that are put back in any case.
    put_off: Vec<(NotedRun, Note)>,
}

impl Taken<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.unwritten.is_empty()
    }

    pub(crate) fn next(&self, max: usize) -> &[(NotedRun, Note)] {
        &self.unwritten[..max.min(self.unwritten.len())]
    }

    /// Records that the first `notes` notes were written or given up.
    pub(crate) fn settle(&mut self, notes: usize) {
        self.notes.dropped(self.unwritten.drain(..notes).map(|(_, note)| note.bytes()).sum());
    }

    /// Postpones the next note: it is put back on drop.
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
            self.notes.dropped(add(&mut unwritten, run, older, |newer, older| older.overtaken_by(newer)));
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
        let (notes, run) = (RunNotes::default(), (JobId(1), Fence(2)));
        notes.note(run, Note::checkpoint(vec![1]).unwrap());
        notes.note(run, Note::progress(0.25, "a quarter"));
        let taken = notes.take_all();
        assert_eq!(taken.next(10).len(), 1);
        notes.note(run, Note::checkpoint(vec![2]).unwrap());
        assert_eq!(notes.bytes.load(Ordering::Acquire), 2, "one is being written");
        drop(taken);
        assert_eq!(notes.bytes.load(Ordering::Acquire), 1);
        let text = Some("a quarter".to_owned());
        let expected = Note { checkpoint: Some(vec![2]), fraction: Some(0.25), text, log: None };
        assert_eq!(notes.of(run), Some(expected));
    }

    #[test]
    fn of_two_runs_of_a_job_the_one_with_the_higher_fence_counts() {
        let (notes, old, new) = (RunNotes::default(), (JobId(1), Fence(1)), (JobId(1), Fence(2)));
        let checkpoint = |byte| Note::checkpoint(vec![byte]).unwrap();
        notes.note(old, checkpoint(1));
        let taken = notes.take_all();
        notes.note(new, checkpoint(2));
        notes.note(old, checkpoint(3));
        drop(taken);
        assert_eq!((notes.of(old), notes.of(new)), (None, Some(checkpoint(2))));
        notes.forget([old].into_iter());
        let mut taken = notes.take([old, new].into_iter());
        assert_eq!(taken.next(10), [(new, checkpoint(2))]);
        assert_eq!(notes.bytes.load(Ordering::Acquire), 1);
        taken.settle(1);
        drop(taken);
        assert_eq!(notes.bytes.load(Ordering::Acquire), 0);
        notes.note(new, checkpoint(4));
        notes.forget([new].into_iter());
        assert_eq!(notes.bytes.load(Ordering::Acquire), 0);
    }
}
