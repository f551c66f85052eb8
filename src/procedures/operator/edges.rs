//! `list_edges`: the jobs that a job waits for, and those that wait for it.

use serde::Serialize;

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::id::JobId;
use crate::job::{JobState, OnDead};

/// What a job waits for, and what waits for it, as returned by [`Admin::edges`](crate::admin::Admin::edges).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct JobEdges {
    /// The jobs that the job waits for, or has waited for: first those that have not ended.
    pub parents: Vec<Edge>,
    /// The jobs that wait for the job, or have waited.
    pub children: Vec<Edge>,
}

/// An edge of a job, with the job at its other end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Edge {
    /// The other job.
    pub job_id: JobId,
    /// Its queue, or `None` if its row is gone.
    pub queue: Option<String>,
    /// Its state, or `None` if its row is gone.
    pub state: Option<JobState>,
    /// Its kind.
    pub kind: Option<String>,
    /// What becomes of the child if the parent dies.
    pub on_dead: OnDead,
    /// Whether the child waits for the parent.
    pub waits: bool,
    /// How the parent had ended when the child no longer waited for it: done, dead or cancelled. `None` if the child
    /// waits, or was cancelled before.
    pub ended: Option<JobState>,
}

impl Edge {
    fn read(row: &mut Columns) -> Result<Edge, Error> {
        Ok(Edge {
            job_id: JobId(row.required("job_id")?),
            on_dead: row.one_of("on_dead", &OnDead::WORDS)?,
            waits: row.required("waits")?,
            ended: row.optional_one_of("ended", &JobState::WORDS)?,
            queue: row.optional("queue")?,
            state: row.optional_one_of("state", &JobState::WORDS)?,
            kind: row.optional("kind")?,
        })
    }
}

impl Session {
    /// Returns up to `max` parents and children of a job.
    pub(crate) async fn edges(&mut self, job_id: JobId, max: usize) -> Result<JobEdges, Error> {
        let mut command = self.command("list_edges");
        command.bind_param("@job_id", job_id.0);
        command.bind_param("@max", int(max));
        let mut edges = JobEdges::default();
        for mut row in self.rows("list_edges", command).await? {
            let side = if row.required("is_parent")? { &mut edges.parents } else { &mut edges.children };
            side.push(Edge::read(&mut row)?);
        }
        Ok(edges)
    }
}
