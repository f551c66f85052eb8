//! The worker's and the producer's hand-made concurrency, in orders that a scheduler chooses: each test runs the real code
//! of `src/` in a few thousand of them. Shuttle finds a thread that waits for ever, and what a model asserts.
//!
//! Shuttle, not loom: what waits here waits for Tokio's `Notify` and channels. Shuttle runs them as they are, while loom
//! would need models of them. Its price: it tries orders of steps, not the reorderings of memory that a processor may do.

use readpast_interleavings::{queue, worker};

const ORDERS: usize = 2_000;

#[test]
fn a_stopping_worker_overlooks_no_job_and_does_not_hang() {
    shuttle::check_random(worker::idle_and_flushed, ORDERS);
}

#[test]
fn a_stopping_worker_does_not_wait_for_jobs_that_only_leave() {
    shuttle::check_random(worker::idle, ORDERS);
}

#[test]
fn the_prefetcher_is_woken_when_jobs_are_wanted() {
    shuttle::check_random(worker::demand, ORDERS);
}

#[test]
fn jobs_that_start_at_once_keep_room_for_their_outputs() {
    shuttle::check_random(worker::room_for_outputs, ORDERS);
}

#[test]
fn no_job_waits_while_no_slot_of_the_pool_runs() {
    shuttle::check_random(worker::slots, ORDERS);
}

#[test]
fn jobs_that_need_several_threads_get_no_more_than_there_are_and_no_job_waits_for_ever() {
    shuttle::check_random(|| worker::needs(worker::NEVER), ORDERS / 4);
}

#[test]
fn threads_that_are_kept_for_a_job_are_given_to_it_and_then_to_others() {
    shuttle::check_random(|| worker::needs(worker::AT_ONCE), ORDERS / 4);
}

#[test]
fn an_urgent_job_goes_with_a_batch_that_waits_for_no_clock() {
    shuttle::check_random(worker::urgent_jobs, ORDERS);
}

#[test]
fn a_lease_is_never_trusted_for_longer_than_sql_server_keeps_it() {
    shuttle::check_random(worker::lease, ORDERS);
}

#[test]
fn nobody_waits_for_a_task_that_has_ended() {
    shuttle::check_random(queue::waiters, ORDERS);
}
