//! The worker: claims jobs of one queue in batches, runs them on every core and acknowledges them in batches.
//!
//! ```text
//!            lease: one heartbeat for the whole process, on its own connection
//! SQL Server ──claim──▶ prefetch ──channel──▶ executor (rayon) ──▶ finish ──▶ SQL Server
//!            duties: due jobs become ready, jobs of lost workers are given back
//! ```
//!
//! The way of a job. A stage knows the one after it, and the type that passes stands with the stage that takes it:
//!
//! | stage | takes | gives |
//! |---|---|---|
//! | `claim/` | room, as `claim/demand.rs` and `state/in_flight.rs` have it | `Claimed` |
//! | `run/` | `Claimed` | `Ended` |
//! | `finish/` | `Ended` | a call of `finish` or `release`; with its answer the job leaves memory |
//!
//! A job's `Held` (`lease/held.rs`) goes with it all the way: it counts the job in `state/in_flight.rs`, and that is
//! the one signal that goes back. What each stage has done goes into `state/tally.rs`.
//!
//! | beside it | where | tells |
//! |---|---|---|
//! | the lease | `lease/` | whether jobs may start, under which id is claimed |
//! | what one worker does for the queue | `duties/`, elected by `lease/election.rs` | `state/arrivals.rs` |
//! | what jobs note while they run | `finish/notes_writer.rs` | |
//! | the thread for everything but jobs | `io_thread.rs` | |
//! | how it ends | `shutdown/`, on the signal of `state/stop.rs` | |
//! | what it shows | `report/` | |

mod builder;
mod claim;
mod duties;
mod finish;
mod io_thread;
mod lease;
mod report;
mod run;
mod shutdown;
mod state;
mod worker;

pub use builder::WorkerBuilder;
pub use report::{DrainProgress, Monitor};
pub use state::{Bottleneck, StopHandle, WorkerStats};
pub(crate) use worker::Stages;
pub use worker::{Summary, Worker};
