//! What keeps threads idle, as the prefetcher sees it.

use std::time::Instant;

use crate::worker::run::{Executor, KeepsFree, Load};
use crate::worker::state::{Bottleneck, WorkerState};

use super::demand::Demand;

/// Returns the bottleneck if threads are idle while there is no capacity.
pub(super) fn without_room(state: &WorkerState, demand: &Demand, executor: &Executor) -> Bottleneck {
    if *state.quiet.borrow() {
        return Bottleneck::Quiet;
    }
    if executor.is_short_of_memory() {
        return Bottleneck::Memory;
    }
    let WorkerState { config, in_flight, .. } = state;
    let is_full = demand.jobs_that_fit(in_flight, Instant::now()) == 0;
    let holds_no_more = is_full || in_flight.jobs() >= config.max_in_flight;
    let is_held_back = !in_flight.may_start(config.max_in_flight_bytes);
    if is_held_back || (holds_no_more && in_flight.startable() == 0) {
        Bottleneck::Finish
    } else if executor.load().keeps_free != KeepsFree::None {
        Bottleneck::Resources
    } else {
        Bottleneck::Busy
    }
}

/// Returns the bottleneck if threads are idle because claims find no jobs that can start.
pub(super) fn of_short_claims(state: &WorkerState, executor: &Executor) -> Bottleneck {
    let Load { in_use, keeps_free, .. } = executor.load();
    if keeps_free != KeepsFree::None {
        return Bottleneck::Resources;
    }
    if in_use.taken > 0 && in_use.all() >= state.threads() {
        return Bottleneck::Busy; // with jobs that need several threads
    }
    if executor.waits_for_resources() { Bottleneck::Resources } else { Bottleneck::Idle }
}

/// Returns the bottleneck if threads are idle while a claim is in progress.
pub(super) fn while_claiming(state: &WorkerState, demand: &Demand) -> Bottleneck {
    // If unconfirmed jobs take most of the capacity, each claim can only bring a few, however fast it is.
    let awaiting = state.in_flight.awaiting_finish();
    let is_most = awaiting > state.config.max_in_flight / 2 || demand.outputs_are_most(&state.in_flight);
    if is_most { Bottleneck::Finish } else { Bottleneck::Claim }
}
