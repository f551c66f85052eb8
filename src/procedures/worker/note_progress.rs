//! `note_progress`: saves the checkpoints and progress of running jobs.

use tiberius::{SqlTableDataRow, TableValueRow};

use crate::connection::{Session, table_type};
use crate::error::Error;
use crate::id::WorkerId;
use crate::job::{Note, NotedRun};

/// The name of the call in an [`Error::TimedOut`].
pub(crate) const NOTE_PROGRESS: &str = "note_progress";

impl Session {
    /// Saves the checkpoints and progress of running jobs that this worker still holds.
    ///
    /// # Errors
    ///
    /// After any error, call it again with the same or newer values.
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
