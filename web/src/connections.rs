//! Who asks SQL Server at once. The queue has eight connections; without shares, a few slow searches or operations would
//! hold them all, and the reading, which is for everybody, would come too late.
//!
//! | share | for |
//! |---|---|
//! | 3 | pages and what is done at once, one connection each |
//! | 2 | operations on many jobs, call by call |
//! | the rest, 3 | the reading: queues and workers side by side; counting all jobs; what the login may do |

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::failure::Failure;

const PAGES: usize = 3;
const OPERATIONS: usize = 2;

/// So many payloads or outputs are downloaded at once: each is in memory as a whole.
const DOWNLOADS: usize = 2;

/// A page waits so long for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The shares.
pub struct Connections {
    pages: Semaphore,
    operations: Semaphore,
    downloads: Arc<Semaphore>,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            pages: Semaphore::new(PAGES),
            operations: Semaphore::new(OPERATIONS),
            downloads: Arc::new(Semaphore::new(DOWNLOADS)),
        }
    }
}

impl Connections {
    /// For a page, one call after the other.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] where others take too long.
    pub async fn of_page(&self) -> Result<SemaphorePermit<'_>, Failure> {
        match tokio::time::timeout(PATIENCE, self.pages.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Failure::Busy("Others ask for what takes long; try again.".to_owned())),
        }
    }

    /// For a payload or output, until it is sent.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] while there are as many as may be.
    pub fn download(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let place = self.downloads.clone().try_acquire_owned();
        place.map_err(|_| Failure::Busy(format!("{DOWNLOADS} downloads are under way; try again when one is done.")))
    }

    /// For a call of an operation; it is its turn some time. (`None` does not happen: they are never closed.)
    pub async fn of_operation(&self) -> Option<SemaphorePermit<'_>> {
        self.operations.acquire().await.ok()
    }
}
