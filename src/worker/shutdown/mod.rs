//! How a worker stops: on request, or when its queue has no unfinished job.

mod drain;
mod ending;

pub(super) use drain::stop_when_empty;
pub(super) use ending::{End, end, note_panic};
