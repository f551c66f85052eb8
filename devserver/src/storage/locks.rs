//! The lock manager: who holds which lock, who waits for it, and who must give way in a deadlock. `README.md` beside
//! this file explains the rules and why they are these.
//!
//! A request goes [`LockTable::request`] → granted, or blocked. A blocked one that wants to wait goes
//! [`LockTable::enqueue`] (which also looks for a deadlock), and sleeps until its [`WaitStatus`] changes. Locks leave
//! by [`LockTable::release`] (one) or [`LockTable::release_all`] (the end of a transaction); both wake those whose turn
//! it is.
//!
//! Sources: "Transaction locking and row versioning guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md), sys.dm_tran_locks.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::database::SessionHandle;
use super::lock_mode::LockMode;
use super::schema::{IndexId, ObjectId};

/// What SQL Server shows as `(ffffffffffff)`.
pub const END_OF_INDEX: u64 = u64::MAX;

/// What is locked. A key is known by a hash of its bytes, as in SQL Server; with 64 bits instead of SQL Server's 48.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Held by every session: S, or X by one that wants the database for itself.
    Database,
    Table(ObjectId),
    Key {
        object: ObjectId,
        index: IndexId,
        hash: u64,
    },
    /// The name of an application lock, hashed.
    Application(u64),
}

impl Resource {
    pub(super) fn key(object: ObjectId, index: IndexId, bytes: &[u8]) -> Resource {
        Resource::Key { object, index, hash: FxBuildHasher.hash_one(bytes) }
    }

    /// Stands for the gap behind the last key of an index.
    pub(super) fn end_of(object: ObjectId, index: IndexId) -> Resource {
        Resource::Key { object, index, hash: END_OF_INDEX }
    }

    pub(super) fn application(name: &str) -> Resource {
        Resource::Application(FxBuildHasher.hash_one(name))
    }
}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let word = match *self {
            Resource::Database => 1,
            Resource::Table(object) => object as u64,
            Resource::Key { object, index, hash } => hash ^ ((object as u64) << 32) ^ (u64::from(index) << 16),
            Resource::Application(hash) => !hash,
        };
        state.write_u64(word);
    }
}

/// Who keeps a lock: the transaction until its end, or the session (sp_getapplock with @LockOwner = 'Session').
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOwner {
    Transaction,
    Session,
}

/// sys.dm_tran_locks.request_status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockStatus {
    Granted,
    Waiting,
    Converting,
}

/// A line of sys.dm_tran_locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    pub spid: i32,
    pub owner: LockOwner,
    pub resource: Resource,
    /// The name of an application lock.
    pub name: Option<Arc<str>>,
    pub mode: LockMode,
    pub status: LockStatus,
}

/// A session that waits for a lock.
#[derive(Debug, Clone, Copy)]
pub struct WaitInfo {
    pub spid: i32,
    /// The first of those it waits for.
    pub blocking_spid: Option<i32>,
    pub resource: Resource,
    pub mode: LockMode,
    pub since: Instant,
}

/// The position of a session in the lock manager.
pub(super) type Slot = u32;

/// The answer to a request that does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Granted; `new` if the owner held nothing on the resource before.
    Granted {
        new: bool,
    },
    Blocked,
}

/// What became of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitStatus {
    Waiting,
    Granted,
    DeadlockVictim,
}

#[derive(Debug, Clone, Copy)]
struct Holder {
    slot: Slot,
    owner: LockOwner,
    mode: LockMode,
    /// How often it was granted: it takes as many releases to let go.
    count: u32,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    slot: Slot,
    owner: LockOwner,
    /// For a conversion the mode it is to become.
    mode: LockMode,
    /// The session already holds a lock here: it need not stand behind those who hold none.
    converting: bool,
}

/// One lock. Nearly all have one holder and nobody waiting, which must cost no allocation.
#[derive(Debug)]
struct Lock {
    first: Holder,
    crowd: Option<Box<Crowd>>,
}

#[derive(Debug, Default)]
struct Crowd {
    holders: Vec<Holder>,
    /// Conversions first, then the others, each in the order they came.
    queue: VecDeque<Waiter>,
}

impl Lock {
    fn holders(&self) -> impl Iterator<Item = &Holder> {
        std::iter::once(&self.first).chain(self.crowd.iter().flat_map(|crowd| &crowd.holders))
    }

    fn holder_mut(&mut self, slot: Slot, owner: LockOwner) -> Option<&mut Holder> {
        if self.first.slot == slot && self.first.owner == owner {
            return Some(&mut self.first);
        }
        let crowd = self.crowd.as_mut()?;
        crowd.holders.iter_mut().find(|holder| holder.slot == slot && holder.owner == owner)
    }

