//! The database: the latch, the sessions, and waiting.
//!
//! [`Database::latch`] gives the one [`Latch`]; whoever has it may read and change everything. To wait (for a lock, or
//! for WAITFOR) a session sleeps on its own condition variable, which gives the latch up. It is woken when its lock was
//! granted, when it was chosen as a deadlock victim, by [`Database::cancel`], and by [`Database::stop`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use super::Key;
use super::activity::{Activities, IndexActivity};
use super::ghosts::KeptGhosts;
use super::lock_mode::LockMode;
use super::locks::{Answer, LockInfo, LockOwner, LockTable, Resource, Slot, WaitInfo, WaitStatus};
use super::own_tables::{OwnTables, is_own};
use super::row::Row;
use super::schema::{IndexId, Lifetime, LockEscalation, ObjectId, TableSchema, fold};
use super::table::Table;
use super::transaction::Transaction;
use super::versions::VersionStore;
use crate::error::{SqlError, SqlResult};

/// After so many rows a statement lets other sessions have the latch and looks whether it was cancelled: some
/// milliseconds of work.
const ROWS_BETWEEN_YIELDS: u32 = 2_000;

/// SQL Server tries to escalate when one statement has taken this many locks on one index, and again after every
/// [`ESCALATION_RETRY`] more. Source: the locking guide, "Lock escalation".
const ESCALATION_THRESHOLD: u32 = 5_000;
const ESCALATION_RETRY: u32 = 1_250;

/// User objects have large numbers in SQL Server; small ones are the system's.
const FIRST_OBJECT_ID: ObjectId = 100_000;

/// An in-memory database.
#[derive(Debug)]
pub struct Database {
    state: Mutex<State>,
    transaction_ids: Arc<AtomicU64>,
    /// READ_COMMITTED_SNAPSHOT. Whoever switches it is alone in the database.
    pub(super) read_committed_snapshot: AtomicBool,
    stopped: AtomicBool,
}

/// Everything the latch guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tables: FxHashMap<ObjectId, Table>,
    /// Permanent tables by folded schema and name.
    names: HashMap<(String, String), ObjectId>,
    /// Tables whose drop is not committed: another session that asks for the name must wait, as it would in SQL Server.
    dropping: HashMap<(String, String), ObjectId>,
    pub(super) locks: LockTable,
    next_object_id: ObjectId,
    row_version: u64,
    pub(super) name: String,
    /// ALLOW_SNAPSHOT_ISOLATION.
    pub(super) allow_snapshot: bool,
    /// There while one of the two is on.
    pub(super) versions: Option<Box<VersionStore>>,
    pub(super) ghosts: KeptGhosts,
    pub(super) activity: Activities,
    /// By scans, ghosts included.
    pub(super) entries_read: u64,
}

/// A connection's place in the database. Give it back by [`Database::close_session`].
#[derive(Debug)]
pub struct Session {
    handle: SessionHandle,
    slot: Slot,
}

/// What other threads may hold of a session, to cancel what it does.
#[derive(Debug, Clone)]
pub struct SessionHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    spid: i32,
    wake: Condvar,
    cancelled: AtomicBool,
    killed: AtomicBool,
    transaction_ids: Arc<AtomicU64>,
}

impl SessionHandle {
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

    /// Wakes the session's thread if it waits. The caller holds the latch, so that no wake-up can be missed.
    pub(super) fn wake(&self) {
        self.0.wake.notify_one();
    }

    pub(super) fn next_transaction_id(&self) -> u64 {
        self.0.transaction_ids.fetch_add(1, Ordering::Relaxed)
    }
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
}

