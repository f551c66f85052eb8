//! The thread on which a worker talks to SQL Server. It has a runtime of its own, so that the program's use of its
//! runtime cannot delay heartbeats and finish calls.

use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::dispatcher::{self, Dispatch};
use tracing::subscriber::NoSubscriber;

use crate::error::Error;
use crate::handler::panic_message;

/// The thread; it exits when this value is dropped.
pub(super) struct IoThread {
    runtime: Handle,
    _ends: oneshot::Sender<()>,
}

impl IoThread {
    /// Starts the thread and its runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] if the operating system cannot create the thread.
    pub(super) fn start() -> Result<IoThread, Error> {
        let refused = |error: std::io::Error| Error::Threads { message: error.to_string() };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        // A subscriber of the calling thread applies to the new thread, too. (The global one may not be set yet.)
        let subscriber = dispatcher::get_default(Dispatch::clone);
        let run = move || {
            let _subscribed = (!subscriber.is::<NoSubscriber>()).then(|| dispatcher::set_default(&subscriber));
            let _ = runtime.block_on(ended); // returns when the sender is dropped
        };
        thread::Builder::new().name("readpast-io".to_owned()).spawn(run).map_err(refused)?;
        Ok(IoThread { runtime: handle, _ends: ends })
    }

    /// The runtime for the worker's tasks.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

/// Runs a future on the thread and waits for it.
///
/// # Errors
///
/// The future's own error, or [`Error::Panicked`] if it panics.
///
/// # Cancel safety
///
/// Dropping this future drops `future`.
pub(super) async fn wait_for<T: Send + 'static>(
    future: impl Future<Output = Result<T, Error>> + Send + 'static,
    runtime: &Handle,
) -> Result<T, Error> {
    let mut task = JoinSet::new();
    task.spawn_on(future, runtime);
    match task.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) if error.is_panic() => {
            Err(Error::Panicked { message: panic_message(&*error.into_panic()).to_owned() })
        }
        _ => Err(Error::Panicked { message: "the worker's thread has exited".to_owned() }),
    }
}
