//! `await_jobs`: the wait for a queue's next job, inside SQL Server.

use std::time::Duration;

use crate::connection::{Session, int, ms};
use crate::error::Error;

/// The result of waiting for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Whether the queue has a job to claim.
    pub(crate) found: bool,
    /// Whether SQL Server waited. It does not wait if the maximum number of sessions is waiting already.
    pub(crate) waited: bool,
}

impl Session {
    /// Waits in SQL Server until the queue has a job to claim, or for about `wait`. SQL Server checks at
    /// intervals from `least` (at least 10 ms) to `most`: the more sessions of the database wait, the longer. If
    /// `most_sessions` sessions are waiting already, it checks once and does not wait. With `None`, SQL Server
    /// determines how many sessions may wait.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`] and the errors of the connection. The call never changes anything.
    pub(crate) async fn await_jobs(
        &mut self,
        queue: &str,
        least: Duration,
        most: Duration,
        wait: Duration,
        most_sessions: Option<usize>,
    ) -> Result<Awaited, Error> {
        let mut command = self.command("await_jobs");
        command.bind_param("@queue", queue);
        command.bind_param("@least_ms", int(ms(least)));
        command.bind_param("@most_ms", int(ms(most.max(least))));
        command.bind_param("@wait_ms", int(ms(wait)));
        command.bind_param("@most_sessions", most_sessions.map(int));
        let mut row = self.row("await_jobs", command).await?;
        Ok(Awaited { found: row.required("found")?, waited: row.required("waited")? })
    }
}
