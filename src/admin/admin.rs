//! The operator's handle.

use crate::queue::Queue;

/// What operators do with a queue and its schema, by [`Queue::admin`]. What is said at [`Queue`] of cancel safety,
/// panics and the version of the schema holds for its calls, too.
#[derive(Debug, Clone, Copy)]
pub struct Admin<'q> {
    pub(crate) queue: &'q Queue,
}

impl Queue {
    /// The operator's handle of this queue.
    pub fn admin(&self) -> Admin<'_> {
        Admin { queue: self }
    }
}
