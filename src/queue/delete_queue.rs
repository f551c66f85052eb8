//! Deleting a queue.

use serde::Serialize;

use super::lasting_session::Session;
use super::parameters::int;
use crate::error::Error;

/// What [`Queue::delete`](super::Queue::delete) has deleted beside the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deleted {
    /// Its jobs, those in the archive among them.
    pub jobs: u64,
}

impl Session {
    /// Deletes the queue, or with `with_jobs` up to `max` of its jobs before; returns how many jobs, and whether the
    /// queue is gone.
    pub(super) async fn delete_queue(
        &mut self,
        queue: &str,
        with_jobs: bool,
        max: usize,
    ) -> Result<(u32, bool), Error> {
        let mut command = self.command("delete_queue");
        command.bind_param("@queue", queue);
        command.bind_param("@with_jobs", with_jobs);
        command.bind_param("@max", int(max));
        let mut row = self.row("delete_queue", command).await?;
        Ok((row.count("jobs")?, row.required("is_gone")?))
    }
}