impl Database {
    /// `name`: for messages.
    pub fn new(name: &str) -> Self {
        let state = State {
            tables: FxHashMap::default(),
            names: HashMap::new(),
            dropping: HashMap::new(),
            locks: LockTable::default(),
            next_object_id: FIRST_OBJECT_ID,
            row_version: 0,
            name: name.to_string(),
            allow_snapshot: false,
            versions: None,
            ghosts: KeptGhosts::default(),
            activity: Activities::default(),
            entries_read: 0,
        };
        Database {
            state: Mutex::new(state),
            transaction_ids: Arc::new(AtomicU64::new(1)),
            read_committed_snapshot: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Waits for the latch.
    pub fn latch(&self) -> Latch<'_> {
        Latch { database: self, guard: Some(self.state.lock()), was_taken: true, own: None, rows_since_yield: 0 }
    }

    /// The latch for a statement of a session, not taken yet.
    pub fn statement_latch<'db>(&'db self, own: &'db mut OwnTables) -> Latch<'db> {
        Latch { database: self, guard: None, was_taken: false, own: Some(own), rows_since_yield: 0 }
    }

    pub fn open_session(&self, spid: i32) -> Session {
        let handle = SessionHandle(Arc::new(Shared {
            spid,
            wake: Condvar::new(),
            cancelled: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            transaction_ids: Arc::clone(&self.transaction_ids),
        }));
        let mut state = self.state.lock();
        let slot = state.locks.add_session(handle.clone());
        state.locks.enter_database(slot);
        drop(state);
        Session { handle, slot }
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
        session.0.cancelled.store(true, Ordering::Release);
        // With the latch in hand it is certain that the session either sleeps or has yet to look at the flag.
        let _latch = self.state.lock();
        session.wake();
    }

    /// Makes everything that the session does from now on fail with 596.
    pub fn kill(&self, session: &SessionHandle) {
        session.0.killed.store(true, Ordering::Release);
        self.cancel(session);
    }

    /// Ends every wait, those to come too: the server stops.
    pub fn stop(&self) {
        let state = self.state.lock();
        self.stopped.store(true, Ordering::Release);
        state.locks.wake_everybody();
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
    rows_since_yield: u32,
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

    /// Whether the statement may have left anything in the database, if only a lock.
    pub fn was_taken(&self) -> bool {
        self.was_taken
    }

    fn guard(&mut self) -> &mut MutexGuard<'db, State> {
        self.was_taken = true;
        self.guard.get_or_insert_with(|| self.database.state.lock())
    }

    pub(super) fn state(&mut self) -> &mut State {
        self.guard()
    }

    pub(super) fn database(&self) -> &'db Database {
        self.database
    }

    pub(super) fn own_tables(&mut self) -> Option<&mut OwnTables> {
        self.own.as_deref_mut()
    }

    pub(super) fn state_ref(&self) -> &State {
        self.guard.as_ref().expect("the latch is taken before anything is read that others may change")
    }

    // The tables.

    /// A permanent table by name, without any lock.
    pub fn find_table(&self, schema: &str, name: &str) -> Option<ObjectId> {
        self.state_ref().names.get(&(fold(schema), fold(name))).copied()
    }

    /// A permanent table by name, locked in `mode` until the statement ends (IX and stronger: until the transaction
    /// ends). From here on its schema cannot change. `None` if there is no such table.
    ///
    /// # Errors
    ///
    /// As a wait for a lock can end: see [`Latch::lock_table`].
    pub fn open_table(
        &mut self,
        tx: &mut Transaction,
        schema: &str,
        name: &str,
        mode: LockMode,
    ) -> SqlResult<Option<ObjectId>> {
        let name = (fold(schema), fold(name));
        loop {
            let found = self.state().names.get(&name).copied();
            // Somebody (not this session, whose own Sch-M lock would be no obstacle) may be dropping it.
            let dropping = || {
                let id = self.state_ref().dropping.get(&name).copied();
                id.filter(|id| {
                    !self.state_ref().locks.is_free(tx.slot, Resource::Table(*id), LockMode::SchemaStability)
                })
            };
            let Some(table) = found.or_else(dropping) else {
                return Ok(None);
            };
            self.lock_table(tx, table, mode, false)?;
            // While it waited the name may have come to mean something else.
            if self.state().names.get(&name) == Some(&table) {
                return Ok(Some(table));
            }
        }
    }

    /// Locks a table; temporary tables and table variables need no locks. `hold`: until the transaction ends. IX and
    /// everything stronger is always held.
    ///
    /// # Errors
    ///
    /// 1222 (lock timeout), 1205 (deadlock victim), 3617 (cancelled), 596 (the server stops).
    pub fn lock_table(&mut self, tx: &mut Transaction, table: ObjectId, mode: LockMode, hold: bool) -> SqlResult<()> {
        self.lock_table_within(tx, table, mode, hold, tx.lock_timeout)
    }

