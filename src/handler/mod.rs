//! What a user writes and what it sees: a handler gets a [`Job`](crate::Job) and a [`Context`], and returns what the
//! job leaves behind or an error.
//!
//! ```text
//! Handlers: the kind says which ──▶ run: span, panic, time limit ──▶ IntoOutput, or an error and its verdict ──▶ the acknowledgement
//! ```
//!
//! A handler is a plain function or closure, `Fn(&Job, &Context) -> Result<impl IntoOutput, BoxError>`, or a
//! [`TypedJob`]. It runs on a thread of the worker's rayon pool, may block that thread as long as it needs, and may use
//! rayon inside: idle threads of the pool help.
//!
//! Hold no lock and no `RefCell` borrow across a rayon call (`par_iter`, `join`, `scope`): a thread that waits in one
//! for its pieces may run another job meanwhile, and that job would meet the lock on its own thread. Its time then
//! counts as the waiting job's, too.

mod context;
mod handlers;
mod job_error;
mod kind_options;
mod kind_places;
mod output;
mod retry_delay;
mod run;
mod state;
mod typed_job;
mod unknown_kinds;

pub use context::Context;
pub(crate) use context::Surroundings;
pub(crate) use handlers::Handler;
pub use handlers::Handlers;
pub use job_error::{BoxError, JobError};
pub use kind_options::KindOptions;
#[cfg(test)]
pub(crate) use kind_places::HOLD;
pub(crate) use kind_places::{Line, Permit, Places, Threads, WaiterId};
pub use output::{IntoOutput, Json, Output};
pub(crate) use retry_delay::retry_delay;
pub(crate) use run::{Ran, failure, panic_message};
pub(crate) use state::State;
pub use typed_job::TypedJob;
pub(crate) use unknown_kinds::UnknownKinds;
