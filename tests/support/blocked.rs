//! A worker with one thread over ten jobs, each of which waits for a permit: one runs, nine wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use readpast::config::WorkerConfig;
use readpast::{Handlers, Queue, Worker};
use tokio::sync::Semaphore;

use super::{Fixture, changed, numbers, until};

pub struct BlockedWorker {
    pub worker: Worker,
    /// A permit for each job that may end.
    pub gate: Arc<Semaphore>,
    /// How many jobs have started.
    pub starts: Arc<AtomicU32>,
}

/// Enqueues the ten jobs and starts the worker on `queue`, which is the fixture's or another way to it; returns when
/// one job runs and nine wait.
pub async fn blocked_worker(fixture: &Fixture, queue: &Queue, config: WorkerConfig) -> BlockedWorker {
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let starts = Arc::new(AtomicU32::new(0));
    let (handler_gate, counted) = (gate.clone(), starts.clone());
    let runtime = tokio::runtime::Handle::current();
    let config = changed(config, |worker| {
        worker.threads = 1;
        worker.buffer = 20;
    });
    let handlers = Handlers::any(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(handler_gate.acquire()).unwrap().forget();
        Ok(())
    });
    let worker = Worker::builder(queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("one job runs and nine wait", || monitor.stats().running == 1 && monitor.stats().buffered == 9).await;
    BlockedWorker { worker, gate, starts }
}
