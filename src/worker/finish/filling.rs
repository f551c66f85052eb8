//! When a batch of ended jobs is full enough to be sent.

use std::pin::pin;

use tokio::sync::{Notify, mpsc};

use crate::sync::{AtomicBool, AtomicIsize, Ordering};

/// How full the channel of ended jobs is.
pub(in crate::worker) struct Filling {
    /// Jobs in the channel, about: a session that takes a job at once counts it before its sender does.
    queued: AtomicIsize,
    batch_size: usize,
    /// A job in the channel is to be sent at once.
    urgent: AtomicBool,
    /// The channel has got a full batch, or an urgent job.
    ready: Notify,
}

impl Filling {
    pub(in crate::worker) fn new(batch_size: usize) -> Filling {
        Filling { queued: AtomicIsize::new(0), batch_size, urgent: AtomicBool::new(false), ready: Notify::new() }
    }

    /// A job is in the channel.
    pub(in crate::worker) fn added(&self, is_urgent: bool) {
        let fills = self.queued.fetch_add(1, Ordering::AcqRel) + 1 == self.batch_size as isize;
        if is_urgent {
            self.urgent.store(true, Ordering::Release);
        }
        if is_urgent || fills {
            self.ready.notify_one();
        }
    }

    /// Jobs were taken from the channel.
    pub(in crate::worker) fn taken(&self, jobs: usize) {
        self.queued.fetch_sub(jobs as isize, Ordering::AcqRel);
    }

    /// Takes what is in the channel, and what comes until the batch is full or has an urgent job, or `enough` returns.
    pub(in crate::worker) async fn fill<T>(
        &self,
        batch: &mut Vec<T>,
        channel: &mut mpsc::UnboundedReceiver<T>,
        enough: impl Future<Output = ()>,
    ) {
        let mut enough = pin!(enough);
        let mut waits = true;
        loop {
            while batch.len() < self.batch_size
                && let Ok(job) = channel.try_recv()
            {
                batch.push(job);
            }
            if !waits || batch.len() >= self.batch_size {
                return;
            }
            if self.urgent.swap(false, Ordering::AcqRel) {
                waits = false; // once more: the job may have come after the last look
                continue;
            }
            tokio::select! {
                () = self.ready.notified() => {}
                () = &mut enough => waits = false,
            }
        }
    }
}
