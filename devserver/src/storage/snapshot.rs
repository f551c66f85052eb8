//! Snapshots: a statement or transaction that takes one, changes that keep versions for it, scans that read by it.
//!
//! `versions.rs` says what versions are.

use std::sync::atomic::Ordering;

use super::database::Latch;
use super::key::Key;
use super::locks::resource::{IndexId, ObjectId};
use super::own_tables::is_own;
use super::range::Direction;
use super::scan::{Found, Scan};
use super::schema::FIRST_NONCLUSTERED;
use super::table::{Change, Table, Undo};
use super::transaction::Transaction;
use super::versions::{Reader, Stored};
use crate::error::{SqlError, SqlResult};

/// The place of a change, and what was there before; `None` for what the transaction has deleted itself.
fn before_image(table: &Table, undo: &Undo) -> Option<(IndexId, Key, Option<Stored>)> {
    let row_index = table.schema().row_index();
    Some(match &undo.change {
        Change::RowInserted(key) => (row_index, key.clone(), None),
        Change::RowReplaced(key, before) => (row_index, key.clone(), Some(Stored::Row(before.clone()))),
        Change::RowGhosted(key) => {
            let ghost = table.rows.get(key.as_bytes())?;
            (row_index, key.clone(), Some(Stored::Row(ghost.row.clone())))
        }
        Change::EntryInserted(index, key) => (*index, key.clone(), None),
        // In the place of a ghost, which was nothing to anybody. What the transaction has deleted itself, it has kept
        // already.
        Change::RowRevived(key, _) => (row_index, key.clone(), None),
        Change::EntryRevived(index, key) => (*index, key.clone(), None),
        Change::EntryGhosted(index, key) => {
            let ghost = table.tree(*index)?.entries.get(key.as_bytes())?;
            (*index, key.clone(), Some(Stored::Entry(ghost.row_key_start)))
        }
        _ => return None,
    })
}

/// 3952.
pub fn snapshot_not_allowed(database: &str) -> SqlError {
    SqlError::new(
        3952,
        format!(
            "Snapshot isolation transaction failed accessing database '{database}' because snapshot isolation is not \
             allowed in this database. Use ALTER DATABASE to allow snapshot isolation."
        ),
    )
}

