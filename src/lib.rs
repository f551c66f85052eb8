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
//! use readpast::{Config, Context, Job, JobError, NewJob, Output, Queue, QueueOptions, Worker};
//!
//! fn count_words(job: &Job, _context: &Context) -> Result<Output, JobError> {
//!     let words = job.text()?.split_whitespace().count();
//!     Output::json(&words)
//! }
//!
//! # async fn example() -> Result<(), readpast::Error> {
//! let config = Config::load(None)?; // READPAST_URL and the others
//! let queue = Queue::connect(&config).await?;
//! queue.install().await?; // the first time, as db_owner
//! queue.create(QueueOptions::default()).await?;
//! queue.enqueue_many(["to be", "or not to be"].map(NewJob::text)).await?;
//!
//! let worker = Worker::start(&queue, &config.worker, count_words).await?;
//! let summary = worker.drain().await?;
//! println!("{} jobs done", summary.stats.done);
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! A job runs at least once, and once only unless its worker is lost while it runs: then it runs again, and what the
//! lost worker says about it is refused. Within a priority, jobs are claimed in the order in which they were enqueued,
//! but they run side by side. Handlers must therefore bear to be run twice.
//!
//! # Where things are
//!
//! [`Queue`], [`NewJob`] and [`enqueue_in`] are for producers; [`Worker`], [`Job`], [`Context`], [`Output`] and
//! [`JobError`] for workers; [`Config`] and [`Error`] for both. [`tiberius`] is the driver underneath, for
//! [`enqueue_in`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod connection_string;
mod error;
mod handler;
mod job;
pub mod metrics;
mod queue;
mod worker;

pub use config::{Config, ConnectionConfig, MetricsConfig, QueueConfig, RetryConfig, WorkerConfig};
pub use connection_string::ConnectionString;
pub use error::Error;
pub use handler::{Context, JobError, Output};
pub use job::{Fence, Job, JobId, NewJob};
pub use queue::{
    ClaimOrder, Completion, Delivery, Enqueued, JobRow, JobState, Queue, QueueOptions, QueueStats, WorkerId, enqueue_in,
};
pub use worker::{Limit, Monitor, Progress, StopHandle, Summary, Worker, WorkerStats};

/// The traits that [`enqueue_in`] and the driver ask of a connection.
pub use futures_io;
/// The driver, for [`enqueue_in`].
pub use tiberius;
