//! SQL Server's side of a queue, seen from Rust: a file per group of procedures.
//!
//! [`Queue`] is what producers and operators use. A worker's stages own a [`Lane`] each and call the procedures on it
//! directly.
//!
//! There is no SQL here but calls of procedures by name, and the embedded scripts of the installation.

pub(crate) mod admin;
pub(crate) mod claim;
pub(crate) mod connection;
pub(crate) mod enqueue;
pub(crate) mod finish;
pub(crate) mod sample;
pub(crate) mod schema;
pub(crate) mod workers;

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool::managed::{self, RecycleResult};
use tokio::sync::{OnceCell, watch};
use uuid::Uuid;

use crate::config::{Config, QueueConfig};
use crate::connection_string::ConnectionString;
use crate::error::Error;
use crate::job::{JobId, NewJob};
use crate::metrics::Exporter;

pub use admin::{JobRow, JobState};
use connection::{Connector, Lane};
pub use enqueue::{Enqueued, enqueue_in};
pub(crate) use sample::QueueSample;

use enqueue::Chunk;

/// The id of a worker: new at each start of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    /// A new id.
    pub(crate) fn new() -> WorkerId {
        WorkerId(Uuid::new_v4())
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// In which order a queue's jobs are claimed; always within a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimOrder {
    /// The oldest first.
    Fifo,
    /// The newest first.
    Lifo,
    /// Whatever SQL Server finds first; ignores priorities too.
    Any,
}

impl ClaimOrder {
    pub(crate) const WORDS: [(&'static str, ClaimOrder); 3] =
        [("fifo", ClaimOrder::Fifo), ("lifo", ClaimOrder::Lifo), ("any", ClaimOrder::Any)];

    fn word(self) -> &'static str {
        word(&ClaimOrder::WORDS, self)
    }
}

/// What becomes of a job's row when the job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Completion {
    /// It is deleted.
    Delete,
    /// It stays, with its times and output, until it is purged.
    Annotate,
    /// It moves to the archive table, with its times and output, until it is purged.
    Archive,
}

impl Completion {
    pub(crate) const WORDS: [(&'static str, Completion); 3] =
        [("delete", Completion::Delete), ("annotate", Completion::Annotate), ("archive", Completion::Archive)];

    fn word(self) -> &'static str {
        word(&Completion::WORDS, self)
    }
}

/// What a claim promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// A job whose worker dies runs again.
    AtLeastOnce,
    /// The claim deletes the row: a job never runs twice, and is gone when its worker dies.
    AtMostOnce,
}

