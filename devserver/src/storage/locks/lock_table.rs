//! All locks of a database, and what each session holds. Who has to wait: see `wait.rs`.
//!
//! Locks come by [`LockTable::request`] (in `wait.rs`) and leave by [`LockTable::release`] (one) or
//! [`LockTable::release_all`] (the end of a transaction); both wake those whose turn it is.
//!
//! Sources: "Transaction locking and row versioning guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md), sys.dm_tran_locks.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::lock::{Holder, Lock, Slot};
use super::mode::LockMode;
use super::resource::{LockOwner, ObjectId, Resource};
use super::session::SessionHandle;

/// What became of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitStatus {
    Waiting,
    Granted,
    DeadlockVictim,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) resource: Resource,
    pub(super) status: WaitStatus,
    /// SET DEADLOCK_PRIORITY.
    pub(super) priority: i8,
    /// What a rollback of the transaction would have to undo.
    pub(super) undo_length: usize,
}

#[derive(Debug)]
pub(super) struct SessionLocks {
    pub(super) handle: SessionHandle,
    /// The resources held by the transaction; also some that were released out of order (`stale` of them).
    held: Vec<Resource>,
    stale: usize,
    /// The application locks held by the session.
    held_by_session: Vec<Resource>,
    pub(super) wait: Option<Wait>,
    /// The transaction has asked for a key range.
    has_ranges: bool,
}

impl SessionLocks {
    pub(super) fn held_mut(&mut self, owner: LockOwner) -> &mut Vec<Resource> {
        match owner {
            LockOwner::Transaction => &mut self.held,
            LockOwner::Session => &mut self.held_by_session,
        }
    }
}

/// All locks of the database.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    pub(super) locks: FxHashMap<Resource, Lock>,
    pub(super) sessions: Vec<Option<SessionLocks>>,
    /// How many transactions have asked for key ranges. While there are none, inserts need not test any.
    range_owners: usize,
    pub(super) application_names: FxHashMap<u64, Arc<str>>,
}

/// A list of held locks this long is not kept for the session's next transaction.
const HELD_CAPACITY: usize = 16 * 1024;

impl LockTable {
    pub(crate) fn add_session(&mut self, handle: SessionHandle) -> Slot {
        let session = SessionLocks {
            handle,
            held: Vec::new(),
            stale: 0,
            held_by_session: Vec::new(),
            wait: None,
            has_ranges: false,
        };
        let free = self.sessions.iter().position(Option::is_none);
        match free {
            Some(slot) => self.sessions[slot] = Some(session),
            None => self.sessions.push(Some(session)),
        }
        free.unwrap_or(self.sessions.len() - 1) as Slot
    }

    /// The session goes; it must hold nothing any more.
    pub(crate) fn remove_session(&mut self, slot: Slot) {
        self.sessions[slot as usize] = None;
    }

    pub(super) fn session(&mut self, slot: Slot) -> &mut SessionLocks {
        self.sessions[slot as usize].as_mut().expect("a session keeps its slot until it is closed")
    }

    /// A session comes: S on the database, even before somebody who waits to have it alone.
    pub(crate) fn enter_database(&mut self, slot: Slot) {
        let (owner, mode) = (LockOwner::Session, LockMode::Shared);
        match self.locks.entry(Resource::Database) {
            Entry::Vacant(vacant) => {
                vacant.insert(Lock { first: Holder { slot, owner, mode, count: 1 }, crowd: None });
            }
            Entry::Occupied(mut occupied) => {
                occupied.get_mut().grant(slot, owner, mode);
            }
        }
        self.session(slot).held_by_session.push(Resource::Database);
    }

    /// Whether nobody has a lock but on the database itself, as every session has.
    pub(crate) fn is_idle(&self) -> bool {
        self.locks.keys().all(|resource| *resource == Resource::Database)
    }

    /// The transaction is about to lock a key range.
    pub(crate) fn begin_ranges(&mut self, slot: Slot) {
        let session = self.session(slot);
        if !session.has_ranges {
            session.has_ranges = true;
            self.range_owners += 1;
        }
    }

    /// Whether the transaction has asked for a key range.
    pub(crate) fn owns_ranges(&self, slot: Slot) -> bool {
        self.sessions[slot as usize].as_ref().is_some_and(|session| session.has_ranges)
    }

    pub(crate) fn has_ranges(&self) -> bool {
        self.range_owners > 0
    }

    /// Whether the lock could be had now. Enough for a shared lock that would be released before anybody else can look.
    pub(crate) fn is_free(&self, slot: Slot, resource: Resource, mode: LockMode) -> bool {
        self.is_free_for(slot, LockOwner::Transaction, resource, mode)
    }

    pub(crate) fn is_free_for(&self, slot: Slot, owner: LockOwner, resource: Resource, mode: LockMode) -> bool {
        match self.locks.get(&resource) {
            None => true,
            Some(lock) => lock.can_grant(slot, owner, mode),
        }
    }

