//! `note_progress`: saves the checkpoints, progress and logs of running jobs.

use tiberius::{SqlTableDataRow, TableValueRow};

use crate::connection::{Session, big, table_type};
use crate::error::Error;
use crate::id::WorkerId;
use crate::job::{Note, NotedRun};

/// The name of the call in an [`Error::TimedOut`].
pub(crate) const NOTE_PROGRESS: &str = "note_progress";

impl Session {
    /// Saves the checkpoints, progress and logs of running jobs that this worker still holds.
    ///
    /// # Errors
    ///
    /// After any error, call it again with the same or newer values.
    pub(crate) async fn note_progress(&mut self, worker: WorkerId, notes: &[(NotedRun, Note)]) -> Result<(), Error> {
        let list = table_type(self.schema(), "progress_list");
        let mut command = self.command(NOTE_PROGRESS);
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@notes", &list, notes.iter().map(NoteRow::new));
        self.run(NOTE_PROGRESS, command).await?;
        Ok(())
    }
}

/// One row of the table type `progress_list`.
struct NoteRow<'a> {
    run: NotedRun,
    note: &'a Note,
    /// The end of the log, how many bytes it has in all, and whether it stays.
    log: Option<(String, u64, bool)>,
}

impl NoteRow<'_> {
    fn new((run, note): &(NotedRun, Note)) -> NoteRow<'_> {
        let log = note.log.as_ref().map(|noted| {
            let (end, length) = noted.log.end();
            (end, length, noted.is_kept)
        });
        NoteRow { run: *run, note, log }
    }
}

impl<'a> TableValueRow<'a> for NoteRow<'a> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        let (job_id, fence) = self.run;
        row.add_field(job_id.0);
        row.add_field(fence.0);
        row.add_field(self.note.fraction);
        row.add_field(self.note.text.as_deref());
        row.add_field(self.note.checkpoint.as_deref());
        row.add_field(self.log.as_ref().map(|(_, length, _)| big(*length)));
        row.add_field(self.log.as_ref().map(|(end, ..)| end.clone()));
        row.add_field(self.log.as_ref().map(|(.., is_kept)| *is_kept));
    }

    fn get_db_type() -> &'static str {
        "progress_list"
    }
}
