//! The results of heartbeats apart from the lease: whether this worker is elected to do the queue's maintenance, and
//! the last sample of the queue's depth.
//!
//! ```text
//! heartbeat's answer ──elected──▶ maintenance: promote, reap, sample, expire
//!         └─────────the last sample─────────▶ the depth as a metric, in every worker
//! ```
//!
//! SQL Server elects the worker (sql/060_duties.sql), and each worker learns the result with its heartbeat. If two
//! workers consider themselves elected, this does no harm: the procedures skip rows that another session has locked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::{Notify, watch};

use crate::procedures::worker::{DepthSample, Heartbeat};

/// The queue's depth, and when it was sampled by the local clock.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct Sampled {
    pub(in crate::worker) sample: DepthSample,
    pub(in crate::worker) at: Instant,
}

/// The results of heartbeats apart from the lease.
#[derive(Debug)]
pub(in crate::worker) struct Election {
    elected: Notify,
    /// The result of the last heartbeat.
    is_elected: AtomicBool,
    samples: watch::Sender<Option<Sampled>>,
}

impl Election {
    pub(in crate::worker) fn new() -> Election {
        Election { elected: Notify::new(), is_elected: AtomicBool::new(false), samples: watch::Sender::new(None) }
    }

    /// Records the result of a heartbeat.
    pub(in crate::worker) fn heard(&self, heartbeat: &Heartbeat) {
        self.is_elected.store(heartbeat.elected, Ordering::Release);
        if heartbeat.elected {
            self.elected.notify_one();
        }
        if let Some(sample) = heartbeat.sample {
            self.sampled(sample);
        }
    }

    /// Records a sample.
    pub(in crate::worker) fn sampled(&self, sample: DepthSample) {
        let at = Instant::now().checked_sub(sample.age).unwrap_or_else(Instant::now);
        self.samples.send_replace(Some(Sampled { sample, at }));
    }

    /// Completes when a heartbeat has reported this worker as elected. The worker may no longer be elected by then.
    pub(in crate::worker) async fn elected(&self) {
        self.elected.notified().await;
    }

    /// Returns whether this worker was elected as of the last heartbeat.
    pub(in crate::worker) fn is_elected(&self) -> bool {
        self.is_elected.load(Ordering::Acquire)
    }

    /// Receives the last sample, now and whenever there is a new one.
    pub(in crate::worker) fn samples(&self) -> watch::Receiver<Option<Sampled>> {
        self.samples.subscribe()
    }
}
