//! The worker claims jobs of one queue in batches, runs them on all cores and finishes them in batches.
//!
//! ```text
//!            lease: one heartbeat for the whole process, on its own connection
//! SQL Server ──claim──▶ prefetch ──channel──▶ executor (rayon) ──▶ finish ──▶ SQL Server
//!            maintenance: due jobs become ready, jobs of lost workers are returned to the queue
//! ```
//!
//! A job passes through three stages. A stage knows the next one, which defines the type of the jobs that it receives:
//!
//! | stage | input | output |
//! |---|---|---|
//! | `claim/` | the capacity for more jobs, from `claim/demand.rs` and `state/in_flight.rs` | `Claimed` |
//! | `run/` | `Claimed` | `Ended` |
//! | `finish/` | `Ended` | a call of `finish` or `release`; the job leaves memory once SQL Server has confirmed it |
//!
//! A job's `HeldJob` (`lease/held_job.rs`) accompanies it through all stages and counts it in `state/in_flight.rs`.
//! This count is the only signal that flows backwards. Each stage counts its results in `state/tally.rs`.
//!
//! | alongside the stages | module | signals |
//! |---|---|---|
//! | the lease | `lease/` | whether jobs may start, and the worker id for claims |
//! | the queue's maintenance by one worker | `duties/`, elected by `lease/election.rs` | `state/claim_signals.rs` |
//! | checkpoints and progress of running jobs | `finish/notes_writer.rs` | |
//! | the thread for everything except jobs | `io_thread.rs` | |
//! | how the worker stops | `shutdown/`, on the signal of `state/stop.rs` | |
//! | what operators ask of a worker | `steering.rs` | from the lease's heartbeats to `claim/`, `run/`, `state/stop.rs` |
//! | the worker's reports | `report/` | |

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
mod steering;
mod worker;

pub use builder::WorkerBuilder;
pub use report::{DrainProgress, WorkerMonitor};
pub use state::{Bottleneck, StopHandle, WorkerStats};
pub(crate) use worker::Stages;
pub use worker::{Summary, Worker};
