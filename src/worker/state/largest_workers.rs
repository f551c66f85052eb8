//! What the queue's workers have at most of each resource, for the error of a job that needs more than this worker has.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::connection::Session;
use crate::job::Needs;
use crate::procedures::worker::MOST_RESOURCES;
use crate::time::jittered;

use super::outage_log::OutageLog;

/// The shortest interval between two reads, about.
const EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(in crate::worker) struct LargestWorkers {
    most: Mutex<Option<Needs>>,
    wanted: Notify,
}

impl LargestWorkers {
    /// Returns what was last read, and requests that it be read again.
    pub(in crate::worker) fn most(&self) -> Option<Needs> {
        self.wanted.notify_one();
        self.most.lock().clone()
    }

    /// Reads it whenever it is requested, until the future is dropped. The connection is closed after each read.
    pub(in crate::worker) async fn keep_reading(&self, queue: &str, mut session: Session, outage: &OutageLog) {
        loop {
            self.wanted.notified().await;
            match session.most_resources(queue).await {
                Ok(most) => *self.most.lock() = Some(most),
                Err(error) if outage.tells_of_one(MOST_RESOURCES, &error) => {}
                Err(error) => tracing::warn!(%error, "could not read what the largest workers have"),
            }
            session.disconnect();
            tokio::time::sleep(jittered(EVERY)).await;
        }
    }
}