impl Delivery {
    pub(crate) const WORDS: [(&'static str, Delivery); 2] =
        [("at_least_once", Delivery::AtLeastOnce), ("at_most_once", Delivery::AtMostOnce)];

    fn word(self) -> &'static str {
        word(&Delivery::WORDS, self)
    }
}

fn word<T: PartialEq>(words: &[(&'static str, T)], meaning: T) -> &'static str {
    let (word, _) = words.iter().find(|(_, listed)| *listed == meaning).expect("each meaning has its word");
    word
}

/// A queue's settings, for [`Queue::create`]. What is `None` stays as it is; for a new queue it is the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// Default: [`ClaimOrder::Fifo`]. To and from [`ClaimOrder::Lifo`], a queue can change only while it has no jobs.
    pub claim_order: Option<ClaimOrder>,
    /// Default: [`Completion::Delete`].
    pub completion: Option<Completion>,
    /// Default: [`Delivery::AtLeastOnce`].
    pub delivery: Option<Delivery>,
    /// After how many attempts a job is dead, unless the job says otherwise; 1 and more. Default: 5.
    pub max_attempts: Option<u32>,
    /// How long done jobs stay, in the table (`annotate`) or in the archive. Default: [`Keep::Forever`].
    pub keep_done: Option<Keep>,
    /// How long dead jobs stay. Default: [`Keep::Forever`].
    pub keep_dead: Option<Keep>,
}

/// How long finished jobs stay, counted from their end. What is older is deleted by one of the queue's workers, a thousand at a time, once a
/// minute; while no worker runs, nothing is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Until an operator purges them.
    Forever,
    /// 1 s to ten years (315,360,000 s). In whole seconds: a part of one counts as one.
    For(Duration),
}

/// A queue's settings and how many jobs it has. Counted without locks: a sample, not a balance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue's name.
    pub queue: String,
    /// In which order jobs are claimed.
    pub claim_order: ClaimOrder,
    /// What becomes of done jobs.
    pub completion: Completion,
    /// What a claim promises.
    pub delivery: Delivery,
    /// After how many attempts a job is dead.
    pub max_attempts: u32,
    /// Whether claims find nothing.
    pub paused: bool,
    /// Jobs that wait to be claimed.
    pub ready: u64,
    /// Jobs that wait for their time.
    pub scheduled: u64,
    /// Jobs that workers hold.
    pub claimed: u64,
    /// Done jobs that are kept (`annotate`).
    pub done: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Jobs in the archive.
    pub archived: u64,
    /// Workers with a lease.
    pub workers: u64,
    /// How long the oldest ready job has been ready.
    pub oldest_ready: Option<Duration>,
    /// How long done jobs stay.
    pub keep_done: Keep,
    /// How long dead jobs stay.
    pub keep_dead: Keep,
}

/// The most connections that one [`Queue`] and its clones use at once for enqueueing and operating. More callers wait
/// their turn.
const MAX_CONNECTIONS: usize = 8;

/// How many jobs one call of `requeue` or `purge` changes: a transaction that locks few rows.
const OPERATOR_BATCH: usize = 1_000;

/// A queue, for producers and operators.
///
/// Cheap to clone; clones share up to 8 connections, which are made when they are needed. An idle worker that was started from the queue
/// that jobs are enqueued through, or from a clone of it, starts them at once; other workers notice within `poll_max_ms`.
///
/// Before its first call, a queue asks which version of the schema is installed; every call but [`connect`](Queue::connect) and
/// [`install`](Queue::install) fails with [`Error::NotInstalled`], [`Error::SchemaTooOld`] or [`Error::SchemaTooNew`] where it is not one that
/// this release works with.
///
/// ```no_run
/// use readpast::{Config, NewJob, Queue, QueueOptions};
///
/// # async fn example() -> Result<(), readpast::Error> {
/// let config = Config::load(None)?; // READPAST_URL, READPAST_QUEUE, …
/// let queue = Queue::connect(&config).await?;
/// queue.install().await?;
/// queue.create(QueueOptions::default()).await?;
/// let enqueued = queue.enqueue(NewJob::json(&["a", "b"])?).await?;
/// println!("job {}", enqueued.job_id);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Every method may be cancelled by dropping its future: its connection is closed, and SQL Server undoes what was not
/// committed. What was asked for may have happened all the same. Errors work the same way.
#[derive(Clone)]
pub struct Queue {
    name: Arc<str>,
    connector: Arc<Connector>,
    lanes: managed::Pool<LaneManager>,
    /// Whether the installed schema is one that this release works with has been asked.
    checked: Arc<OnceCell<()>>,
    exporter: Option<Arc<Exporter>>,
    /// Changes when jobs were enqueued that are ready at once: the workers of this process need not wait until they notice.
    enqueued: watch::Sender<()>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.name)
            .field("schema", &self.connector.schema())
            .finish_non_exhaustive()
    }
}

/// Makes lanes for the pool. A lane connects by itself and mends itself, so that making one cannot fail.
#[derive(Debug)]
struct LaneManager {
    connector: Arc<Connector>,
}

impl managed::Manager for LaneManager {
    type Type = Lane;
    type Error = Infallible;

    async fn create(&self) -> Result<Lane, Infallible> {
        Ok(Lane::new(self.connector.clone()))
    }

