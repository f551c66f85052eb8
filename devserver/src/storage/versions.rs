//! Row versions: what rows were before changes that a reader must not see.
//!
//! While a database has READ_COMMITTED_SNAPSHOT or ALLOW_SNAPSHOT_ISOLATION, every change also leaves what was there
//! before in the [`VersionStore`], by table, index and key. A reader has a *snapshot*, the number of the last commit
//! that it may see. It goes from the row as it is now back through the row's versions until it meets one whose writer
//! it may see: itself, or one that committed within the snapshot. Index entries have versions too, so that a snapshot
//! scan of an index finds the keys of its time ([`Scan::next_version`]).
//!
//! A version goes as soon as no snapshot needs it: when its writer commits and no snapshot is older, or when the last
//! older snapshot ends. While the options are off there is no store, and nothing is written or asked.
//!
//! Source: "Transaction locking and row versioning guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md), "Row versioning-based
//! isolation levels".

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use super::database::Latch;
use super::key::Key;
use super::own_tables::is_own;
use super::row::Row;
use super::scan::{Direction, Found, Scan};
use super::schema::{FIRST_NONCLUSTERED, IndexId, ObjectId};
use super::table::Table;
use super::transaction::{Change, Transaction, Undo};
use crate::error::{SqlError, SqlResult};

/// What stands at a key of an index.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    Row(Row),
    /// Where the row's key begins in the entry's.
    Entry(u16),
}

/// What stood at a key before a transaction changed it.
#[derive(Debug)]
struct Version {
    writer: u64,
    /// The number of the writer's commit.
    committed: Option<u64>,
    /// `None`: nothing.
    before: Option<Stored>,
}

/// Where a version belongs.
pub(super) type Place = (ObjectId, IndexId, Key);

type Chains = BTreeMap<Key, Vec<Version>>;

/// The versions of a database.
#[derive(Debug, Default)]
pub(super) struct VersionStore {
    /// By table and index, then by key; the oldest version of a key first.
    chains: FxHashMap<(ObjectId, IndexId), Chains>,
    /// The number of the last commit.
    commits: u64,
    /// The snapshots in use, each with the number of its readers.
    snapshots: BTreeMap<u64, usize>,
    /// The places of versions whose writers have committed, in the order of their commits.
    committed: VecDeque<(u64, Place)>,
    /// The commit that last changed a table's definition.
    definitions: FxHashMap<ObjectId, u64>,
}

impl VersionStore {
    /// A snapshot of now. Give it back by [`VersionStore::end_snapshot`].
    fn begin_snapshot(&mut self) -> u64 {
        *self.snapshots.entry(self.commits).or_insert(0) += 1;
        self.commits
    }

    fn end_snapshot(&mut self, snapshot: u64) {
        if let Some(readers) = self.snapshots.get_mut(&snapshot) {
            *readers -= 1;
            if *readers == 0 {
                self.snapshots.remove(&snapshot);
                self.drop_unneeded();
            }
        }
    }

    /// Keeps what was at a place before; a transaction's first change of it counts.
    fn keep(&mut self, place: Place, writer: u64, before: Option<Stored>) -> bool {
        let (table, index, key) = place;
        let chain = self.chains.entry((table, index)).or_default().entry(key).or_default();
        if chain.last().is_some_and(|version| version.writer == writer) {
            return false;
        }
        chain.push(Version { writer, committed: None, before });
        true
    }

    fn commit(&mut self, writer: u64, places: Vec<Place>) {
        self.commits += 1;
        let commit = self.commits;
        for place in places {
            let version = self.chain_mut(&place).and_then(|chain| chain.last_mut());
            if let Some(version) = version.filter(|version| version.writer == writer) {
                version.committed = Some(commit);
                self.committed.push_back((commit, place));
            }
        }
        self.drop_unneeded();
    }

    fn roll_back(&mut self, writer: u64, places: Vec<Place>) {
        for place in places {
            let Some(chain) = self.chain_mut(&place) else { continue };
            chain.retain(|version| version.writer != writer);
            if chain.is_empty() {
                self.remove_chain(&place);
            }
        }
    }

    fn chain_mut(&mut self, (table, index, key): &Place) -> Option<&mut Vec<Version>> {
        self.chains.get_mut(&(*table, *index))?.get_mut(key)
    }

    fn remove_chain(&mut self, (table, index, key): &Place) {
        if let Some(chains) = self.chains.get_mut(&(*table, *index)) {
            chains.remove(key);
        }
    }

    /// Drops the versions whose writers every snapshot sees.
    fn drop_unneeded(&mut self) {
        let oldest = self.snapshots.keys().next().copied().unwrap_or(u64::MAX);
        while self.committed.front().is_some_and(|(commit, _)| *commit <= oldest) {
            let Some((_, place)) = self.committed.pop_front() else { return };
            let Some(chain) = self.chain_mut(&place) else { continue };
            chain.retain(|version| version.committed.is_none_or(|commit| commit > oldest));
            if chain.is_empty() {
                self.remove_chain(&place);
            }
        }
    }

    /// What a reader sees at a place where `now` stands.
    fn visible(&self, reader: Reader, place: (ObjectId, IndexId, &Key), now: Option<Stored>) -> Option<Stored> {
        let (table, index, key) = place;
        let chain = self.chains.get(&(table, index)).and_then(|chains| chains.get(key));
        let mut seen = now;
        for version in chain.into_iter().flatten().rev() {
            let is_seen = version.committed.is_some_and(|commit| commit <= reader.snapshot);
            if version.writer == reader.transaction || is_seen {
                break;
            }
            seen.clone_from(&version.before);
        }
        seen
    }

    /// The next key of an index within bounds that has versions.
    fn next_key(
        &self,
        place: (ObjectId, IndexId),
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Option<Key> {
        let mut range = self.chains.get(&place)?.range::<[u8], _>(bounds);
        let next = match direction {
            Direction::Forward => range.next(),
            Direction::Backward => range.next_back(),
        };
        next.map(|(key, _)| key.clone())
    }

    /// Whether somebody else has changed the place and committed after the snapshot.
    fn has_changed_since(&self, reader: Reader, (table, index, key): (ObjectId, IndexId, &Key)) -> bool {
        let chain = self.chains.get(&(table, index)).and_then(|chains| chains.get(key));
        chain.into_iter().flatten().any(|version| {
            version.writer != reader.transaction && version.committed.is_some_and(|commit| commit > reader.snapshot)
        })
    }
}

/// Who reads, and as of when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) transaction: u64,
    pub(super) snapshot: u64,
}

/// What readers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadVersion {
    /// The row as it is, under locks or (NOLOCK) not.
    Current,
    /// As committed when the statement began: READ COMMITTED under READ_COMMITTED_SNAPSHOT.
    Statement,
    /// As committed when the transaction began: SNAPSHOT.
    Transaction,
}

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
            return Err(SqlError::new(
                3952,
                format!(
                    "Snapshot isolation transaction failed accessing database '{database}' because snapshot isolation is \
                     not allowed in this database. Use ALTER DATABASE to allow snapshot isolation."
                ),
            ));
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
        let chains = self.state_ref().versions.iter().flat_map(|store| store.chains.values());
        chains.flat_map(BTreeMap::values).map(Vec::len).sum()
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