    pub(super) fn lock_table_within(
        &mut self,
        tx: &mut Transaction,
        table: ObjectId,
        mode: LockMode,
        hold: bool,
        timeout: Option<Duration>,
    ) -> SqlResult<()> {
        if is_own(table) {
            return Ok(());
        }
        let lifetime = self.state().tables.get(&table).map(|table| table.schema.lifetime);
        if lifetime.is_some_and(|lifetime| lifetime != Lifetime::Permanent) {
            return Ok(());
        }
        if mode == LockMode::IntentExclusive && tx.intent_tables.contains(&table) {
            return Ok(());
        }
        let resource = Resource::Table(table);
        self.acquire(tx, LockOwner::Transaction, resource, mode, timeout)?;
        tx.locks_whole_tables |=
            !matches!(mode, LockMode::SchemaStability | LockMode::IntentShared | LockMode::IntentExclusive);
        if mode.covers(LockMode::IntentExclusive) {
            tx.intent_tables.push(table);
        } else if !hold {
            tx.short_locks.push(resource);
        }
        Ok(())
    }

    pub fn schema(&self, table: ObjectId) -> Option<&Arc<TableSchema>> {
        self.table(table).map(Table::schema)
    }

    pub fn table(&self, table: ObjectId) -> Option<&Table> {
        if is_own(table) {
            return self.own.as_ref()?.get(table);
        }
        self.state_ref().tables.get(&table)
    }

    /// The table, which the caller knows to exist because it is locked or its own.
    pub(super) fn table_mut(&mut self, table: ObjectId) -> SqlResult<&mut Table> {
        let found = if is_own(table) {
            self.own.as_mut().and_then(|own| own.get_mut(table))
        } else {
            self.state().tables.get_mut(&table)
        };
        found.ok_or_else(|| no_such_table(table))
    }

    /// The schema for a running statement, which keeps it while the latch goes to others.
    pub(super) fn schema_of(&self, table: ObjectId) -> SqlResult<Arc<TableSchema>> {
        self.schema(table).cloned().ok_or_else(|| no_such_table(table))
    }

    /// The permanent tables, in the order of their numbers.
    pub fn tables(&self) -> Vec<Arc<TableSchema>> {
        let mut tables: Vec<_> = self.state_ref().tables.values().map(|table| Arc::clone(&table.schema)).collect();
        tables.retain(|schema| schema.lifetime == Lifetime::Permanent);
        tables.sort_by_key(|schema| schema.id);
        tables
    }

    /// A number for a new catalog object.
    pub fn new_object_id(&mut self) -> ObjectId {
        let id = self.state().next_object_id;
        self.state().next_object_id += 1;
        id
    }

    /// The next value of the database's rowversion counter.
    pub fn next_row_version(&mut self) -> u64 {
        self.state().row_version += 1;
        self.state().row_version
    }

    /// The last value of the rowversion counter, @@DBTS.
    pub fn last_row_version(&self) -> u64 {
        self.state_ref().row_version
    }

    /// The next identity value of a table. A rollback does not give it back.
    ///
    /// # Errors
    ///
    /// 8115 when the counter is exhausted.
    pub fn next_identity(&mut self, table: ObjectId) -> SqlResult<i64> {
        let table = self.table_mut(table)?;
        let identity = table.schema.columns.iter().find_map(|column| column.identity);
        let identity = identity.ok_or_else(|| SqlError::not_supported("an identity value without identity column"))?;
        let next = match table.identity.last {
            None => table.identity.first.unwrap_or(identity.seed),
            Some(last) => last.checked_add(identity.increment).ok_or_else(|| {
                SqlError::new(8115, "Arithmetic overflow error converting IDENTITY to data type bigint.")
            })?,
        };
        table.identity.last = Some(next);
        Ok(next)
    }

    /// A value was inserted with IDENTITY_INSERT: the counter goes on from it if it lies ahead.
    pub fn note_identity(&mut self, table: ObjectId, value: i64) {
        let Ok(table) = self.table_mut(table) else {
            return;
        };
        let Some(identity) = table.schema.columns.iter().find_map(|column| column.identity) else {
            return;
        };
        let first = table.identity.first.unwrap_or(identity.seed);
        let is_ahead = match table.identity.last {
            // An untouched counter stands one step before its seed.
            None if identity.increment > 0 => value >= first,
            None => value <= first,
            Some(last) if identity.increment > 0 => value > last,
            Some(last) => value < last,
        };
        if is_ahead {
            table.identity.last = Some(value);
        }
    }

    /// The last identity value of a table (IDENT_CURRENT); the seed if there was none yet.
    pub fn current_identity(&self, table: ObjectId) -> Option<i64> {
        let table = self.table(table)?;
        let identity = table.schema.columns.iter().find_map(|column| column.identity)?;
        Some(table.identity.last.or(table.identity.first).unwrap_or(identity.seed))
    }

    /// A row by its key, without any lock.
    pub fn read(&self, table: ObjectId, key: &Key) -> Option<Row> {
        self.table(table)?.live_row(key).cloned()
    }

