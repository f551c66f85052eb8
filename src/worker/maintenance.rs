//! What some worker must do for the whole queue: make scheduled jobs ready when they are due, and give back the jobs of workers whose
//! lease ran out. Every worker does it, each on a timer with jitter and a connection of its own; the procedures skip what another
//! worker has locked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::metrics::WorkerMetrics;
use crate::queue::connection::Lane;
use crate::queue::workers::LostWorker;

use super::shutdown::StopHandle;

/// An interval, a fifth more or less, so that workers which started together drift apart.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.8 + 0.4 * fastrand::f64())
}

/// How many jobs one call promotes or gives back, and how many workers it calls lost: the cap of every batch.
const BATCH: usize = 1_000;

pub(crate) struct Maintenance {
    pub(crate) lane: Lane,
    pub(crate) queue: String,
    pub(crate) config: WorkerConfig,
    /// Notified when jobs have become ready.
    pub(crate) arrived: Arc<Notify>,
    pub(crate) stop: StopHandle,
    pub(crate) metrics: Arc<WorkerMetrics>,
}

impl Maintenance {
    /// Promotes and reaps until the worker stops.
    pub(crate) async fn run(mut self) {
        let promote_every = Duration::from_millis(self.config.promote_interval_ms);
        let reap_every = Duration::from_millis(self.config.reap_interval_ms);
        let mut promote_at = Instant::now();
        let mut reap_at = Instant::now() + jittered(reap_every);
        loop {
            let now = Instant::now();
            if now >= promote_at {
                promote_at = now + jittered(promote_every);
                if let Err(error) = self.promote_due().await {
                    self.failed("promote", error);
                }
            }
            if now >= reap_at {
                reap_at = now + jittered(reap_every);
                if let Err(error) = self.reap_lost().await {
                    self.failed("reap", error);
                }
            }
            let next = promote_at.min(reap_at);
            if !self.stop.pause(next.saturating_duration_since(Instant::now())).await {
                return;
            }
        }
    }

    async fn promote_due(&mut self) -> Result<(), Error> {
        loop {
            let promoted = self.lane.promote(&self.queue, BATCH).await? as usize;
            if promoted > 0 {
                self.metrics.promoted.increment(promoted as u64);
                self.arrived.notify_one();
            }
            if promoted < BATCH {
                return Ok(());
            }
        }
    }

    async fn reap_lost(&mut self) -> Result<(), Error> {
        loop {
            let reaped = self.lane.reap(&self.queue, BATCH).await?;
            let jobs = (reaped.jobs_ready + reaped.jobs_dead) as usize;
            self.metrics.reaped(&reaped);
            for LostWorker { worker, name } in &reaped.lost {
                tracing::warn!(lost_worker = name, lost_worker_id = %worker, "a worker was lost: its lease ran out");
            }
            if jobs > 0 {
                tracing::warn!(
                    ready = reaped.jobs_ready,
                    dead = reaped.jobs_dead,
                    "gave back the jobs of lost workers"
                );
                self.arrived.notify_one();
            }
            if jobs < BATCH && reaped.lost.len() < BATCH {
                return Ok(());
            }
        }
    }

    fn failed(&self, procedure: &'static str, error: Error) {
        if error.is_transient() {
            let sql_error = error.sql_number();
            tracing::warn!(procedure, sql_error, %error, "will be tried again at the next interval");
        } else {
            self.stop.fail(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On which rests how long a dead worker's jobs wait at the most: README, "The arithmetic of the time limits".
    #[test]
    fn an_interval_is_a_fifth_longer_at_the_most() {
        let interval = Duration::from_secs(5);
        for _ in 0..10_000 {
            let pause = jittered(interval);
            assert!((Duration::from_secs(4)..=Duration::from_secs(6)).contains(&pause), "{pause:?}");
        }
    }
}
