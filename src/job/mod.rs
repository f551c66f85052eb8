//! Jobs and related data. Nothing in this module calls SQL Server.

mod headers;
mod job;
mod job_end;
mod job_state;
mod needs;
mod new_batch;
mod new_job;
mod order_completion_delivery;
mod outcome;
mod parents;
mod run_log;
mod run_notes;
mod schedule;
mod trace_context;
mod usage;

pub(crate) use headers::{Headers, read_headers};
pub(crate) use job::Details;
pub use job::Job;
pub use job_end::JobEnd;
pub use job_state::JobState;
pub use needs::Needs;
pub(crate) use needs::{ALLOWED_TOKEN, MAX_MEMORY, MAX_TOKENS, MEMORY, THREADS, bytes_in_words, is_token};
pub use new_batch::{BatchEnd, BatchRow, NewBatch, SealedBatch};
pub use new_job::NewJob;
pub(crate) use new_job::{
    ALLOWED_KIND, MAX_TABLE_VALUE_BYTES, MAX_VALUE_BYTES, START_WITHIN, check_alone, check_jobs, due_at, is_kind,
    start_by,
};
pub use order_completion_delivery::{ClaimOrder, CompletionPolicy, Delivery};
pub use outcome::{FollowUp, Outcome};
pub(crate) use parents::{MAX_PARENTS, ParentRef};
pub use parents::{OnDead, Parent};
pub(crate) use run_log::RunLog;
pub(crate) use run_notes::{Note, NotedRun, RunNotes, Taken};
pub use schedule::Schedule;
pub(crate) use trace_context::TraceContext;
#[cfg(feature = "opentelemetry")]
pub(crate) use trace_context::continue_trace;
pub use usage::Usage;
