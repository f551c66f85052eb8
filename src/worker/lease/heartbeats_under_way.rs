//! The heartbeats in progress: usually one, or two if one takes long.
//!
//! ```text
//! sent ──an interval without an answer──▶ a second one, on another connection ──▶ the first answer counts
//!   └──────────── goes on: an answer may take as long as the lease lasts ──────────────────┘
//! ```
//!
//! A slow call must not be abandoned for a new one: if connecting took longer than an interval, no heartbeat would ever
//! arrive. But a dead connection must not use up the lease. A slow connection and a dead one cannot be told apart, so
//! both calls continue.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::connection::{Connector, Session};
use crate::error::Error;
use crate::id::WorkerId;
use crate::procedures::worker::{Heartbeat, WorkerReport};

/// The most heartbeats in progress.
const MOST: usize = 2;

pub(in crate::worker) struct HeartbeatsUnderWay {
    /// The heartbeats in progress, in the order in which they were sent.
    under_way: Vec<UnderWay>,
    /// The session of the last response, while no heartbeat uses it.
    session: Option<Session>,
    connector: Arc<Connector>,
    /// After how long a heartbeat is abandoned.
    limit: Duration,
}

struct UnderWay {
    sent_at: Duration,
    answer: Pin<Box<Call>>,
}

/// A call on its own session, which is returned with the response.
type Call = dyn Future<Output = (Session, Result<Heartbeat, Error>)> + Send;

/// The result of a heartbeat.
pub(in crate::worker) struct Renewal {
    /// When it was sent, by the lease's clock: the lease holds from then on.
    pub(in crate::worker) sent_at: Duration,
    pub(in crate::worker) result: Result<Heartbeat, Error>,
}

impl HeartbeatsUnderWay {
    /// Starts with a session that already has a connection.
    pub(in crate::worker) fn new(session: Session, limit: Duration) -> HeartbeatsUnderWay {
        let connector = session.connector();
        HeartbeatsUnderWay { under_way: Vec::new(), session: Some(session), connector, limit }
    }

    pub(in crate::worker) fn may_send(&self) -> bool {
        self.under_way.len() < MOST
    }

    pub(in crate::worker) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }

    /// When the latest heartbeat in progress was sent.
    pub(in crate::worker) fn last_sent_at(&self) -> Option<Duration> {
        self.under_way.last().map(|heartbeat| heartbeat.sent_at)
    }

    /// Sends a heartbeat with the worker's report. A heartbeat in progress keeps its connection, so that the new one
    /// uses another.
    pub(in crate::worker) fn send(&mut self, worker: WorkerId, report: WorkerReport, now: Duration) {
        let mut session = self.session();
        let limit = self.limit;
        let answer = Box::pin(async move {
            let result = session.within(limit).heartbeat(worker, Some(report)).await;
            (session, result)
        });
        self.under_way.push(UnderWay { sent_at: now, answer });
    }

    /// Returns the next heartbeat to complete; never completes if none is in progress.
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
            // Heartbeats that were sent earlier have nothing to add, and their connections are probably dead. One that
            // was sent later is already the next renewal.
            for earlier in self.under_way.drain(..index) {
                session.gave_up("heartbeat", earlier.sent_at);
            }
        }
        if result.is_ok() || self.session.is_none() {
            self.session = Some(session);
        }
        Renewal { sent_at, result }
    }

    /// Abandons all heartbeats in progress: they belong to a worker that is lost.
    pub(in crate::worker) fn give_up(&mut self) {
        self.under_way.clear();
    }

    /// Returns a session that no heartbeat uses; [`put_back`](Self::put_back) takes it back.
    pub(in crate::worker) fn session(&mut self) -> Session {
        self.session.take().unwrap_or_else(|| Session::new(self.connector.clone()))
    }

    pub(in crate::worker) fn put_back(&mut self, session: Session) {
        self.session = Some(session);
    }
}
