//! Jobs and related data, without behaviour of their own.

mod batch;
mod headers;
mod job;
mod job_state;
mod new_job;
mod outcome;
mod queue_policies;
mod run_notes;
mod schedule;
mod trace_context;

pub use batch::{BatchEnd, BatchRow, NewBatch, SealedBatch};
pub(crate) use headers::{Headers, read_headers};
pub use job::Job;
pub use job_state::JobState;
pub use new_job::NewJob;
pub(crate) use new_job::{ALLOWED_KIND, MAX_TABLE_VALUE_BYTES, MAX_VALUE_BYTES, check_jobs, due_at, is_kind};
pub use outcome::{FollowUp, Outcome};
pub use queue_policies::{ClaimOrder, CompletionPolicy, Delivery};
pub(crate) use run_notes::{Note, NotedRun, RunNotes, Taken};
pub use schedule::Schedule;
pub(crate) use trace_context::TraceContext;
#[cfg(feature = "opentelemetry")]
pub(crate) use trace_context::continue_trace;
