//! The queue's depth as a metric.
//!
//! Every worker asks at its interval, and sees the same sample; only the first to ask after `sample_interval_ms` makes SQL Server take a
//! new one (sql/350_sample.sql). So there is one sample per queue and interval, whatever the number of workers, and no worker is special.

use std::time::{Duration, Instant};

use crate::metrics::SampleMetrics;
use crate::queue::Queue;

use super::maintenance::jittered;
use super::shutdown::StopHandle;

/// How often the age of the sample is brought up to date.
const TICK: Duration = Duration::from_secs(1);

/// Samples every `interval` until the worker stops. A failure stops nothing: it shows in the age of the sample.
pub(crate) async fn keep_sampled(queue: Queue, interval: Duration, stop: StopHandle) {
    let mut metrics: Option<SampleMetrics> = None;
    let mut sampled_at = Instant::now();
    let mut ask_at = Instant::now();
    while stop.is_running() {
        if Instant::now() >= ask_at {
            ask_at = Instant::now() + jittered(interval);
            match queue.sample(interval).await {
                Ok(Some(sample)) => {
                    sampled_at = Instant::now().checked_sub(sample.age).unwrap_or_else(Instant::now);
                    metrics.get_or_insert_with(|| SampleMetrics::new(queue.name())).sampled(&sample);
                }
                Ok(None) => {} // another worker is taking the first one
                Err(error) => {
                    tracing::warn!(sql_error = error.sql_number(), %error, "the queue's depth could not be sampled");
                }
            }
        }
        if let Some(metrics) = &metrics {
            metrics.aged(sampled_at.elapsed());
        }
        stop.pause(ask_at.saturating_duration_since(Instant::now()).min(TICK)).await;
    }
}
