//! What operators do to a queue: stop and start it, bring dead jobs back, move jobs, throw old ones away.

use std::time::Duration;

use super::id_list::id_rows;
use super::job_state::JobState;
use super::lasting_session::Session;
use super::parameters::{int, table_type};
use crate::error::Error;
use crate::ids::JobId;

impl Session {
    /// Runs `pause` or `resume`.
    pub(crate) async fn set_paused(&mut self, queue: &str, paused: bool) -> Result<(), Error> {
        let name = if paused { "pause" } else { "resume" };
        let mut command = self.command(name);
        command.bind_param("@queue", queue);
        self.run(name, command).await?;
        Ok(())
    }

    /// Makes one dead or cancelled job ready again; returns how many.
    pub(crate) async fn requeue(&mut self, queue: &str, job_id: JobId) -> Result<u32, Error> {
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        self.row("requeue", command).await?.count("requeued")
    }

    /// Makes up to 1,000 dead and cancelled jobs ready again; returns how many.
    pub(crate) async fn requeue_listed(&mut self, queue: &str, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@listed", true);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        self.row("requeue", command).await?.count("requeued")
    }

    /// Makes one dead or cancelled job ready again, with another payload; returns whether it was.
    pub(crate) async fn requeue_with(&mut self, queue: &str, job_id: JobId, payload: &[u8]) -> Result<bool, Error> {
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        command.bind_param("@payload", payload);
        Ok(self.row("requeue", command).await?.count("requeued")? > 0)
    }

    /// The queue that has a job.
    pub(crate) async fn find_job(&mut self, job_id: JobId) -> Result<Option<String>, Error> {
        let mut command = self.command("find_job");
        command.bind_param("@job_id", job_id.0);
        self.row("find_job", command).await?.optional("queue")
    }

    /// Makes up to 1,000 scheduled jobs ready; returns how many.
    pub(crate) async fn promote_now(&mut self, queue: &str, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("promote_now");
        command.bind_param("@queue", queue);
        match jobs {
            [job_id] => command.bind_param("@job_id", job_id.0), // without the round trip that a list costs
            jobs => command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs)),
        }
        self.row("promote_now", command).await?.count("promoted")
    }

    /// Gives up to 1,000 jobs another priority; returns how many had another one before.
    pub(crate) async fn set_priority(&mut self, queue: &str, jobs: &[JobId], priority: i16) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("set_priority");
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        command.bind_param("@priority", priority);
        self.row("set_priority", command).await?.count("changed")
    }

    /// Deletes up to `max` jobs; returns how many.
    pub(crate) async fn purge(
        &mut self,
        queue: &str,
        state: JobState,
        older_than: Duration,
        max: usize,
    ) -> Result<u32, Error> {
        let mut command = self.command("purge");
        command.bind_param("@queue", queue);
        command.bind_param("@state", state.word());
        command.bind_param("@older_than_s", int(older_than.as_secs()));
        command.bind_param("@max", int(max));
        self.row("purge", command).await?.count("purged")
    }

    /// Deletes those of up to 1,000 jobs that are in this state; returns how many.
    pub(crate) async fn purge_listed(&mut self, queue: &str, state: JobState, jobs: &[JobId]) -> Result<u32, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("purge");
        command.bind_param("@queue", queue);
        command.bind_param("@state", state.word());
        command.bind_param("@listed", true);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        self.row("purge", command).await?.count("purged")
    }
}
