//! `release` and `recover`, which return jobs that were not run to the queue, and `recall`, which takes back a postponement.

use crate::connection::{Session, job_rows, table_type};
use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};

impl Session {
    /// Releases jobs that were not started, without counting their attempt. Returns the jobs that this worker no longer
    /// held.
    ///
    /// # Errors
    ///
    /// After any error, call it again with the same jobs: those that were released are then reported as no longer held.
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

    /// Makes jobs ready that this worker has postponed and nobody has claimed since. Returns those jobs.
    pub(crate) async fn recall(
        &mut self,
        queue: &str,
        worker: WorkerId,
        jobs: &[(JobId, Fence)],
    ) -> Result<Vec<JobId>, Error> {
        let list = table_type(self.schema(), "job_list");
        let mut command = self.command("recall");
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker.0);
        command.bind_table_with_dbtype("@jobs", &list, job_rows(jobs));
        let rows = self.rows("recall", command).await?;
        rows.into_iter().map(|mut row| Ok(JobId(row.required("job_id")?))).collect()
    }

    /// Releases the jobs that are claimed for this worker but not among `known`: the jobs of a claim with a lost
    /// response. Returns how many there were. Jobs are compared by their fences, so a call that arrives late, when this
    /// worker has claimed again, releases no running job.
    ///
    /// # Errors
    ///
    /// After any error, call it again.
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

    /// Reads the jobs that are claimed for this worker but not among `known`.
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
        // A list that is left out is empty. It costs another round trip.
        if !known.is_empty() {
            command.bind_table_with_dbtype("@known", &list, job_rows(known));
        }
        let mut unknown = Vec::new();
        for mut row in self.rows("recover", command).await? {
            unknown.push((JobId(row.required("job_id")?), Fence(row.required("fence")?)));
        }
        Ok(unknown)
    }
}
