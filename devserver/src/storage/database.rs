//! The database, its sessions, and the latch.
//!
//! [`Database::latch`] gives the one [`Latch`]; whoever has it may read and change everything. To wait (for a lock, or
//! for WAITFOR: `waiting.rs`) a session sleeps on its own condition variable, which gives the latch up. It is woken
//! when its lock was granted, when it was chosen as a deadlock victim, by [`Database::cancel`], and by
//! [`Database::stop`].

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::catalog_name::Looks;
use super::locks::lock::Slot;
use super::locks::resource::LockOwner;
use super::locks::session::SessionHandle;
use super::own_tables::OwnTables;
use super::state::State;

/// An in-memory database.
#[derive(Debug)]
pub struct Database {
    state: Mutex<State>,
    transaction_ids: Arc<AtomicU64>,
    /// READ_COMMITTED_SNAPSHOT. Whoever switches it is alone in the database.
    pub(super) read_committed_snapshot: AtomicBool,
    /// How many names open transactions change.
    pub(super) changed_names: AtomicUsize,
}

/// A connection's place in the database. Give it back by [`Database::close_session`].
#[derive(Debug)]
pub struct Session {
    handle: SessionHandle,
    slot: Slot,
    transaction_ids: Arc<AtomicU64>,
}

impl Session {
    pub fn handle(&self) -> SessionHandle {
        self.handle.clone()
    }

    pub fn spid(&self) -> i32 {
        self.handle.spid()
    }

    pub(super) fn slot(&self) -> Slot {
        self.slot
    }

    pub(super) fn next_transaction_id(&self) -> u64 {
        self.transaction_ids.fetch_add(1, Ordering::Relaxed)
    }
}

impl Database {
    /// `name`: for messages.
    pub fn new(name: &str) -> Self {
        Database {
            state: Mutex::new(State::new(name)),
            transaction_ids: Arc::new(AtomicU64::new(1)),
            read_committed_snapshot: AtomicBool::new(false),
            changed_names: AtomicUsize::new(0),
        }
    }

    /// Waits for the latch.
    pub fn latch(&self) -> Latch<'_> {
        Latch { guard: Some(self.state.lock()), was_taken: true, ..self.new_latch() }
    }

    /// The latch for a statement of a session, not taken yet.
    pub fn statement_latch<'db>(&'db self, own: &'db mut OwnTables) -> Latch<'db> {
        Latch { own: Some(own), ..self.new_latch() }
    }

    fn new_latch(&self) -> Latch<'_> {
        Latch {
            database: self,
            guard: None,
            was_taken: false,
            own: None,
            rows_since_yield: 0,
            looks: RefCell::new(Looks::default()),
        }
    }

    pub fn open_session(&self, spid: i32) -> Session {
        let handle = SessionHandle::new(spid);
        let mut state = self.state.lock();
        let slot = state.locks.add_session(handle.clone());
        state.locks.enter_database(slot);
        drop(state);
        Session { handle, slot, transaction_ids: Arc::clone(&self.transaction_ids) }
    }

    /// Ends a session, whose transaction must have ended. Its application locks are released.
    pub fn close_session(&self, session: Session) {
        let mut state = self.state.lock();
        state.locks.release_all(session.slot, LockOwner::Transaction);
        state.locks.release_all(session.slot, LockOwner::Session);
        state.locks.remove_session(session.slot);
    }

    /// Makes what the session is doing fail with 3617: at once if it waits, else at its next look.
    pub fn cancel(&self, session: &SessionHandle) {
        session.set_cancelled();
        // With the latch in hand it is certain that the session either sleeps or has yet to look at the flag.
        let _latch = self.state.lock();
        session.wake();
    }

    /// Makes everything that the session does from now on fail with 596.
    pub fn kill(&self, session: &SessionHandle) {
        session.set_killed();
        self.cancel(session);
    }
}

/// The right to read and change the database. Scans, transactions and keys stay valid when it is dropped and taken
/// anew between two calls.
///
/// That of a statement ([`Database::statement_latch`]) also knows the session's own tables, and is taken when the
/// statement comes to tables that others see.
pub struct Latch<'db> {
    database: &'db Database,
    guard: Option<MutexGuard<'db, State>>,
    was_taken: bool,
    own: Option<&'db mut OwnTables>,
    pub(super) rows_since_yield: u32,
    /// What lookups of names have met.
    pub(super) looks: RefCell<Looks>,
}

impl<'db> Latch<'db> {
    /// Waits for the latch, if it is not there yet.
    pub fn take(&mut self) {
        self.guard();
    }

    /// Lets others have the latch while the statement computes: what it has locked stays as it is.
    pub fn let_go(&mut self) {
        self.rows_since_yield = 0;
        self.guard = None;
    }

    /// The same tables, rows and options under another name; `None` while anybody has a lock on anything in it.
    pub fn copy_database(&self, name: &str) -> Option<Database> {
        let state = self.state_ref().copy(name)?;
        let read_committed_snapshot = self.database.read_committed_snapshot.load(Ordering::Acquire);
        Some(Database {
            state: Mutex::new(state),
            read_committed_snapshot: AtomicBool::new(read_committed_snapshot),
            ..Database::new(name)
        })
    }

    /// Whether the statement may have left anything in the database, if only a lock.
    pub fn was_taken(&self) -> bool {
        self.was_taken
    }

    pub(super) fn guard(&mut self) -> &mut MutexGuard<'db, State> {
        self.was_taken = true;
        self.guard.get_or_insert_with(|| self.database.state.lock())
    }

    pub(super) fn state(&mut self) -> &mut State {
        self.guard()
    }

    pub(super) fn database(&self) -> &'db Database {
        self.database
    }

    pub(super) fn own_tables_ref(&self) -> Option<&OwnTables> {
        self.own.as_deref()
    }

    pub(super) fn own_tables(&mut self) -> Option<&mut OwnTables> {
        self.own.as_deref_mut()
    }

    pub(super) fn state_ref(&self) -> &State {
        self.guard.as_ref().expect("the latch is taken before anything is read that others may change")
    }

    /// Hands the latch to whoever waits for it, and does nothing if nobody does.
    pub(super) fn offer_to_others(&mut self) {
        self.rows_since_yield = 0;
        if let Some(guard) = &mut self.guard {
            MutexGuard::bump(guard);
        }
    }
}
