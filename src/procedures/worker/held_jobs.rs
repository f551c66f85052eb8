//! Jobs that a worker holds: `release` and `recover` give back those that were not run, `note_progress` writes what
//! running ones note.

use tiberius::{SqlTableDataRow, TableValueRow};

use crate::connection::{Session, job_rows, table_type};
use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};
use crate::job::{Note, NotedRun};

/// The call by name, as an [`Error::TimedOut`] has it.
pub(crate) const NOTE_PROGRESS: &str = "note_progress";

impl Session {
    /// Keeps what running jobs have noted, of those that this worker still holds.
    ///
    /// # Errors
    ///
    /// After any error, run it again with the same or newer notes.
    pub(crate) async fn note_progress(&mut self, worker: WorkerId, notes: &[(NotedRun, Note)]) -> Result<(), Error> {
        let list = table_type(self.schema(), "progress_list");
        let mut command = self.command(NOTE_PROGRESS);
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@notes", &list, notes.iter().map(NoteRow));
        self.run(NOTE_PROGRESS, command).await?;
        Ok(())
    }
}

/// One row of the table type `progress_list`.
struct NoteRow<'a>(&'a (NotedRun, Note));

impl<'a> TableValueRow<'a> for NoteRow<'a> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        let ((job_id, fence), note) = self.0;
        row.add_field(job_id.0);
        row.add_field(fence.0);
        row.add_field(note.fraction);
        row.add_field(note.text.as_deref());
        row.add_field(note.checkpoint.as_deref());
    }

    fn get_db_type() -> &'static str {
        "progress_list"
    }
}

impl Session {
    /// Gives back jobs that were not started; their attempt does not count. Returns those that were not this worker's
    /// any more.
    ///
    /// # Errors
    ///
    /// After any error, run it again with the same jobs: those that were given back are reported as not this worker's.
    pub(crate) async fn release(&mut self, worker: WorkerId, jobs: &[(JobId, Fence)]) -> Result<Vec<JobId>, Error> {
        let list = table_type(self.schema(), "job_list");
        let mut command = self.command("release");
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@jobs", &list, job_rows(jobs));
        let mut not_ours = Vec::new();
        for mut row in self.rows("release", command).await? {
            not_ours.push(JobId(row.required("job_id")?));
        }
        Ok(not_ours)
    }

    /// Gives back the jobs that are claimed for this worker but not among `known`: those of a claim whose answer was
    /// lost. Returns how many there were. By their fences: a call that arrives after it was given up, when this worker
    /// has claimed again, gives back nothing that it runs.
    ///
    /// # Errors
    ///
    /// After any error, run it again.
    pub(crate) async fn recover(
        &mut self,
        queue: &str,
        worker: WorkerId,
        known: &[(JobId, Fence)],
    ) -> Result<usize, Error> {
        let unknown = self.unknown_jobs(queue, worker, known).await?;
        if unknown.is_empty() {
            return Ok(0);
        }
        let not_ours = self.release(worker, &unknown).await?;
        Ok(unknown.len() - not_ours.len())
    }

    /// The jobs that are claimed for this worker but not among `known`.
    pub(crate) async fn unknown_jobs(
        &mut self,
        queue: &str,
        worker: WorkerId,
        known: &[(JobId, Fence)],
    ) -> Result<Vec<(JobId, Fence)>, Error> {
        let list = table_type(self.schema(), "job_list");
        let mut command = self.command("recover");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@known", &list, job_rows(known));
        let mut unknown = Vec::new();
        for mut row in self.rows("recover", command).await? {
            unknown.push((JobId(row.required("job_id")?), Fence(row.required("fence")?)));
        }
        Ok(unknown)
    }
}