    async fn recycle(&self, _: &mut Lane, _: &managed::Metrics) -> RecycleResult<Infallible> {
        Ok(()) // a lane looks itself whether its connection has idled for too long
    }
}

impl Queue {
    /// Makes a queue from its settings and connects once, to see that it can; where `metrics.listen` is set, serves the
    /// metrics there as long as this queue, a clone of it or a worker of it lives. Whether readpast is installed there is
    /// the business of [`verify`](Queue::verify).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] and [`Error::ConnectionString`] for wrong settings, an address for metrics that is in use
    /// among them; [`Error::Connect`], [`Error::Tls`],
    /// [`Error::LoginFailed`], [`Error::Database`] and [`Error::TimedOut`] when the connection cannot be made.
    pub async fn connect(config: &Config) -> Result<Queue, Error> {
        config.queue.validate()?;
        // Before the connector, whose metrics go to the recorder that is there when it is made.
        let exporter = match config.metrics.address()? {
            Some(address) => Some(Exporter::at(address).await?),
            None => None,
        };
        let connector = Arc::new(Connector::new(&config.connection, &config.queue.name)?);
        let manager = LaneManager { connector: connector.clone() };
        let lanes = managed::Pool::builder(manager)
            .max_size(MAX_CONNECTIONS)
            .build()
            .expect("a pool without time limits needs no runtime");
        let queue = Queue {
            name: config.queue.name.as_str().into(),
            connector,
            lanes,
            checked: Arc::default(),
            exporter,
            enqueued: watch::Sender::new(()),
        };
        queue.any_lane().await.ensure_connected().await?;
        Ok(queue)
    }

    /// As [`connect`](Queue::connect), with default settings but for the connection string and the queue's name.
    ///
    /// # Errors
    ///
    /// As [`connect`](Queue::connect).
    pub async fn from_url(url: impl Into<ConnectionString>, queue: &str) -> Result<Queue, Error> {
        let mut config = Config { queue: QueueConfig { name: queue.to_string() }, ..Config::default() };
        config.connection.url = url.into();
        Queue::connect(&config).await
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema that readpast is installed in.
    pub fn schema(&self) -> &str {
        self.connector.schema()
    }

    /// Where this process serves its metrics, if `metrics.listen` is set; with the port that the system chose, if it was to choose one.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().map(|exporter| exporter.address())
    }

    /// For tests: how long a connection of this queue, its clones and workers may idle before it is made anew instead of being used.
    #[doc(hidden)]
    pub fn set_max_idle(&self, max_idle: Duration) {
        self.connector.set_max_idle(max_idle);
    }

    pub(crate) fn exporter(&self) -> Option<&Exporter> {
        self.exporter.as_deref()
    }

    pub(crate) fn connector(&self) -> Arc<Connector> {
        self.connector.clone()
    }

    /// Changes when jobs were enqueued through this queue or a clone of it.
    pub(crate) fn enqueued(&self) -> watch::Receiver<()> {
        self.enqueued.subscribe()
    }

    fn wake_workers(&self, jobs: &[NewJob]) {
        if jobs.iter().any(|job| job.delay.is_none() && job.due_at.is_none()) {
            self.enqueued.send_replace(());
        }
    }

    async fn any_lane(&self) -> managed::Object<LaneManager> {
        self.lanes.get().await.expect("the pool is never closed and making a lane cannot fail")
    }

    /// A lane for calls; before the first of them, the installed schema's version is asked.
    async fn lane(&self) -> Result<managed::Object<LaneManager>, Error> {
        let mut lane = self.any_lane().await;
        self.checked.get_or_try_init(|| lane.check_version()).await?;
        Ok(lane)
    }

