//! What one worker of a queue does for all of them, and how the others see it.
//!
//! ```text
//! heartbeat's answer ──elected──▶ maintenance: promote, reap, sample, expire
//!         └─────────the last sample─────────▶ the depth as a metric, in every worker
//! ```
//!
//! SQL Server elects (sql/060_duties.sql); a worker learns it with its heartbeat. There is no harm in two workers that
//! both believe it: the procedures skip what another session has locked.

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

/// What the heartbeats say that is not about the lease.
#[derive(Debug)]
pub(in crate::worker) struct Election {
    elected: Notify,
    /// What the last answer said.
    is_elected: AtomicBool,
    samples: watch::Sender<Option<Sampled>>,
}

impl Election {
    pub(in crate::worker) fn new() -> Election {
        Election { elected: Notify::new(), is_elected: AtomicBool::new(false), samples: watch::Sender::new(None) }
    }

    /// Takes note of a heartbeat's answer.
    pub(in crate::worker) fn heard(&self, heartbeat: &Heartbeat) {
        self.is_elected.store(heartbeat.elected, Ordering::Release);
        if heartbeat.elected {
            self.elected.notify_one();
        }
        if let Some(sample) = heartbeat.sample {
            self.sampled(sample);
        }
    }

    /// Takes note of a sample.
    pub(in crate::worker) fn sampled(&self, sample: DepthSample) {
        let at = Instant::now().checked_sub(sample.age).unwrap_or_else(Instant::now);
        self.samples.send_replace(Some(Sampled { sample, at }));
    }

    /// Returns when a heartbeat says that this worker has the duties. It may have lost them again by then.
    pub(in crate::worker) async fn elected(&self) {
        self.elected.notified().await;
    }

    /// Whether this worker has the duties, as far as the last heartbeat knows.
    pub(in crate::worker) fn is_elected(&self) -> bool {
        self.is_elected.load(Ordering::Acquire)
    }

    /// The last sample, now and whenever there is another.
    pub(in crate::worker) fn samples(&self) -> watch::Receiver<Option<Sampled>> {
        self.samples.subscribe()
    }
}