    /// The mode in which the owner holds the resource.
    pub(crate) fn held_mode(&self, slot: Slot, owner: LockOwner, resource: Resource) -> Option<LockMode> {
        let lock = self.locks.get(&resource)?;
        let holder = lock.holders().find(|holder| holder.slot == slot && holder.owner == owner)?;
        Some(holder.mode)
    }

    /// Takes back one grant.
    pub(crate) fn release(&mut self, slot: Slot, owner: LockOwner, resource: Resource) {
        if !self.let_go(slot, owner, resource, false) {
            return;
        }
        let session = self.session(slot);
        let held = session.held_mut(owner);
        if held.last() == Some(&resource) {
            held.pop();
            return;
        }
        if owner == LockOwner::Session {
            held.retain(|other| *other != resource);
            return;
        }
        // Searching the list would make a statement's cost grow with the square of its locks: the entry stays behind.
        session.stale += 1;
        if session.stale > 64 && session.stale > session.held.len() / 2 {
            self.forget_stale(slot);
        }
    }

    fn forget_stale(&mut self, slot: Slot) {
        let mut held = std::mem::take(&mut self.session(slot).held);
        let mut seen = rustc_hash::FxHashSet::default();
        held.retain(|resource| {
            self.held_mode(slot, LockOwner::Transaction, *resource).is_some() && seen.insert(*resource)
        });
        let session = self.session(slot);
        session.held = held;
        session.stale = 0;
    }

    /// Releases everything the owner holds.
    pub(crate) fn release_all(&mut self, slot: Slot, owner: LockOwner) {
        let mut held = std::mem::take(self.session(slot).held_mut(owner));
        for resource in held.drain(..) {
            self.let_go(slot, owner, resource, true);
        }
        let session = self.session(slot);
        let mut had_ranges = false;
        if owner == LockOwner::Transaction {
            session.stale = 0;
            had_ranges = std::mem::take(&mut session.has_ranges);
        }
        if held.capacity() <= HELD_CAPACITY {
            *session.held_mut(owner) = held;
        }
        self.range_owners -= usize::from(had_ranges);
    }

    /// Takes back a grant that was only a test, and gives the holder the mode back that it had before.
    pub(crate) fn end_test(&mut self, slot: Slot, owner: LockOwner, resource: Resource, before: Option<LockMode>) {
        self.release(slot, owner, resource);
        let lock = self.locks.get_mut(&resource);
        if let (Some(mode), Some(lock)) = (before, lock)
            && let Some(holder) = lock.holder_mut(slot, owner)
        {
            holder.mode = mode;
            self.grant_waiters(resource);
        }
    }

    /// Releases the transaction's key locks of a table: lock escalation has replaced them.
    pub(crate) fn release_keys(&mut self, slot: Slot, table: ObjectId) {
        let mut held = std::mem::take(&mut self.session(slot).held);
        held.retain(|resource| {
            let is_key = matches!(resource, Resource::Key { object, .. } if *object == table);
            if is_key {
                self.let_go(slot, LockOwner::Transaction, *resource, true);
            }
            !is_key
        });
        self.session(slot).held = held;
    }

    /// Takes a grant (or all of them) off the lock. True if the owner now holds nothing there.
    fn let_go(&mut self, slot: Slot, owner: LockOwner, resource: Resource, all: bool) -> bool {
        let Entry::Occupied(mut occupied) = self.locks.entry(resource) else {
            return false;
        };
        let lock = occupied.get_mut();
        let Some(holder) = lock.holder_mut(slot, owner) else {
            return false;
        };
        if !all && holder.count > 1 {
            holder.count -= 1;
            return false;
        }
        let Some(crowd) = lock.crowd.as_mut() else {
            occupied.remove();
            self.forget_name(resource);
            return true;
        };
        if lock.first.slot != slot || lock.first.owner != owner {
            crowd.holders.retain(|holder| holder.slot != slot || holder.owner != owner);
        } else if let Some(next) = crowd.holders.pop() {
            lock.first = next;
        } else {
            let Some(waiter) = lock.next_grantable(true) else {
                occupied.remove();
                self.forget_name(resource);
                return true;
            };
            lock.first = Holder { slot: waiter.slot, owner: waiter.owner, mode: waiter.mode, count: 1 };
            self.wake(waiter, resource, true);
        }
        self.grant_waiters(resource);
        true
    }

    /// Remembers the name of an application lock while there is one, for sys.dm_tran_locks.
    pub(crate) fn remember_name(&mut self, resource: Resource, name: &str) {
        if let (Resource::Application(hash), true) = (resource, self.locks.contains_key(&resource)) {
            self.application_names.entry(hash).or_insert_with(|| name.into());
        }
    }

    fn forget_name(&mut self, resource: Resource) {
        if let Resource::Application(hash) = resource {
            self.application_names.remove(&hash);
        }
    }
}
