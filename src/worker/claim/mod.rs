//! The first stage: jobs are claimed, as many as are wanted in memory.

pub(super) mod alone;
pub(super) mod empty_queue;
pub(super) mod lost_answers;
pub(super) mod prefetch;
pub(super) mod undeliverable_payload;
