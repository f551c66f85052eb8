//! Stops a worker: on request, when its queue has no unfinished job, or when its process is too large.

mod ending;
mod stop_when_empty;
mod stop_when_large;

pub(super) use ending::{End, end, note_panic};
pub(super) use stop_when_empty::stop_when_empty;
pub(super) use stop_when_large::stop_when_large;
