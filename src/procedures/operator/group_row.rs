//! `list_groups` and `set_group_weight`: the groups of a queue.

use serde::Serialize;

use crate::connection::{Columns, Session, int};
use crate::error::Error;

/// A group of a queue with waiting jobs, jobs that have a turn, or a weight, as returned by
/// [`Admin::groups`](crate::admin::Admin::groups).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GroupRow {
    /// The group.
    pub group_key: String,
    /// How many jobs it gets in each round of a fair queue.
    pub weight: u32,
    /// How many of its jobs have a turn: they are ready, claimed or scheduled. Jobs of a fair queue have none.
    pub in_turn: u32,
    /// How many of its jobs wait, except for other jobs; 1,000 stand for that many or more.
    pub waiting: u64,
}

impl GroupRow {
    fn read(row: &mut Columns) -> Result<GroupRow, Error> {
        Ok(GroupRow {
            group_key: row.required("group_key")?,
            weight: row.count("weight")?,
            in_turn: row.count("in_turn")?,
            waiting: row.big_count("waiting")?,
        })
    }
}

impl Session {
    pub(crate) async fn list_groups(
        &mut self,
        queue: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<GroupRow>, Error> {
        let mut command = self.command("list_groups");
        command.bind_param("@queue", queue);
        command.bind_param("@after", after.unwrap_or_default());
        command.bind_param("@max", int(max));
        self.rows("list_groups", command).await?.iter_mut().map(GroupRow::read).collect()
    }

    pub(crate) async fn set_group_weight(&mut self, queue: &str, group: &str, weight: u32) -> Result<(), Error> {
        let mut command = self.action("set_group_weight");
        command.bind_param("@queue", queue);
        command.bind_param("@group_key", group);
        command.bind_param("@weight", int(weight));
        self.run("set_group_weight", command).await?;
        Ok(())
    }
}
