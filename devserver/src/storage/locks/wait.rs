//! A lock from asking to its end. Read this file from top to bottom:
//!
//! ```text
//! LockTable::request        granted at once ───────────────────────────────▶ the statement goes on
//!     │ blocked
//! wait                      LockTable::enqueue: to its place in the queue
//!     │
//!     ├─ looks at its WaitStatus ─▶ sleep (the latch goes to others) ─┐
//!     │                                                               │
//!     └──────◀ woken by ◀─────────────────────────────────────────────┘
//!                 grant_waiters      somebody has released: granted
//!                 resolve_deadlocks  a circle of waits: chosen as the victim, 1205
//!                 the deadline       LOCK_TIMEOUT is over, 1222
//!                 a cancel, a kill   3617, 596
//! ```
//!
//! Whoever is woken has the latch again, and looks before it believes anything. All of this is called with the latch
//! held: by `Latch::acquire`, which is how statements come here.

use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::lock::{Holder, Lock, Slot, Waiter};
use super::lock_table::{LockTable, Wait, WaitStatus};
use super::mode::LockMode;
use super::resource::{LockOwner, Resource};
use super::session::SessionHandle;
use crate::error::{SqlError, SqlResult};

/// The answer to a request that does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Granted; `new` if the owner held nothing on the resource before.
    Granted {
        new: bool,
    },
    Blocked,
}

/// A request that was blocked, and how it waits.
pub(crate) struct BlockedRequest<'a> {
    pub(crate) session: &'a SessionHandle,
    pub(crate) slot: Slot,
    pub(crate) owner: LockOwner,
    pub(crate) resource: Resource,
    pub(crate) mode: LockMode,
    /// `None` waits for ever.
    pub(crate) timeout: Option<Duration>,
    /// SET DEADLOCK_PRIORITY.
    pub(crate) priority: i8,
    /// What a rollback of the transaction would have to undo.
    pub(crate) undo_length: usize,
}

/// A lock that was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// The transaction held nothing there before.
    pub(crate) new: bool,
    /// The latch was given up meanwhile.
    pub(crate) waited: bool,
}

impl LockTable {
    /// Takes the lock if that needs no waiting.
    pub(crate) fn request(&mut self, slot: Slot, owner: LockOwner, resource: Resource, mode: LockMode) -> Answer {
        let new = match self.locks.entry(resource) {
            Entry::Vacant(vacant) => {
                vacant.insert(Lock { first: Holder { slot, owner, mode, count: 1 }, crowd: None });
                true
            }
            Entry::Occupied(mut occupied) => {
                let lock = occupied.get_mut();
                if !lock.can_grant(slot, owner, mode) {
                    return Answer::Blocked;
                }
                lock.grant(slot, owner, mode)
            }
        };
        if new {
            self.session(slot).held_mut(owner).push(resource);
        }
        Answer::Granted { new }
    }
}

/// Waits for a lock. `locks_of` finds the lock table in what the latch guards.
///
/// # Errors
///
/// 1222 (lock timeout), 1205 (deadlock victim), 3617 (cancelled), 596 (killed).
pub(crate) fn wait<S>(
    latch: &mut MutexGuard<'_, S>,
    locks_of: fn(&mut S) -> &mut LockTable,
    request: &BlockedRequest<'_>,
) -> SqlResult<Grant> {
    let BlockedRequest { session, slot, owner, resource, .. } = *request;
    let held_before = locks_of(latch).held_mode(slot, owner, resource).is_some();
    let deadline = request.timeout.map(|timeout| Instant::now() + timeout);
    locks_of(latch).enqueue(request);
    loop {
        let locks = locks_of(latch);
        let status = locks.wait_status(slot);
        // Also where the lock was granted since: who is gone must not go on with it.
        if let Err(error) = session.check_interruption() {
            locks.cancel_wait(slot);
            if status == WaitStatus::Granted && !held_before {
                locks.release(slot, owner, resource);
            }
            return Err(error);
        }
        match status {
            WaitStatus::Granted => {
                return Ok(Grant { new: !held_before, waited: true });
            }
            WaitStatus::DeadlockVictim => return Err(deadlock_victim(session.spid())),
            WaitStatus::Waiting => {}
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            locks.cancel_wait(slot);
            return Err(lock_timeout());
        }
        session.sleep(latch, deadline);
    }
}

