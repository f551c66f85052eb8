//! The first stage: jobs are claimed, as many as are wanted in memory.

pub(super) mod crash_suspects;
pub(super) mod empty_queue_watcher;
pub(super) mod lost_answers;
pub(super) mod prefetcher;
mod put_off_budget;
pub(super) mod undeliverable_payload;
