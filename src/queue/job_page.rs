//! Jobs in pages.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::job_row::JobRow;
use super::job_state::JobState;
use crate::ids::JobId;

/// Some of the jobs that [`Queue::list`](super::Queue::list) was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobPage {
    /// The jobs, in the order of their state.
    pub jobs: Vec<JobRow>,
    /// Where the next page begins; `None`: this is the last one.
    pub next: Option<JobCursor>,
}

/// The ids of some of the jobs that [`Queue::list_ids`](super::Queue::list_ids) was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdPage {
    /// The jobs, in the order of their state.
    pub jobs: Vec<JobId>,
    /// Where the next page begins; `None`: this is the last one.
    pub next: Option<JobCursor>,
}

/// A place in the list of a queue's jobs. It can be kept, for example in a link to the next page: the jobs before it
/// may be gone by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobCursor {
    pub(super) state: JobState,
    /// The job before it; `None`: the state's first job comes next.
    pub(super) after: Option<JobPlace>,
}

/// Where a job stands in the order of its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobPlace {
    pub(super) job_id: JobId,
    /// Scheduled: when it is due; done, dead, archived: when it ended.
    pub(super) time: Option<SystemTime>,
    /// Ready.
    pub(super) priority: Option<i16>,
    /// Ready.
    pub(super) alone: Option<bool>,
    /// Waiting: its group.
    pub(super) group: Option<String>,
}
