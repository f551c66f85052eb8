//! A transaction: its locks' duration, and what must be done to take its changes back.
//!
//! Every change of a table pushes an [`Undo`] record. A rollback applies them from the last to the first; a savepoint
//! or the start of a statement is a position in that list. Deleted rows and index entries stay behind as *ghosts* until
//! the transaction commits, so that others find something to be blocked by; the commit goes through the records once
//! more and takes the ghosts away.

use std::collections::BTreeSet;
use std::time::Duration;

use super::database::{Latch, Session};
use super::key::Key;
use super::locks::lock::Slot;
use super::locks::resource::{IndexId, LockOwner, ObjectId, Resource};
use super::locks::session::SessionHandle;
use super::schema::Lifetime;
use super::table::{Change, Undo};
use super::versions::Place;
use crate::value::Value;

/// A position in a transaction's changes: a savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

/// Where a statement began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatementMark {
    undo: usize,
    variable_undo: usize,
    short_locks: usize,
    /// The snapshot of the statement around this one.
    outer_snapshot: Option<u64>,
}

impl StatementMark {
    /// The savepoint at the start of the statement.
    pub fn mark(self) -> Mark {
        Mark(self.undo)
    }
}

/// A row before and after: inserted if it was not there, deleted if it is not there any more.
#[derive(Debug, Clone)]
pub struct ChangedRow {
    pub before: Option<Vec<Value>>,
    pub after: Option<Vec<Value>>,
}

/// A transaction of a session, which has one at a time. In autocommit mode each statement has its own.
///
/// It must end by [`Latch::commit`] or [`Latch::rollback`]; one that is dropped keeps its locks until its session is
/// closed, and its changes stay.
#[derive(Debug)]
pub struct Transaction {
    /// SET LOCK_TIMEOUT: `None` waits for ever, zero not at all.
    pub lock_timeout: Option<Duration>,
    /// SET DEADLOCK_PRIORITY, -10 to 10: the lower is the victim.
    pub deadlock_priority: i8,
    pub(super) session: SessionHandle,
    pub(super) slot: Slot,
    id: u64,
    pub(super) undo: Vec<Undo>,
    /// The changes of table variables, kept only until their statement ends.
    pub(super) variable_undo: Vec<Undo>,
    /// Table locks that go with the statement.
    pub(super) short_locks: Vec<Resource>,
    /// Tables on which at least IX is held: asked for once only.
    pub(super) intent_tables: Vec<ObjectId>,
    /// How many key locks the statement has taken in each index; for lock escalation.
    pub(super) key_locks: Vec<(ObjectId, IndexId, u32)>,
    /// It has asked for a lock on a whole table, so that it may not need key locks there.
    pub(super) locks_whole_tables: bool,
    /// How often locks were escalated: a scan that sees this change looks again at what its table lock covers.
    pub(super) escalations: u32,
    /// Where it has left row versions.
    pub(super) versioned: Vec<Place>,
    /// What the running statement sees under READ_COMMITTED_SNAPSHOT.
    pub(super) statement_snapshot: Option<u64>,
    /// What a SNAPSHOT transaction sees.
    pub(super) snapshot: Option<u64>,
    /// Whether it was under SNAPSHOT when it first used data.
    pub(super) began_as_snapshot: Option<bool>,
    /// The running statement is under SNAPSHOT: a row that others have changed is a conflict.
    pub under_snapshot: bool,
}

impl Transaction {
    pub fn begin(session: &Session) -> Self {
        Transaction {
            lock_timeout: None,
            deadlock_priority: 0,
            session: session.handle(),
            slot: session.slot(),
            id: session.next_transaction_id(),
            undo: Vec::new(),
            variable_undo: Vec::new(),
            short_locks: Vec::new(),
            intent_tables: Vec::new(),
            key_locks: Vec::new(),
            locks_whole_tables: false,
            escalations: 0,
            versioned: Vec::new(),
            statement_snapshot: None,
            snapshot: None,
            began_as_snapshot: None,
            under_snapshot: false,
        }
    }

    /// A number that no other transaction has or had.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A savepoint here.
    pub fn mark(&self) -> Mark {
        Mark(self.undo.len())
    }

    /// The snapshot against which changes are checked.
    pub(super) fn changing_snapshot(&self) -> Option<u64> {
        self.snapshot.filter(|_| self.under_snapshot)
    }