    /// A lane for a worker, with the connection that was made at [`connect`](Queue::connect), if nobody uses it.
    ///
    /// # Errors
    ///
    /// Where no schema is installed that this release works with.
    pub(crate) async fn take_lane(&self) -> Result<Lane, Error> {
        let at_once = managed::Timeouts { wait: Some(Duration::ZERO), ..managed::Timeouts::default() };
        let mut lane = match self.lanes.timeout_get(&at_once).await {
            Ok(lane) => managed::Object::take(lane),
            Err(_) => Lane::new(self.connector.clone()), // producers use all of them
        };
        self.checked.get_or_try_init(|| lane.check_version()).await?;
        Ok(lane)
    }

    /// Closes connections that nobody has used for so long that the next call would make others.
    pub(crate) fn close_idle(&self) {
        self.lanes.retain(|lane, _| !lane.is_idle_too_long());
    }

    /// Installs the schema, or upgrades an older one. Where this release's version is installed, or a newer one that this release works
    /// with, it does nothing and needs no right but that to run `schema_info`, which every role has. Several processes may do it at once,
    /// workers and producers may go on meanwhile. Returns the version that is installed now.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] without db_owner's permissions where there is something to do; [`Error::SchemaTooNew`] where a newer
    /// release has been with whose schema this one does not work; any other error of SQL Server, among them 58012: a table would have to
    /// be changed and is in use for long. An installation that broke off is completed by running it again.
    pub async fn install(&self) -> Result<i32, Error> {
        self.any_lane().await.install().await
    }

    /// Checks everything that would keep this queue from being used, in the order in which one would mend it:
    /// reachable, login, database, installed, version, permissions, SET options, read-only, the queue itself. Changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong; the documentation of each [`Error`] says what to do.
    pub async fn verify(&self) -> Result<(), Error> {
        self.any_lane().await.verify(&self.name).await
    }

    /// Creates the queue, or changes its settings if it exists. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for settings that cannot be, for example a change to `lifo` while there are jobs, or a
    /// [`Keep::For`] of more than ten years.
    pub async fn create(&self, options: QueueOptions) -> Result<bool, Error> {
        self.lane().await?.create_queue(&self.name, &options).await
    }

