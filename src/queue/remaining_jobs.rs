//! Whether anything is left of a queue, and what: what a worker that drains it asks.

use std::time::Duration;

use super::lasting_session::Session;
use super::parameters::ms;
use crate::error::Error;

/// What is left of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) ready: bool,
    /// Jobs are scheduled, and due soon enough to count.
    pub(crate) scheduled: bool,
    /// Jobs are claimed, by any worker.
    pub(crate) claimed: bool,
    /// Jobs wait for their turn in their groups.
    pub(crate) waiting: bool,
    pub(crate) paused: bool,
    /// How long until the first scheduled job is due.
    pub(crate) next_due: Option<Duration>,
}

impl Unfinished {
    /// Whether nothing is left that counts.
    pub(crate) fn is_empty(&self) -> bool {
        !(self.ready || self.scheduled || self.claimed || self.waiting)
    }
}

impl Session {
    /// What is left. Scheduled jobs count that are due within `due_within`, or all without it. A job that moves from
    /// one state to another meanwhile can be missed.
    pub(crate) async fn unfinished(&mut self, queue: &str, due_within: Option<Duration>) -> Result<Unfinished, Error> {
        let mut command = self.command("unfinished");
        command.bind_param("@queue", queue);
        command.bind_param("@due_within_ms", due_within.map(ms));
        let mut row = self.row("unfinished", command).await?;
        row.required::<bool>("unfinished")?; // follows from the others
        Ok(Unfinished {
            ready: row.required("ready")?,
            scheduled: row.required("scheduled")?,
            claimed: row.required("claimed")?,
            paused: row.required("paused")?,
            next_due: row.optional_ms("next_due_ms")?,
            waiting: row.required("waiting")?,
        })
    }
}
