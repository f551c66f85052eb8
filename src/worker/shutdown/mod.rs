//! How a worker stops: on request, or when its queue has no unfinished job.

pub(crate) mod drain;
pub(crate) mod ending;

pub(super) use ending::End;
