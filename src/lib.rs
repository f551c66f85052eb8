//! A SQL Server table as a job queue for CPU-heavy work.
//!
//! Producers enqueue jobs, from Rust ([`Queue::enqueue`]) or from any language by calling a stored procedure. A
//! [`Worker`] claims them in batches, runs them on every core, and acknowledges them in batches. SQL Server is the only
//! thing to operate.
//!
//! ```text
//! producer                     SQL Server                         worker process
//! enqueue ───────────────────▶ ready ──────── claim ────────────▶ prefetch ─▶ bounded channel
//!                                ▲                                                │
//!               due ─ scheduled ─┤                                           thread pool: your handler
//!                                │                                                │
//! reap (a lease ran out) ────────┘   deleted, kept, archived,   ◀──── finish ◀── completion
//!                                    retried, or dead
//! ```
//!
//! ```no_run
//! use readpast::admin::QueueOptions;
//! use readpast::{BoxError, Config, Context, Handlers, Job, Json, NewJob, Queue, Worker};
//!
//! fn count_words(job: &Job, _context: &Context) -> Result<Json<usize>, BoxError> {
//!     Ok(Json(job.text()?.split_whitespace().count())) // may use rayon itself
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), readpast::Error> {
//!     let queue = Queue::connect(&Config::load(None)?).await?; // READPAST_URL names the server
//!     queue.admin().install().await?; // once, as db_owner
//!     queue.admin().create(QueueOptions::default()).await?;
//!     queue.enqueue_many(&["to be", "or not to be"].map(NewJob::text)).await?;
//!
//!     let worker = Worker::builder(&queue, Handlers::any(count_words)).start().await?;
//!     println!("{} jobs done", worker.drain().await?.stats.done);
//!     Ok(())
//! }
//! ```
//!
//! # What it promises
//!
//! With [`Delivery::AtLeastOnce`](crate::admin::Delivery::AtLeastOnce), the default, a job leaves the database only
//! when its acknowledgement has arrived there. It runs again when its worker died, was stopped at once, ended at its
//! shutdown deadline or lost its lease while running it or before the acknowledgement arrived, and at no other time.
//! Each claim gives it a new [`Fence`]; of several runs only the one with the latest fence can end the job, and what
//! the others say changes nothing and is counted as lost ([`WorkerStats::lost`]).
//!
//! With [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce) the claim deletes the row: nothing runs twice,
//! failed jobs are not retried, and what a dying worker held, or what was claimed by a call whose answer was lost, is
//! gone.
//!
//! Within a priority, jobs are claimed in the queue's [`ClaimOrder`](crate::admin::ClaimOrder), but they run side by
//! side.
//!
//! [`Job::attempt`] counts starts, as far as SQL Server can know: all jobs that a lost worker held count one. Before
//! its last attempt a job that was lost waits for a worker that holds nothing else and runs there alone, so that a job
//! that kills its process is dead after `max_attempts` and no other job dies with it.
//!
//! # Kinds
//!
//! [`NewJob::kind`] says what sort of job it is, and [`Handlers`] has a handler for each kind, or one for all
//! ([`Handlers::any`]). A [`TypedJob`] is a kind with a payload of its own type. A job of a kind that a worker has no
//! handler for is put off for another worker, without a counted attempt (`worker.unknown_kind_delay_ms`), and dead
//! `worker.unknown_kind_keep_ms` after this worker first put it off. With
//! [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce) there is no row left to put off: the job is dead
//! immediately. [`KindOptions`] gives a kind its own time limit, retry policy and concurrency limit.
//!
//! # Making a repeat harmless
//!
//! A repeat has the same [`Job::id`] and a higher [`Job::fence`], and a higher [`Job::attempt`] unless the run before
//! was cut off by a planned stop or snoozed; the run before it may still be going on. Write results under the job's id,
//! together with the fence, and let a write with an older fence change nothing. Look at [`Context::is_cancelled`] in
//! long loops. Where an effect cannot be taken back, ask whether it has happened when the fence is above 1: the job was
//! claimed before.
//!
//! # Locks and rayon
//!
//! A handler may use rayon inside (`par_iter`, `join`, `scope`), and idle threads of the pool help. Hold no lock and no
//! `RefCell` borrow across such a call: the thread that waits in it may run another job meanwhile, on the same stack,
//! and that job would wait for the lock that its own thread holds. That is a deadlock. Two jobs at the most are on one
//! stack; [`WorkerBuilder::stack_size`] sets how large it is.
//!
//! # Time limits
//!
//! A dead worker's jobs are ready again after at most `lease_ms` + 1.2 × `reap_interval_ms`; those of a claim whose
//! answer was lost, after `command_timeout_ms`. A claim that SQL Server runs late is found after at most as long again.
//! A worker that cannot renew its lease starts no more jobs once the lease may have expired by its own clock, which on
//! Linux includes time suspended. After SQL Server was away for longer than half a lease, no worker is declared lost
//! for it. [`WorkerBuilder::start`] refuses settings that cannot work together: `heartbeat_interval_ms` must be less
//! than half of `lease_ms`, `connect_timeout_ms` and `command_timeout_ms` at most `lease_ms`. Wall clocks of workers
//! have no part in anything.
//!
//! # A table that is there already
//!
//! A queue table of somebody else's can be driven as it is: with the crate `readpast-adopt`, a mapping says what its
//! columns mean, and the procedures for it go into a schema of their own, which workers then use as any other. The
//! repository's `docs/adopt.md` walks through one.
//!
//! # Traces
//!
//! A worker runs each job in a [`tracing`](https://docs.rs/tracing) span named `job`, of the level `INFO`; where no
//! subscriber wants it, there is none. With the crate's feature `opentelemetry`, that span continues the trace in which
//! the job was enqueued, over all its attempts, and so do those of its follow-ups ([`Output::enqueue`]): the headers
//! `traceparent` and `tracestate` say which it is. The program sets up OpenTelemetry as for any other use of
//! `tracing-opentelemetry` (0.34):
//!
#![cfg_attr(feature = "opentelemetry", doc = "```no_run")]
#![cfg_attr(not(feature = "opentelemetry"), doc = "```ignore")]
//! use opentelemetry::trace::TracerProvider;
//! use opentelemetry_sdk::propagation::TraceContextPropagator;
//! use opentelemetry_sdk::trace::SdkTracerProvider;
//! use readpast::NewJob;
//! use tracing::Instrument;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! # async fn example(queue: readpast::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! let provider = SdkTracerProvider::builder().build(); // with an exporter
//! let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("thumbnails"));
//! tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
//! // Without a propagator, OpenTelemetry passes nothing on.
//! opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
//!
//! let job = NewJob::text("a.png").header("tenant", "acme");
//! queue.enqueue(&job).instrument(tracing::info_span!("upload")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A producer that uses something else gives the header itself: `.header("traceparent", "00-…")` or, in T-SQL,
//! `@headers = N'{"traceparent": "00-…"}'`; that one then counts. A trace never keeps a job from being enqueued: if
//! it would make the headers too long, it is left out.
//!
//! # Where things are
//!
//! [`Queue`], [`NewJob`] and [`NewBatch`] are for producers, and [`transaction`] for those that enqueue in a transaction of
//! their own; [`Worker`], [`Handlers`], [`Job`], [`Context`], [`Json`], [`Output`] and [`JobError`] for workers;
//! [`Queue::admin`] and the types in [`admin`] for operators; [`TypedJob`], [`Config`] and [`Error`] for all.
//! [`tiberius`] is the driver underneath, whose client [`transaction`] takes. [`metrics`] lists what a process tells
//! Prometheus, and [`runbook`] says what to do about each alert. The
//! [guide](https://github.com/readpast/readpast/blob/main/docs/README.md) goes through all of it by what one wants to do.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(
    clippy::module_inception,
    reason = "a room's main type stands in a file of its own name; mod.rs lists what is in it"
)]