    /// What was done to an index, or (by its number) to the rows.
    pub fn activity(&self, table: ObjectId, index: IndexId) -> IndexActivity {
        self.state_ref().activity.get(table, index)
    }

    // Locks.

    /// Every lock that is held or waited for: sys.dm_tran_locks. Those of sessions on the database itself stand apart.
    pub fn locks(&self) -> Vec<LockInfo> {
        let mut locks = self.state_ref().locks.list();
        locks.retain(|lock| lock.resource != Resource::Database);
        locks
    }

    /// The locks of sessions on the database itself.
    pub fn database_locks(&self) -> Vec<LockInfo> {
        let mut locks = self.state_ref().locks.list();
        locks.retain(|lock| lock.resource == Resource::Database);
        locks
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

    /// Who waits for a lock, and for whom.
    pub fn waits(&self) -> Vec<WaitInfo> {
        self.state_ref().locks.waits()
    }

    /// How many sessions wait for a lock.
    pub fn waiting_count(&self) -> usize {
        self.state_ref().locks.waiting_count()
    }

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
        let began = Instant::now();
        if let Resource::Key { object, index, .. } = resource {
            self.state().activity.of(object, index).row_lock_waits += 1;
        }
        let granted = self.wait_for_lock(tx, owner, resource, mode, timeout);
        if let Resource::Key { object, index, .. } = resource {
            let waited = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.state().activity.of(object, index).row_lock_wait_ms += waited;
        }
        granted
    }

    fn wait_for_lock(
        &mut self,
        tx: &Transaction,
        owner: LockOwner,
        resource: Resource,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> SqlResult<Grant> {
        let held_before = self.state().locks.held_mode(tx.slot, owner, resource).is_some();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let undo_length = tx.undo.len();
        self.state().locks.enqueue(tx.slot, owner, resource, mode, tx.deadlock_priority, undo_length);
        loop {
            let status = self.state().locks.wait_status(tx.slot);
            // Also where the lock was granted since: who is gone must not go on with it.
            if let Err(error) = self.check_interruption(tx) {
                self.state().locks.cancel_wait(tx.slot);
                if status == WaitStatus::Granted && !held_before {
                    self.state().locks.release(tx.slot, owner, resource);
                }
                return Err(error);
            }
            match status {
                WaitStatus::Granted => {
                    return Ok(Grant { new: !held_before, waited: true });
                }
                WaitStatus::DeadlockVictim => return Err(deadlock_victim(tx.session.spid())),
                WaitStatus::Waiting => {}
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.state().locks.cancel_wait(tx.slot);
                return Err(lock_timeout());
            }
            self.sleep(tx, deadline);
        }
    }

    fn sleep(&mut self, tx: &Transaction, deadline: Option<Instant>) {
        self.rows_since_yield = 0;
        match deadline {
            None => tx.session.0.wake.wait(self.guard()),
            Some(deadline) => {
                tx.session.0.wake.wait_until(self.guard(), deadline);
            }
        }
    }

    fn check_interruption(&self, tx: &Transaction) -> SqlResult<()> {
        if self.database.stopped.load(Ordering::Acquire) || tx.session.is_killed() {
            return Err(SqlError::new(596, "Cannot continue the execution because the session is in the kill state.")
                .severity(21));
        }
        if tx.session.is_cancelled() {
            return Err(SqlError::new(3617, "The query was cancelled by the client.").severity(11));
        }
        Ok(())
    }

    /// Gives the latch up until the deadline (WAITFOR).
    ///
    /// # Errors
    ///
    /// 3617 and 596 if it ends early.
    pub fn wait_until(&mut self, tx: &Transaction, deadline: Instant) -> SqlResult<()> {
        loop {
            self.check_interruption(tx)?;
            if Instant::now() >= deadline {
                return Ok(());
            }
            self.sleep(tx, Some(deadline));
        }
    }

    /// For long loops: lets others have the latch, and says whether to go on.
    ///
    /// # Errors
    ///
    /// 3617 (cancelled), 596 (the server stops).
    pub fn checkpoint(&mut self, tx: &Transaction) -> SqlResult<()> {
        self.rows_since_yield = 0;
        if let Some(guard) = &mut self.guard {
            // Hands the latch to whoever waits for it, and does nothing if nobody does.
            MutexGuard::bump(guard);
        }
        self.check_interruption(tx)
    }

    /// One more row was read or changed. The latch goes to others now and then.
    pub(super) fn count_row(&mut self, tx: &Transaction) -> SqlResult<()> {
        self.rows_since_yield += 1;
        if self.rows_since_yield < ROWS_BETWEEN_YIELDS {
            return Ok(());
        }
        self.checkpoint(tx)
    }

    /// Whether the transaction's lock on the whole table makes key locks of this mode needless.
    pub(super) fn table_lock_covers(&self, tx: &Transaction, table: ObjectId, mode: LockMode) -> bool {
        if !tx.locks_whole_tables {
            return false;
        }
        let held = self.state_ref().locks.held_mode(tx.slot, LockOwner::Transaction, Resource::Table(table));
        match held {
            Some(LockMode::Exclusive | LockMode::SchemaModification) => true,
            Some(LockMode::Shared | LockMode::Update | LockMode::SharedIntentExclusive) => mode == LockMode::Shared,
            _ => false,
        }
    }

    /// Counts a key lock that is kept, and escalates to a table lock when the statement has too many in one index.
    pub(super) fn count_key_lock(&mut self, tx: &mut Transaction, resource: Resource) {
        let Resource::Key { object, index, .. } = resource else {
            return;
        };
        let position = tx.key_locks.iter().position(|(table, id, _)| *table == object && *id == index);
        let position = position.unwrap_or_else(|| {
            tx.key_locks.push((object, index, 0));
            tx.key_locks.len() - 1
        });
        let count = &mut tx.key_locks[position].2;
        *count += 1;
        let is_due = *count >= ESCALATION_THRESHOLD && (*count - ESCALATION_THRESHOLD).is_multiple_of(ESCALATION_RETRY);
        if is_due {
            self.escalate(tx, object, index);
        }
    }

    /// Tries to replace the key locks of a table by one lock on the table. If others stand against it, all stays as it
    /// is.
    fn escalate(&mut self, tx: &mut Transaction, table: ObjectId, index: IndexId) {
        let escalation = self.state().tables.get(&table).map(|table| table.schema.lock_escalation);
        if escalation.is_none_or(|escalation| escalation == LockEscalation::Disable) {
            return;
        }
        self.state().activity.of(table, index).promotion_attempts += 1;
        let resource = Resource::Table(table);
        let intent = self.state().locks.held_mode(tx.slot, LockOwner::Transaction, resource);
        let mode = if intent == Some(LockMode::IntentShared) { LockMode::Shared } else { LockMode::Exclusive };
        let answer = self.state().locks.request(tx.slot, LockOwner::Transaction, resource, mode);
        if answer == Answer::Blocked {
            return;
        }
        self.state().activity.of(table, index).promotions += 1;
        self.state().locks.release_keys(tx.slot, table);
        tx.locks_whole_tables = true;
        tx.escalations += 1;
    }
}

/// A lock that was granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    /// The transaction held nothing there before.
    pub(super) new: bool,
    /// The latch was given up meanwhile.
    pub(super) waited: bool,
}