    /// Enqueues one job in one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJob`] before anything is sent; [`Error::UnknownQueue`], [`Error::NotInstalled`],
    /// [`Error::PermissionDenied`] and SQL Server's other errors. Nothing is retried: after an error that [is
    /// transient](Error::is_transient), the job may be in the queue or not. Enqueued again with the same de-duplication key, it
    /// is not added a second time while the first is unfinished; if the first has been added and has ended by then, it
    /// runs once more.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, Error> {
        let mut lane = self.lane().await?;
        let started_at = Instant::now();
        let enqueued = lane.enqueue(&self.name, &job).await?;
        self.connector.metrics().enqueued(&[enqueued], started_at.elapsed());
        self.wake_workers(slice::from_ref(&job));
        Ok(enqueued)
    }

    /// Enqueues many jobs, in chunks of up to 1,000 jobs and about 8 MB of payload; takes from `jobs` no more than a
    /// chunk at a time. The answers come in the order of the jobs, and the jobs get ascending ids in that order.
    ///
    /// **Each chunk is a transaction of its own.** All or nothing is [`enqueue_in`].
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Queue::enqueue), when the first chunk fails; [`Error::EnqueuedInPart`], which lists the jobs of
    /// the chunks before, when a later one does.
    pub async fn enqueue_many(&self, jobs: impl IntoIterator<Item = NewJob>) -> Result<Vec<Enqueued>, Error> {
        let mut lane = self.lane().await?;
        let mut enqueued = Vec::new();
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            let mut limits = Chunk::default();
            let mut chunk = Vec::new();
            while let Some(job) = jobs.next_if(|job| limits.takes(job)) {
                chunk.push(job);
            }
            let started_at = Instant::now();
            match lane.enqueue_chunk(&self.name, &chunk).await {
                Ok(answers) => {
                    self.connector.metrics().enqueued(&answers, started_at.elapsed());
                    self.wake_workers(&chunk);
                    enqueued.extend(answers);
                }
                Err(error) if enqueued.is_empty() => return Err(error),
                Err(error) => {
                    return Err(Error::EnqueuedInPart { enqueued, source: Box::new(error) });
                }
            }
        }
        Ok(enqueued)
    }

    /// Counts the queue's jobs. Reads every entry of the queue's indexes once, without locks.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn stats(&self) -> Result<QueueStats, Error> {
        self.lane().await?.stats(&self.name).await
    }

    /// How deep the queue is, as sampled no longer than `max_age` ago; `None` while another process takes the first sample.
    pub(crate) async fn sample(&self, max_age: Duration) -> Result<Option<QueueSample>, Error> {
        self.lane().await?.sample(&self.name, max_age).await
    }

    /// Whether jobs are ready, scheduled or claimed; "no" counts when it was said twice in a row.
    pub(crate) async fn has_unfinished(&self) -> Result<bool, Error> {
        self.lane().await?.has_unfinished(&self.name).await
    }

    /// Stops the claims of the queue for all workers. Claimed jobs are finished, and enqueueing goes on.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn pause(&self) -> Result<(), Error> {
        self.lane().await?.set_paused(&self.name, true).await
    }

    /// Lets the claims of the queue go on.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn resume(&self) -> Result<(), Error> {
        self.lane().await?.set_paused(&self.name, false).await
    }

    /// Makes one dead job ready again, or, with `None`, all of them; its attempts count from 0. Returns how many.
    ///
    /// A job whose de-duplication key belongs to an unfinished job by now stays dead; of several dead jobs with one
    /// key, the newest comes back.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer. Jobs that were requeued before the error
    /// stay so.
    pub async fn requeue(&self, job_id: Option<JobId>) -> Result<u64, Error> {
        let mut lane = self.lane().await?;
        let mut total = 0;
        loop {
            let requeued = lane.requeue(&self.name, job_id, OPERATOR_BATCH).await?;
            total += u64::from(requeued);
            if (requeued as usize) < OPERATOR_BATCH {
                return Ok(total);
            }
        }
    }

    /// Deletes the jobs in one state that have been in it for `older_than` (whole seconds) and more: done, dead and
    /// archived ones counted from their end, ready and scheduled ones from when they were enqueued. Returns how many.
    /// Jobs that are locked at the moment stay. What is to be deleted regularly is the business of
    /// [`QueueOptions::keep_done`] and [`QueueOptions::keep_dead`].
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for [`JobState::Claimed`]; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a
    /// producer. Jobs that were deleted before the error stay so.
    pub async fn purge(&self, state: JobState, older_than: Duration) -> Result<u64, Error> {
        let mut lane = self.lane().await?;
        let mut total = 0;
        loop {
            let purged = lane.purge(&self.name, state, older_than, OPERATOR_BATCH).await?;
            total += u64::from(purged);
            if (purged as usize) < OPERATOR_BATCH {
                return Ok(total);
            }
        }
    }

    /// Looks at up to `max` jobs in one state, without waiting; jobs that are locked at the moment are left out. For the
    /// next page, pass the last row of this one as `after`; the last page is empty. A page costs SQL Server the rows that
    /// it has, at any depth.
    ///
    /// Ready jobs come in the order in which they are claimed, scheduled ones as they are due, done, dead and archived
    /// ones as they ended, claimed ones by id.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer; [`Error::Refused`] when `after` is a row of
    /// another state.
    pub async fn peek(&self, state: JobState, after: Option<&JobRow>, max: usize) -> Result<Vec<JobRow>, Error> {
        self.lane().await?.peek(&self.name, state, after, max).await
    }

    /// Looks at one job, whatever its state, without waiting; `None` if the queue does not have it, neither among its jobs
    /// nor in the archive, or if it is locked at the moment.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn job(&self, job_id: JobId) -> Result<Option<JobRow>, Error> {
        self.lane().await?.peek_one(&self.name, job_id).await
    }
}
