//! Decides when a batch of finished runs is full enough to be sent.

use std::pin::pin;

use tokio::sync::{Notify, mpsc};

use crate::sync_primitives::{AtomicBool, AtomicIsize, Ordering};

/// How full the finisher's channel is.
pub(in crate::worker) struct Filling {
    /// The approximate number of jobs in the channel: a session may count a job before its sender does.
    queued: AtomicIsize,
    batch_size: usize,
    /// Whether a job in the channel must be sent immediately.
    urgent: AtomicBool,
    /// Notified when the channel has a full batch or an urgent job.
    ready: Notify,
}

impl Filling {
    pub(in crate::worker) fn new(batch_size: usize) -> Filling {
        Filling { queued: AtomicIsize::new(0), batch_size, urgent: AtomicBool::new(false), ready: Notify::new() }
    }

    pub(in crate::worker) fn added(&self, is_urgent: bool) {
        let fills = self.queued.fetch_add(1, Ordering::AcqRel) + 1 == self.batch_size as isize;
        if is_urgent {
            self.urgent.store(true, Ordering::Release);
        }
        if is_urgent || fills {
            self.ready.notify_one();
        }
    }

    pub(in crate::worker) fn taken(&self, jobs: usize) {
        self.queued.fetch_sub(jobs as isize, Ordering::AcqRel);
    }

    /// Takes jobs from the channel until the batch is full or has an urgent job, or `enough` completes.
    pub(in crate::worker) async fn fill<T>(
        &self,
        batch: &mut Vec<T>,
        channel: &mut mpsc::UnboundedReceiver<T>,
        enough: impl Future<Output = ()>,
    ) {
        let mut enough = pin!(enough);
        let mut waits = true;
        loop {
            let room = self.batch_size - batch.len();
            if room > 0 && !channel.is_empty() {
                channel.recv_many(batch, room).await;
            }
            if !waits || batch.len() >= self.batch_size {
                return;
            }
            if self.urgent.swap(false, Ordering::AcqRel) {
                waits = false; // once more, for a job that came after the last check
                continue;
            }
            tokio::select! {
                () = self.ready.notified() => {}
                () = &mut enough => waits = false,
            }
        }
    }
}