impl State {
    fn name_of(schema: &TableSchema) -> (String, String) {
        (fold(&schema.schema), fold(&schema.name))
    }

    pub(super) fn add_name(&mut self, schema: &TableSchema) {
        if schema.lifetime == Lifetime::Permanent {
            self.names.insert(Self::name_of(schema), schema.id);
        }
    }

    pub(super) fn remove_name(&mut self, schema: &TableSchema) {
        let name = Self::name_of(schema);
        if self.names.get(&name) == Some(&schema.id) {
            self.names.remove(&name);
        }
    }

    pub(super) fn begin_drop(&mut self, table: &Table) {
        self.remove_name(&table.schema);
        if table.schema.lifetime == Lifetime::Permanent {
            self.dropping.insert(Self::name_of(&table.schema), table.schema.id);
        }
    }

    pub(super) fn forget_drop(&mut self, table: &Table) {
        let name = Self::name_of(&table.schema);
        if self.dropping.get(&name) == Some(&table.schema.id) {
            self.dropping.remove(&name);
        }
    }
}

fn no_such_table(table: ObjectId) -> SqlError {
    SqlError::new(208, format!("Invalid object name '(object id {table})'."))
}

pub(super) fn lock_timeout() -> SqlError {
    SqlError::new(1222, "Lock request time out period exceeded.").state(51)
}

fn deadlock_victim(spid: i32) -> SqlError {
    let message = format!(
        "Transaction (Process ID {spid}) was deadlocked on lock resources with another process and has been chosen as \
         the deadlock victim. Rerun the transaction."
    );
    SqlError::new(1205, message).severity(13).state(51)
}
