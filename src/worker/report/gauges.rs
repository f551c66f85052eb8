//! Updates the gauges: the worker's levels, and the queue's depth.

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::{SampleMetrics, WorkerLevels};
use crate::queue::Queue;
use crate::worker::lease::{Election, Lease};
use crate::worker::state::WorkerState;

/// How often the age of the sample is updated.
const TICK: Duration = Duration::from_secs(1);

/// Shows each sample and its age until the task is dropped, even while the worker is stopping. A growing age means that
/// no sample is taken.
pub(in crate::worker) async fn keep_depth_shown(queue: Queue, duties: Arc<Election>) {
    let mut samples = duties.samples();
    let mut metrics: Option<SampleMetrics> = None;
    loop {
        let last = *samples.borrow_and_update();
        if let Some(last) = last {
            let metrics = metrics.get_or_insert_with(|| SampleMetrics::new(queue.name()));
            let sample = last.sample;
            let jobs = [sample.ready, sample.scheduled, sample.waiting, sample.claimed, sample.dead, sample.cancelled];
            metrics.sampled(jobs, sample.oldest_ready, sample.open_batches, sample.workers, sample.paused);
            metrics.aged(last.at.elapsed());
        }
        let _ = tokio::time::timeout(TICK, samples.changed()).await; // `duties` keeps the channel open
    }
}

const INTERVAL: Duration = Duration::from_secs(1);

pub(in crate::worker) async fn keep_levels_shown(state: Arc<WorkerState>, lease: Lease) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        state.metrics.levels(&levels(&state, &lease));
        state.limited_by.read();
    }
}

fn levels(state: &WorkerState, lease: &Lease) -> WorkerLevels {
    let WorkerState { in_flight, limited_by, .. } = state;
    WorkerLevels {
        buffered: in_flight.unstarted() + in_flight.parked(),
        running: in_flight.running(),
        awaiting_finish: in_flight.awaiting_finish(),
        held_bytes: in_flight.bytes(),
        limited: limited_by.shares().0,
        lease_age: lease.age(),
    }
}