pub mod admin;
pub mod config;
mod connection;
mod error;
#[cfg(test)]
mod events;
mod handler;
mod id;
mod job;
mod login;
pub mod metrics;
mod procedures;
mod queue;
mod sync;
mod text;
mod time;
pub mod transaction;
mod worker;

pub use crate::config::Config;
pub use crate::error::{BoxError, Error, InvalidPayload};
pub use crate::handler::{Context, Handlers, IntoOutput, JobError, Json, KindOptions, Output, TypedJob};
pub use crate::id::{BatchId, Enqueued, Fence, JobId};
pub use crate::job::{BatchEnd, BatchRow, FollowUp, Job, NewBatch, NewJob, Outcome, SealedBatch};
pub use crate::procedures::producer::JobEnd;
pub use crate::queue::Queue;
pub use crate::worker::report::{DrainProgress, Monitor};
pub use crate::worker::state::{Bottleneck, StopHandle, WorkerStats};
pub use crate::worker::{Summary, Worker, WorkerBuilder};

/// The traits that [`enqueue_in`](crate::transaction::enqueue_in), [`finish_in`](crate::transaction::finish_in()) and the driver ask of a connection.
pub use futures_io;
/// The library of the thread pool, for [`WorkerBuilder::thread_pool`].
pub use rayon;
/// The values of [`Job::headers`].
pub use serde_json;
/// The driver, for [`enqueue_in`](crate::transaction::enqueue_in) and [`finish_in`](crate::transaction::finish_in()).
///
/// A client of your own has the driver's settings, not those of [`Config`]. A call fails when no packet of its answer
/// comes for 30 seconds, and the client cannot be used afterwards: `Config::command_timeout` changes that. Text with
/// half of a surrogate pair is an error unless `Config::lossy_utf16_decoding(true)` is set.
pub use tiberius;
/// The type of [`NewJob::correlation_id`] and [`WorkerId`](crate::admin::WorkerId).
pub use uuid::Uuid;

#[cfg(doc)]
#[doc = include_str!("../docs/runbook.md")]
pub mod runbook {}