    pub(super) fn record(&mut self, lifetime: Lifetime, table: ObjectId, change: Change) {
        let undo = Undo { table, change };
        match lifetime {
            Lifetime::Variable => self.variable_undo.push(undo),
            Lifetime::Permanent | Lifetime::Temporary => self.undo.push(undo),
        }
    }
}

impl Latch<'_> {
    /// A statement begins.
    pub fn begin_statement(&mut self, tx: &mut Transaction) -> StatementMark {
        let outer_snapshot = self.begin_statement_snapshot(tx);
        StatementMark {
            undo: tx.undo.len(),
            variable_undo: tx.variable_undo.len(),
            short_locks: tx.short_locks.len(),
            outer_snapshot,
        }
    }

    /// A statement has succeeded: the locks that were its own are released.
    pub fn end_statement(&mut self, tx: &mut Transaction, mark: StatementMark) {
        let variable_changes = tx.variable_undo.split_off(mark.variable_undo);
        if let Some(own) = self.own_tables() {
            own.remove_ghosts(&variable_changes);
        }
        self.release_short_locks(tx, mark);
    }

    /// A statement has failed: its changes are taken back; the transaction and its locks remain.
    pub fn rollback_statement(&mut self, tx: &mut Transaction, mark: StatementMark) {
        let variable_changes = tx.variable_undo.split_off(mark.variable_undo);
        if let Some(own) = self.own_tables() {
            own.undo(variable_changes);
        }
        self.rollback_to(tx, mark.mark());
        self.release_short_locks(tx, mark);
    }

    fn release_short_locks(&mut self, tx: &mut Transaction, mark: StatementMark) {
        if tx.statement_snapshot.is_some() {
            self.end_statement_snapshot(tx, mark.outer_snapshot);
        }
        for resource in tx.short_locks.drain(mark.short_locks..) {
            self.state().locks.release(tx.slot, LockOwner::Transaction, resource);
        }
        tx.key_locks.clear();
    }

    /// The rows of a table that the transaction has changed since a savepoint, each once, in the order of the first
    /// change.
    pub fn changed_rows(&self, tx: &Transaction, since: Mark, table: ObjectId) -> Vec<ChangedRow> {
        let Some(storage) = self.table(table) else { return Vec::new() };
        let schema = storage.schema();
        let mut seen: BTreeSet<&Key> = BTreeSet::new();
        let mut changed = Vec::new();
        for undo in tx.undo[since.0.min(tx.undo.len())..].iter().filter(|undo| undo.table == table) {
            let (key, before) = match &undo.change {
                Change::RowInserted(key) | Change::RowRevived(key, _) => (key, None),
                Change::RowReplaced(key, before) => (key, Some(before.values(schema))),
                // The ghost still has what the row held.
                Change::RowGhosted(key) => {
                    (key, storage.rows.get(key.as_bytes()).map(|record| record.row.values(schema)))
                }
                _ => continue,
            };
            if seen.insert(key) {
                let after = storage.live_row(key).map(|row| row.values(schema));
                // Neither: an insert that was taken back has left a ghost.
                if before.is_some() || after.is_some() {
                    changed.push(ChangedRow { before, after });
                }
            }
        }
        changed
    }

    /// Back to a savepoint. The locks stay, as ROLLBACK TRANSACTION to a savepoint keeps them.
    pub fn rollback_to(&mut self, tx: &mut Transaction, mark: Mark) {
        let changes = tx.undo.split_off(mark.0.min(tx.undo.len()));
        let state = self.state();
        if state.locks.owns_ranges(tx.slot) {
            let ghosts = state.undo_guarded(tx.slot, changes);
            tx.undo.extend(ghosts);
        } else {
            state.undo(changes);
        }
    }

    pub fn commit(&mut self, mut tx: Transaction) {
        self.end_versions(&mut tx, true);
        let state = self.state();
        state.remove_ghosts(&tx.undo);
        state.forget_drops(&tx.undo);
        state.locks.release_all(tx.slot, LockOwner::Transaction);
        self.forget_changed_names(&tx);
    }

    pub fn rollback(&mut self, mut tx: Transaction) {
        let state = self.state();
        state.undo(std::mem::take(&mut tx.undo));
        self.end_versions(&mut tx, false);
        let state = self.state();
        state.locks.release_all(tx.slot, LockOwner::Transaction);
        self.forget_changed_names(&tx);
    }
}
