//! The watcher: notices the first job of a queue that was empty.
//!
//! ```text
//! prefetcher ──a claim found nothing──▶ watcher ──await_jobs──▶ SQL Server
//!      ▲                                   ▲                       │
//!      │                                   └── nothing, again ◀────┤
//!      └──────────────── jobs may have come ◀── found, or no word ─┘
//! ```
//!
//! While the queue is empty, one call that sleeps in SQL Server replaces many claims that would find nothing. The call
//! has a connection of its own, so that the prefetcher can claim immediately when this process itself enqueues jobs.
//! The call changes nothing, so it may be cut off at any time. A worker that finds jobs does not need it.
//!
//! Only a limited number of sessions may wait, because each occupies a thread of SQL Server. The other workers poll. If
//! many jobs arrive at once, the waiting workers are soon busy, and their places become free: workers of the same
//! process take them at once ([`FreedPlaces`]), the others at their next poll.
//!
//! SQL Server checks the queue at intervals from `poll_min_ms` to `poll_max_ms`: the more sessions of the database wait,
//! the longer (sql/235_await_jobs.sql). If claims find nothing although the watcher has found jobs, the shortest interval
//! grows with each such claim ([`Pauses`]). The prefetcher claims again when the watcher has found a job, or else after
//! `CLAIM_ANYWAY`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::connection::Session;
use crate::error::Error;
use crate::procedures::worker::Awaited;
use crate::time::{Pauses, jittered};
use crate::worker::state::{Phase, WorkerState};

use super::freed_places::FreedPlaces;

/// The longest time that one call waits.
const WAIT: Duration = Duration::from_secs(5);

/// How much longer than that the response may take. After that the connection counts as dead, long before
/// `command_timeout_ms`.
const WAIT_GRACE: Duration = Duration::from_secs(2);

/// How often a worker polls while all places for waiting sessions are taken.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// For how long a worker has jobs before its place is offered to another worker of the process. One that is idle again
/// sooner takes it back, so that the queues where jobs arrive one by one keep their places.
const BUSY_AFTER: Duration = Duration::from_millis(200);

/// The prefetcher's end of the channel. It carries the shortest interval of the checks, or `None` to stop watching.
pub(in crate::worker) struct WatchSender(watch::Sender<Option<Duration>>);

impl WatchSender {
    /// Starts a watch, which continues until jobs are found or [`end`](Self::end) is called.
    pub(in crate::worker) fn begin(&self, least: Duration) {
        self.0.send_replace(Some(least));
    }

    pub(in crate::worker) fn end(&self) {
        self.0.send_if_modified(|watch| watch.take().is_some());
    }
}

/// The task that watches.
pub(in crate::worker) struct Watcher {
    state: Arc<WorkerState>,
    session: Session,
    poll_max: Duration,
    wait: Duration,
    watches: watch::Receiver<Option<Duration>>,
    places: Arc<FreedPlaces>,
    /// Whether the last call waited at a place.
    had_place: bool,
    failed: Pauses,
}

impl Watcher {
    pub(in crate::worker) fn new(state: &Arc<WorkerState>) -> (WatchSender, Watcher) {
        let (sender, watches) = watch::channel(None);
        let session = state.session();
        let wait = WAIT.min(session.command_timeout() / 2);
        let poll_max = state.config.poll_max;
        let places = FreedPlaces::shared(session.connector().server(), session.schema());
        let (state, failed) = (state.clone(), Pauses::for_errors());
        let watcher = Watcher { state, session, poll_max, wait, watches, places, had_place: false, failed };
        (WatchSender(sender), watcher)
    }

    /// Watches on request, until the worker stops.
    pub(in crate::worker) async fn run(mut self) {
        let state = self.state.clone();
        tokio::select! {
            () = self.watch() => {}
            () = state.stop.reached(Phase::Stopping) => {}
        }
    }

    async fn watch(&mut self) {
        loop {
            let asked = *self.watches.borrow_and_update();
            if let Some(least) = asked
                && self.finds_jobs(least).await
            {
                self.state.arrivals.expect();
            }
            let changed = tokio::select! {
                changed = self.watches.changed() => changed,
                never = offer_when_busy(&self.places, &mut self.had_place) => match never {},
                never = self.session.close_when_idle() => match never {},
            };
            if changed.is_err() {
                return; // the prefetcher has stopped
            }
        }
    }

    /// Returns true as soon as there may be jobs, and false when the watch is no longer wanted.
    async fn finds_jobs(&mut self, mut least: Duration) -> bool {
        loop {
            // A pause longer than the call's own time limit is spent here.
            self.pause(least.saturating_sub(self.wait)).await;
            if self.watches.has_changed().unwrap_or(true) {
                return false;
            }
            match self.look(least.min(self.wait)).await {
                Ok(Awaited { found, waited }) => {
                    self.failed.reset();
                    self.had_place = waited;
                    if found {
                        return true;
                    }
                    if !waited {
                        tokio::select! {
                            () = self.pause(jittered(LOOK_EVERY)) => {}
                            () = self.places.offered() => {}
                        }
                    }
                }
                Err(error) => {
                    let pause = self.failed.next();
                    if !self.state.outage.tells_of_one("await_jobs", &error) {
                        tracing::warn!(%error, retry_in = ?pause, "cannot watch the empty queue; polling by claims instead");
                    }
                    self.pause(pause).await;
                    // A claim shows whether SQL Server responds and the worker can continue, and finds jobs that were
                    // missed.
                    return true;
                }
            }
            least = self.state.config.poll_min.min(self.wait);
        }
    }

    /// Waits for `pause`, or less if the prefetcher sends a request.
    async fn pause(&self, pause: Duration) {
        let mut watches = self.watches.clone();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = watches.changed() => {}
        }
    }

    /// Makes one call, which checks at intervals of at least `least`.
    async fn look(&mut self, least: Duration) -> Result<Awaited, Error> {
        // Connecting has a time limit of its own.
        self.session.ensure_connected().await?;
        let (poll_max, wait) = (self.poll_max.min(self.wait), self.wait);
        let most_sessions = Some(self.state.config.waiting_sessions).filter(|sessions| *sessions > 0);
        let mut session = self.session.within(wait + WAIT_GRACE);
        session.await_jobs(&self.state.queue, least, poll_max, wait, most_sessions).await
    }
}

/// Offers the place that the worker has left, once. Never returns: the owner drops this future when the worker is idle.
async fn offer_when_busy(places: &FreedPlaces, had_place: &mut bool) -> Infallible {
    if *had_place {
        tokio::time::sleep(BUSY_AFTER).await;
        *had_place = false;
        places.offer();
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;

    #[tokio::test]
    async fn a_new_watch_does_not_wait_for_the_interval_of_the_one_before() {
        let (sender, mut watcher) = Watcher::new(&Arc::new(WorkerState::for_test(WorkerConfig::default())));
        let long = Duration::from_secs(3_600);
        let ends = async {
            tokio::task::yield_now().await;
            sender.end();
            sender.begin(Duration::ZERO);
        };
        let looks = async { tokio::join!(watcher.finds_jobs(long), ends).0 };
        let found = tokio::time::timeout(Duration::from_secs(30), looks).await.expect("it does not sleep on");
        assert!(!found);
    }
}
