//! The operator's calls: installing the schema; creating, watching and changing queues and their jobs. They are methods
//! of the handle that [`Queue::admin`](crate::Queue::admin) returns.

mod admin;
#[doc(hidden)]
pub mod adopt_seam;
mod audit;
mod changes;
mod failures;
mod jobs;
mod matching_jobs;
mod queue_activity;
mod queues;
mod schedules;
mod schema;

pub use admin::Admin;
pub use changes::Target;
pub use failures::{FailureGroup, Failures};
pub use matching_jobs::{MatchingJobs, MatchingPage};
pub use queue_activity::{Inflow, QueueActivity};

pub use self::schema::{Check, CheckResult, Finding, install_script, uninstall_script};
pub use crate::id::{AuditId, WorkerId};
pub use crate::job::{ClaimOrder, CompletionPolicy, Delivery, JobState, Schedule};
pub use crate::procedures::operator::{
    Asked, AskedWorker, AuditRow, Changed, Deleted, Edge, FailedAttempt, GraphJob, GraphStep, GroupRow, HistoryRow,
    Hold, IdPage, JobChange, JobCursor, JobEdges, JobFilter, JobGraph, JobLog, JobPage, JobProgress, JobRow, Keep,
    KindRow, NewAudit, Original, QueueOptions, QueueStats, Rate, ResourceInUse, ScheduleRow, Wish, WorkerRow,
    WorkerWish,
};
pub use crate::procedures::{Held, Role};
pub use crate::time::DurationHistogram;
