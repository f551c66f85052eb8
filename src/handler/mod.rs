//! Handlers, which users write. A handler receives a [`Job`](crate::job::Job) and a [`Context`], and returns the job's
//! output or an error.
//!
//! ```text
//! Handlers: the kind selects one ──▶ run: span, panic, time limit ──▶ IntoOutput, or an error and its verdict ──▶ the
//! outcome
//! ```
//!
//! A handler is a plain function or closure, `Fn(&Job, &Context) -> Result<impl IntoOutput, BoxError>`, or a
//! [`TypedJob`]. It runs on a thread of the worker's rayon pool, may block that thread as long as it needs, and may use
//! rayon inside: idle threads of the pool help.
//!
//! Hold no lock and no `RefCell` borrow across a rayon call (`par_iter`, `join`, `scope`). A thread that waits in such
//! a call may run another job meanwhile, which would then wait for a lock that its own thread holds. That job's time
//! also counts as the waiting job's.

mod cancellations;
mod context;
mod for_other_workers;
mod handlers;
mod job_error;
mod job_run;
mod kind_options;
mod out_of_memory;
mod output;
mod retry_delay;
mod run;
mod shared_by_runs;
mod shared_limit;
mod turn_bookings;
mod typed_job;

pub(crate) use cancellations::{Cancellations, Flag};
pub use context::Context;
pub(crate) use for_other_workers::{ForOtherWorkers, is_for_other_workers};
pub use handlers::Handlers;
pub(crate) use handlers::{Function, Handler, ManyJobs, Stated};
pub use job_error::JobError;
pub(crate) use job_error::panic_message;
pub use job_run::JobRun;
pub(crate) use job_run::OpenRun;
pub use kind_options::KindOptions;
pub use output::{IntoOutput, Json, Output};
pub(crate) use retry_delay::retry_delay;
pub(crate) use run::{RunResult, failure, span_of};
pub(crate) use shared_by_runs::{ParentsOf, SharedByRuns, State};
pub(crate) use shared_limit::{Line, Permit, SharedLimit, Threads, WaiterId};
pub(crate) use turn_bookings::{HOLD, TurnBookings};
pub use typed_job::TypedJob;
