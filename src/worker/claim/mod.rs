//! The first stage: jobs are claimed, as many as are wanted in memory.

pub(super) mod alone;
pub(super) mod empty_queue;
pub(super) mod prefetch;
pub(super) mod strays;
pub(super) mod undeliverable_payload;