impl LockTable {
    /// Queues a request that was blocked, and chooses a victim for every deadlock that comes of it.
    fn enqueue(&mut self, request: &BlockedRequest<'_>) {
        let BlockedRequest { slot, owner, resource, mode, priority, undo_length, .. } = *request;
        let lock = self.locks.get_mut(&resource).expect("a blocked request has somebody who blocks it");
        let (aim, converting) = lock.aim(slot, owner, mode);
        let waiter = Waiter { slot, owner, mode: aim, converting };
        let queue = &mut lock.crowd.get_or_insert_default().queue;
        let position =
            if converting { queue.iter().take_while(|waiter| waiter.converting).count() } else { queue.len() };
        queue.insert(position, waiter);
        self.session(slot).wait = Some(Wait { resource, status: WaitStatus::Waiting, priority, undo_length });
        self.resolve_deadlocks(slot);
    }

    /// How the session's wait stands. A wait that is over is forgotten with the answer.
    fn wait_status(&mut self, slot: Slot) -> WaitStatus {
        let session = self.session(slot);
        let status = session.wait.expect("asked by a session that waits").status;
        if status != WaitStatus::Waiting {
            session.wait = None;
        }
        status
    }

    /// Looks for a circle of waits through `requester`, which has just begun to wait, and breaks it. Every deadlock has
    /// such a moment: the others in the circle waited before, and only one who runs can close it.
    fn resolve_deadlocks(&mut self, requester: Slot) {
        while let Some(victim) = self.find_victim(requester) {
            let session = self.session(victim);
            let wait = session.wait.as_mut().expect("everybody in the circle waits");
            wait.status = WaitStatus::DeadlockVictim;
            let resource = wait.resource;
            session.handle.wake();
            self.leave_queue(victim, resource);
        }
    }

    /// A lock was released, or a queue has become shorter: grants it to those whose turn it is.
    pub(super) fn grant_waiters(&mut self, resource: Resource) {
        loop {
            let Some(lock) = self.locks.get_mut(&resource) else {
                return;
            };
            let Some(waiter) = lock.next_grantable(false) else {
                return;
            };
            let new = lock.grant(waiter.slot, waiter.owner, waiter.mode);
            self.wake(waiter, resource, new);
        }
    }

    pub(super) fn wake(&mut self, waiter: Waiter, resource: Resource, new: bool) {
        let session = self.session(waiter.slot);
        if new {
            session.held_mut(waiter.owner).push(resource);
        }
        session.wait.as_mut().expect("whoever stands in a queue waits").status = WaitStatus::Granted;
        session.handle.wake();
    }

    /// Takes the session out of the queue it waits in: timeout, cancel, server stop.
    fn cancel_wait(&mut self, slot: Slot) {
        let Some(wait) = self.session(slot).wait.take() else {
            return;
        };
        if wait.status == WaitStatus::Waiting {
            self.leave_queue(slot, wait.resource);
        }
    }

    fn leave_queue(&mut self, slot: Slot, resource: Resource) {
        if let Some(crowd) = self.locks.get_mut(&resource).and_then(|lock| lock.crowd.as_mut()) {
            crowd.queue.retain(|waiter| waiter.slot != slot);
        }
        // Those behind it may have waited for nothing else.
        self.grant_waiters(resource);
    }
}

pub(crate) fn lock_timeout() -> SqlError {
    SqlError::new(1222, "Lock request time out period exceeded.").state(51)
}

fn deadlock_victim(spid: i32) -> SqlError {
    let message = format!(
        "Transaction (Process ID {spid}) was deadlocked on lock resources with another process and has been chosen as \
         the deadlock victim. Rerun the transaction."
    );
    SqlError::new(1205, message).severity(13).state(51)
}
