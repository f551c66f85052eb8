//! Whether anything is left of a queue: what a worker that drains it asks.

use super::lane::Lane;
use crate::error::Error;

impl Lane {
    /// Whether jobs are ready, scheduled or claimed. One that moves from one state to another meanwhile can be missed.
    pub(crate) async fn has_unfinished(&mut self, queue: &str) -> Result<bool, Error> {
        let mut command = self.command("unfinished");
        command.bind_param("@queue", queue);
        self.row("unfinished", command).await?.required("unfinished")
    }
}
