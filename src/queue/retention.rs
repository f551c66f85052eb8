//! Deleting finished jobs that are no longer to be kept.

use super::lasting_session::Session;
use super::parameters::int;
use crate::error::Error;

impl Session {
    /// Deletes up to `max` finished jobs that are no longer to be kept; returns how many.
    pub(crate) async fn expire(&mut self, queue: &str, max: usize) -> Result<u32, Error> {
        let mut command = self.command("expire");
        command.bind_param("@queue", queue);
        command.bind_param("@max", int(max));
        self.row("expire", command).await?.count("expired")
    }
}
