//! Waiting, in SQL Server, for jobs to claim.

use std::time::Duration;

use super::lasting_session::Session;
use super::parameters::{int, ms};
use crate::error::Error;

impl Session {
    /// Waits in SQL Server until the queue has a job to claim, or for about `wait`. It looks after `first`, then after
    /// pauses that double up to `most`. Where `most_sessions` wait already, it looks once and does not wait; `None`: as
    /// many as the server has room for.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`] and the connection's. Nothing is changed, whatever happens.
    pub(crate) async fn await_jobs(
        &mut self,
        queue: &str,
        first: Duration,
        most: Duration,
        wait: Duration,
        most_sessions: Option<usize>,
    ) -> Result<Awaited, Error> {
        let mut command = self.command("await_jobs");
        command.bind_param("@queue", queue);
        command.bind_param("@first_ms", int(ms(first)));
        command.bind_param("@most_ms", int(ms(most.max(first))));
        command.bind_param("@wait_ms", int(ms(wait)));
        command.bind_param("@most_sessions", most_sessions.map(int));
        let mut row = self.row("await_jobs", command).await?;
        Ok(Awaited { found: row.required("found")?, waited: row.required("waited")? })
    }
}

/// What became of waiting for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// The queue has a job to claim.
    pub(crate) found: bool,
    /// SQL Server waited. Otherwise enough sessions do.
    pub(crate) waited: bool,
}
