//! Who asks SQL Server at once. The queue has eight connections by default; without shares, a few slow searches or operations
//! would hold them all, and the reading, which is for everybody, would come too late.
//!
//! | share | for |
//! |---|---|
//! | 3 | pages and what is done at once, one connection each |
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

/// So many payloads or outputs are downloaded at once: each is in memory as a whole.
const DOWNLOADS: usize = 2;

/// The most live parts at a time: each takes a browser connection for as long as somebody watches.
const STREAMS: usize = 256;

/// The most live parts of one session, or of one user whom a proxy names.
const STREAMS_OF_ONE: usize = 16;

/// A page waits so long for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The shares.
pub struct Connections {
    pages: Semaphore,
    operations: Semaphore,
    downloads: Arc<Semaphore>,
    streams: Arc<Streams>,
}

/// The live parts that are sent.
#[derive(Default)]
struct Streams {
    /// By whom they are for.
    by_whom: Mutex<HashMap<String, usize>>,
}

/// A live part that is sent, as long as this is there.
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

    /// For a live part, until it ends. `whom`: the session or the user that it is for; `None`: visitors cannot be told
    /// apart.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] while there are as many as may be.
    pub fn stream(&self, whom: Option<&str>) -> Result<Stream, Failure> {
        let mut by_whom = self.streams.by_whom.lock();
        if by_whom.values().sum::<usize>() >= STREAMS {
            return Err(Failure::Busy(format!("{STREAMS} live parts are sent; try again when a page is closed.")));
        }
        let count = by_whom.entry(whom.unwrap_or_default().to_owned()).or_default();
        if whom.is_some() && *count >= STREAMS_OF_ONE {
            return Err(Failure::Busy(format!("You look at {STREAMS_OF_ONE} live parts already: close a page.")));
        }
        *count += 1;
        Ok(Stream { streams: self.streams.clone(), whom: whom.unwrap_or_default().to_owned() })
    }

    /// For a call of an operation; it is its turn some time. (`None` does not happen: they are never closed.)
    pub async fn of_operation(&self) -> Option<SemaphorePermit<'_>> {
        self.operations.acquire().await.ok()
    }
}
