//! What a statement waits for with the latch in hand: a lock, a time (WAITFOR), and now and then nothing at all, so
//! that others get on. How a wait for a lock goes and ends is told in `locks/wait.rs`.

use std::time::{Duration, Instant};

use super::database::Latch;
use super::locks::mode::LockMode;
use super::locks::resource::{LockOwner, Resource};
use super::locks::view::{LockInfo, WaitInfo};
use super::locks::wait::{Answer, BlockedRequest, Grant, lock_timeout, wait};
use super::transaction::Transaction;
use crate::error::SqlResult;

/// After so many rows a statement lets other sessions have the latch and looks whether it was cancelled: some
/// milliseconds of work.
const ROWS_BETWEEN_YIELDS: u32 = 2_000;

impl Latch<'_> {
    /// Takes a lock, waiting for it if need be. When it had to wait, everything may have changed meanwhile.
    pub(super) fn acquire(
        &mut self,
        tx: &Transaction,
        owner: LockOwner,
        resource: Resource,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> SqlResult<Grant> {
        match self.state().locks.request(tx.slot, owner, resource, mode) {
            Answer::Granted { new } => return Ok(Grant { new, waited: false }),
            Answer::Blocked if timeout == Some(Duration::ZERO) => return Err(lock_timeout()),
            Answer::Blocked => {}
        }
        self.rows_since_yield = 0;
        let request = BlockedRequest {
            session: &tx.session,
            slot: tx.slot,
            owner,
            resource,
            mode,
            timeout,
            priority: tx.deadlock_priority,
            undo_length: tx.undo.len(),
        };
        wait(self.guard(), |state| &mut state.locks, &request)
    }

    /// Gives the latch up until the deadline (WAITFOR).
    ///
    /// # Errors
    ///
    /// 3617 and 596 if it ends early.
    pub fn wait_until(&mut self, tx: &Transaction, deadline: Instant) -> SqlResult<()> {
        loop {
            tx.session.check_interruption()?;
            if Instant::now() >= deadline {
                return Ok(());
            }
            self.rows_since_yield = 0;
            tx.session.sleep(self.guard(), Some(deadline));
        }
    }

    /// For long loops: lets others have the latch, and says whether to go on.
    ///
    /// # Errors
    ///
    /// 3617 (cancelled), 596 (killed).
    pub fn checkpoint(&mut self, tx: &Transaction) -> SqlResult<()> {
        self.offer_to_others();
        tx.session.check_interruption()
    }

    /// One more row was read or changed. The latch goes to others now and then.
    pub fn count_row(&mut self, tx: &Transaction) -> SqlResult<()> {
        self.rows_since_yield += 1;
        if self.rows_since_yield < ROWS_BETWEEN_YIELDS {
            return Ok(());
        }
        self.checkpoint(tx)
    }

    /// Every lock that is held or waited for: sys.dm_tran_locks. Those of sessions on the database itself stand apart;
    /// those on names are not shown.
    pub fn locks(&self) -> Vec<LockInfo> {
        let mut locks = self.state_ref().locks.list();
        locks.retain(|lock| !matches!(lock.resource, Resource::Database | Resource::Name(_)));
        locks
    }

    /// The locks of sessions on the database itself.
    pub fn database_locks(&self) -> Vec<LockInfo> {
        let mut locks = self.state_ref().locks.list();
        locks.retain(|lock| lock.resource == Resource::Database);
        locks
    }

    /// Who waits for a lock, and for whom.
    pub fn waits(&self) -> Vec<WaitInfo> {
        self.state_ref().locks.waits()
    }

    /// How many sessions wait for a lock.
    pub fn waiting_count(&self) -> usize {
        self.state_ref().locks.waiting_count()
    }
}
