//! What is being done to many jobs, and how far it is. It is kept in this process only: if that ends, what was done stays,
//! and the rest is left.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::failure::Failure;
use crate::fields::Fields;

/// So many are kept; the oldest go first.
const KEPT: usize = 200;

/// Those of this process.
#[derive(Default)]
pub struct Operations {
    last: AtomicU64,
    kept: Mutex<VecDeque<Arc<Operation>>>,
}

/// One of them.
pub struct Operation {
    pub id: u64,
    pub queue: String,
    is_stopped: AtomicBool,
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

    /// After the call that is under way, no other is made.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

impl Operations {
    pub fn add(&self, queue: &str, progress: Progress) -> Arc<Operation> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let operation = Arc::new(Operation {
            id,
            queue: queue.to_owned(),
            is_stopped: AtomicBool::new(false),
            progress: watch::Sender::new(progress),
        });
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(operation.clone());
        operation
    }

    /// The one that an address or a form names.
    pub fn get(&self, fields: &Fields) -> Result<Arc<Operation>, Failure> {
        let id: Option<u64> = fields.parsed("id")?;
        let known = self.kept.lock().iter().find(|operation| Some(operation.id) == id).cloned();
        known.ok_or_else(|| Failure::NotFound("That is over, or this page was started anew since.".to_owned()))
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
    Stopped,
    Failed(String),
}

impl Progress {
    pub fn begin(past: &'static str, words: String) -> Progress {
        Progress { past, words, looked_at: 0, changed: 0, end: None }
    }
}
