//! What is being done to many jobs, and how far it is. It is kept in this process only: if that ends, what was done
//! stays, and the rest is left.
//!
//! What is under way holds a receiver of [`Operations::under_way`] until its end is noted: so the end of the page can
//! be put off until then.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::failure::Failure;
use crate::fields::Fields;

/// So many are kept; of those that have ended the oldest go first.
const KEPT: usize = 200;

/// So many run at once; another is refused.
const RUNNING: usize = 20;

/// At the end of the page, what is under way has so long to note its end: a call for a thousand jobs takes less than a
/// second as a rule.
const LAST: Duration = Duration::from_secs(10);

/// Those of this process.
pub struct Operations {
    last: AtomicU64,
    kept: Mutex<VecDeque<Arc<Operation>>>,
    places: Arc<Semaphore>,
    under_way: watch::Sender<()>,
    page_ended: Arc<AtomicBool>,
}

/// One that runs, as long as this is there.
pub struct Running {
    pub operation: Arc<Operation>,
    _place: OwnedSemaphorePermit,
    _under_way: watch::Receiver<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.operation.note(|progress| {
            progress.end.get_or_insert_with(|| End::Failed("it has broken off; the log says more".to_owned()));
        });
    }
}

/// One of them.
pub struct Operation {
    pub id: u64,
    pub queue: String,
    /// By whom.
    stopped_by: OnceLock<String>,
    page_ended: Arc<AtomicBool>,
    progress: watch::Sender<Progress>,
}

impl Operation {
    /// How far it is.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// What has changed.
    pub fn note(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
    }

    /// After the call that is under way, no other is made. Whoever stops it first has stopped it.
    pub fn stop(&self, who: &str) {
        let _ = self.stopped_by.set(who.to_owned());
    }

    /// Why no other call is made; `None`: it goes on.
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
    /// One more, which is over when what is returned is dropped.
    ///
    /// # Errors
    ///
    /// [`Failure::Busy`] while [`RUNNING`] run, and when the page is stopping.
    pub fn add(&self, queue: &str, progress: Progress) -> Result<Running, Failure> {
        if self.page_ended.load(Ordering::Acquire) {
            return Err(Failure::Busy("The page is stopping.".to_owned()));
        }
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| {
            Failure::Busy(format!("{RUNNING} such are under way: wait until one has ended, or stop one."))
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

    /// To be held while something is done.
    pub fn under_way(&self) -> watch::Receiver<()> {
        self.under_way.subscribe()
    }

    /// The page ends: nothing else is begun, and what runs stops.
    pub fn end(&self) {
        self.page_ended.store(true, Ordering::Release);
    }

    /// Waits until what was under way has noted its end, but no longer than [`LAST`].
    pub async fn ended(&self) {
        if tokio::time::timeout(LAST, self.under_way.closed()).await.is_err() {
            tracing::warn!("the page stops and cuts off an operation; its audit entry stays without an outcome");
        }
    }

    /// The one that an address or a form names.
    pub fn get(&self, fields: &Fields) -> Result<Arc<Operation>, Failure> {
        let id: Option<u64> = fields.parsed("id")?;
        let known = self.kept.lock().iter().find(|operation| Some(operation.id) == id).cloned();
        known.ok_or_else(|| Failure::NotFound("This operation is over, or the page was restarted since.".to_owned()))
    }
}

/// What has been done so far.
#[derive(Debug, Clone)]
pub struct Progress {
    /// "requeued", "cancelled", …
    pub past: &'static str,
    /// Which jobs.
    pub words: String,
    pub looked_at: u64,
    pub changed: u64,
    /// `None`: it goes on.
    pub end: Option<End>,
}

#[derive(Debug, Clone)]
pub enum End {
    Done,
    /// By whom.
    Stopped(String),
    /// Stopped, because the page has ended.
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
