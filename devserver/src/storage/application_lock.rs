//! Locks that are on no data: those of sp_getapplock, and on the database as a whole.

use std::time::Duration;

use super::database::Latch;
use super::locks::mode::LockMode;
use super::locks::resource::{LockOwner, Resource};
use super::transaction::Transaction;
use crate::error::SqlResult;

impl Latch<'_> {
    /// Takes an application lock (sp_getapplock). True if it was granted at once, false if after a wait.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn lock_application(
        &mut self,
        tx: &mut Transaction,
        owner: LockOwner,
        name: &str,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> SqlResult<bool> {
        let resource = Resource::application(name);
        let granted = self.acquire(tx, owner, resource, mode, timeout);
        self.state().locks.remember_name(resource, name);
        granted.map(|grant| !grant.waited)
    }

    /// Releases one grant of an application lock. False if the owner holds none.
    pub fn unlock_application(&mut self, tx: &Transaction, owner: LockOwner, name: &str) -> bool {
        let resource = Resource::application(name);
        let is_held = self.state().locks.held_mode(tx.slot, owner, resource).is_some();
        self.state().locks.release(tx.slot, owner, resource);
        is_held
    }

    /// The mode in which the owner holds an application lock (APPLOCK_MODE).
    pub fn application_lock_mode(&self, tx: &Transaction, owner: LockOwner, name: &str) -> Option<LockMode> {
        self.state_ref().locks.held_mode(tx.slot, owner, Resource::application(name))
    }

    /// Whether an application lock could be had now (APPLOCK_TEST).
    pub fn is_application_lock_free(&self, tx: &Transaction, owner: LockOwner, name: &str, mode: LockMode) -> bool {
        self.state_ref().locks.is_free_for(tx.slot, owner, Resource::application(name), mode)
    }

    /// Waits until no other session is in the database. It holds until the latch is given up.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn be_alone(&mut self, tx: &Transaction, timeout: Option<Duration>) -> SqlResult<()> {
        let (owner, resource) = (LockOwner::Session, Resource::Database);
        let before = self.state().locks.held_mode(tx.slot, owner, resource);
        self.acquire(tx, owner, resource, LockMode::Exclusive, timeout)?;
        self.state().locks.end_test(tx.slot, owner, resource, before);
        Ok(())
    }
}