    fn queue(&self) -> impl Iterator<Item = &Waiter> {
        self.crowd.iter().flat_map(|crowd| &crowd.queue)
    }

    fn has_queue(&self) -> bool {
        self.crowd.as_ref().is_some_and(|crowd| !crowd.queue.is_empty())
    }

    /// Whether no other session's lock stands against `mode`. A session never blocks itself.
    fn admits(&self, slot: Slot, mode: LockMode) -> bool {
        self.holders().all(|holder| holder.slot == slot || mode.is_compatible_with(holder.mode))
    }

    /// How a request stands: the mode it asks for in the end, and whether the session is a holder already.
    fn aim(&self, slot: Slot, owner: LockOwner, mode: LockMode) -> (LockMode, bool) {
        let mut aim = mode;
        let mut is_holder = false;
        for holder in self.holders().filter(|holder| holder.slot == slot) {
            is_holder = true;
            if holder.owner == owner {
                aim = holder.mode.join(mode);
            }
        }
        (aim, is_holder)
    }

    fn can_grant(&self, slot: Slot, owner: LockOwner, mode: LockMode) -> bool {
        let (aim, is_holder) = self.aim(slot, owner, mode);
        (is_holder || !self.has_queue()) && self.admits(slot, aim)
    }

    /// Adds a grant. True if the owner held nothing here before.
    fn grant(&mut self, slot: Slot, owner: LockOwner, mode: LockMode) -> bool {
        if let Some(holder) = self.holder_mut(slot, owner) {
            holder.mode = holder.mode.join(mode);
            holder.count += 1;
            return false;
        }
        self.crowd.get_or_insert_default().holders.push(Holder { slot, owner, mode, count: 1 });
        true
    }

    /// The next waiter that can be granted, taken out of the queue.
    fn next_grantable(&mut self, nobody_holds: bool) -> Option<Waiter> {
        let queue = &self.crowd.as_ref()?.queue;
        let admits = |waiter: &Waiter| nobody_holds || self.admits(waiter.slot, waiter.mode);
        let conversions = queue.iter().take_while(|waiter| waiter.converting).count();
        let position = if conversions > 0 {
            queue.iter().take(conversions).position(admits)?
        } else {
            queue.front().filter(|waiter| admits(waiter))?;
            0
        };
        self.crowd.as_mut()?.queue.remove(position)
    }
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    resource: Resource,
    status: WaitStatus,
    /// SET DEADLOCK_PRIORITY.
    priority: i8,
    /// What a rollback of the transaction would have to undo.
    undo_length: usize,
    since: Instant,
}

#[derive(Debug)]
struct SessionLocks {
    handle: SessionHandle,
    /// The resources held by the transaction; also some that were released out of order (`stale` of them).
    held: Vec<Resource>,
    stale: usize,
    /// The application locks held by the session.
    held_by_session: Vec<Resource>,
    wait: Option<Wait>,
    /// The transaction has asked for a key range.
    has_ranges: bool,
}

impl SessionLocks {
    fn held_mut(&mut self, owner: LockOwner) -> &mut Vec<Resource> {
        match owner {
            LockOwner::Transaction => &mut self.held,
            LockOwner::Session => &mut self.held_by_session,
        }
    }
}

/// All locks of the database.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    locks: FxHashMap<Resource, Lock>,
    sessions: Vec<Option<SessionLocks>>,
    /// How many transactions have asked for key ranges. While there are none, inserts need not test any.
    range_owners: usize,
    application_names: FxHashMap<u64, Arc<str>>,
}

/// A list of held locks this long is not kept for the session's next transaction.
const HELD_CAPACITY: usize = 16 * 1024;

