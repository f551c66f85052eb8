//! A flag that says: what you are doing is not wanted any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once, never cleared. Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
