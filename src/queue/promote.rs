//! Making scheduled jobs ready whose time has come.

use super::lasting_session::Session;
use super::parameters::int;
use crate::error::Error;
use crate::ids::WorkerId;

/// What a call of `promote` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promoted {
    pub(crate) jobs: u32,
    /// The worker still has the duties of its queue.
    pub(crate) elected: bool,
    /// There are schedules to look at.
    pub(crate) schedules_due: bool,
    /// What of it failed, and can wait for the next call.
    pub(crate) error: Option<String>,
}

impl Session {
    /// Makes up to `max` scheduled jobs ready whose time has come, if the worker has the duties of the queue, or nobody
    /// has.
    pub(crate) async fn promote(&mut self, queue: &str, worker: WorkerId, max: usize) -> Result<Promoted, Error> {
        let mut command = self.command("promote");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        command.bind_param("@worker_id", worker.0);
        let mut row = self.row("promote", command).await?;
        Ok(Promoted {
            jobs: row.count("promoted")?,
            elected: row.required("elected")?,
            schedules_due: row.required("schedules_due")?,
            error: row.optional("error")?,
        })
    }
}