impl LockTable {
    pub(super) fn add_session(&mut self, handle: SessionHandle) -> Slot {
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
    pub(super) fn remove_session(&mut self, slot: Slot) {
        self.sessions[slot as usize] = None;
    }

    fn session(&mut self, slot: Slot) -> &mut SessionLocks {
        self.sessions[slot as usize].as_mut().expect("a session keeps its slot until it is closed")
    }

    /// A session comes: S on the database, even before somebody who waits to have it alone.
    pub(super) fn enter_database(&mut self, slot: Slot) {
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

    /// The transaction is about to lock a key range.
    pub(super) fn begin_ranges(&mut self, slot: Slot) {
        let session = self.session(slot);
        if !session.has_ranges {
            session.has_ranges = true;
            self.range_owners += 1;
        }
    }

    /// Whether the transaction has asked for a key range.
    pub(super) fn owns_ranges(&self, slot: Slot) -> bool {
        self.sessions[slot as usize].as_ref().is_some_and(|session| session.has_ranges)
    }

    pub(super) fn has_ranges(&self) -> bool {
        self.range_owners > 0
    }

    /// Whether the lock could be had now. Enough for a shared lock that would be released before anybody else can look.
    pub(super) fn is_free(&self, slot: Slot, resource: Resource, mode: LockMode) -> bool {
        self.is_free_for(slot, LockOwner::Transaction, resource, mode)
    }

    pub(super) fn is_free_for(&self, slot: Slot, owner: LockOwner, resource: Resource, mode: LockMode) -> bool {
        match self.locks.get(&resource) {
            None => true,
            Some(lock) => lock.can_grant(slot, owner, mode),
        }
    }

    /// Whether anybody holds the resource in any mode.
    pub(super) fn is_held(&self, resource: Resource) -> bool {
        self.locks.contains_key(&resource)
    }

    /// Whether anybody holds a table in a mode under which changes of it need no locks of their own.
    pub(super) fn is_held_exclusively(&self, table: Resource) -> bool {
        let is_whole = |mode: LockMode| matches!(mode, LockMode::Exclusive | LockMode::SchemaModification);
        self.locks.get(&table).is_some_and(|lock| lock.holders().any(|holder| is_whole(holder.mode)))
    }

    /// The mode in which the owner holds the resource.
    pub(super) fn held_mode(&self, slot: Slot, owner: LockOwner, resource: Resource) -> Option<LockMode> {
        let lock = self.locks.get(&resource)?;
        let holder = lock.holders().find(|holder| holder.slot == slot && holder.owner == owner)?;
        Some(holder.mode)
    }

    /// Takes the lock if that needs no waiting.
    pub(super) fn request(&mut self, slot: Slot, owner: LockOwner, resource: Resource, mode: LockMode) -> Answer {
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

    /// Queues a request that was blocked, and chooses a victim for every deadlock that comes of it.
    pub(super) fn enqueue(
        &mut self,
        slot: Slot,
        owner: LockOwner,
        resource: Resource,
        mode: LockMode,
        priority: i8,
        undo_length: usize,
    ) {
        let lock = self.locks.get_mut(&resource).expect("a blocked request has somebody who blocks it");
        let (aim, converting) = lock.aim(slot, owner, mode);
        let waiter = Waiter { slot, owner, mode: aim, converting };
        let queue = &mut lock.crowd.get_or_insert_default().queue;
        let position =
            if converting { queue.iter().take_while(|waiter| waiter.converting).count() } else { queue.len() };
        queue.insert(position, waiter);
        self.session(slot).wait =
            Some(Wait { resource, status: WaitStatus::Waiting, priority, undo_length, since: Instant::now() });
        self.resolve_deadlocks(slot);
    }

    /// How the session's wait stands. A wait that is over is forgotten with the answer.
    pub(super) fn wait_status(&mut self, slot: Slot) -> WaitStatus {
        let session = self.session(slot);
        let status = session.wait.expect("asked by a session that waits").status;
        if status != WaitStatus::Waiting {
            session.wait = None;
        }
        status
    }

    /// Takes the session out of the queue it waits in: timeout, cancel, server stop.
    pub(super) fn cancel_wait(&mut self, slot: Slot) {
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

    /// Takes back one grant.
    pub(super) fn release(&mut self, slot: Slot, owner: LockOwner, resource: Resource) {
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
    pub(super) fn release_all(&mut self, slot: Slot, owner: LockOwner) {
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
    pub(super) fn end_test(&mut self, slot: Slot, owner: LockOwner, resource: Resource, before: Option<LockMode>) {
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
    pub(super) fn release_keys(&mut self, slot: Slot, table: ObjectId) {
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

    fn grant_waiters(&mut self, resource: Resource) {
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

    fn wake(&mut self, waiter: Waiter, resource: Resource, new: bool) {
        let session = self.session(waiter.slot);
        if new {
            session.held_mut(waiter.owner).push(resource);
        }
        session.wait.as_mut().expect("whoever stands in a queue waits").status = WaitStatus::Granted;
        session.handle.wake();
    }

    /// Looks for a circle of waits through `requester`, which has just begun to wait, and breaks it. Every deadlock has
    /// such a moment: the others in the circle waited before, and only one who runs can close it.
    fn resolve_deadlocks(&mut self, requester: Slot) {
        while let Some(circle) = self.find_circle(requester) {
            let victim = circle
                .into_iter()
                .min_by_key(|slot| {
                    let wait = self.sessions[*slot as usize].as_ref().and_then(|session| session.wait);
                    let wait = wait.expect("everybody in the circle waits");
                    (wait.priority, wait.undo_length, *slot != requester)
                })
                .expect("the circle has the requester in it");
            let session = self.session(victim);
            let wait = session.wait.as_mut().expect("everybody in the circle waits");
            wait.status = WaitStatus::DeadlockVictim;
            let resource = wait.resource;
            session.handle.wake();
            self.leave_queue(victim, resource);
        }
    }

    /// The sessions of a circle of waits through `start`, by depth-first search.
    fn find_circle(&self, start: Slot) -> Option<Vec<Slot>> {
        let mut visited = vec![start];
        // The path from `start`, each with those it waits for and that have not been looked at yet.
        let mut path = vec![(start, self.blockers(start))];
        while let Some((_, unexplored)) = path.last_mut() {
            let Some(blocker) = unexplored.pop() else {
                path.pop();
                continue;
            };
            if blocker == start {
                return Some(path.into_iter().map(|(slot, _)| slot).collect());
            }
            if !visited.contains(&blocker) {
                visited.push(blocker);
                path.push((blocker, self.blockers(blocker)));
            }
        }
        None
    }

    /// The sessions that must do something before this one's wait can end.
    fn blockers(&self, slot: Slot) -> Vec<Slot> {
        let wait = self.sessions[slot as usize].as_ref().and_then(|session| session.wait);
        let Some(wait) = wait.filter(|wait| wait.status == WaitStatus::Waiting) else {
            return Vec::new();
        };
        let Some(lock) = self.locks.get(&wait.resource) else {
            return Vec::new();
        };
        let Some(position) = lock.queue().position(|waiter| waiter.slot == slot) else {
            return Vec::new();
        };
        let me = *lock.queue().nth(position).expect("it was found there");
        let mut blockers: Vec<Slot> = lock
            .holders()
            .filter(|holder| holder.slot != slot && !me.mode.is_compatible_with(holder.mode))
            .map(|holder| holder.slot)
            .collect();
        // A conversion passes the others; everybody else waits for the whole queue before it.
        if !me.converting {
            blockers.extend(lock.queue().take(position).map(|waiter| waiter.slot));
        }
        blockers
    }

    /// Remembers the name of an application lock while there is one, for sys.dm_tran_locks.
    pub(super) fn remember_name(&mut self, resource: Resource, name: &str) {
        if let (Resource::Application(hash), true) = (resource, self.locks.contains_key(&resource)) {
            self.application_names.entry(hash).or_insert_with(|| name.into());
        }
    }

    fn forget_name(&mut self, resource: Resource) {
        if let Resource::Application(hash) = resource {
            self.application_names.remove(&hash);
        }
    }

    /// Every lock that is held or waited for.
    pub(super) fn list(&self) -> Vec<LockInfo> {
        let mut list = Vec::new();
        for (resource, lock) in &self.locks {
            let mut add = |slot: Slot, owner, mode, status| {
                let Some(session) = &self.sessions[slot as usize] else {
                    return;
                };
                let name = match resource {
                    Resource::Application(hash) => self.application_names.get(hash).cloned(),
                    _ => None,
                };
                list.push(LockInfo { spid: session.handle.spid(), owner, resource: *resource, name, mode, status });
            };
            for holder in lock.holders() {
                add(holder.slot, holder.owner, holder.mode, LockStatus::Granted);
            }
            for waiter in lock.queue() {
                let status = if waiter.converting { LockStatus::Converting } else { LockStatus::Waiting };
                add(waiter.slot, waiter.owner, waiter.mode, status);
            }
        }
        list
    }

    /// Lets everybody who waits look around: the server stops.
    pub(super) fn wake_everybody(&self) {
        for session in self.sessions.iter().flatten() {
            session.handle.wake();
        }
    }

    /// Who waits, and for whom.
    pub(super) fn waits(&self) -> Vec<WaitInfo> {
        let mut waits = Vec::new();
        for (slot, session) in self.sessions.iter().enumerate() {
            let Some(session) = session else { continue };
            let Some(wait) = session.wait.filter(|wait| wait.status == WaitStatus::Waiting) else { continue };
            let slot = slot as Slot;
            let lock = self.locks.get(&wait.resource);
            let Some(me) = lock.and_then(|lock| lock.queue().find(|waiter| waiter.slot == slot)) else { continue };
            let blocker = self.blockers(slot).first().and_then(|blocker| self.sessions[*blocker as usize].as_ref());
            waits.push(WaitInfo {
                spid: session.handle.spid(),
                blocking_spid: blocker.map(|blocker| blocker.handle.spid()),
                resource: wait.resource,
                mode: me.mode,
                since: wait.since,
            });
        }
        waits
    }

    /// How many sessions wait for a lock.
    pub(super) fn waiting_count(&self) -> usize {
        let waits = self.sessions.iter().flatten().filter_map(|session| session.wait);
        waits.filter(|wait| wait.status == WaitStatus::Waiting).count()
    }
}
