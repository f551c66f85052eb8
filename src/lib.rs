//! A SQL Server table as a job queue for CPU-heavy work.
//!
//! Producers enqueue jobs, from Rust ([`Queue::enqueue`]) or from any language by calling a stored procedure. A
//! [`Worker`] claims the jobs in batches, runs them on every core, and finishes them in batches. SQL Server is the only
//! thing to operate.
//!
//! ```text
//! producer                     SQL Server                         worker process
//! enqueue ───────────────────▶ ready ──────── claim ────────────▶ prefetch ─▶ bounded channel
//!                                ▲                                                │
//!               due ─ scheduled ─┤                                           thread pool: your handler
//!                                │                                                │
//! reap (a lease expired) ────────┘   deleted, kept, archived,   ◀──── finish ◀── outcomes
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
//! # Guarantees
//!
//! With [`Delivery::AtLeastOnce`](crate::admin::Delivery::AtLeastOnce), the default, a job is finished only when SQL
//! Server has committed its outcome. A job runs again if its worker dies, is stopped immediately, reaches its shutdown
//! deadline or loses its lease before that, and at no other time. Each claim gives the job a new [`Fence`]. If a job
//! runs several times, only the run with the latest fence can finish it. The outcomes of the other runs change nothing
//! and are counted in [`WorkerStats::lost`].
//!
//! With [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce) the claim deletes the row. No job runs twice, and
//! failed jobs are not retried. The jobs of a dying worker are gone, and so are the jobs of a claim whose answer was
//! lost.
//!
//! Within a priority, jobs are claimed in the queue's [`ClaimOrder`](crate::admin::ClaimOrder), but they run in
//! parallel.
//!
//! [`Job::attempt`] counts starts, as far as SQL Server can tell: each job of a lost worker counts as started. Before
//! its last attempt, a job of a lost worker waits for a worker that holds no other job, and runs there alone. A job
//! that kills its process is therefore dead after `max_attempts`, and no other job dies with it.
//!
//! # Kinds
//!
//! [`NewJob::kind`] names the type of a job, and [`Handlers`] has a handler for each kind, or one for all
//! ([`Handlers::any`]). A [`TypedJob`] is a kind with a payload type of its own. [`KindOptions`] gives a kind its own
//! time limit, retry policy and concurrency limit.
//!
//! If a worker has no handler for a job's kind, it postpones the job by `worker.unknown_kind_delay_ms` for another
//! worker, without using up an attempt. `worker.unknown_kind_keep_ms` after this worker first postponed it, the job is
//! dead. With [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce) no row is left to postpone, and the job is
//! dead immediately.
//!
//! # Making repeated runs harmless
//!
//! A repeated run has the same [`Job::id`] and a higher [`Job::fence`]. Its [`Job::attempt`] is higher, too, unless the
//! run before was snoozed or cut off by a planned stop. The run before may still be in progress.
//!
//! Write results under the job's id together with the fence, and let a write with an older fence change nothing. Check
//! [`Context::is_cancelled`] in long loops. If an effect cannot be undone and the fence is above 1, the job was claimed
//! before: check first whether the effect has happened.
//!
//! # Locks and rayon
//!
//! A handler may use rayon (`par_iter`, `join`, `scope`), and idle threads of the pool help. Hold no lock and no
//! `RefCell` borrow across such a call. While a thread waits in it, the thread may run another job on the same stack,
//! and that job deadlocks if it needs the lock. A stack holds at most two jobs; [`WorkerBuilder::stack_size`] sets its
//! size.
//!
//! # Time limits
//!
//! - The jobs of a dead worker are ready again after at most `lease_ms` + 1.2 × `reap_interval_ms`.
//! - The jobs of a claim whose answer was lost are ready again after `command_timeout_ms`. If SQL Server executes the
//!   claim late, they are found after at most that time once more.
//! - A worker that cannot renew its lease starts no more jobs once the lease may have expired by the worker's own
//!   clock. On Linux, this clock includes suspended time.
//! - If SQL Server was away for longer than half a lease, no worker is declared lost for it.
//! - [`WorkerBuilder::start`] rejects settings that cannot work together: `heartbeat_interval_ms` must be less than
//!   half of `lease_ms`, `connect_timeout_ms` and `command_timeout_ms` at most `lease_ms`.
//! - The wall clocks of the workers play no part.
//!
//! # Existing tables
//!
//! An existing table can be used as a queue without changing it. A mapping for the crate `readpast-adopt` explains its
//! columns. The crate installs procedures for the table in a schema of their own, and workers use that schema like any
//! other. The repository's `docs/adopt.md` walks through an example.
//!
//! # Traces
//!
//! A worker runs each job in a [`tracing`](https://docs.rs/tracing) span named `job` at level `INFO`, if a subscriber
//! is interested. With the crate's feature `opentelemetry`, the span continues the trace in which the job was enqueued,
//! in all its attempts, and so do the spans of its follow-ups ([`Output::enqueue`]). The trace is stored in the headers
//! `traceparent` and `tracestate`. The program sets up OpenTelemetry as for any other use of `tracing-opentelemetry`
//! (0.34):
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
//! A producer without OpenTelemetry can set the header itself, which then takes precedence: `.header("traceparent",
//! "00-…")` or, in T-SQL, `@headers = N'{"traceparent": "00-…"}'`. If a trace would make the headers too long, the job
//! is enqueued without it.
//!
//! # Overview
//!
//! - For producers: [`Queue`], [`NewJob`] and [`NewBatch`], and [`transaction`] for enqueueing in the producer's own
//!   transaction.
//! - For workers: [`Worker`], [`Handlers`], [`Job`], [`Context`], [`Json`], [`Output`] and [`JobError`].
//! - For operators: [`Queue::admin`] and the types in [`admin`]. [`metrics`] lists the Prometheus metrics of a process,
//!   and [`runbook`] says what to do about each alert.
//! - For everyone: [`TypedJob`], [`Config`] and [`Error`]. [`transaction`] takes a client of the driver,
//!   [`crates::tiberius`].
//!
//! The [guide](https://github.com/readpast/readpast/blob/main/docs/README.md) is organized by task.

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
mod handler;
mod id;
mod job;
#[cfg(test)]
mod log_capture;
mod login;
pub mod metrics;
mod procedures;
mod queue;
mod sync_primitives;
mod text;
mod time;
pub mod transaction;
mod worker;

