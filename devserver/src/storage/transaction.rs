//! A transaction: its locks' duration, and what must be done to take its changes back.
//!
//! Every change of a table pushes an [`Undo`] record. A rollback applies them from the last to the first; a savepoint
//! or the start of a statement is a position in that list. Deleted rows and index entries stay behind as *ghosts* until
//! the transaction commits, so that others find something to be blocked by; the commit goes through the records once
//! more and takes the ghosts away.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::database::{Latch, Session, SessionHandle, State};
use super::key::Key;
use super::locks::{LockOwner, Resource, Slot};
use super::row::Row;
use super::schema::{IndexId, Lifetime, ObjectId, TableSchema};
use super::table::{IdentityCounter, IndexTree, Table};
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

/// How to take one change back.
#[derive(Debug)]
pub(super) struct Undo {
    pub(super) table: ObjectId,
    pub(super) change: Change,
}

#[derive(Debug)]
pub(super) enum Change {
    RowInserted(Key),
    RowGhosted(Key),
    /// A row was inserted where a ghost lay, mostly the transaction's own; holds the ghost's row.
    RowRevived(Key, Row),
    /// Holds the row as it was.
    RowReplaced(Key, Row),
    EntryInserted(IndexId, Key),
    EntryGhosted(IndexId, Key),
    EntryRevived(IndexId, Key),
    TableCreated,
    TableDropped(Box<Table>),
    Truncated(Box<Table>),
    IdentityReseeded(IdentityCounter),
    SchemaReplaced(Arc<TableSchema>),
    IndexCreated(IndexId, Arc<TableSchema>),
    IndexDropped(IndexTree, Arc<TableSchema>),
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
            id: session.handle().next_transaction_id(),
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

    /// The number of changes a rollback would take back.
    pub fn undo_len(&self) -> usize {
        self.undo.len()
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
        state.clean_locked_ghosts();
    }

    pub fn rollback(&mut self, mut tx: Transaction) {
        let state = self.state();
        state.undo(std::mem::take(&mut tx.undo));
        self.end_versions(&mut tx, false);
        let state = self.state();
        state.locks.release_all(tx.slot, LockOwner::Transaction);
        state.clean_locked_ghosts();
    }
}

impl State {
    /// Applies undo records, the last one first.
    fn undo(&mut self, changes: Vec<Undo>) {
        for undo in changes.into_iter().rev() {
            self.undo_one(undo);
        }
    }

    /// Applies undo records, but leaves ghosts of inserted keys whose range lock guards the gap before them: without
    /// the key nobody would find the lock. Returns the records of these ghosts.
    fn undo_guarded(&mut self, slot: Slot, changes: Vec<Undo>) -> Vec<Undo> {
        let mut ghosts = Vec::new();
        for undo in changes.into_iter().rev() {
            let table = undo.table;
            match self.guarded_ghost(slot, &undo) {
                Some(ghost) => {
                    ghosts.push(undo);
                    ghosts.push(Undo { table, change: ghost });
                }
                None => self.undo_one(undo),
            }
        }
        ghosts
    }

    /// Turns what an undo record has inserted into a ghost, if a range lock is on its key.
    fn guarded_ghost(&mut self, slot: Slot, undo: &Undo) -> Option<Change> {
        let table = self.tables.get_mut(&undo.table)?;
        let resource = table.inserted_resource(&undo.change)?;
        let held = self.locks.held_mode(slot, LockOwner::Transaction, resource);
        held.filter(|mode| mode.is_range())?;
        match &undo.change {
            Change::RowInserted(key) => Some(table.ghost_row(key)),
            Change::EntryInserted(index, key) => Some(table.ghost_entry(*index, key)),
            _ => None,
        }
    }

    fn undo_one(&mut self, Undo { table, change }: Undo) {
        match change {
            Change::TableDropped(dropped) => {
                self.forget_drop(&dropped);
                self.add_name(&dropped.schema);
                self.tables.insert(table, *dropped);
            }
            Change::TableCreated => {
                if let Some(created) = self.tables.remove(&table) {
                    self.remove_name(&created.schema);
                }
            }
            Change::SchemaReplaced(before) => {
                if let Some(replaced) = self.tables.get(&table).map(|table| Arc::clone(&table.schema)) {
                    self.remove_name(&replaced);
                    self.add_name(&before);
                }
                if let Some(table) = self.tables.get_mut(&table) {
                    table.undo(Change::SchemaReplaced(before));
                }
            }
            change => {
                self.note_undone(table, &change);
                if let Some(table) = self.tables.get_mut(&table) {
                    table.undo(change);
                }
            }
        }
    }

    /// Takes away what the transaction has deleted, now that nobody can want it back.
    fn remove_ghosts(&mut self, changes: &[Undo]) {
        for Undo { table, change } in changes {
            if self.keeps_ghost(*table, change) {
                continue;
            }
            let Some(table) = self.tables.get_mut(table) else {
                continue;
            };
            table.remove_ghost(change);
        }
    }

    fn forget_drops(&mut self, changes: &[Undo]) {
        for Undo { change, .. } in changes {
            if let Change::TableDropped(dropped) = change {
                self.forget_drop(dropped);
            }
        }
    }
}
