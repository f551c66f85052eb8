//! SQL Server's side of a queue, seen from Rust.
//!
//! [`Queue`] is what producers and operators use. A worker's stages own a [`Session`] each and call the procedures on
//! it directly.
//!
//! | files | what they hold |
//! |---|---|
//! | `connector` with `credentials` and `entra`, `idle_connections`, `lasting_session`, `pool` | making a connection and logging in; trusting it; owning one; lending several |
//! | `parameters`, `id_list`, `result_columns`, `datetime2` | what is sent to procedures and what comes back |
//! | `schema`, `script_batches`, `findings` | installing, removing, and checking what is installed |
//! | `create_queue`, `delete_queue`, `stats`, `worker_row`, `history_row`, `activity`, `role`, `operators`, `listed_jobs`, `job_change`, `schedules`, `cancel`, `peek` with `job_filter`, `job_page`, `job_row`, `job_state`, `failed_attempt`, `failures` with `error_pattern`, `audits` | what operators call |
//! | `enqueue`, `enqueue_retries`, `batches`, `job_end` with `waiters` | what producers call |
//! | the others | what workers call, a file for each procedure or two |
//!
//! There is no SQL here but calls of procedures by name, and the embedded scripts of the installation.

mod activity;
pub(crate) mod answer;
mod audits;
mod batches;
mod cancel;
mod create_queue;
mod credentials;
mod datetime2;
mod delete_queue;
mod enqueue_retries;
#[cfg_attr(not(feature = "entra"), path = "no_entra.rs")]
mod entra;
pub(crate) mod error_pattern;
mod failed_attempt;
mod failures;
mod findings;
mod follow_up_list;
mod history_row;
mod id_list;
mod idle_connections;
mod job_change;
mod job_end;
mod job_filter;
mod job_page;
mod job_row;
mod job_state;
mod listed_jobs;
mod operators;
mod parameters;
mod peek;
mod pool;
pub(crate) mod progress;
mod promote;
mod reap;
mod release;
pub(crate) mod remaining_jobs;
mod result_columns;
mod retention;
mod role;
mod schedules;
mod script_batches;
mod stats;
mod wait_for_ready_jobs;
mod waiters;
mod worker_row;

pub(crate) mod claim;
pub(crate) mod connector;
pub(crate) mod depth_sample;
mod driver_log;
pub(crate) mod enqueue;
pub(crate) mod finish;
pub(crate) mod lasting_session;
pub(crate) mod schema;
pub(crate) mod workers;

use std::fmt;
use std::net::SocketAddr;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OnceCell, broadcast, watch};

use crate::batch::{BatchRow, NewBatch, SealedBatch};
use crate::config::{Config, QueueConfig, WorkerConfig};
use crate::connection_string::ConnectionString;
use crate::enqueued::Enqueued;
use crate::error::Error;
use crate::ids::{BatchId, Fence, JobId};
use crate::job::NewJob;
use crate::metrics::Exporter;
use crate::schedule::Schedule;

pub use activity::{Activity, Inflow};
pub use audits::{AuditRow, NewAudit};
pub use batches::{create_batch_in, seal_batch_in};
pub use cancel::Cancelled;
pub use create_queue::{ClaimOrder, CompletionPolicy, Delivery, Keep, QueueOptions, Rate};
pub use delete_queue::Deleted;
pub use enqueue::enqueue_in;
pub use failed_attempt::FailedAttempt;
pub use failures::{FailureGroup, Failures};
pub use findings::{Check, CheckResult, Finding};
pub use history_row::HistoryRow;
pub use job_change::{JobChange, MatchingJobs, MatchingPage};
pub use job_end::JobEnd;
pub use job_filter::JobFilter;
pub use job_page::{IdPage, JobCursor, JobPage};
pub use job_row::JobRow;
pub use job_state::JobState;
pub use progress::JobProgress;
pub(crate) use promote::Promoted;
pub(crate) use reap::LostWorker;
pub use role::Role;
pub use schedules::ScheduleRow;
pub(crate) use schedules::{DueSchedule, Firing};
pub use schema::{install_script, uninstall_script};
pub use stats::QueueStats;
pub(crate) use wait_for_ready_jobs::Awaited;
pub use worker_row::WorkerRow;

use cancel::CancelAnswer;
use connector::Connector;
use depth_sample::QueueSample;
use lasting_session::Session;
use peek::{IDS, ROWS, Shown};
use pool::{Lent, Pool};
use waiters::Waiters;

/// How many jobs one call of `requeue`, `purge`, `cancel` or `set_priority` changes: a transaction that locks few rows.
const OPERATOR_BATCH: usize = 1_000;

/// How many calls that cancelled running jobs a worker of the same process may be behind; what it misses, its next
/// heartbeat says.
const CANCEL_CALLS_KEPT: usize = 64;

/// Running jobs that this process has asked to cancel, call by call.
pub(crate) type CancelledHere = broadcast::Receiver<Arc<[(JobId, Fence)]>>;

