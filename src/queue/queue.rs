//! [`Queue`]: its making, its clones and its connections.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, broadcast, watch};

use crate::config::connection_string::ConnectionString;
use crate::config::{Config, QueueConfig, WorkerConfig};
use crate::connection::{Connector, Lent, Session, SessionPool};
use crate::error::Error;
use crate::id::{Fence, JobId};
use crate::job::NewJob;
use crate::metrics::Exporter;

use super::waiters::Waiters;

/// How many calls that cancelled running jobs a worker of the same process may be behind; what it misses, its next
/// heartbeat says.
const CANCEL_CALLS_KEPT: usize = 64;

/// Running jobs that this process has asked to cancel, call by call.
pub(crate) type CancelledHere = broadcast::Receiver<Arc<[(JobId, Fence)]>>;

/// A queue, for producers and operators.
///
/// Cheap to clone. Clones share up to `connection.pool_size` connections, which are made when they are needed, and closed about a minute
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
/// [`connect`](Queue::connect), [`install`](crate::admin::Admin::install) and
/// [`uninstall`](crate::admin::Admin::uninstall) fails with [`Error::NotInstalled`], [`Error::SchemaTooOld`] or
/// [`Error::SchemaTooNew`] where it is not one that this release works with.
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
/// Every method may be cancelled by dropping its future, and the queue can be used as before. The connection of the
/// call is closed, and SQL Server undoes what was not committed; what was asked for may have happened all the same. It
/// is the same after an error that came in place of an answer ([`Error::TimedOut`], [`Error::ConnectionLost`]).
///
/// # Panics
///
/// Every `async` method panics where there is no tokio runtime with I/O and time.
#[derive(Clone)]
pub struct Queue {
    pub(crate) name: Arc<str>,
    pub(crate) connector: Arc<Connector>,
    pub(super) sessions: SessionPool,
    /// Whether the installed schema is one that this release works with has been asked.
    checked: Arc<OnceCell<()>>,
    /// What a worker of the queue starts with.
    worker_config: Arc<WorkerConfig>,
    exporter: Option<Arc<Exporter>>,
    /// Changes when jobs were enqueued that are ready at once: the workers of this process need not wait until they
    /// notice.
    pub(crate) enqueued: watch::Sender<()>,
    /// Running jobs that were asked to be cancelled: the workers of this process need not wait for their heartbeats.
    pub(crate) cancelled: broadcast::Sender<Arc<[(JobId, Fence)]>>,
    /// Those of this process that wait for jobs to end.
    pub(super) waiters: Arc<Waiters>,
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
    /// installed there; [`verify`](crate::admin::Admin::verify) does. Workers of the queue start with the settings of
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

    pub(crate) fn new(config: &Config) -> Result<Queue, Error> {
        config.queue.validate()?;
        // Before the connector, whose metrics go to the recorder that is there when it is made.
        let address = config.metrics.address()?;
        let exporter = address.map(|address| Arc::new(Exporter::new(address, config.metrics.port_in_use)));
        let connector = Arc::new(Connector::new(&config.connection, &config.queue.name)?);
        Ok(Queue {
            name: config.queue.name.as_str().into(),
            sessions: SessionPool::new(connector.clone(), config.connection.pool_size),
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

    /// Lets the workers of this process claim at once, because jobs have become ready.
    pub(crate) fn wake_workers(&self) {
        self.enqueued.send_replace(());
    }

    pub(super) fn wake_workers_for(&self, jobs: &[NewJob]) {
        if jobs.iter().any(|job| job.delay.is_none() && job.due_at.is_none()) {
            self.wake_workers();
        }
    }

    /// How long one call may take.
    pub(super) fn command_timeout(&self) -> Duration {
        self.connector.timeouts().command
    }

    /// A session, which may have no connection yet and whose server nothing may be installed on.
    pub(crate) async fn any_session(&self) -> Result<Lent, Error> {
        let limit = self.command_timeout();
        self.sessions.lend(tokio::time::Instant::now() + limit, limit).await
    }

    /// A session for calls; before the first of them, the installed schema's version is asked.
    pub(crate) async fn session(&self) -> Result<Lent, Error> {
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
}
