//! The thread on which a worker speaks with SQL Server: a runtime of its own, so that nothing the program does with its
//! runtime keeps the lease from being renewed and results from being acknowledged.

use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::dispatcher::{self, Dispatch};
use tracing::subscriber::NoSubscriber;

use crate::error::Error;
use crate::handler::panic_message;

/// The thread; it ends when this is dropped.
pub(super) struct IoThread {
    runtime: Handle,
    _ends: oneshot::Sender<()>,
}

impl IoThread {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] when the operating system gives no thread.
    pub(super) fn start() -> Result<IoThread, Error> {
        let refused = |error: std::io::Error| Error::Threads { message: error.to_string() };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        // A subscriber of this thread alone is that one's, too. (The global one need not be there yet.)
        let subscriber = dispatcher::get_default(Dispatch::clone);
        let run = move || {
            let _subscribed = (!subscriber.is::<NoSubscriber>()).then(|| dispatcher::set_default(&subscriber));
            let _ = runtime.block_on(ended); // nothing is ever sent: it ends when the sender is dropped
        };
        thread::Builder::new().name("readpast-io".to_owned()).spawn(run).map_err(refused)?;
        Ok(IoThread { runtime: handle, _ends: ends })
    }

    /// Where its tasks are spawned.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

/// Runs a future on the thread and waits for its end.
///
/// # Errors
///
/// Its own, and [`Error::Panicked`].
///
/// # Cancel safety
///
/// Dropping the future drops the one that it waits for.
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
        _ => Err(Error::Panicked { message: "the worker's thread has ended".to_owned() }),
    }
}
