//! The watcher: notices the first job of a queue that was empty.
//!
//! ```text
//! prefetcher ──a claim found nothing──▶ watcher ──await_jobs──▶ SQL Server
//!      ▲                                                            │
//!      └───────────── jobs may have come ◀── found, or time over ◀──┘
//! ```
//!
//! While nothing comes, one call that sleeps in SQL Server stands for many claims that find nothing. It has a connection of its own, so
//! that the prefetcher can claim at once when jobs come from this process itself, and because it changes nothing, it may be cut off at any
//! time. A worker that finds jobs has no use for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::config::WorkerConfig;
use crate::queue::connection::Lane;

use super::backoff::Backoff;
use super::shutdown::{Phase, StopHandle};

/// How long one call waits at the most. Whatever it missed, the claim after it finds.
const WAIT: Duration = Duration::from_secs(5);

/// The prefetcher's end: says that a claim found nothing, and after which pause to look for the first time.
#[derive(Clone)]
pub(crate) struct WatchSender(mpsc::Sender<Duration>);

impl WatchSender {
    /// Asks for a watch. Never waits: where one is asked for already, that one will do.
    pub(crate) fn watch(&self, first_look: Duration) {
        let _ = self.0.try_send(first_look);
    }
}

pub(crate) struct Watcher {
    lane: Lane,
    queue: String,
    poll_max: Duration,
    wait: Duration,
    watches: mpsc::Receiver<Duration>,
    /// Notified when there may be jobs.
    arrived: Arc<Notify>,
    stop: StopHandle,
}

impl Watcher {
    pub(crate) fn new(
        lane: Lane,
        queue: String,
        config: &WorkerConfig,
        arrived: Arc<Notify>,
        stop: StopHandle,
    ) -> (WatchSender, Watcher) {
        let (sender, watches) = mpsc::channel(1);
        let wait = WAIT.min(lane.command_timeout() / 2);
        let poll_max = Duration::from_millis(config.poll_max_ms);
        (WatchSender(sender), Watcher { lane, queue, poll_max, wait, watches, arrived, stop })
    }

    /// Watches when it is asked to, until the worker stops.
    pub(crate) async fn run(mut self) {
        let mut failed = Backoff::for_errors();
        loop {
            let first_look = tokio::select! {
                Some(first_look) = self.watches.recv() => first_look,
                () = self.stop.reached(Phase::Stopping) => return,
            };
            // A pause longer than the call's own time limit is spent here.
            let slept = first_look.saturating_sub(self.wait);
            if !slept.is_zero() && !self.stop.pause(slept).await {
                return;
            }
            let looks = self.lane.await_jobs(&self.queue, first_look - slept, self.poll_max.min(self.wait), self.wait);
            let looked = tokio::select! {
                looked = looks => looked,
                () = self.stop.reached(Phase::Stopping) => return,
            };
            match looked {
                Ok(_) => failed.reset(),
                Err(error) if error.is_transient() => {
                    let pause = failed.next();
                    tracing::warn!(%error, retry_in = ?pause, "cannot watch the empty queue; claims go on");
                    self.stop.pause(pause).await;
                }
                Err(error) => return self.stop.fail(error),
            }
            self.arrived.notify_one();
        }
    }
}