/// A queue, for producers and operators.
///
/// Cheap to clone. Clones share up to 8 connections, which are made when they are needed, and closed about a minute
/// after they were used last. While all are in use, further calls wait for up to `connection.command_timeout_ms` and
/// then fail with [`Error::NoFreeConnection`].
///
/// Calls may come from several tokio runtimes. A connection belongs to the runtime of the call that made it, and is
/// made anew when that runtime has ended. Idle connections are closed only while the runtime runs that they were lent
/// in; otherwise they stay until the next call. As long as a runtime has not ended, it must run: calls from other
/// runtimes may use its connections, and a `current_thread` runtime that is not inside of `block_on` reads no answers.
///
/// Where jobs are enqueued through the same `Queue` that started an idle worker, or a clone of it, that worker starts
/// them at once; other workers notice within `worker.poll_max_ms`.
///
/// Before its first call, a queue asks which version of the schema is installed; every call but
/// [`connect`](Queue::connect), [`install`](Queue::install) and [`uninstall`](Queue::uninstall) fails with
/// [`Error::NotInstalled`], [`Error::SchemaTooOld`] or [`Error::SchemaTooNew`] where it is not one that this release
/// works with.
///
/// ```no_run
/// use readpast::{Config, NewJob, Queue, QueueOptions};
///
/// # async fn example() -> Result<(), readpast::Error> {
/// let config = Config::load(None)?; // READPAST_URL, READPAST_QUEUE, …
/// let queue = Queue::connect(&config).await?;
/// queue.install().await?;
/// queue.create(QueueOptions::default()).await?;
/// let enqueued = queue.enqueue(&NewJob::json(&["a", "b"])?).await?;
/// println!("job {}", enqueued.job_id);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Every method may be cancelled by dropping its future, and the queue can be used as before. The connection of the
/// call is closed, and SQL Server undoes what was not committed; what was asked for may have happened all the same. It
/// is the same after an error that came in place of an answer ([`Error::TimedOut`], [`Error::ConnectionLost`]).
///
/// # Panics
///
/// Every `async` method panics where there is no tokio runtime with I/O and time.
#[derive(Clone)]
pub struct Queue {
    name: Arc<str>,
    connector: Arc<Connector>,
    sessions: Pool,
    /// Whether the installed schema is one that this release works with has been asked.
    checked: Arc<OnceCell<()>>,
    /// What a worker of the queue starts with.
    worker_config: Arc<WorkerConfig>,
    exporter: Option<Arc<Exporter>>,
    /// Changes when jobs were enqueued that are ready at once: the workers of this process need not wait until they
    /// notice.
    enqueued: watch::Sender<()>,
    /// Running jobs that were asked to be cancelled: the workers of this process need not wait for their heartbeats.
    cancelled: broadcast::Sender<Arc<[(JobId, Fence)]>>,
    /// Those of this process that wait for jobs to end.
    waiters: Arc<Waiters>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.name)
            .field("schema", &self.connector.schema())
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// Makes a queue from its settings and connects once, to see that it can. It does not look whether readpast is
    /// installed there; [`verify`](Queue::verify) does. Workers of the queue start with the settings of
    /// `config.worker`.
    ///
    /// Where `metrics.listen` is set, the queue's metrics are counted from here on. They are served from a worker's
    /// start or [`serve_metrics`](Queue::serve_metrics) on.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] and [`Error::ConnectionString`] for wrong settings; [`Error::Connect`], [`Error::Tls`],
    /// [`Error::Credentials`], [`Error::LoginFailed`], [`Error::Database`] and [`Error::TimedOut`] when the connection
    /// cannot be made.
    pub async fn connect(config: &Config) -> Result<Queue, Error> {
        let queue = Queue::new(config)?;
        queue.any_session().await?.ensure_connected().await?;
        Ok(queue)
    }

    fn new(config: &Config) -> Result<Queue, Error> {
        config.queue.validate()?;
        // Before the connector, whose metrics go to the recorder that is there when it is made.
        let address = config.metrics.address()?;
        let exporter = address.map(|address| Arc::new(Exporter::new(address, config.metrics.port_in_use)));
        let connector = Arc::new(Connector::new(&config.connection, &config.queue.name)?);
        Ok(Queue {
            name: config.queue.name.as_str().into(),
            sessions: Pool::new(connector.clone()),
            connector,
            checked: Arc::default(),
            worker_config: Arc::new(config.worker.clone()),
            exporter,
            enqueued: watch::Sender::new(()),
            cancelled: broadcast::Sender::new(CANCEL_CALLS_KEPT),
            waiters: Arc::default(),
        })
    }

    /// As [`connect`](Queue::connect), with default settings but for the connection string and the queue's name. Reads
    /// no environment variables.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), readpast::Error> {
    /// use readpast::Queue;
    ///
    /// let queue = Queue::from_url("Server=db1;Database=work;User ID=app;Password=s3cret", "invoices").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect`](Queue::connect).
    pub async fn from_url(url: impl Into<ConnectionString>, queue: &str) -> Result<Queue, Error> {
        let mut config = Config::default();
        config.queue.name = queue.to_string();
        config.connection.url = url.into();
        Queue::connect(&config).await
    }

    /// The queue of this name in the same schema, with the same settings and over the same connections: for programs
    /// that look at many queues. It need not exist yet. Connects to nothing.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// for stats in queue.all_queues().await? {
    ///     if stats.paused {
    ///         queue.named(&stats.queue)?.resume().await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for what cannot be a queue's name.
    pub fn named(&self, name: &str) -> Result<Queue, Error> {
        QueueConfig { name: name.to_owned() }.validate()?;
        Ok(Queue {
            name: name.into(),
            connector: Arc::new(self.connector.for_queue(name)),
            enqueued: watch::Sender::new(()),
            cancelled: broadcast::Sender::new(CANCEL_CALLS_KEPT),
            waiters: Arc::default(),
            ..self.clone()
        })
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema that readpast is installed in.
    pub fn schema(&self) -> &str {
        self.connector.schema()
    }

    /// Where this process serves the metrics of this queue, if it does; with the port that the system or
    /// `metrics.port_in_use` chose.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().and_then(|exporter| exporter.address())
    }

    /// Serves `/metrics`, `/healthz` and `/readyz` where `metrics.listen` says, as long as this queue, a clone of it or
    /// a worker of it lives. A worker does so at its start; this is for a process that only enqueues and is to be
    /// scraped. Calling it twice has no further effect.
    ///
    /// Returns the address; `None` where `metrics.listen` is empty, or
    /// where another process has the port and `metrics.port_in_use` is `warn`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the address is not this machine's, no port is free, or the program has installed a
    /// metrics recorder of its own.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it serves or it does not.
    pub async fn serve_metrics(&self) -> Result<Option<SocketAddr>, Error> {
        match &self.exporter {
            Some(exporter) => exporter.listen().await,
            None => Ok(None),
        }
    }

    /// For tests: how long a connection of this queue, its clones and workers may idle before it is made anew instead
    /// of being used.
    #[doc(hidden)]
    pub fn set_max_idle(&self, max_idle: Duration) {
        self.connector.idle.set_max_idle(max_idle);
    }

    pub(crate) fn exporter(&self) -> Option<&Exporter> {
        self.exporter.as_deref()
    }

    pub(crate) fn worker_config(&self) -> &WorkerConfig {
        &self.worker_config
    }

    pub(crate) fn connector(&self) -> Arc<Connector> {
        self.connector.clone()
    }

    /// Changes when jobs were enqueued through this queue or a clone of it.
    pub(crate) fn enqueued(&self) -> watch::Receiver<()> {
        self.enqueued.subscribe()
    }

    /// What is cancelled through this queue or a clone of it.
    pub(crate) fn cancelled_here(&self) -> CancelledHere {
        self.cancelled.subscribe()
    }

    fn wake_workers(&self, jobs: &[NewJob]) {
        if jobs.iter().any(|job| job.delay.is_none() && job.due_at.is_none()) {
            self.enqueued.send_replace(());
        }
    }

    /// How long one call may take.
    fn command_timeout(&self) -> Duration {
        self.connector.timeouts().command
    }

    /// A session, which may have no connection yet and whose server nothing may be installed on.
    pub(crate) async fn any_session(&self) -> Result<Lent, Error> {
        let limit = self.command_timeout();
        self.sessions.lend(tokio::time::Instant::now() + limit, limit).await
    }

    /// A session for calls; before the first of them, the installed schema's version is asked.
    async fn session(&self) -> Result<Lent, Error> {
        let mut session = self.any_session().await?;
        self.check_version(&mut session).await?;
        Ok(session)
    }

    /// Asks, unless that was done before, whether the installed schema is one that this release works with.
    ///
    /// # Errors
    ///
    /// Where it is not, and where no schema is installed.
    pub(crate) async fn check_version(&self, session: &mut Session) -> Result<(), Error> {
        self.checked.get_or_try_init(|| session.check_version()).await?;
        Ok(())
    }

    /// Installs the schema, or upgrades an older one. Returns the version that is installed now.
    ///
    /// Where this release's version is installed, or a newer one that this release works with, it does nothing and
    /// needs no right but that to run `schema_info`, which every role has. Several processes may do it at once, and
    /// workers and producers may go on meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] without db_owner's permissions where there is something to do;
    /// [`Error::SchemaTooNew`] where a newer release has been with whose schema this one does not work; any other error
    /// of SQL Server, among them 58012: a table would have to be changed and is in use for long. An installation that
    /// broke off is completed by running it again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future breaks the installation off. Run it again to complete it.
    pub async fn install(&self) -> Result<i32, Error> {
        self.any_session().await?.install().await
    }

    /// Checks everything that would keep this queue from being used, in the order in which one would mend it:
    /// reachable, login, database, installed, permissions, version, SET options, read-only, the queue itself. Changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong; the documentation of each [`Error`] says what to do.
    pub async fn verify(&self) -> Result<(), Error> {
        findings::first_error(self.findings().await)
    }

    /// Does the checks of [`verify`](Queue::verify) one by one, and says of each what it has found: for a table.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) {
    /// use readpast::CheckResult;
    ///
    /// for finding in queue.findings().await {
    ///     match finding.result {
    ///         CheckResult::Ok => println!("{} ok {}", finding.check, finding.note.unwrap_or_default()),
    ///         CheckResult::Failed(error) => println!("{} {error}", finding.check),
    ///         _ => println!("{} not reached", finding.check),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn findings(&self) -> Vec<Finding> {
        match self.any_session().await {
            Ok(mut session) => session.findings(&self.name).await,
            Err(error) => findings::without_connection(error),
        }
    }

    /// The roles whose procedures the login may run, as a member or by rights of its own.
    ///
    /// # Errors
    ///
    /// Those of a call; [`Error::NotInstalled`] and [`Error::PermissionDenied`] where it may run none.
    pub async fn roles(&self) -> Result<Vec<Role>, Error> {
        Ok(self.any_session().await?.schema_info(&self.name).await?.roles)
    }

    /// As [`findings`](Queue::findings), for settings with which [`connect`](Queue::connect) may fail: that is a
    /// finding, too.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] and [`Error::ConnectionString`] for wrong settings.
    pub async fn examine(config: &Config) -> Result<Vec<Finding>, Error> {
        Ok(Queue::new(config)?.findings().await)
    }

    /// Removes readpast from its schema of the database, with all its queues and jobs: runs `sql/uninstall.sql`
    /// ([`uninstall_script`]). Stop the workers first, and remove the members of its five roles.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] while a role has members or a sink exists, and then nothing was removed;
    /// [`Error::PermissionDenied`] without db_owner's permissions; any other error of SQL Server. One that broke off is
    /// completed by running it again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future breaks it off. Run it again to complete it.
    pub async fn uninstall(&self) -> Result<(), Error> {
        self.any_session().await?.uninstall().await
    }

    /// Creates the queue, or changes its settings if it exists. Returns whether it is new.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{CompletionPolicy, QueueOptions};
    ///
    /// queue.create(QueueOptions::default().completion(CompletionPolicy::Archive).max_attempts(3)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for settings that cannot be, for example a change to `lifo` while there are jobs, or a
    /// [`Keep::For`] of more than ten years; [`Error::PermissionDenied`] without an operator's rights.
    pub async fn create(&self, options: QueueOptions) -> Result<bool, Error> {
        self.session().await?.create_queue(&self.name, &options).await
    }

    /// Enqueues one job in one round trip.
    ///
    /// The call ends within `connection.command_timeout_ms` and a second of its beginning, whatever happens. Within
    /// this time it waits for a connection, makes one where there is none, and tries again after an error that passes
    /// (a deadlock, a server that is being restarted) as long as it is certain that the job is not in the queue.
    ///
    /// A job with a [de-duplication key](NewJob::dedup_key) is sent again even where SQL Server did not answer; a
    /// quarter of the time, 3 s at most, is kept for that. If the first call has added the job, the answer to the
    /// second says that it is a `duplicate`, of itself. If the job has even ended by then, the second call adds it
    /// again, as with any key whose job has ended.
    ///
    /// # Errors
    ///
    /// [`Error::EnqueueInDoubt`] when SQL Server did not answer, so that the job may be in the queue or not. With a
    /// de-duplication key it comes only if there was no time left to send the job again, if that failed too, or if the
    /// cause is none that passes. After every other error the job is not in the queue: [`Error::InvalidJob`] before
    /// anything is sent; [`Error::NoFreeConnection`] and those of [`connect`](Queue::connect) when there was no
    /// connection to send it on; [`Error::BatchNotOpen`] for a batch that is sealed or not there; [`Error::Refused`]
    /// for a group or a batch where the queue delivers at most once; [`Error::UnknownQueue`], [`Error::NotInstalled`],
    /// [`Error::PermissionDenied`] and SQL Server's other errors.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the job may be in the queue or not.
    pub async fn enqueue(&self, job: &NewJob) -> Result<Enqueued, Error> {
        let enqueued = self.enqueue_many(slice::from_ref(job)).await?;
        enqueued.into_iter().next().ok_or_else(|| Error::Protocol { message: "enqueue did not answer".to_string() })
    }

    /// Enqueues many jobs, in chunks of up to 1,000 jobs and 8 MiB of payload; a job with a payload of more than 65,535
    /// bytes is a chunk of its own. The answers come in the order of the jobs, and the jobs get ascending ids in that
    /// order.
    ///
    /// **Each chunk is a transaction of its own.** All or nothing is [`enqueue_in`]. Each chunk has the time that
    /// [`enqueue`](Queue::enqueue) has for a job, and is repeated as a job is there: where SQL Server did not answer,
    /// only if every job of the chunk has a de-duplication key. An import that may be run again, without keys, is
    /// [`enqueue_part`](Queue::enqueue_part).
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{Error, NewJob};
    ///
    /// let jobs: Vec<NewJob> = (0..5_000).map(|page| NewJob::json(&page)).collect::<Result<_, _>>()?;
    /// match queue.enqueue_many(&jobs).await {
    ///     Ok(enqueued) => println!("{} jobs", enqueued.len()),
    ///     // The first are in the queue; the rest can be handed in later.
    ///     Err(Error::EnqueuedInPart { enqueued, cause, .. }) if cause.is_transient() => {
    ///         let rest = &jobs[enqueued.len()..];
    ///         println!("{cause}; {} jobs are left", rest.len());
    ///     }
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJob`] before anything is sent. As [`enqueue`](Queue::enqueue), when the first chunk fails;
    /// [`Error::EnqueuedInPart`], which lists the jobs of the chunks before, when a later one does.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, some of the chunks may be in the queue.
    pub async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        enqueue::check(jobs)?;
        let mut enqueued = Vec::with_capacity(jobs.len());
        for chunk in enqueue::chunks(jobs) {
            let started_at = Instant::now();
            match self.enqueue_with_retries(chunk, None).await {
                Ok(answers) => {
                    let answers = answers.unwrap_or_default();
                    self.connector.metrics().enqueued(&answers, started_at.elapsed());
                    self.wake_workers(chunk);
                    enqueued.extend(answers);
                }
                Err(error) if enqueued.is_empty() => return Err(error),
                Err(error) => {
                    return Err(Error::EnqueuedInPart { enqueued, cause: Box::new(error) });
                }
            }
        }
        Ok(enqueued)
    }

    /// Enqueues a numbered part of a batch, once: for an import that may be run again after whatever happened. All jobs
    /// come to belong to the batch. `None`: this part was added before, and nothing was added now, whatever the jobs
    /// are.
    ///
    /// Which parts there are stands in SQL Server, noted in the transaction that adds the jobs. So the program that
    /// imports needs to remember nothing but the batch: run again, it cuts the same parts, gives them the same numbers,
    /// and those that are in are passed over. Until [`seal_batch`](Queue::seal_batch), which comes last.
    ///
    /// A part is one transaction: up to 1,000 jobs and 8 MiB of payload, and a payload of more than 65,535 bytes is a
    /// part of its own. It has the time that [`enqueue`](Queue::enqueue) has, and is sent again even where SQL Server
    /// did not answer; `None` may then mean that the first of these calls has added it. Without jobs, nothing is sent.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, batch: readpast::BatchId) -> Result<(), readpast::Error> {
    /// use readpast::NewJob;
    ///
    /// // The batch was created by the first run, which has noted its number.
    /// let pages: Vec<NewJob> = (0..5_000).map(|page| NewJob::json(&page)).collect::<Result<_, _>>()?;
    /// for (number, part) in (0..).zip(pages.chunks(1_000)) {
    ///     if queue.enqueue_part(batch, number, part).await?.is_none() {
    ///         println!("part {number} was there already");
    ///     }
    /// }
    /// queue.seal_batch(batch).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Queue::enqueue), and [`Error::InvalidJob`] before anything is sent for jobs that are no part, or
    /// that belong to another batch. [`Error::BatchNotOpen`] for a batch that is sealed or not there. After
    /// [`Error::EnqueueInDoubt`], calling it again with the same part adds no job a second time.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the part may be in the queue or not; calling it again finds out.
    pub async fn enqueue_part(
        &self,
        batch: BatchId,
        part: i64,
        jobs: &[NewJob],
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let part = enqueue::Part { batch, number: part };
        part.check(jobs)?;
        if jobs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let started_at = Instant::now();
        let enqueued = self.enqueue_with_retries(jobs, Some(part)).await?;
        if let Some(enqueued) = &enqueued {
            self.connector.metrics().enqueued(enqueued, started_at.elapsed());
        }
        self.wake_workers(jobs); // also where the answer to a first call was lost
        Ok(enqueued)
    }

    /// Waits until a job has ended: done, dead or cancelled. Returns how; `None` when it has not ended within `limit`
    /// (a second and a look at SQL Server longer at most). It is looked for at least once.
    ///
    /// What can be known depends on the queue's [`CompletionPolicy`]. With `annotate` and `archive` the end of a done
    /// job comes with its output, as long as the job is kept. **With `delete`, the default, a done job is
    /// [`JobEnd::Gone`]**: its output is not kept, and it looks like a job that was purged or has never been. A dead or
    /// cancelled job that is requeued runs again; this returns how it was when it was looked for.
    ///
    /// Any number may wait: all that wait through this `Queue` and its clones share one look, every 10 to 200 ms, on
    /// one of its connections, by a task on the runtime of one of them.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// use readpast::{JobEnd, NewJob};
    ///
    /// let job = queue.enqueue(&NewJob::text("to be or not to be")).await?;
    /// match queue.wait(job.job_id, Duration::from_secs(60)).await? {
    ///     Some(JobEnd::Done { output }) => println!("{} bytes", output.unwrap_or_default().len()),
    ///     Some(JobEnd::Dead { error } | JobEnd::Cancelled { error }) => println!("{error}"),
    ///     Some(_) => println!("it is gone"),
    ///     None => println!("it takes longer"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`], [`Error::PermissionDenied`] and other errors that stay. Those that pass (a restart, a
    /// fail-over) are waited out; when `limit` is over and SQL Server still does not respond, the last one is returned.
    pub async fn wait(&self, job_id: JobId, limit: Duration) -> Result<Option<JobEnd>, Error> {
        self.wait_for_end(job_id, limit).await
    }

    /// Creates a batch: jobs that belong together, in any queues of the schema, and a follow-up that is enqueued into
    /// this queue, once, when all of them have ended, however they did ([`Job::batch_end`](crate::Job::batch_end)).
    ///
    /// [`NewJob::batch`] adds a job to it, and a job of the batch may add more when it is done
    /// ([`Output::enqueue`](crate::Output::enqueue)). Once it is sealed ([`seal_batch`](Queue::seal_batch)), none can
    /// be added. A week after its end, SQL Server forgets the batch. One that is never sealed stays, and never ends.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{NewBatch, NewJob};
    ///
    /// let batch = queue.create_batch(&NewBatch::new().then(NewJob::text("add up").kind("sum"))).await?;
    /// let parts: Vec<NewJob> = (0..5_000).map(|n| NewJob::text(n.to_string()).kind("part").batch(batch)).collect();
    /// queue.enqueue_many(&parts).await?;
    /// queue.seal_batch(batch).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidBatch`] before anything is sent; [`Error::BatchNotOpen`] where there is no such parent, or it is
    /// sealed; [`Error::Refused`] for a parent where the queue has [`Delivery::AtMostOnce`]; [`Error::UnknownQueue`];
    /// [`Error::PermissionDenied`] without a producer's rights. After [`Error::TimedOut`] and [`Error::ConnectionLost`]
    /// there may be a batch that nobody knows of. It does no harm, unless it has a parent, which it keeps from ending:
    /// find it with [`batches`](Queue::batches), and cancel it.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, there may be a batch that nobody knows of, as after a time-out.
    pub async fn create_batch(&self, batch: &NewBatch) -> Result<BatchId, Error> {
        self.session().await?.create_batch(&self.name, batch).await
    }

    /// Seals a batch, of whatever queue: no job can be added any more, and it ends when all that it has have ended, at
    /// once where they have. Waits for transactions in which jobs are being added. Sealing it twice has no further
    /// effect, so that the call may be repeated after any error.
    ///
    /// # Errors
    ///
    /// [`Error::BatchNotOpen`] where there is no such batch; [`Error::PermissionDenied`] without a producer's rights.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the batch may be sealed or not.
    pub async fn seal_batch(&self, batch: BatchId) -> Result<SealedBatch, Error> {
        let sealed = self.session().await?.seal_batch(batch).await?;
        if sealed.ended {
            self.enqueued.send_replace(()); // the follow-up
        }
        Ok(sealed)
    }

    /// How far a batch is, of whatever queue; `None` where there is none of this number. Costs SQL Server a few seeks,
    /// however many jobs the batch has, and waits for nobody.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, batch: readpast::BatchId) -> Result<(), readpast::Error> {
    /// if let Some(batch) = queue.batch(batch).await? {
    ///     println!("{} of {} are done, {} are left", batch.done, batch.jobs, batch.unfinished());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a worker.
    pub async fn batch(&self, batch: BatchId) -> Result<Option<BatchRow>, Error> {
        self.session().await?.batch_row(batch).await
    }

    /// The batches whose follow-ups go to this queue, the newest first; with `open` only those that have not ended. Up
    /// to `max`, at most 1,000; for the next page, pass the last one's number as `before`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a larger `max`; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a worker.
    pub async fn batches(&self, open: bool, before: Option<BatchId>, max: usize) -> Result<Vec<BatchRow>, Error> {
        self.session().await?.batch_rows(&self.name, open, before, max).await
    }

    /// Cancels a batch: seals it and cancels its unfinished jobs as [`cancel`](Queue::cancel) does, whatever their
    /// queues, and those of the batches whose follow-ups belong to it. Returns how many.
    ///
    /// The follow-up is enqueued all the same, when the jobs that run have ended;
    /// [`Job::batch_end`](crate::Job::batch_end) says how many were cancelled. Of the jobs that run, the workers are
    /// told at once that were started with this `Queue` or a clone of it, others with their next heartbeats.
    ///
    /// # Errors
    ///
    /// [`Error::BatchNotOpen`] where there is no such batch; [`Error::Refused`] when `why` has more than 1,000
    /// characters (UTF-16); [`Error::PermissionDenied`] without an operator's rights. Jobs that were cancelled before
    /// the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were cancelled before stay so.
    pub async fn cancel_batch(&self, batch: BatchId, why: &str) -> Result<Cancelled, Error> {
        let mut session = self.session().await?;
        let mut total = Cancelled::default();
        loop {
            let cancelled = self.tell_workers(session.cancel_batch(batch, why).await?);
            if cancelled == Cancelled::default() {
                return Ok(total);
            }
            total.add(cancelled);
        }
    }

    /// Counts the queue's jobs. Reads every entry of the queue's indexes once, without locks.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn stats(&self) -> Result<QueueStats, Error> {
        self.session().await?.stats(&self.name, None).await
    }

    /// As [`stats`](Queue::stats), at a cost that does not grow with the queue: see
    /// [`all_queues_up_to`](Queue::all_queues_up_to).
    ///
    /// # Errors
    ///
    /// Those of [`stats`](Queue::stats); [`Error::Refused`] for a `most` of 0.
    pub async fn stats_up_to(&self, most: u64) -> Result<QueueStats, Error> {
        self.session().await?.stats(&self.name, Some(most)).await
    }

    /// As [`stats`](Queue::stats), of every queue of the schema, by name. This one need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer.
    pub async fn all_queues(&self) -> Result<Vec<QueueStats>, Error> {
        self.session().await?.all_stats(None).await
    }

    /// As [`all_queues`](Queue::all_queues), at a cost that does not grow with the queues: of each state `most` jobs
    /// are counted, and where a count is `most` or more, there are at least so many. The oldest ready job is looked for
    /// among those that were counted.
    ///
    /// # Errors
    ///
    /// Those of [`all_queues`](Queue::all_queues); [`Error::Refused`] for a `most` of 0.
    pub async fn all_queues_up_to(&self, most: u64) -> Result<Vec<QueueStats>, Error> {
        self.session().await?.all_stats(Some(most)).await
    }

    /// The queue's workers: those with a lease, and those that have ended or were lost within the last day. By name and
    /// the time of their registration. Reads without locks.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// for worker in queue.workers().await?.iter().filter(|worker| worker.is_live()) {
    ///     println!("{} holds {} jobs, {:.1} done a second", worker.name, worker.held, worker.done_per_s.unwrap_or(0.0));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn workers(&self) -> Result<Vec<WorkerRow>, Error> {
        self.session().await?.list_workers(Some(&self.name), Duration::MAX).await
    }

    /// As [`workers`](Queue::workers), of every queue of the schema, by the queues' names first. This one need not
    /// exist.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn all_workers(&self) -> Result<Vec<WorkerRow>, Error> {
        self.session().await?.list_workers(None, Duration::MAX).await
    }

    /// As [`all_workers`](Queue::all_workers), but of the workers that have ended only those of the last `ended` (whole
    /// seconds, up to a day): for who looks every second, where many workers come and go.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn all_workers_ended_within(&self, ended: Duration) -> Result<Vec<WorkerRow>, Error> {
        self.session().await?.list_workers(None, ended).await
    }

    /// What became of the queue in the last `span`, from then on: a row for each minute or, of what is more than a day
    /// ago, for ten. A row that began before and ended in it is there, too; a minute is there when it has passed. It is
    /// kept for 90 days; a span under a minute is one. Of more than 100,000 rows, the newest. Reads without locks.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// for row in queue.history(Duration::from_secs(60 * 60)).await? {
    ///     println!("{} done, {} ready, median {:?}", row.done, row.ready, row.run.percentile(0.5));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn history(&self, span: Duration) -> Result<Vec<HistoryRow>, Error> {
        self.session().await?.list_history(Some(&self.name), span).await
    }

    /// As [`history`](Queue::history), of every queue of the schema, by the queues' names first. This one need not
    /// exist.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn all_history(&self, span: Duration) -> Result<Vec<HistoryRow>, Error> {
        self.session().await?.list_history(None, span).await
    }

    /// Which queue of the schema a job is in, or was in before it was archived; `None`: there is no such job. Waits for
    /// nobody.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a worker.
    pub async fn queue_of(&self, job_id: JobId) -> Result<Option<String>, Error> {
        self.session().await?.find_job(job_id).await
    }

    /// Deletes the queue with its settings, schedules and ended batches; with `with_jobs`, first all its jobs, whatever
    /// their state, a thousand in a transaction. Jobs that it deletes before they have ended count as cancelled in
    /// their batches. A producer that enqueues meanwhile either has its job deleted or gets [`Error::UnknownQueue`]; no
    /// job stays behind.
    ///
    /// # Errors
    ///
    /// [`Error::QueueInUse`] while a worker of the queue has a lease, a batch that has not ended has its follow-up in
    /// it, a transaction that changes its jobs has not ended or, without `with_jobs`, it has jobs (those in the
    /// archive, too); [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were
    /// deleted before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were deleted before stay so. Run it again to complete it.
    pub async fn delete(&self, with_jobs: bool) -> Result<Deleted, Error> {
        let mut session = self.session().await?;
        let mut total = Deleted::default();
        loop {
            let (jobs, is_gone) = session.delete_queue(&self.name, with_jobs, OPERATOR_BATCH).await?;
            total.jobs += u64::from(jobs);
            if is_gone {
                return Ok(total);
            }
        }
    }

    /// How deep the queue is, as sampled no longer than `max_age` ago; `None` while another process takes the first
    /// sample.
    pub(crate) async fn sample(&self, max_age: Duration) -> Result<Option<QueueSample>, Error> {
        self.session().await?.sample(&self.name, max_age).await
    }

    /// Stops the claims of the queue for all workers. Claimed jobs are finished, and enqueueing goes on.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn pause(&self) -> Result<(), Error> {
        self.session().await?.set_paused(&self.name, true).await
    }

    /// Lets the claims of the queue go on.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn resume(&self) -> Result<(), Error> {
        self.session().await?.set_paused(&self.name, false).await
    }

    /// Cancels a job. Returns what it was doing; nothing of both where the queue does not have it or it has ended.
    ///
    /// A job that waits is cancelled at once: it stays in the table as [`JobState::Cancelled`] like a dead one, with
    /// who (the login) and `why` in its [`error`](JobRow::error), until it is purged, expires
    /// ([`QueueOptions::keep_dead`]) or is brought back by [`requeue`](Queue::requeue). Its de-duplication key is free.
    ///
    /// Of a job that runs, the worker is told: at once where it was started with this `Queue` or a clone of it,
    /// otherwise with its next heartbeat. [`Context::is_cancelled`](crate::Context::is_cancelled) turns true. If the
    /// job is done all the same, it is done; whatever else becomes of the run, the job is cancelled. A job of a queue
    /// with [`Delivery::AtMostOnce`] cannot be cancelled once it runs.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// let cancelled = queue.cancel(job_id, "the customer has left").await?;
    /// if cancelled.running > 0 {
    ///     println!("it runs; its worker is told");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when `why` has more than 1,000 characters (UTF-16); [`Error::UnknownQueue`];
    /// [`Error::PermissionDenied`] without an operator's rights.
    pub async fn cancel(&self, job_id: JobId, why: &str) -> Result<Cancelled, Error> {
        let mut session = self.session().await?;
        self.cancel_some(&mut session, &[job_id], why).await
    }

    /// Cancels all jobs that have not ended and match the filter, as [`cancel`](Queue::cancel) does with one. Where the
    /// filter names no state, these are scheduled, waiting, ready and running ones. Returns how many.
    ///
    /// It lists them page by page ([`matching`](Queue::matching)), and cancels each page: jobs that are enqueued
    /// meanwhile are not among them.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::JobFilter;
    ///
    /// let cancelled = queue.cancel_all(&JobFilter::all().kind("resize"), "the sizes were wrong").await?;
    /// println!("{} cancelled, {} told to stop", cancelled.waiting, cancelled.running);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`cancel`](Queue::cancel), and [`Error::Refused`] when the filter names a state of jobs that have ended, or
    /// asks for what its states do not have. Jobs that were cancelled before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were cancelled before stay so.
    pub async fn cancel_all(&self, filter: &JobFilter, why: &str) -> Result<Cancelled, Error> {
        let mut total = Cancelled::default();
        let mut pages = self.matching(filter, JobChange::Cancel { why: why.to_owned() })?;
        while let Some(page) = pages.next().await? {
            total.add(self.cancel_jobs(&page.jobs, why).await?);
        }
        Ok(total)
    }

    async fn cancel_some(&self, session: &mut Session, jobs: &[JobId], why: &str) -> Result<Cancelled, Error> {
        let answer = session.cancel(&self.name, jobs, why).await?;
        Ok(self.tell_workers(answer))
    }

    /// Tells the workers of this process which of the cancelled jobs run.
    fn tell_workers(&self, answer: CancelAnswer) -> Cancelled {
        if !answer.running.is_empty() {
            let _ = self.cancelled.send(answer.running.into()); // an error: this process has no worker of the queue
        }
        answer.cancelled
    }

    /// Makes one dead or cancelled job ready again, or, with `None`, all dead ones; their attempts count from 0.
    /// Returns how many.
    ///
    /// A job whose de-duplication key belongs to an unfinished job by now stays dead; of several dead jobs with one
    /// key, the newest comes back. With `None`, jobs that die after the call began stay dead, also those that it has
    /// made ready; jobs that are locked at the moment are passed over.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer. Jobs that were requeued before the error
    /// stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were requeued before stay so.
    pub async fn requeue(&self, job_id: Option<JobId>) -> Result<u64, Error> {
        let begin = Instant::now();
        let mut session = self.session().await?;
        if let Some(job_id) = job_id {
            return Ok(session.requeue(&self.name, job_id).await?.into());
        }
        let (mut place, mut total) = (None, 0);
        loop {
            let filter = JobFilter::from(JobState::Dead).older_than(begin.elapsed());
            let (jobs, next) =
                session.peek(&self.name, JobState::Dead, &filter, place.as_ref(), OPERATOR_BATCH, &IDS).await?;
            // Without any jobs, too: a login that may only look is refused, whether there are any or not.
            total += u64::from(session.requeue_listed(&self.name, &jobs).await?);
            place = next;
            if place.is_none() {
                return Ok(total);
            }
        }
    }

    /// Makes one dead or cancelled job ready again as [`requeue`](Queue::requeue) does, with another payload: bytes, or
    /// text as UTF-8. Returns whether it was; if not, its payload is as it was.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// if !queue.requeue_with(job_id, r#"{"width": 640}"#).await? {
    ///     println!("it is not dead any more");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights.
    pub async fn requeue_with(&self, job_id: JobId, payload: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.session().await?.requeue_with(&self.name, job_id, payload.as_ref()).await
    }

    /// Makes one scheduled job ready before its time: a delayed one, or one that waits for its next attempt. Workers
    /// that were started with this `Queue` or a clone of it claim it at once. Returns whether it was scheduled.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights.
    pub async fn promote_now(&self, job_id: JobId) -> Result<bool, Error> {
        let mut session = self.session().await?;
        Ok(self.promote_some(&mut session, &[job_id]).await? > 0)
    }

    async fn promote_some(&self, session: &mut Session, jobs: &[JobId]) -> Result<u64, Error> {
        let promoted = session.promote_now(&self.name, jobs).await?;
        if promoted > 0 {
            self.enqueued.send_replace(());
        }
        Ok(promoted.into())
    }

    /// Gives all jobs that have not ended and match the filter another priority; smaller runs first. Of a running job
    /// it counts when it comes back. Where the filter names no state, these are scheduled, ready and running jobs.
    /// Returns how many had another priority before. It lists the jobs as [`cancel_all`](Queue::cancel_all) does.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::JobFilter;
    ///
    /// queue.set_priority(&JobFilter::all().kind("invoice"), -10).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when the filter names a state of jobs that have ended, or asks for what its states do not
    /// have; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were changed
    /// before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were changed before stay so.
    pub async fn set_priority(&self, filter: &JobFilter, priority: i16) -> Result<u64, Error> {
        let mut total = 0;
        let mut pages = self.matching(filter, JobChange::SetPriority(priority))?;
        while let Some(page) = pages.next().await? {
            total += self.set_priority_of(&page.jobs, priority).await?;
        }
        Ok(total)
    }

    /// Deletes the jobs in one state that have been in it for `older_than` (whole seconds) and more: done, dead,
    /// cancelled and archived ones counted from their end, ready and scheduled ones from when they were enqueued.
    /// Returns how many. Jobs that are locked at the moment stay. For what is to be deleted regularly there are
    /// [`QueueOptions::keep_done`] and [`QueueOptions::keep_dead`].
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// use readpast::JobState;
    ///
    /// let a_week = Duration::from_secs(7 * 86_400);
    /// let deleted = queue.purge(JobState::Dead, a_week).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for [`JobState::Claimed`]; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a
    /// producer. Jobs that were deleted before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were deleted before stay so.
    pub async fn purge(&self, state: JobState, older_than: Duration) -> Result<u64, Error> {
        let mut session = self.session().await?;
        let mut total = 0;
        loop {
            let purged = session.purge(&self.name, state, older_than, OPERATOR_BATCH).await?;
            total += u64::from(purged);
            if (purged as usize) < OPERATOR_BATCH {
                return Ok(total);
            }
        }
    }

    /// Sets a schedule: a new one, or all of an existing one of this name but its pause. Returns whether it is new.
    ///
    /// One worker of the queue at a time enqueues its jobs, each time once, normally within `promote_interval_ms`;
    /// while no worker runs, nothing is fired ([`Schedule::make_up`]). Where the expression and the time zone stay as
    /// they are, so does the next time: a program may set its schedules whenever it starts.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{NewJob, Schedule};
    ///
    /// let job = NewJob::text("all branches").kind("report");
    /// queue.set_schedule(&Schedule::new("nightly-report", "30 2 * * MON-FRI", job).time_zone("Europe/Berlin")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSchedule`] before anything is sent: what is wrong with the expression, the time zone or another
    /// part of it; without the feature `schedules`, which reads expressions, always. [`Error::UnknownQueue`];
    /// [`Error::PermissionDenied`] without an operator's rights.
    pub async fn set_schedule(&self, schedule: &Schedule) -> Result<bool, Error> {
        self.session().await?.set_schedule(&self.name, schedule).await
    }

    /// The queue's schedules, by name.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn schedules(&self) -> Result<Vec<ScheduleRow>, Error> {
        self.session().await?.list_schedules(&self.name).await
    }

    /// Deletes a schedule; jobs that it has enqueued stay. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights.
    pub async fn delete_schedule(&self, name: &str) -> Result<bool, Error> {
        self.session().await?.delete_schedule(&self.name, name).await
    }

    /// Stops a schedule: its times pass by until it is resumed. Jobs that it has enqueued stay.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where there is no such schedule; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without
    /// an operator's rights.
    pub async fn pause_schedule(&self, name: &str) -> Result<(), Error> {
        self.session().await?.set_schedule_paused(&self.name, name, true).await
    }

    /// Lets a paused schedule go on with its next time from now on; what has passed meanwhile is not made up for.
    ///
    /// # Errors
    ///
    /// As [`pause_schedule`](Queue::pause_schedule).
    pub async fn resume_schedule(&self, name: &str) -> Result<(), Error> {
        self.session().await?.set_schedule_paused(&self.name, name, false).await
    }

    /// Enqueues the job of a schedule now, beside its times, which stay as they are; of a paused one, too. With a
    /// de-duplication key of its own it is a `duplicate` while the last one has not ended.
    ///
    /// # Errors
    ///
    /// As [`pause_schedule`](Queue::pause_schedule). After [`Error::TimedOut`] and [`Error::ConnectionLost`] the job
    /// may be in the queue or not.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the job may be in the queue or not.
    pub async fn run_schedule_now(&self, name: &str) -> Result<Enqueued, Error> {
        let mut session = self.session().await?;
        let started_at = Instant::now();
        let enqueued = session.run_schedule_now(&self.name, name).await?;
        self.connector.metrics().enqueued(slice::from_ref(&enqueued), started_at.elapsed());
        self.enqueued.send_replace(());
        Ok(enqueued)
    }

    /// Looks at up to `max` of the jobs that `filter` asks for, without waiting; jobs that are locked at the moment are
    /// left out. For the next page, pass [`JobPage::next`] as `after`.
    ///
    /// Ready jobs come in the order in which they are claimed, scheduled ones as they are due, done, dead, cancelled
    /// and archived ones as they ended ([`JobFilter::newest_first`]: the other way round), claimed ones by id. A page
    /// costs SQL Server the rows that it has, at any depth. Where more than a state is asked for, it costs up to 10,000
    /// rows, and may be short or empty although there is a next one. A page ends before its payloads and outputs exceed
    /// 64 MiB; a larger job has a page of its own. A job whose state changes between two pages can be missed, or come
    /// twice.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{JobFilter, JobState};
    ///
    /// let filter = JobFilter::from(JobState::Dead).kind("resize");
    /// let mut after = None;
    /// loop {
    ///     let page = queue.list(&filter, after.as_ref(), 100).await?;
    ///     for job in &page.jobs {
    ///         println!("{} {}", job.job_id, job.error.as_deref().unwrap_or_default());
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     after = Some(next);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer; [`Error::Refused`] when `after` is of a
    /// list of another state, or the filter asks for what its state does not have ([`JobFilter::newest_first`],
    /// [`JobFilter::worker`]).
    pub async fn list(&self, filter: &JobFilter, after: Option<&JobCursor>, max: usize) -> Result<JobPage, Error> {
        let (jobs, next) = self.page(&ROWS, filter, after, max).await?;
        Ok(JobPage { jobs, next })
    }

    async fn page<T>(
        &self,
        shown: &Shown<T>,
        filter: &JobFilter,
        after: Option<&JobCursor>,
        max: usize,
    ) -> Result<(Vec<T>, Option<JobCursor>), Error> {
        let states = filter.state.as_ref().map_or(JobState::ALL, slice::from_ref);
        let (begin, mut place) = match after {
            None => (0, None),
            Some(JobCursor { state, after }) => {
                let begin = states.iter().position(|listed| listed == state).ok_or_else(|| Error::Refused {
                    message: format!("a page of {} jobs cannot start from a cursor of {} jobs", states[0], state),
                })?;
                (begin, after.clone())
            }
        };
        let mut session = self.session().await?;
        let mut page = (Vec::new(), None);
        for (index, state) in states.iter().enumerate().skip(begin) {
            let (jobs, next) = session.peek(&self.name, *state, filter, place.take().as_ref(), max, shown).await?;
            let next_state = states.get(index + 1).map(|state| JobCursor { state: *state, after: None });
            let is_last = jobs.is_empty() && next.is_none();
            page = (jobs, next.map(|place| JobCursor { state: *state, after: Some(place) }).or(next_state));
            if !is_last {
                break; // otherwise the state is done with, and the next may have some
            }
        }
        Ok(page)
    }

    /// Looks at one job, whatever its state, without waiting; `None` if the queue does not have it, neither among its
    /// jobs nor in the archive, or if it is locked at the moment.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn job(&self, job_id: JobId) -> Result<Option<JobRow>, Error> {
        self.session().await?.peek_one(&self.name, job_id, None).await
    }

    /// As [`job`](Queue::job), with the first `bytes` bytes of payload and output only
    /// ([`JobRow::payload_bytes`], [`JobRow::output_bytes`] say how many there are).
    ///
    /// # Errors
    ///
    /// As [`job`](Queue::job).
    pub async fn job_cut_at(&self, job_id: JobId, bytes: usize) -> Result<Option<JobRow>, Error> {
        self.session().await?.peek_one(&self.name, job_id, Some(bytes)).await
    }

    /// How far jobs are that run or have run, as they have noted it themselves
    /// ([`Context::progress`](crate::Context::progress)), in no particular order; a job that has noted nothing is not
    /// in it. Waits for nobody. What a job notes is here about a second later.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn progress_of(&self, jobs: &[JobId]) -> Result<Vec<JobProgress>, Error> {
        self.session().await?.progress_of(&self.name, jobs).await
    }

    /// The failed attempts of a job, the oldest first: each with its worker, error and run time. The newest 20 are
    /// kept, as long as the job is: those of a job that was done in a queue with [`CompletionPolicy::Delete`] are gone
    /// with it. A queue with [`Delivery::AtMostOnce`] keeps none. Does not wait; an attempt that is being acknowledged
    /// at the moment is left out.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// for attempt in queue.attempts(job_id).await? {
    ///     println!("{} on {}: {}", attempt.attempt, attempt.worker, attempt.error.unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn attempts(&self, job_id: JobId) -> Result<Vec<FailedAttempt>, Error> {
        self.session().await?.attempts(&self.name, job_id).await
    }
}
