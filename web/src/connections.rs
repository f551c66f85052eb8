//! Divides the connections to SQL Server (eight by default) into shares. Without shares, a few slow searches or
//! operations would hold all connections and delay the reading that all browsers share.
//!
//! | share | for |
//! |---|---|
//! | 3 | pages and immediate actions, one connection each |
//! | 2 | operations on many jobs, call by call |
//! | the rest, 3 | the reading: queues and workers side by side; counting all jobs; what the login may do |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::failure::Failure;

const PAGES: usize = 3;
const OPERATIONS: usize = 2;

/// How many downloads may run at the same time. Each holds its bytes in memory.
const DOWNLOADS: usize = 2;

/// How many live views may be open at the same time. Each occupies a browser connection.
const STREAMS: usize = 256;

/// Live views of one session, or of one user named by a proxy.
const STREAMS_OF_ONE: usize = 16;

/// How long a page waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The shares of the connections, and the limits of downloads and live views.
pub struct Connections {
    pages: Semaphore,
    operations: Semaphore,
    downloads: Arc<Semaphore>,
    streams: Arc<Streams>,
}

#[derive(Default)]
struct Streams {
    /// Live views per session or user.
    by_whom: Mutex<HashMap<String, usize>>,
}

/// A live view; dropping it frees its place.
pub struct Stream {
    streams: Arc<Streams>,
    whom: String,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut by_whom = self.streams.by_whom.lock();
        if let Some(count) = by_whom.get_mut(&self.whom) {
            *count -= 1;
            if *count == 0 {
                by_whom.remove(&self.whom);
            }
        }
    }
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            pages: Semaphore::new(PAGES),
            operations: Semaphore::new(OPERATIONS),
            downloads: Arc::new(Semaphore::new(DOWNLOADS)),
            streams: Arc::default(),
        }
    }
}

impl Connections {
    /// Waits for the share of a page, which makes its calls one after the other.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] after the wait.
    pub async fn of_page(&self) -> Result<SemaphorePermit<'_>, Failure> {
        match tokio::time::timeout(PATIENCE, self.pages.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Failure::Busy("Too many slow requests are running. Try again.".to_owned())),
        }
    }

    /// A place for a download, until it is sent.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] if none is free.
    pub fn download(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let place = self.downloads.clone().try_acquire_owned();
        place.map_err(|_| {
            Failure::Busy(format!("{DOWNLOADS} downloads are in progress. Try again when one has finished."))
        })
    }

    /// A place for a live view. `whom` is the session or the user; `None` if visitors cannot be told apart.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] if none is free.
    pub fn stream(&self, whom: Option<&str>) -> Result<Stream, Failure> {
        let mut by_whom = self.streams.by_whom.lock();
        if by_whom.values().sum::<usize>() >= STREAMS {
            return Err(Failure::Busy(format!(
                "All {STREAMS} live views are in use. Try again when a page has been closed."
            )));
        }
        let count = by_whom.entry(whom.unwrap_or_default().to_owned()).or_default();
        if whom.is_some() && *count >= STREAMS_OF_ONE {
            return Err(Failure::Busy(format!("You already have {STREAMS_OF_ONE} live views open. Close one.")));
        }
        *count += 1;
        Ok(Stream { streams: self.streams.clone(), whom: whom.unwrap_or_default().to_owned() })
    }

    /// A share for one call of an operation. Waits as long as necessary. (`None` does not happen: the semaphore is
    /// never closed.)
    pub async fn of_operation(&self) -> Option<SemaphorePermit<'_>> {
        self.operations.acquire().await.ok()
    }
}
