//! Building a worker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::config::{WorkerConfig, check_kinds, check_range, refused};
use crate::error::Error;
use crate::handler::Handlers;
use crate::job::{Job, Needs, Outcome};
use crate::queue::Queue;
use crate::worker::run::{DroppedElsewhere, FairPool, HandlersAndHooks, Hooks, StartThreads, named_threads};
use crate::worker::state::{MachineMemory, WorkerState, resources};

use super::io_thread;
use super::io_thread::IoThread;
use super::worker::Worker;

/// The smallest stack that rayon and a handler can use: a job that does nothing overflowed a smaller one.
const LEAST_STACK: usize = 256 * 1024;

/// A worker that has not been started. Created by [`Worker::builder`].
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder {
    queue: Queue,
    code: DroppedElsewhere<HandlersAndHooks>,
    config: WorkerConfig,
    thread_pool: Option<Arc<rayon::ThreadPool>>,
    weight: u32,
    stack_size: Option<usize>,
    start_threads: Option<StartThreads>,
}

impl Worker {
    /// Creates a builder for a worker of `queue` that runs its jobs with `handlers`. The settings are those of section
    /// `worker` of the [`Config`](crate::config::Config) with which the queue was connected.
    ///
    /// The handlers run on `worker.threads` threads. A handler may block its thread and use rayon, but must hold no
    /// lock and no `RefCell` borrow across a rayon call. While the thread waits in such a call, it may run another job,
    /// which would deadlock on that lock.
    ///
    /// When the worker has stopped and no jobs are running, the handlers are dropped on a thread of their own.
    /// They may own values that must not be dropped in async code, such as a tokio runtime.
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
    /// let worker = Worker::builder(&queue, handlers).start().await?;
    /// worker.stop_handle().stop_on_signals().expect("signals can be listened to");
    /// let summary = worker.run().await?;
    /// println!("{} jobs done", summary.stats.done);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(queue: &Queue, handlers: Handlers) -> WorkerBuilder {
        WorkerBuilder {
            queue: queue.clone(),
            code: DroppedElsewhere::new(HandlersAndHooks { handlers, hooks: Hooks::default() }),
            config: queue.worker_config().clone(),
            thread_pool: None,
            weight: 1,
            stack_size: None,
            start_threads: None,
        }
    }
}

impl WorkerBuilder {
    /// Replaces all settings of section `worker` with which the queue was [connected](Queue::connect), for example to
    /// run two different workers of one queue.
    pub fn config(mut self, config: &WorkerConfig) -> WorkerBuilder {
        self.config = config.clone();
        self
    }

    /// Sets `worker.name`: the worker's name in the list of workers and in error messages.
    pub fn name(mut self, name: &str) -> WorkerBuilder {
        self.config.name = name.to_owned();
        self
    }

    /// Sets `worker.threads`: how many jobs run at the same time. 0: one per core.
    pub fn threads(mut self, threads: usize) -> WorkerBuilder {
        self.config.threads = threads;
        self
    }

    /// Sets `worker.take_over`: whether to take the jobs of an earlier worker of the same name immediately.
    pub fn take_over(mut self, take_over: bool) -> WorkerBuilder {
        self.config.take_over = take_over;
        self
    }

