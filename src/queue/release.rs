//! Giving back jobs that were not run: those that a worker knows of (`release`), and those of a claim whose answer was
//! lost (`recover`).

use tiberius::{SqlTableDataRow, TableValueRow};

use super::lasting_session::Session;
use super::parameters::table_type;
use crate::error::Error;
use crate::ids::{Fence, JobId, WorkerId};

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

/// One row of the table type `job_list`.
pub(super) struct ListedJob(JobId, Fence);

impl<'a> TableValueRow<'a> for ListedJob {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.0.0);
        row.add_field(self.1.0);
    }

    fn get_db_type() -> &'static str {
        "job_list"
    }
}

pub(super) fn job_rows(jobs: &[(JobId, Fence)]) -> Vec<ListedJob> {
    let mut rows: Vec<ListedJob> = jobs.iter().map(|(job_id, fence)| ListedJob(*job_id, *fence)).collect();
    rows.sort_unstable_by_key(|row| row.0);
    rows
}
