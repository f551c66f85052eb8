//! The largest amount of each resource that any worker of the queue has had, for the error of a job that needs more than
//! this worker has.

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::connection::Session;
use crate::error::Error;
use crate::job::Needs;

#[derive(Default)]
pub(in crate::worker) struct MostResources {
    last_read: Mutex<Option<Needs>>,
    request: Notify,
}

impl MostResources {
    pub(in crate::worker) fn request(&self) {
        self.request.notify_one();
    }

    /// Waits for a request since the last wait.
    pub(in crate::worker) async fn requested(&self) {
        self.request.notified().await;
    }

    pub(in crate::worker) async fn read(&self, queue: &str, session: &mut Session) -> Result<(), Error> {
        let most = session.most_resources(queue).await?;
        *self.last_read.lock() = Some(most);
        Ok(())
    }

    pub(in crate::worker) fn last_read(&self) -> Option<Needs> {
        self.last_read.lock().clone()
    }
}
