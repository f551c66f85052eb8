//! What jobs note about themselves while they run: written by their worker, read by the next attempt and by operators.

use std::time::Duration;

use serde::Serialize;
use tiberius::{SqlTableDataRow, TableValueRow};

use super::answer::AnswerLimit;
use super::id_list::id_rows;
use super::lasting_session::Session;
use super::parameters::table_type;
use super::release::job_rows;
use super::result_columns::into_rows;
use crate::error::Error;
use crate::ids::{Fence, JobId, WorkerId};
use crate::job_notes::{Note, NotedRun};
use crate::maximums::MAX_TABLE_VALUE_BYTES;

/// The call by name, as an [`Error::TimedOut`] has it.
pub(crate) const NOTE_PROGRESS: &str = "note_progress";

/// How far a job is, as it has noted it itself ([`Context::progress`](crate::Context::progress)).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobProgress {
    /// The job.
    pub job_id: JobId,
    /// From 0 to 1.
    pub fraction: Option<f32>,
    /// In words.
    pub text: Option<String>,
    /// How large its [checkpoint](crate::Context::checkpoint) is; 0: it has none.
    pub checkpoint_bytes: u64,
    /// How long ago it noted something, by SQL Server's clock.
    #[serde(rename = "noted_s", serialize_with = "crate::json_formats::seconds_of")]
    pub noted: Duration,
}

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

    /// The checkpoints of jobs that this worker holds and that have one.
    pub(crate) async fn checkpoints(
        &mut self,
        worker: WorkerId,
        jobs: &[(JobId, Fence)],
    ) -> Result<Vec<(JobId, Vec<u8>)>, Error> {
        let list = table_type(self.schema(), "job_list");
        let mut command = self.command("checkpoints");
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@jobs", &list, job_rows(jobs));
        let limit = AnswerLimit::of_rows(jobs.len(), (jobs.len() * MAX_TABLE_VALUE_BYTES) as u64);
        let rows = into_rows("checkpoints", self.run_up_to(limit, "checkpoints", command).await?);
        rows.into_iter().map(|mut row| Ok((JobId(row.required("job_id")?), row.required("checkpoint")?))).collect()
    }

    /// How far jobs are that have noted something.
    pub(crate) async fn progress_of(&mut self, queue: &str, jobs: &[JobId]) -> Result<Vec<JobProgress>, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("progress_of");
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        let mut found = Vec::new();
        for mut row in self.rows("progress_of", command).await? {
            found.push(JobProgress {
                job_id: JobId(row.required("job_id")?),
                fraction: row.optional("fraction")?,
                text: row.optional("text")?,
                checkpoint_bytes: row.big_count("checkpoint_bytes")?,
                noted: row.required_ms("noted_ms")?,
            });
        }
        Ok(found)
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
