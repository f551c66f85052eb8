//! The operators' calls.

mod attempts;
mod audit;
mod edges;
mod graph;
mod group_row;
mod history_row;
mod job_changes;
mod job_filter;
mod job_page;
mod job_row;
mod kind_row;
mod queue_options;
mod queue_stats;
mod schedules;
mod worker_row;
mod worker_wish;

pub(crate) use attempts::FailedJob;
pub use attempts::{FailedAttempt, JobProgress};
pub use audit::{AuditRow, NewAudit};
pub use edges::{Edge, JobEdges};
pub use graph::{GraphJob, GraphStep, JobGraph};
pub use group_row::GroupRow;
pub use history_row::HistoryRow;
pub(crate) use job_changes::{CancelAnswer, OPERATOR_BATCH};
pub use job_changes::{Changed, JobChange};
pub use job_filter::JobFilter;
pub(crate) use job_page::{IDS, Listing, ROWS};
pub use job_page::{IdPage, JobCursor, JobPage};
pub use job_row::JobRow;
pub use kind_row::KindRow;
pub use queue_options::{Deleted, Keep, QueueOptions, Rate};
pub use queue_stats::QueueStats;
pub use schedules::ScheduleRow;
pub use worker_row::{Asked, ResourceInUse, WorkerRow};
pub use worker_wish::{AskedWorker, Wish, WorkerWish};
