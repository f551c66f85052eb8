//! The data that the screen draws, already converted to its words and numbers.

use std::time::Duration;

/// All queues and workers at one moment.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    pub queues: Vec<QueueLine>,
    pub workers: Vec<WorkerLine>,
}

#[derive(Debug, Clone, Default)]
pub struct QueueLine {
    pub name: String,
    pub paused: bool,
    pub ready: u64,
    pub running: u64,
    pub scheduled: u64,
    pub waiting: u64,
    pub dead: u64,
    pub cancelled: u64,
    pub workers: u64,
    /// Age of the oldest ready job.
    pub oldest: Option<Duration>,
    /// Approximate enqueue rate; `None`: unknown.
    pub in_per_s: Option<f64>,
    /// Rate of done jobs, as reported by workers; `None`: no report.
    pub done_per_s: Option<f64>,
    pub failed_per_s: Option<f64>,
    /// Bottlenecks, and how many workers have each.
    pub limits: Vec<(String, usize)>,
}

impl QueueLine {
    /// All jobs that are not done, including dead ones.
    pub fn not_done(&self) -> u64 {
        self.ready + self.running + self.scheduled + self.waiting + self.dead + self.cancelled
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerLine {
    pub id: String,
    pub queue: String,
    pub name: String,
    /// The rest of the lease; `None` if the worker has stopped or was lost.
    pub lease_left: Option<Duration>,
    pub held: u64,
    /// When its oldest job was claimed.
    pub held_since: Option<String>,
    pub running: Option<u32>,
    pub done_per_s: Option<f64>,
    pub failed_per_s: Option<f64>,
    pub limited_by: Option<String>,
    /// What jobs use of its resources, if they need more than their threads.
    pub in_use: Option<String>,
}

/// Scheduled jobs that are read: those due first.
pub const SCHEDULED: usize = 200;

/// The dead and running jobs of a queue.
#[derive(Debug, Clone, Default)]
pub struct QueueDetail {
    pub running: Vec<RunningLine>,
    /// The groups of dead jobs, the newest first.
    pub dead: Vec<DeadGroup>,
    /// How many dead jobs were read.
    pub dead_read: u64,
    /// A line for each reason why workers have postponed jobs for other workers.
    pub postponed: Vec<String>,
}

/// A job held by a worker.
#[derive(Debug, Clone, Default)]
pub struct RunningLine {
    pub id: i64,
    pub kind: String,
    pub attempt: u32,
    pub since: String,
    pub worker: String,
    /// Its reported progress.
    pub progress: String,
}

/// Dead jobs with the same kind and the same first line of their error.
#[derive(Debug, Clone, Default)]
pub struct DeadGroup {
    pub kind: String,
    pub error: String,
    /// The jobs of the group, the newest first; at least one.
    pub jobs: Vec<DeadLine>,
}

#[derive(Debug, Clone, Default)]
pub struct DeadLine {
    pub id: i64,
    pub kind: String,
    pub error: String,
    pub ended: String,
}

/// Groups dead jobs, which are sorted newest first.
pub fn group_dead(jobs: Vec<DeadLine>) -> Vec<DeadGroup> {
    let mut groups: Vec<DeadGroup> = Vec::new();
    for job in jobs {
        match groups.iter_mut().find(|group| group.kind == job.kind && group.error == job.error) {
            Some(group) => group.jobs.push(job),
            None => groups.push(DeadGroup { kind: job.kind.clone(), error: job.error.clone(), jobs: vec![job] }),
        }
    }
    groups
}

#[derive(Debug, Clone, Default)]
pub struct JobDetail {
    pub state: String,
    /// The names and values of the job's fields.
    pub fields: Vec<(&'static str, String)>,
    pub error: Option<String>,
    pub payload: String,
    pub output: Option<String>,
    /// The failed attempts, the oldest first.
    pub attempts: Vec<AttemptLine>,
}

#[derive(Debug, Clone, Default)]
pub struct AttemptLine {
    pub attempt: u32,
    pub failed_at: String,
    pub worker: String,
    /// The run time of the attempt.
    pub run: String,
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_jobs_that_failed_alike_are_one_group_and_the_newest_is_first() {
        let dead = |id, kind: &str, error: &str| DeadLine {
            id,
            kind: kind.to_owned(),
            error: error.to_owned(),
            ..DeadLine::default()
        };
        let groups = group_dead(vec![dead(4, "a", "x"), dead(3, "b", "x"), dead(2, "a", "y"), dead(1, "a", "x")]);
        let ids: Vec<Vec<i64>> = groups.iter().map(|group| group.jobs.iter().map(|job| job.id).collect()).collect();
        assert_eq!(ids, [vec![4, 1], vec![3], vec![2]]);
    }
}
