//! The heartbeats that are under way: one as a rule, two when one takes long.
//!
//! ```text
//! sent ──an interval without an answer──▶ a second one, on another connection ──▶ the first answer counts
//!   └──────────── goes on: an answer may take as long as the lease lasts ──────────────────┘
//! ```
//!
//! A slow answer must not be given up and asked for anew: where connecting takes longer than an interval, no heartbeat
//! would ever arrive. A connection that is dead must not use up the lease. Nobody can tell one from the other, so both
//! are tried.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::connection::{Connector, Session};
use crate::error::Error;
use crate::id::WorkerId;
use crate::procedures::worker::{Heartbeat, WorkerReport};

/// How many heartbeats are under way at the most.
const MOST: usize = 2;

pub(in crate::worker) struct Renewals {
    /// The first is the one that was sent first.
    under_way: Vec<UnderWay>,
    /// The session that answered last, while it is not in use.
    session: Option<Session>,
    connector: Arc<Connector>,
    /// After how long a heartbeat is given up.
    limit: Duration,
}

struct UnderWay {
    sent_at: Duration,
    answer: Pin<Box<Call>>,
}

/// A call on a session of its own, which comes back with the answer.
type Call = dyn Future<Output = (Session, Result<Heartbeat, Error>)> + Send;

/// How a heartbeat ended.
pub(in crate::worker) struct Renewal {
    /// When it was sent, by the lease's clock: the lease holds from then on.
    pub(in crate::worker) sent_at: Duration,
    pub(in crate::worker) result: Result<Heartbeat, Error>,
}

impl Renewals {
    /// Starts with a session that has a connection already.
    pub(in crate::worker) fn new(session: Session, limit: Duration) -> Renewals {
        let connector = session.connector();
        Renewals { under_way: Vec::new(), session: Some(session), connector, limit }
    }

    pub(in crate::worker) fn may_send(&self) -> bool {
        self.under_way.len() < MOST
    }

    pub(in crate::worker) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    /// When the latest of those that are under way was sent.
    pub(in crate::worker) fn last_sent_at(&self) -> Option<Duration> {
        self.under_way.last().map(|heartbeat| heartbeat.sent_at)
    }

    /// Sends a heartbeat with what the worker does. One that is under way keeps its connection, so that this one has
    /// another.
    pub(in crate::worker) fn send(&mut self, worker: WorkerId, report: WorkerReport, now: Duration) {
        let mut session = self.session();
        let limit = self.limit;
        let answer = Box::pin(async move {
            let result = session.within(limit).heartbeat(worker, Some(report)).await;
            (session, result)
        });
        self.under_way.push(UnderWay { sent_at: now, answer });
    }

    /// The next to end; never ends where none is under way.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub(in crate::worker) async fn next(&mut self) -> Renewal {
        let (index, (session, result)) = poll_fn(|context| {
            for (index, heartbeat) in self.under_way.iter_mut().enumerate() {
                if let Poll::Ready(answer) = heartbeat.answer.as_mut().poll(context) {
                    return Poll::Ready((index, answer));
                }
            }
            Poll::Pending
        })
        .await;
        let sent_at = self.under_way.remove(index).sent_at;
        if result.is_ok() {
            // Those that were sent before have no more to tell, and their connections are likely dead. One that was
            // sent after is the next renewal already.
            for earlier in self.under_way.drain(..index) {
                session.gave_up("heartbeat", earlier.sent_at);
            }
        }
        if result.is_ok() || self.session.is_none() {
            self.session = Some(session);
        }
        Renewal { sent_at, result }
    }

    /// Gives up all that are under way: they are of a worker that is lost.
    pub(in crate::worker) fn give_up(&mut self) {
        self.under_way.clear();
    }

    /// A session that no heartbeat uses, to be given back by [`put_back`](Self::put_back).
    pub(in crate::worker) fn session(&mut self) -> Session {
        self.session.take().unwrap_or_else(|| Session::new(self.connector.clone()))
    }

    pub(in crate::worker) fn put_back(&mut self, session: Session) {
        self.session = Some(session);
    }
}
