//! What operators do to a queue: stop and start it, bring dead jobs back, throw old ones away.

use std::time::Duration;

use super::job_state::JobState;
use super::lasting_session::Session;
use super::parameters::int;
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

    /// Makes one dead job, or up to `max`, ready again; returns how many.
    pub(crate) async fn requeue(&mut self, queue: &str, job_id: Option<JobId>, max: usize) -> Result<u32, Error> {
        let mut command = self.command("requeue");
        command.bind_param("@queue", queue);
        if let Some(job_id) = job_id {
            command.bind_param("@job_id", job_id.0);
        }
        command.bind_param("@max", int(max));
        self.row("requeue", command).await?.count("requeued")
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
}
