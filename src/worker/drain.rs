//! Draining: a worker that ends when its queue is empty.

use std::sync::Arc;
use std::time::Duration;

use crate::queue::Queue;

use super::shared::Shared;

/// Stops the worker when a claim found nothing and SQL Server says, twice in a row, that nothing is unfinished: it looks for one state after
/// the other, and a job that moves from one to another meanwhile can be missed.
///
/// While other workers still run jobs, or some are scheduled, it has the prefetcher look again after each pause.
pub(super) async fn stop_when_empty(queue: Queue, shared: Arc<Shared>) {
    let Shared { config, arrivals, stop, .. } = &*shared;
    let pause = Duration::from_millis(config.poll_max_ms);
    let mut empty_readings = 0;
    while empty_readings < 2 {
        arrivals.nothing_found().await;
        match queue.has_unfinished().await {
            Ok(false) => empty_readings += 1,
            Ok(true) => empty_readings = 0,
            Err(error) if error.is_transient() => tracing::warn!(%error, "cannot see whether the queue is empty"),
            Err(error) => return stop.fail(error),
        }
        if empty_readings == 0 {
            stop.pause(pause).await;
        }
        arrivals.expect();
    }
    stop.stop();
}
