//! `list_graph`: jobs that wait for each other, and the picture of them by steps.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::connection::{Session, int};
use crate::error::Error;
use crate::id::{BatchId, JobId};
use crate::job::JobState;

/// Jobs that are connected by edges ([`NewJob::after`](crate::NewJob::after)), as returned by
/// [`Admin::graph`](crate::admin::Admin::graph).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct JobGraph {
    /// The jobs, by id.
    pub jobs: Vec<GraphJob>,
    /// The parent and the child of each edge between them.
    pub edges: Vec<(JobId, JobId)>,
    /// Whether there are more jobs than were asked for.
    pub is_partial: bool,
}

/// A job of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GraphJob {
    /// The job.
    pub job_id: JobId,
    /// Its queue, or `None` if its row is gone.
    pub queue: Option<String>,
    /// Its state, or how it ended if its row is gone; `None` if that is unknown.
    pub state: Option<JobState>,
    /// Its kind.
    pub kind: Option<String>,
}

/// Jobs of a graph that are shown together: those of one kind that are equally far from its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GraphStep {
    /// How many edges the longest way from a job without parents has.
    pub depth: usize,
    /// The kind of the jobs.
    pub kind: Option<String>,
    /// The jobs.
    pub jobs: Vec<JobId>,
    /// How many of them are in each state, those of unknown state last.
    pub states: Vec<(Option<JobState>, usize)>,
    /// The steps that have parents of these jobs, as places in the list.
    pub after: Vec<usize>,
}

impl JobGraph {
    /// Returns the jobs by steps, in the order of their depths: each job by itself if there are at most `most` jobs,
    /// otherwise together with those of the same kind and depth.
    pub fn steps(&self, most: usize) -> Vec<GraphStep> {
        let mut edges = self.edges.clone();
        // A child has a larger id than its parents, because it is added after them.
        edges.sort_unstable_by_key(|(_, child)| *child);
        let mut depths: HashMap<JobId, usize> = HashMap::new();
        for (parent, child) in &edges {
            let below = depths.get(parent).copied().unwrap_or_default() + 1;
            let depth = depths.entry(*child).or_default();
            *depth = below.max(*depth);
        }
        let is_folded = self.jobs.len() > most;
        let mut places = BTreeMap::<_, Vec<&GraphJob>>::new();
        for job in &self.jobs {
            let depth = depths.get(&job.job_id).copied().unwrap_or_default();
            let own = (!is_folded).then_some(job.job_id);
            places.entry((depth, job.kind.as_deref(), own)).or_default().push(job);
        }
        let place_of: HashMap<JobId, usize> = places
            .values()
            .enumerate()
            .flat_map(|(place, jobs)| jobs.iter().map(move |job| (job.job_id, place)))
            .collect();
        let mut steps: Vec<GraphStep> =
            places.into_iter().map(|((depth, ..), jobs)| GraphStep::new(depth, &jobs)).collect();
        for (parent, child) in &self.edges {
            if let (Some(parent), Some(child)) = (place_of.get(parent), place_of.get(child)) {
                steps[*child].after.push(*parent);
            }
        }
        for step in &mut steps {
            step.after.sort_unstable();
            step.after.dedup();
        }
        steps
    }
}

impl GraphStep {
    fn new(depth: usize, jobs: &[&GraphJob]) -> GraphStep {
        let mut states = Vec::<(Option<JobState>, usize)>::new();
        for job in jobs {
            match states.iter_mut().find(|(state, _)| *state == job.state) {
                Some((_, count)) => *count += 1,
                None => states.push((job.state, 1)),
            }
        }
        let order = |state: Option<JobState>| {
            JobState::WORDS.iter().position(|(_, other)| Some(*other) == state).unwrap_or(JobState::WORDS.len())
        };
        states.sort_unstable_by_key(|(state, _)| order(*state));
        GraphStep {
            depth,
            kind: jobs.first().and_then(|job| job.kind.clone()),
            jobs: jobs.iter().map(|job| job.job_id).collect(),
            states,
            after: Vec::new(),
        }
    }
}

impl Session {
    /// Returns the graph of a job or of a batch's unfinished jobs.
    pub(crate) async fn graph(
        &mut self,
        job_id: Option<JobId>,
        batch: Option<BatchId>,
        max: usize,
    ) -> Result<JobGraph, Error> {
        let mut command = self.command("list_graph");
        command.bind_param("@job_id", job_id.map(|job_id| job_id.0));
        command.bind_param("@batch_id", batch.map(|batch| batch.0));
        command.bind_param("@max", int(max));
        let mut graph = JobGraph::default();
        for mut row in self.rows("list_graph", command).await? {
            let parent: Option<i64> = row.optional("parent_id")?;
            let job_id = JobId(row.required("job_id")?);
            if let Some(parent) = parent {
                graph.edges.push((JobId(parent), job_id));
                continue;
            }
            graph.jobs.push(GraphJob {
                job_id,
                queue: row.optional("queue")?,
                state: row.optional_one_of("state", &JobState::WORDS)?,
                kind: row.optional("kind")?,
            });
            graph.is_partial = row.required("is_partial")?;
        }
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(kinds: &[&str], edges: &[(i64, i64)]) -> JobGraph {
        let job = |(place, kind): (usize, &&str)| GraphJob {
            job_id: JobId(place as i64),
            queue: None,
            state: (place > 0).then_some(JobState::Waiting),
            kind: Some((*kind).to_owned()),
        };
        JobGraph {
            jobs: kinds.iter().enumerate().map(job).collect(),
            edges: edges.iter().map(|(parent, child)| (JobId(*parent), JobId(*child))).collect(),
            is_partial: false,
        }
    }

    #[test]
    fn a_job_is_below_its_deepest_parent() {
        let graph = graph(&["read", "read", "join", "read", "write"], &[(0, 2), (1, 2), (2, 4), (0, 4), (3, 4)]);
        let folded = graph.steps(4);
        let shown: Vec<_> = folded
            .iter()
            .map(|step| (step.depth, step.kind.as_deref().unwrap(), step.jobs.len(), &step.after[..]))
            .collect();
        assert_eq!(shown, [(0, "read", 3, &[][..]), (1, "join", 1, &[0][..]), (2, "write", 1, &[0, 1][..])]);
        assert_eq!(folded[0].states, [(Some(JobState::Waiting), 2), (None, 1)]);
        let single = graph.steps(5);
        assert_eq!(single.len(), 5);
        assert_eq!(single[3].after, [0, 1]);
    }
}