impl Latch<'_> {
    /// Keeps what was there before the changes that the transaction has recorded from `first` on.
    pub(super) fn keep_versions(&mut self, tx: &mut Transaction, first: usize) {
        // The changes of table variables are not among them.
        if first == tx.undo.len() {
            return;
        }
        let state = self.state();
        let Some(store) = &mut state.versions else {
            return;
        };
        for undo in &tx.undo[first..] {
            let Some(table) = state.tables.get(&undo.table) else { continue };
            let Some((index, key, before)) = before_image(table, undo) else { continue };
            let place = (undo.table, index, key);
            if store.keep(place.clone(), tx.id(), before) {
                tx.versioned.push(place);
            }
        }
    }

    /// The transaction has ended: others see its changes, or they never were.
    pub(super) fn end_versions(&mut self, tx: &mut Transaction, committed: bool) {
        let Some(store) = &mut self.state().versions else {
            return;
        };
        let places = std::mem::take(&mut tx.versioned);
        if committed {
            let is_definition = |undo: &&Undo| {
                matches!(
                    undo.change,
                    Change::TableCreated
                        | Change::Truncated(_)
                        | Change::SchemaReplaced(_)
                        | Change::IndexCreated(..)
                        | Change::IndexDropped(..)
                )
            };
            let redefined: Vec<ObjectId> = tx.undo.iter().filter(is_definition).map(|undo| undo.table).collect();
            if !places.is_empty() || !redefined.is_empty() {
                store.commit(tx.id(), places);
            }
            for table in redefined {
                store.definitions.insert(table, store.commits);
            }
        } else {
            store.roll_back(tx.id(), places);
        }
        for snapshot in [tx.statement_snapshot.take(), tx.snapshot.take()].into_iter().flatten() {
            store.end_snapshot(snapshot);
        }
    }

    /// A statement begins. Under READ_COMMITTED_SNAPSHOT it gets a snapshot; gives the one before, of the statement
    /// that this one is part of.
    pub(super) fn begin_statement_snapshot(&mut self, tx: &mut Transaction) -> Option<u64> {
        if !self.reads_committed_snapshot() {
            return None;
        }
        let snapshot = self.state().versions.as_mut().map(|store| store.begin_snapshot());
        std::mem::replace(&mut tx.statement_snapshot, snapshot)
    }

    pub(super) fn end_statement_snapshot(&mut self, tx: &mut Transaction, outer: Option<u64>) {
        let ended = std::mem::replace(&mut tx.statement_snapshot, outer);
        if let (Some(snapshot), Some(store)) = (ended, &mut self.state().versions) {
            store.end_snapshot(snapshot);
        }
    }

    /// A statement of the transaction is about to use data. The first one decides: a transaction is a SNAPSHOT
    /// transaction from then on or never.
    ///
    /// # Errors
    ///
    /// 3951 and 3952: it cannot become one.
    pub fn use_data(&mut self, tx: &mut Transaction, is_snapshot: bool, database: &str) -> SqlResult<()> {
        let began_as_snapshot = *tx.began_as_snapshot.get_or_insert(is_snapshot);
        if !is_snapshot {
            return Ok(());
        }
        if !self.state_ref().allow_snapshot {
            return Err(snapshot_not_allowed(database));
        }
        if !began_as_snapshot {
            return Err(SqlError::new(
                3951,
                format!(
                    "Transaction failed in database '{database}' because the statement was run under snapshot isolation \
                     but the transaction did not start in snapshot isolation. You cannot change the isolation level of \
                     the transaction to snapshot after the transaction has started unless the transaction was originally \
                     started under snapshot isolation level."
                ),
            ));
        }
        if tx.snapshot.is_none() {
            tx.snapshot = self.state().versions.as_mut().map(|store| store.begin_snapshot());
        }
        Ok(())
    }

    /// 3960: the row that a SNAPSHOT transaction is about to change is not the one it has seen. The row is locked.
    pub(super) fn check_conflict(&self, tx: &Transaction, table: ObjectId, key: &Key) -> SqlResult<()> {
        let Some(snapshot) = tx.changing_snapshot().filter(|_| !is_own(table)) else { return Ok(()) };
        let Some(store) = &self.state_ref().versions else { return Ok(()) };
        let reader = Reader { transaction: tx.id(), snapshot };
        let Some(schema) = self.schema(table) else { return Ok(()) };
        if !store.has_changed_since(reader, (table, schema.row_index(), key)) {
            return Ok(());
        }
        Err(SqlError::new(
            3960,
            format!(
                "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access \
                 table '{}.{}' directly or indirectly in database '{}' to update, delete, or insert the row that has been \
                 modified or deleted by another transaction. Retry the transaction or change the isolation level for the \
                 update/delete statement.",
                schema.schema,
                schema.name,
                self.state_ref().name
            ),
        )
        .state(2))
    }

    /// 3961: the table is not what it was when the SNAPSHOT transaction began.
    pub(super) fn check_definition(&self, tx: &Transaction, table: ObjectId) -> SqlResult<()> {
        let (Some(snapshot), Some(store)) = (tx.snapshot, &self.state_ref().versions) else {
            return Ok(());
        };
        let is_own = tx.undo.iter().any(|undo| undo.table == table && matches!(undo.change, Change::TableCreated));
        if is_own || store.definitions.get(&table).is_none_or(|commit| *commit <= snapshot) {
            return Ok(());
        }
        Err(SqlError::new(
            3961,
            format!(
                "Snapshot isolation transaction failed in database '{}' because the object accessed by the statement has \
                 been modified by a DDL statement in another concurrent transaction since the start of this transaction. \
                 It is disallowed because the metadata is not versioned. A concurrent update to metadata can lead to \
                 inconsistency if mixed with snapshot isolation.",
                self.state_ref().name
            ),
        ))
    }

    /// Switches the two options. Nobody else may be using the database's data.
    pub fn set_versioning(&mut self, read_committed_snapshot: bool, allow_snapshot: bool) {
        self.database().read_committed_snapshot.store(read_committed_snapshot, Ordering::Relaxed);
        let state = self.state();
        state.allow_snapshot = allow_snapshot;
        let is_read = state.versions.as_ref().is_some_and(|store| !store.snapshots.is_empty());
        if !(read_committed_snapshot || allow_snapshot) {
            // A SNAPSHOT transaction that has begun keeps its view.
            state.versions = state.versions.take().filter(|_| is_read);
        } else if state.versions.is_none() {
            state.versions = Some(Box::default());
        }
    }

    #[cfg(test)]
    pub(super) fn version_count(&self) -> usize {
        self.state_ref().versions.as_ref().map_or(0, |store| store.version_count())
    }

    /// READ_COMMITTED_SNAPSHOT.
    pub fn reads_committed_snapshot(&self) -> bool {
        self.database().read_committed_snapshot.load(Ordering::Relaxed)
    }

    /// ALLOW_SNAPSHOT_ISOLATION.
    pub fn allows_snapshot(&self) -> bool {
        self.state_ref().allow_snapshot
    }
}

/// What stands at a key now.
fn stored_now(table: &Table, index: IndexId, key: &Key) -> Option<Stored> {
    if index < FIRST_NONCLUSTERED {
        return table.live_row(key).cloned().map(Stored::Row);
    }
    let entry = table.tree(index)?.entries.get(key.as_bytes())?;
    (!entry.ghost).then_some(Stored::Entry(entry.row_key_start))
}

impl Scan {
    /// The next row as the snapshot has it, without any lock; `None` also if a key was not there then.
    pub(super) fn next_version(&mut self, latch: &Latch<'_>, reader: Reader) -> Option<Found> {
        let table = latch.table(self.table)?;
        let store = latch.state_ref().versions.as_ref();
        let low = self.low.as_ref().map(Key::as_bytes);
        let high = self.high.as_ref().map(Key::as_bytes);
        let now = self.peek_key(table);
        let then = store.and_then(|store| store.next_key((self.table, self.index), (low, high), self.direction));
        let next = match (now, then) {
            (Some(now), Some(then)) => match self.direction {
                Direction::Forward => now.min(then),
                Direction::Backward => now.max(then),
            },
            (now, then) => match now.or(then) {
                Some(key) => key,
                None => {
                    self.finished = true;
                    return None;
                }
            },
        };
        let see = |index: IndexId, key: &Key| {
            let now = stored_now(table, index, key);
            match store {
                Some(store) => store.visible(reader, (self.table, index, key), now),
                None => now,
            }
        };
        let seen = see(self.index, &next);
        let found = match seen {
            None => None,
            Some(Stored::Row(row)) => Some(Found { key: next.clone(), row }),
            Some(Stored::Entry(row_key_start)) => {
                let key = Key::new(&next.as_bytes()[usize::from(row_key_start)..]);
                match see(self.schema.row_index(), &key) {
                    Some(Stored::Row(row)) => Some(Found { key, row }),
                    _ => None,
                }
            }
        };
        self.move_past(next);
        found
    }
}
