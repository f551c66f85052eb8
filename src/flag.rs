//! A flag that one task sets and others read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once, never cleared. Clones are the same flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
