//! A session as others may hold it: to wake it where it sleeps, and to end what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, MutexGuard};

use crate::error::{SqlError, SqlResult};

/// What other threads may hold of a session, to cancel what it does.
#[derive(Debug, Clone)]
pub struct SessionHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    spid: i32,
    wake: Condvar,
    cancelled: AtomicBool,
    killed: AtomicBool,
}

impl SessionHandle {
    pub(crate) fn new(spid: i32) -> Self {
        let (cancelled, killed) = (AtomicBool::new(false), AtomicBool::new(false));
        SessionHandle(Arc::new(Shared { spid, wake: Condvar::new(), cancelled, killed }))
    }

    /// The number of the session, @@SPID.
    pub fn spid(&self) -> i32 {
        self.0.spid
    }

    /// Killed is cancelled for good.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire) || self.is_killed()
    }

    pub fn is_killed(&self) -> bool {
        self.0.killed.load(Ordering::Acquire)
    }

    /// Forgets a cancel: at the start of a batch.
    pub fn clear_cancel(&self) {
        self.0.cancelled.store(false, Ordering::Release);
    }

    /// The session is to end what it does. It finds out when it is woken, or at its next look.
    pub(crate) fn set_cancelled(&self) {
        self.0.cancelled.store(true, Ordering::Release);
    }

    pub(crate) fn set_killed(&self) {
        self.0.killed.store(true, Ordering::Release);
    }

    /// Whether to go on.
    ///
    /// # Errors
    ///
    /// 596 (killed), 3617 (cancelled).
    pub(crate) fn check_interruption(&self) -> SqlResult<()> {
        if self.is_killed() {
            return Err(SqlError::new(596, "Cannot continue the execution because the session is in the kill state.")
                .severity(21));
        }
        if self.is_cancelled() {
            return Err(SqlError::new(3617, "The query was cancelled by the client.").severity(11));
        }
        Ok(())
    }

    /// Gives the latch to others and sleeps, until the session is woken or the deadline is there. The latch is held
    /// again afterwards.
    pub(crate) fn sleep<S>(&self, latch: &mut MutexGuard<'_, S>, deadline: Option<Instant>) {
        match deadline {
            None => self.0.wake.wait(latch),
            Some(deadline) => {
                self.0.wake.wait_until(latch, deadline);
            }
        }
    }

    /// Wakes the session's thread if it sleeps. The caller holds the latch, so that no wake-up can be missed.
    pub(crate) fn wake(&self) {
        self.0.wake.notify_one();
    }
}
