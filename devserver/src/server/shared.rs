//! What all connections share, and what the task and the thread of one tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::access_token::TokenKey;
use crate::gate::Gate;
use crate::session::{CancelHandle, Engine};
use crate::tds::packet::Message;
use crate::tds::tls::TlsAcceptors;

/// How long after a thaw the requests of clients that are gone may still run, see [`crate::session::Faults::freeze`].
const RUNS_ON_AFTER_THAW: Duration = Duration::from_secs(5);

/// What all connections share.
pub struct Shared {
    pub engine: Arc<Engine>,
    pub tls: TlsAcceptors,
    pub token_key: Arc<TokenKey>,
    /// Print each request to standard error.
    pub log_sql: bool,
}

/// What a connection's thread is to do.
pub(super) enum Work {
    Request(Message),
    Attention,
}

/// What the reading task tells the executing thread past the queue.
#[derive(Default)]
pub(super) struct Signals {
    /// An attention came and was not acknowledged yet.
    pub(super) attention: AtomicBool,
    /// The client is gone, or the server stops: what was read ahead is not for anybody.
    pub(super) hung_up: AtomicBool,
    pub(super) cancel: Mutex<Option<CancelHandle>>,
    /// The session was killed: the connection ends.
    pub(super) killed: Notify,
    /// The requests that were read and are not answered yet.
    pub(super) pending: AtomicUsize,
    /// One more was answered.
    pub(super) answered: Notify,
}

impl Signals {
    pub(super) fn cancel(&self) {
        if let Some(handle) = &*self.cancel.lock() {
            handle.cancel();
        }
    }

    /// Unlike a cancel, it holds for a request too that is about to start.
    pub(super) fn kill(&self) {
        if let Some(handle) = &*self.cancel.lock() {
            handle.kill();
        }
    }

    /// Just after a thaw, what a client sent before it gave up runs first: it would have, on a server that was not
    /// frozen.
    pub(super) async fn let_received_requests_run(&self, gate: &Gate) {
        let Some(thawed) = gate.last_opened() else { return };
        let end = tokio::time::Instant::from_std(thawed + RUNS_ON_AFTER_THAW);
        while self.pending.load(Ordering::Acquire) > 0 {
            // A permit is kept for whoever comes to wait just after.
            if tokio::time::timeout_at(end, self.answered.notified()).await.is_err() {
                return;
            }
        }
    }

    pub(super) fn attention_pending(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }
}

/// Ends what runs when the reading task ends, however it ends: nobody waits for the answer any more.
pub(super) struct HangUpOnDrop<'a>(pub(super) &'a Signals);

impl Drop for HangUpOnDrop<'_> {
    fn drop(&mut self) {
        self.0.hung_up.store(true, Ordering::Release);
        self.0.kill();
    }
}