pub use crate::config::{Config, OutOfMemory};
pub use crate::error::{BoxError, Error, InvalidPayload};
pub use crate::handler::{Context, Handlers, IntoOutput, JobError, JobRun, Json, KindOptions, Output, TypedJob};
pub use crate::id::{BatchId, Enqueued, Fence, JobId};
pub use crate::job::{
    BatchEnd, BatchRow, FollowUp, Job, JobEnd, Needs, NewBatch, NewJob, OnDead, Outcome, Parent, SealedBatch, Usage,
};
pub use crate::queue::Queue;
pub use crate::worker::{
    Bottleneck, DrainProgress, StopHandle, Summary, Worker, WorkerBuilder, WorkerMonitor, WorkerStats,
};

/// The crates whose types appear in this crate's API. A new major version of one of them is a breaking change of this
/// crate.
pub mod crates {
    /// The traits that the driver and [`transaction`](crate::transaction) require of a connection.
    pub use futures_io;
    /// The library of the thread pool, for [`WorkerBuilder::thread_pool`](crate::WorkerBuilder::thread_pool).
    pub use rayon;
    /// The values of [`Job::headers`](crate::Job::headers).
    pub use serde_json;
    /// The driver, for [`transaction`](crate::transaction).
    ///
    /// Your own client uses the driver's settings (`tiberius::Config`) instead of [`Config`](crate::Config). A call
    /// fails if no packet of its response arrives within 30 seconds (`command_timeout`), and the client is unusable
    /// afterwards. Text with an unpaired surrogate is an error unless `lossy_utf16_decoding(true)` is set.
    pub use tiberius;
    /// The type of [`NewJob::correlation_id`](crate::NewJob::correlation_id) and
    /// [`WorkerId`](crate::admin::WorkerId).
    pub use uuid;
}

#[cfg(doc)]
#[doc = include_str!("../docs/runbook.md")]
pub mod runbook {}
