//! How a worker is made.

use std::fmt;
use std::sync::Arc;

use tracing::Instrument;

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::handler::Handlers;
use crate::queue::Queue;

use super::Worker;
use super::shared::Shared;

/// A worker that has not started. Made by [`Worker::builder`].
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder {
    queue: Queue,
    handlers: Handlers,
    config: WorkerConfig,
}

impl Worker {
    /// A worker for `queue` that runs its jobs with `handlers`.
    ///
    /// The handlers run on `worker.threads` threads at once. A handler may block its thread and use rayon inside, but must hold no lock and no
    /// `RefCell` borrow across a rayon call: the thread that waits in it may run another job meanwhile, which would wait for that lock for ever.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), readpast::Error> {
    /// use readpast::{Config, Handlers, Json, Queue, Worker};
    ///
    /// let config = Config::load(None)?;
    /// let queue = Queue::connect(&config).await?;
    /// let handlers = Handlers::any(|job, _context| {
    ///     let number: u64 = job.json()?;
    ///     Ok(Json(number.count_ones()))
    /// });
    /// let worker = Worker::builder(&queue, handlers).config(&config.worker).start().await?;
    /// worker.stop_handle().stop_on_signals().expect("signals can be listened to");
    /// let summary = worker.run().await?;
    /// println!("{} jobs done", summary.stats.done);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(queue: &Queue, handlers: Handlers) -> WorkerBuilder {
        WorkerBuilder { queue: queue.clone(), handlers, config: WorkerConfig::default() }
    }
}

impl WorkerBuilder {
    /// The settings, normally [`Config::worker`](crate::Config). Without them, each has its default.
    pub fn config(mut self, config: &WorkerConfig) -> WorkerBuilder {
        self.config = config.clone();
        self
    }

    /// Registers the worker and starts claiming.
    ///
    /// # Errors
    ///
    /// Settings and handlers that cannot work ([`Error::Config`]), and whatever keeps the worker from connecting and registering; nothing is
    /// retried here, so that a wrong setting is seen at once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind but, possibly, a registration without jobs, whose lease runs out.
    pub async fn start(self) -> Result<Worker, Error> {
        let WorkerBuilder { queue, handlers, config } = self;
        config.validate()?;
        config.check_timeouts(queue.connector().timeouts())?;
        let handlers = handlers.checked(&config)?;
        let span = tracing::info_span!("worker", queue = queue.name(), worker = %config.worker_name());
        let shared = Arc::new(Shared::new(&queue, config));
        Worker::start_in(queue, shared, handlers, span.clone()).instrument(span).await
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerBuilder { queue, handlers, config } = self;
        let queue = queue.name();
        f.debug_struct("WorkerBuilder")
            .field("queue", &queue)
            .field("handlers", handlers)
            .field("config", config)
            .finish()
    }
}
