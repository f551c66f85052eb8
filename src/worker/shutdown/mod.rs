//! Stops a worker: on request, or when its queue has no unfinished job.

mod ending;
mod stop_when_empty;

pub(super) use ending::{End, end, note_panic};
pub(super) use stop_when_empty::stop_when_empty;