    /// Runs the jobs on these threads instead of a pool of the worker's own; `worker.threads` then has no effect.
    /// Workers can share a pool. While each has jobs, the threads' time is divided in proportion to their
    /// [`weight`](Self::weight)s, however long their jobs are. Jobs are not interrupted, so a worker may have to wait
    /// until running jobs finish. It then gets the next free thread.
    ///
    /// ```no_run
    /// # async fn example(handlers: readpast::Handlers, more: readpast::Handlers)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    ///
    /// use readpast::{Queue, Worker};
    ///
    /// let threads = Arc::new(rayon::ThreadPoolBuilder::new().build()?);
    /// let urgent = Queue::from_url(std::env::var("READPAST_URL")?, "urgent").await?;
    /// let nightly = Queue::from_url(std::env::var("READPAST_URL")?, "nightly").await?;
    /// // Urgent jobs get three quarters of the threads' time, or all of it while the other queue is idle:
    /// let urgent = Worker::builder(&urgent, handlers).thread_pool(threads.clone()).weight(3).start().await?;
    /// let nightly = Worker::builder(&nightly, more).thread_pool(threads).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn thread_pool(mut self, threads: Arc<rayon::ThreadPool>) -> WorkerBuilder {
        self.thread_pool = Some(threads);
        self
    }

    /// Sets the worker's share of a shared pool, in proportion to the other workers' weights: 1 to 1,000. Default: 1.
    /// [`start`](Self::start) rejects other values.
    pub fn weight(mut self, weight: u32) -> WorkerBuilder {
        self.weight = weight;
        self
    }

    /// Sets the stack size of the worker's own threads in bytes, at least 256 KiB. Default: 2 MiB, or `RUST_MIN_STACK`.
    /// [`start`](Self::start) rejects smaller values. It also rejects any value together with
    /// [`thread_pool`](Self::thread_pool), because the pool's threads already have a size.
    pub fn stack_size(mut self, bytes: usize) -> WorkerBuilder {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets the function that starts the worker's own threads, for example to set their priority. It is passed the number
    /// of threads. It is called when the worker starts, and again when an operator changes how many jobs run at once
    /// ([`Wish::Threads`](crate::admin::Wish::Threads)); the earlier threads end after their last job. This second call
    /// runs on the worker's own thread, so the function must not block. [`start`](Self::start) rejects it together with
    /// [`thread_pool`](Self::thread_pool) or
    /// [`stack_size`](Self::stack_size).
    pub fn start_threads_with(
        mut self,
        start: impl Fn(usize) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> + Send + Sync + 'static,
    ) -> WorkerBuilder {
        self.start_threads = Some(Arc::new(start));
        self
    }

    /// Sets a hook that is called on the job's thread before each run. A panic of the hook stops the worker.
    pub fn on_start(mut self, hook: impl Fn(&Job) + Send + Sync + 'static) -> WorkerBuilder {
        self.code.hooks.on_start = Some(Box::new(hook));
        self
    }

    /// Sets a hook that is called on the job's thread after each run, with the outcome to be reported and the handler's
    /// run time. A panic of the hook stops the worker.
    ///
    /// ```no_run
    /// # fn example(queue: &readpast::Queue, handlers: readpast::Handlers) -> readpast::WorkerBuilder {
    /// use readpast::{Outcome, Worker};
    ///
    /// Worker::builder(queue, handlers).on_end(|job, outcome, run| {
    ///     if let Outcome::Retry { error, .. } = outcome {
    ///         eprintln!("job {} failed after {run:?}: {error}", job.id());
    ///     }
    /// })
    /// # }
    /// ```
    pub fn on_end(mut self, hook: impl Fn(&Job, &Outcome, Duration) + Send + Sync + 'static) -> WorkerBuilder {
        self.code.hooks.on_end = Some(Box::new(hook));
        self
    }

    /// Sets a hook that is called with true when an operator asks the worker for debug messages
    /// ([`Wish::Debug`](crate::admin::Wish::Debug)), and with false when their time is over, at the heartbeat
    /// after that. The program can then change the level of its log. The hook is called on the worker's own thread and
    /// must not block; a panic of the hook stops the worker.
    pub fn on_debug(mut self, hook: impl Fn(bool) + Send + Sync + 'static) -> WorkerBuilder {
        self.code.hooks.on_debug = Some(Box::new(hook));
        self
    }

    /// What the worker has for jobs: threads; memory in bytes, unless it is unlimited; and tokens.
    #[doc(hidden)]
    pub fn resources(&self) -> Needs {
        let threads =
            self.thread_pool.as_ref().map_or_else(|| own_threads(&self.config), |pool| pool.current_num_threads());
        resources(&self.config.resources, MachineMemory::of_this_process().usable(), threads)
    }

    /// How many bytes of memory the machine and the control groups of this process have free, if the system tells.
    #[doc(hidden)]
    pub fn free_memory() -> Option<u64> {
        MachineMemory::of_this_process().free()
    }

    /// Registers the worker and starts claiming. The worker talks to SQL Server on a thread of its own, so that the
    /// program's use of its runtime cannot delay the renewal of the lease.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for settings or handlers that cannot work, and any error of connecting or registering. Nothing
    /// is retried, so that a wrong setting is noticed immediately.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, at most a registration without jobs remains, whose lease expires.
    pub async fn start(self) -> Result<Worker, Error> {
        let WorkerBuilder { queue, mut code, mut config, thread_pool, weight, stack_size, start_threads } = self;
        config.validate()?;
        config.check_timeouts(queue.connector().timeouts())?;
        check_range("weight", weight, 1..=1_000)?;
        check_kinds(queue.kinds())?;
        code.handlers.complete(queue.kinds());
        code.handlers.check(&config)?;
        // If a batch could never be full, each call would wait for more jobs.
        for jobs in [&mut config.batch_size, &mut config.buffer, &mut config.finish_batch_size] {
            *jobs = (*jobs).min(config.max_in_flight);
        }
        let pool = match (thread_pool, stack_size, start_threads) {
            (Some(threads), None, None) => FairPool::shared(threads),
            (None, None, start) => FairPool::own(own_threads(&config), start)?,
            (None, Some(bytes), None) if bytes >= LEAST_STACK => {
                let start = move |threads| named_threads(threads).stack_size(bytes).build();
                FairPool::own(own_threads(&config), Some(Arc::new(start)))?
            }
            (None, Some(bytes), None) => {
                return Err(refused("stack_size", bytes, format_args!("at least {LEAST_STACK} (256 KiB)")));
            }
            (_, Some(bytes), _) => {
                let allowed = "unset if thread_pool or start_threads_with is set";
                return Err(refused("stack_size", bytes, allowed));
            }
            (Some(_), None, Some(_)) => {
                return Err(refused("start_threads_with", "set", "unset if thread_pool is set"));
            }
        };
        let span = tracing::info_span!("worker", queue = queue.name(), worker = %config.worker_name());
        let state = Arc::new(WorkerState::new(&queue, config, pool.threads(), weight));
        let min_free = state.config.resources.min_free_memory;
        if !min_free.is_zero() && state.memory.free().is_none() {
            let allowed = "0 on this system, which does not tell how much memory is free";
            return Err(refused("worker.resources.min_free_memory", min_free, allowed));
        }
        if state.learned.is_some() && state.memory_for_jobs().is_none() {
            let allowed = "false on this system, unless worker.resources.memory is a size";
            return Err(refused("worker.resources.learn_memory", true, allowed));
        }
        queue.serve_metrics().await?;
        let io = IoThread::start()?;
        let runtime = io.runtime().clone();
        let starting = Worker::start_in(queue, state, pool, code, io).instrument(span);
        io_thread::wait_for(starting, &runtime).await
    }
}

/// The configured number, or one thread per core.
fn own_threads(config: &WorkerConfig) -> usize {
    match config.threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerBuilder { queue, code, config, thread_pool, weight, stack_size, start_threads } = self;
        f.debug_struct("WorkerBuilder")
            .field("queue", &queue.name())
            .field("handlers", &code.handlers)
            .field("config", config)
            .field("thread_pool", &thread_pool.as_ref().map(|threads| threads.current_num_threads()))
            .field("weight", weight)
            .field("stack_size", stack_size)
            .field("start_threads", &start_threads.is_some())
            .field("hooks", &code.hooks)
            .finish()
    }
}
