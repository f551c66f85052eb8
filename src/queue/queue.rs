//! [`Queue`]: its construction, clones and connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, broadcast, watch};

use crate::config::connection_string::ConnectionString;
use crate::config::{Config, KindConfig, QueueConfig, WorkerConfig};
use crate::connection::{Connector, Lent, Session, SessionPool};
use crate::error::Error;
use crate::id::{Fence, JobId};
use crate::job::NewJob;
use crate::metrics::Exporter;

use super::shared_calls::SharedCalls;
use super::waiters::Waiters;

/// How many cancelling calls are kept for a worker of the same process. If the worker misses calls, its next heartbeat
/// reports their jobs.
const CANCEL_CALLS_KEPT: usize = 64;

/// Receives the running jobs that this process has asked to cancel, call by call.
pub(crate) type CancelledHere = broadcast::Receiver<Arc<[(JobId, Fence)]>>;

/// A queue, for producers and operators.
///
/// Cheap to clone. Clones share up to `connection.pool_size` connections, which are opened when they are needed and
/// closed about a minute after their last use. While all are in use, further calls wait for up to
/// `connection.command_timeout_ms` and then fail with [`Error::NoFreeConnection`].
///
/// Calls may come from several tokio runtimes. A connection belongs to the runtime of the call that opened it, and is
/// replaced once that runtime has stopped. Idle connections are closed only while the runtime of their last use is
/// running; otherwise they stay until the next call. Each of these runtimes must keep running as long as it exists:
/// calls from other runtimes may use its connections, and a `current_thread` runtime outside `block_on` reads no
/// responses.
///
/// If jobs are enqueued through the same `Queue` that started an idle worker, or a clone of it, the worker starts them
/// immediately. Other workers notice within `worker.poll_max_ms`, and within about 20 ms if only one is idle in the
/// database.
///
/// Before its first call, a queue checks the version of the installed schema. If this release does not support it,
/// every call except [`connect`](Queue::connect), [`install`](crate::admin::Admin::install) and
/// [`uninstall`](crate::admin::Admin::uninstall) fails with [`Error::NotInstalled`], [`Error::SchemaTooOld`] or
/// [`Error::SchemaTooNew`].
///
/// ```no_run
/// use readpast::{Config, NewJob, Queue};
/// use readpast::admin::QueueOptions;
///
/// # async fn example() -> Result<(), readpast::Error> {
/// let config = Config::load(None)?; // READPAST_URL, READPAST_QUEUE, …
/// let queue = Queue::connect(&config).await?;
/// queue.admin().install().await?;
/// queue.admin().create(QueueOptions::default()).await?;
/// let enqueued = queue.enqueue(&NewJob::json(&["a", "b"])?).await?;
/// println!("job {}", enqueued.job_id);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Every method may be cancelled by dropping its future, and the queue remains usable. The connection of the call is
/// closed, and SQL Server rolls back uncommitted changes, but the call may have committed before. The same applies if
/// an error replaced the response ([`Error::TimedOut`], [`Error::ConnectionLost`]).
///
/// # Panics
///
/// Every `async` method panics outside a tokio runtime with I/O and time.
#[derive(Clone)]
pub struct Queue {
    pub(crate) name: Arc<str>,
    pub(crate) connector: Arc<Connector>,
    pub(super) sessions: SessionPool,
    /// Set once the installed schema is known to be supported by this release.
    checked: Arc<OnceCell<()>>,
    /// The settings of the queue's workers.
    worker_config: Arc<WorkerConfig>,
    kinds: Arc<BTreeMap<String, KindConfig>>,
    exporter: Option<Arc<Exporter>>,
    /// Changes when ready jobs were enqueued, so that the workers of this process claim immediately.
    pub(crate) enqueued: watch::Sender<()>,
    /// The running jobs to cancel, so that the workers of this process need not wait for their heartbeats.
    pub(crate) cancelled: broadcast::Sender<Arc<[(JobId, Fence)]>>,
    /// The callers in this process that wait for jobs to finish.
    pub(super) waiters: Arc<Waiters>,
    pub(super) shared_calls: Arc<SharedCalls>,
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
    /// Creates a queue from its settings and connects once, to check that it can. It does not check whether readpast is
    /// installed; [`verify`](crate::admin::Admin::verify) does. The queue's workers use the settings of
    /// `config.worker` and `config.kinds`.
    ///
    /// If `metrics.listen` is set, the queue's metrics are collected from this call on. They are served once a worker
    /// starts or [`serve_metrics`](Queue::serve_metrics) is called.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] and [`Error::ConnectionString`] for wrong settings; [`Error::Connect`], [`Error::Tls`],
    /// [`Error::Credentials`], [`Error::LoginFailed`], [`Error::Database`] and [`Error::TimedOut`] if it cannot
    /// connect.
    pub async fn connect(config: &Config) -> Result<Queue, Error> {
        let queue = Queue::new(config)?;
        queue.any_session().await?.ensure_connected().await?;
        Ok(queue)
    }

