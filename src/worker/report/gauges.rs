//! The worker's levels as metrics, read once a second.

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::Levels;
use crate::worker::lease::keeper::Lease;
use crate::worker::stage_context::StageContext;

/// How often the levels are read.
const INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the gauges up to date until the task is ended.
pub(in crate::worker) async fn keep_shown(state: Arc<StageContext>, lease: Lease) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        state.metrics.levels(&levels(&state, &lease));
        state.limited_by.read();
    }
}

fn levels(state: &StageContext, lease: &Lease) -> Levels {
    let StageContext { in_flight, limited_by, .. } = state;
    Levels {
        buffered: in_flight.unstarted() + in_flight.parked(),
        running: in_flight.running(),
        awaiting_finish: in_flight.awaiting_finish(),
        held_bytes: in_flight.bytes(),
        limited: limited_by.shares().0,
        lease_age: lease.age(),
    }
}
