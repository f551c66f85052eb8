//! How a worker ends: stopped, or when nothing is left of its queue.

pub(crate) mod drain;
pub(crate) mod ending;

pub(super) use ending::End;