    pub(crate) fn new(config: &Config) -> Result<Queue, Error> {
        config.queue.validate()?;
        // Created before the connector, whose metrics go to the recorder that exists at that moment.
        let address = config.metrics.address()?;
        let exporter = address.map(|address| Arc::new(Exporter::new(address, config.metrics.port_in_use)));
        let connector = Arc::new(Connector::new(&config.connection, &config.queue.name)?);
        Ok(Queue {
            name: config.queue.name.as_str().into(),
            sessions: SessionPool::new(connector.clone(), config.connection.pool_size),
            connector,
            checked: Arc::default(),
            worker_config: Arc::new(config.worker.clone()),
            kinds: Arc::new(config.kinds.clone()),
            exporter,
            enqueued: watch::Sender::new(()),
            cancelled: broadcast::Sender::new(CANCEL_CALLS_KEPT),
            waiters: Arc::default(),
            shared_calls: Arc::default(),
        })
    }

    /// Same as [`connect`](Queue::connect), with default settings except for the connection string and the queue's
    /// name. Reads no environment variables.
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
    /// Same as [`connect`](Queue::connect).
    pub async fn from_url(url: impl Into<ConnectionString>, queue: &str) -> Result<Queue, Error> {
        let mut config = Config::default();
        config.queue.name = queue.to_string();
        config.connection.url = url.into();
        Queue::connect(&config).await
    }

    /// Returns another queue of the same schema, with the same settings and connections, for programs that use many
    /// queues. The queue need not exist yet. Opens no connection.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// for stats in queue.admin().all_stats(None).await? {
    ///     if stats.paused {
    ///         queue.named(&stats.queue)?.admin().resume().await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if `name` cannot be a queue's name.
    pub fn named(&self, name: &str) -> Result<Queue, Error> {
        QueueConfig { name: name.to_owned() }.validate()?;
        Ok(Queue {
            name: name.into(),
            connector: Arc::new(self.connector.for_queue(name)),
            enqueued: watch::Sender::new(()),
            cancelled: broadcast::Sender::new(CANCEL_CALLS_KEPT),
            waiters: Arc::default(),
            shared_calls: Arc::default(),
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

    /// Returns the address at which this process serves the queue's metrics, or `None` if it does not serve them. The
    /// port is the one that the system or `metrics.port_in_use` chose.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().and_then(|exporter| exporter.address())
    }

    /// Serves `/metrics`, `/healthz` and `/readyz` at the address `metrics.listen`, as long as this queue, a clone of
    /// it or one of its workers exists. A worker does this when it starts; this call is for a process that only
    /// enqueues. Calling it twice has no further effect.
    ///
    /// Returns the address, or `None` if `metrics.listen` is empty, or if another process uses the port and
    /// `metrics.port_in_use` is `warn`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the address is not this machine's, no port is free, or the program has installed a metrics
    /// recorder of its own.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, metrics may or may not be served.
    pub async fn serve_metrics(&self) -> Result<Option<SocketAddr>, Error> {
        match &self.exporter {
            Some(exporter) => exporter.listen().await,
            None => Ok(None),
        }
    }

    /// For tests: how long a connection of this queue, its clones and workers may be idle before it is replaced.
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

    /// The configured options of kinds.
    pub(crate) fn kinds(&self) -> &BTreeMap<String, KindConfig> {
        &self.kinds
    }

    pub(crate) fn connector(&self) -> Arc<Connector> {
        self.connector.clone()
    }

    /// Changes when jobs were enqueued through this queue or a clone of it.
    pub(crate) fn enqueued(&self) -> watch::Receiver<()> {
        self.enqueued.subscribe()
    }

    /// Returns a receiver for the cancellations through this queue or a clone of it.
    pub(crate) fn cancelled_here(&self) -> CancelledHere {
        self.cancelled.subscribe()
    }

    /// Makes the workers of this process claim immediately, because jobs have become ready.
    pub(crate) fn wake_workers(&self) {
        self.enqueued.send_replace(());
    }

    pub(super) fn wake_workers_for(&self, jobs: &[NewJob]) {
        if jobs.iter().any(|job| job.delay.is_none() && job.due_at.is_none()) {
            self.wake_workers();
        }
    }

    /// The time limit of a call.
    pub(super) fn command_timeout(&self) -> Duration {
        self.connector.timeouts().command
    }

    /// Lends a session without checking the installed schema. It may have no connection yet.
    pub(crate) async fn any_session(&self) -> Result<Lent, Error> {
        let limit = self.command_timeout();
        self.sessions.lend(tokio::time::Instant::now() + limit, limit).await
    }

    /// Lends a session for calls, after checking the installed schema's version.
    pub(crate) async fn session(&self) -> Result<Lent, Error> {
        let mut session = self.any_session().await?;
        self.check_version(&mut session).await?;
        Ok(session)
    }

    /// Checks, once, whether this release supports the installed schema.
    ///
    /// # Errors
    ///
    /// If it does not, or no schema is installed.
    pub(crate) async fn check_version(&self, session: &mut Session) -> Result<(), Error> {
        self.checked.get_or_try_init(|| session.check_version()).await?;
        Ok(())
    }
}
