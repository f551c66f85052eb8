//! The operator's handle.

use crate::queue::Queue;

/// The operator's handle to a queue and its schema, from [`Queue::admin`]. The rules of [`Queue`] for cancel safety,
/// panics and the schema's version apply to its calls, too.
#[derive(Debug, Clone, Copy)]
pub struct Admin<'q> {
    pub(crate) queue: &'q Queue,
}

impl Queue {
    /// Returns the operator's handle of this queue.
    pub fn admin(&self) -> Admin<'_> {
        Admin { queue: self }
    }
}
