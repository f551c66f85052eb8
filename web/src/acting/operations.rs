//! The operations of this process and their progress. If the process exits, the completed changes stay, and the
//! remaining jobs are not changed.
//!
//! Each operation holds a receiver of [`Operations::under_way`] until its outcome is audited, so the shutdown can wait
//! for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::failure::Failure;
use crate::fields::Fields;

/// Operations kept for display. The oldest finished ones are dropped first.
const KEPT: usize = 200;

/// Operations that run at the same time; further ones are rejected.
const RUNNING: usize = 20;

/// How long the shutdown waits for operations. A call for 1,000 jobs normally takes less than a second.
const LAST: Duration = Duration::from_secs(10);

/// All operations of this process.
pub struct Operations {
    last: AtomicU64,
    kept: Mutex<VecDeque<Arc<Operation>>>,
    places: Arc<Semaphore>,
    under_way: watch::Sender<()>,
    page_ended: Arc<AtomicBool>,
}

/// A running operation; dropping it ends it.
pub struct Running {
    pub operation: Arc<Operation>,
    _place: OwnedSemaphorePermit,
    _under_way: watch::Receiver<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.operation.note(|progress| {
            progress.end.get_or_insert_with(|| End::Failed("an internal error; see the log for details".to_owned()));
        });
    }
}

pub struct Operation {
    pub id: u64,
    pub queue: String,
    /// The visitor who stopped the operation.
    stopped_by: OnceLock<String>,
    page_ended: Arc<AtomicBool>,
    progress: watch::Sender<Progress>,
}

impl Operation {
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Updates the progress.
    pub fn note(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }

    /// Stops the operation after its current call. The first caller is recorded.
    pub fn stop(&self, who: &str) {
        let _ = self.stopped_by.set(who.to_owned());
    }

    /// Why the operation must stop; `None`: it continues.
    pub fn stopped(&self) -> Option<End> {
        if let Some(who) = self.stopped_by.get() {
            return Some(End::Stopped(who.clone()));
        }
        self.page_ended.load(Ordering::Acquire).then_some(End::PageEnded)
    }

    fn has_ended(&self) -> bool {
        self.progress.borrow().end.is_some()
    }
}

impl Default for Operations {
    fn default() -> Operations {
        Operations {
            last: AtomicU64::new(0),
            kept: Mutex::default(),
            places: Arc::new(Semaphore::new(RUNNING)),
            under_way: watch::Sender::new(()),
            page_ended: Arc::default(),
        }
    }
}

impl Operations {
    /// Adds an operation, which ends when the returned guard is dropped.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] if [`RUNNING`] operations run, or during the shutdown.
    pub fn add(&self, queue: &str, progress: Progress) -> Result<Running, Failure> {
        if self.page_ended.load(Ordering::Acquire) {
            return Err(Failure::Busy("The web UI is stopping.".to_owned()));
        }
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| {
            Failure::Busy(format!("{RUNNING} operations are running. Wait until one has finished, or stop one."))
        })?;
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let operation = Arc::new(Operation {
            id,
            queue: queue.to_owned(),
            stopped_by: OnceLock::new(),
            page_ended: self.page_ended.clone(),
            progress: watch::Sender::new(progress),
        });
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT
            && let Some(oldest) = kept.iter().position(|operation| operation.has_ended())
        {
            kept.remove(oldest);
        }
        kept.push_back(operation.clone());
        Ok(Running { operation, _place: place, _under_way: self.under_way() })
    }

    /// A guard for the duration of an action.
    pub fn under_way(&self) -> watch::Receiver<()> {
        self.under_way.subscribe()
    }

    /// Shutdown: starts nothing new, and stops running operations.
    pub fn end(&self) {
        self.page_ended.store(true, Ordering::Release);
    }

    /// Waits until all actions have been audited, at most [`LAST`].
    pub async fn ended(&self) {
        if tokio::time::timeout(LAST, self.under_way.closed()).await.is_err() {
            tracing::warn!("the web UI stops during an operation; its audit entry has no outcome");
        }
    }

    /// The operation that a request names.
    pub fn get(&self, fields: &Fields) -> Result<Arc<Operation>, Failure> {
        let id: Option<u64> = fields.parsed("id")?;
        let known = self.kept.lock().iter().find(|operation| Some(operation.id) == id).cloned();
        known.ok_or_else(|| {
            Failure::NotFound("This operation finished long ago, or the web UI has been restarted since.".to_owned())
        })
    }
}

#[derive(Debug, Clone)]
pub struct Progress {
    /// "requeued", "cancelled", …
    pub past: &'static str,
    /// The jobs in words.
    pub words: String,
    pub looked_at: u64,
    pub changed: u64,
    /// How the operation ended, or `None` while it is running.
    pub end: Option<End>,
}

#[derive(Debug, Clone)]
pub enum End {
    Done,
    /// This visitor stopped it.
    Stopped(String),
    /// The web UI was shut down.
    PageEnded,
    Failed(String),
}

impl Progress {
    pub fn begin(past: &'static str, words: String) -> Progress {
        Progress { past, words, looked_at: 0, changed: 0, end: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(operations: &Operations) -> Result<Running, Failure> {
        operations.add("work", Progress::begin("requeued", "dead jobs".to_owned()))
    }

    #[test]
    fn one_that_runs_is_kept_however_many_have_ended_since() {
        let operations = Operations::default();
        let running = begin(&operations).unwrap();
        for _ in 0..2 * KEPT {
            begin(&operations).unwrap();
        }
        assert_eq!(operations.kept.lock().len(), KEPT);
        let fields = Fields::read(format!("id={}", running.operation.id).as_bytes());
        assert!(operations.get(&fields).unwrap().progress().borrow().end.is_none());
    }

    #[test]
    fn too_many_at_once_are_refused_and_one_that_breaks_off_makes_room() {
        let operations = Operations::default();
        let mut running: Vec<Running> = (0..RUNNING).map(|_| begin(&operations).unwrap()).collect();
        assert!(matches!(begin(&operations), Err(Failure::Busy(_))));
        let broken = running.remove(0).operation.clone();
        assert!(matches!(broken.progress().borrow().end, Some(End::Failed(_))));
        begin(&operations).unwrap();
    }
}
