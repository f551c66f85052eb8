//! [`Queue`]: its making, its clones and its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, slice};

use tokio::sync::{OnceCell, broadcast, watch};

use crate::config::connection_string::ConnectionString;
use crate::config::{Config, QueueConfig, WorkerConfig};
use crate::connection::{Connector, Lent, Pool, Session};
use crate::error::Error;
use crate::id::{BatchId, Enqueued, Fence, JobId};
use crate::job::{BatchRow, NewBatch, NewJob, SealedBatch, new_job};
use crate::metrics::Exporter;
use crate::procedures::producer::{JobEnd, enqueue};
use crate::procedures::worker::QueueSample;

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
    pub(super) sessions: Pool,
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
            sessions: Pool::new(connector.clone(), config.connection.pool_size),
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
    /// for stats in queue.admin().all_queues().await? {
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

    fn wake_workers(&self, jobs: &[NewJob]) {
        if jobs.iter().any(|job| job.delay.is_none() && job.due_at.is_none()) {
            self.enqueued.send_replace(());
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
    /// **Each chunk is a transaction of its own.** All or nothing is [`enqueue_in`](crate::transaction::enqueue_in).
    /// Each chunk has the time that [`enqueue`](Queue::enqueue) has for a job, and is repeated as a job is there: where
    /// SQL Server did not answer, only if every job of the chunk has a de-duplication key. An import that may be run
    /// again, without keys, is [`enqueue_part`](Queue::enqueue_part).
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
        new_job::check(jobs)?;
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
    /// What can be known depends on the queue's [`CompletionPolicy`](crate::admin::CompletionPolicy). With `annotate`
    /// and `archive` the end of a done job comes with its output, as long as the job is kept. **With `delete`, the
    /// default, a done job is [`JobEnd::Gone`]**: its output is not kept, and it looks like a job that was purged or
    /// has never been. A dead or cancelled job that is requeued runs again; this returns how it was when it was looked
    /// for.
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
    /// this queue, once, when all of them have ended, however they did
    /// ([`Job::batch_end`](crate::job::Job::batch_end)).
    ///
    /// [`NewJob::batch`] adds a job to it, and a job of the batch may add more when it is done
    /// ([`Output::enqueue`](crate::handler::Output::enqueue)). Once it is sealed ([`seal_batch`](Queue::seal_batch)),
    /// none can be added. A week after its end, SQL Server forgets the batch. One that is never sealed stays, and never
    /// ends.
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
    /// sealed; [`Error::Refused`] for a parent where the queue has
    /// [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce); [`Error::UnknownQueue`];
    /// [`Error::PermissionDenied`] without a producer's rights. After [`Error::TimedOut`] and [`Error::ConnectionLost`]
    /// there may be a batch that nobody knows of. It does no harm, unless it has a parent, which it keeps from ending:
    /// find it with [`batches`](crate::admin::Admin::batches), and cancel it.
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

    /// How deep the queue is, as sampled no longer than `max_age` ago; `None` while another process takes the first
    /// sample.
    pub(crate) async fn sample(&self, max_age: Duration) -> Result<Option<QueueSample>, Error> {
        self.session().await?.sample(&self.name, max_age).await
    }
}
