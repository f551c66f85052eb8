//! Key-range locks: a scan under SERIALIZABLE or HOLDLOCK finds the same rows when it is repeated.
//!
//! A range lock on a key guards the key and the gap before it, down to the key before; the resource "end of the index"
//! guards the gap behind the last key. A scan locks each key of its range and the first one behind it, so that no gap
//! of the range is open. Who inserts a key asks for RangeI-N on the next one ([`Latch::test_gaps`], called by
//! `insert.rs` and `update.rs`) and thus waits for every scan that would have found it. One whole key of a unique index
//! needs no gap if it is there.
//!
//! Source: "Transaction locking and row versioning guide" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md), "Key-range locking".

use std::ops::Bound;

use super::database::Latch;
use super::entry_key::{EntryKey, entry_resource, entry_resource_of, row_resource};
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::{IndexId, LockOwner, ObjectId, Resource};
use super::range::{Direction, index_is_gone};
use super::scan::{Attempt, Found, Scan};
use super::schema::{FIRST_NONCLUSTERED, HEAP, Index, TableSchema};
use super::table::Table;
use super::transaction::Transaction;
use crate::error::SqlResult;

/// A key that stands in an index.
struct Place {
    key: Key,
    /// Where the row's key begins in that of a non-clustered entry.
    row_key_start: usize,
    ghost: bool,
}

/// The first key at or behind a bound.
fn place_at(table: &Table, index: IndexId, low: Bound<&[u8]>) -> Option<Place> {
    if index < FIRST_NONCLUSTERED {
        let (key, record) = table.rows.next(low)?;
        return Some(Place { key: Key::new(key), row_key_start: 0, ghost: record.ghost });
    }
    let (key, entry) = table.tree(index)?.entries.next(low)?;
    Some(Place { key: Key::new(key), row_key_start: usize::from(entry.row_key_start), ghost: entry.ghost })
}

/// The last key at or before a bound.
fn place_before(table: &Table, index: IndexId, high: Bound<&[u8]>) -> Option<Place> {
    if index < FIRST_NONCLUSTERED {
        let (key, record) = table.rows.previous(high)?;
        return Some(Place { key: Key::new(key), row_key_start: 0, ghost: record.ghost });
    }
    let (key, entry) = table.tree(index)?.entries.previous(high)?;
    Some(Place { key: Key::new(key), row_key_start: usize::from(entry.row_key_start), ghost: entry.ghost })
}

fn resource_of(schema: &TableSchema, index: IndexId, place: Option<&Place>) -> Resource {
    let Some(place) = place else {
        return Resource::end_of(schema.id, index);
    };
    match schema.index(index).filter(|index| !index.is_clustered()) {
        Some(index) => entry_resource_of(schema.id, index, place.key.as_bytes(), place.row_key_start),
        None => row_resource(schema, &place.key),
    }
}

/// The range mode that goes with a mode of rows.
fn with_range(mode: LockMode) -> LockMode {
    match mode {
        LockMode::Update => LockMode::RangeSharedUpdate,
        LockMode::Exclusive => LockMode::RangeExclusive,
        _ => LockMode::RangeSharedShared,
    }
}

impl Scan {
    /// The next row with its key and the gap before it locked; `None` also if the key was a ghost.
    pub(super) fn next_protected(
        &mut self,
        latch: &mut Latch<'_>,
        tx: &mut Transaction,
        mode: LockMode,
    ) -> SqlResult<Option<Found>> {
        // Its own length decides, not the direction, how a single key is protected.
        if self.direction == Direction::Backward && !self.whole_key && !self.end_locked {
            let end = match &self.high {
                Bound::Included(key) => Bound::Excluded(key.clone()),
                Bound::Excluded(key) => Bound::Included(key.clone()),
                Bound::Unbounded => Bound::Unbounded,
            };
            while !self.lock_place(latch, tx, with_range(mode), |scan, table| match (&end, &scan.high) {
                (_, Bound::Unbounded) => None,
                (end, _) => place_at(table, scan.index, end.as_ref().map(Key::as_bytes)),
            })? {}
            self.end_locked = true;
        }
        let Some(place) = self.peek_place(latch.table(self.table)) else {
            return self.finish_range(latch, tx, mode);
        };
        let locked = if self.whole_key { mode } else { with_range(mode) };
        if !self.lock_place(latch, tx, locked, |scan, table| scan.peek_place(Some(table)))? {
            return Ok(None);
        }
        self.move_past(place.key.clone());
        // What was locked after a wait is looked at again: the state of the ghost is that of now.
        let table = latch.table(self.table);
        let now = table.and_then(|table| place_at(table, self.index, Bound::Included(place.key.as_bytes())));
        if now.is_none_or(|now| now.ghost) {
            return Ok(None);
        }
        if self.whole_key {
            self.finished = true;
        }
        if self.index >= FIRST_NONCLUSTERED {
            let row_key = Key::new(&place.key.as_bytes()[place.row_key_start..]);
            return self.read_row(latch, tx, row_key, None);
        }
        let row = latch.table(self.table).and_then(|table| table.live_row(&place.key)).cloned();
        Ok(row.map(|row| Found { key: place.key, row }))
    }

    /// The next key within the range, ghosts included.
    fn peek_place(&self, table: Option<&Table>) -> Option<Place> {
        let low = self.low.as_ref().map(Key::as_bytes);
        let high = self.high.as_ref().map(Key::as_bytes);
        let place = match self.direction {
            Direction::Forward => place_at(table?, self.index, low),
            Direction::Backward => place_before(table?, self.index, high),
        };
        let is_within = |place: &Place| std::ops::RangeBounds::<[u8]>::contains(&(low, high), place.key.as_bytes());
        place.filter(is_within)
    }

    /// There is no key left in the range: locks the one behind it.
    fn finish_range(
        &mut self,
        latch: &mut Latch<'_>,
        tx: &mut Transaction,
        mode: LockMode,
    ) -> SqlResult<Option<Found>> {
        let is_guarded = self.direction == Direction::Backward && !self.whole_key;
        if is_guarded {
            // The gap below the lowest key is guarded by that key's lock, and by the end's if there was no key.
            self.finished = true;
        } else {
            let low = self.low.clone();
            let is_stable = self.lock_place(latch, tx, with_range(mode), |scan, table| {
                place_at(table, scan.index, low.as_ref().map(Key::as_bytes))
            })?;
            self.finished = is_stable && self.peek_place(latch.table(self.table)).is_none();
        }
        // An index that is gone has no key either.
        if self.index >= FIRST_NONCLUSTERED
            && latch.table(self.table).and_then(|table| table.tree(self.index)).is_none()
        {
            return Err(index_is_gone(self.index, &self.schema));
        }
        Ok(None)
    }

    /// Locks the key that `find` finds. False if that took a wait and `find` finds another one now.
    fn lock_place(
        &self,
        latch: &mut Latch<'_>,
        tx: &mut Transaction,
        mode: LockMode,
        find: impl Fn(&Scan, &Table) -> Option<Place>,
    ) -> SqlResult<bool> {
        let find_resource = |latch: &Latch<'_>| {
            let place = latch.table(self.table).and_then(|table| find(self, table));
            resource_of(&self.schema, self.index, place.as_ref())
        };
        let resource = find_resource(latch);
        match self.lock(latch, tx, resource, mode, true)? {
            Attempt::Locked { waited: true, .. } => Ok(find_resource(latch) == resource),
            Attempt::Locked { waited: false, .. } | Attempt::Skip => Ok(true),
        }
    }
}

/// A key that is about to come into an index.
pub(super) struct Arrival<'a> {
    pub(super) index: IndexId,
    pub(super) key: &'a Key,
    /// What its own lock is on.
    pub(super) resource: Resource,
}

impl<'a> Arrival<'a> {
    pub(super) fn of_entry(table: ObjectId, index: &Index, entry: &'a EntryKey) -> Self {
        Arrival { index: index.id, key: &entry.key, resource: entry_resource(table, index, entry) }
    }
}

impl Latch<'_> {
    /// Waits until nobody guards the gap that a key is to stand in. True if the latch was given up meanwhile.
    pub(super) fn test_gap(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        index: IndexId,
        key: &Key,
    ) -> SqlResult<bool> {
        let is_needless = index == HEAP
            || !schema.lifetime.is_shared()
            || !self.state_ref().locks.has_ranges()
            || self.table_lock_covers(tx, schema.id, LockMode::Exclusive);
        if is_needless {
            return Ok(false);
        }
        let Some(resource) = self.gap(schema, index, key) else {
            return Ok(false);
        };
        let mode = LockMode::RangeInsertNull;
        if self.state_ref().locks.is_free(tx.slot, resource, mode) {
            return Ok(false);
        }
        let before = self.state_ref().locks.held_mode(tx.slot, LockOwner::Transaction, resource);
        self.acquire(tx, LockOwner::Transaction, resource, mode, tx.lock_timeout)?;
        self.state().locks.end_test(tx.slot, LockOwner::Transaction, resource, before);
        Ok(true)
    }

    /// Tests all gaps at one moment, after the keys themselves are locked: a scan may have come by since the first
    /// test. A key that parts a gap which the transaction guards itself inherits the guard.
    pub(super) fn test_gaps(
        &mut self,
        tx: &mut Transaction,
        schema: &TableSchema,
        arrivals: &[Arrival<'_>],
    ) -> SqlResult<()> {
        let mut has_waited = true;
        while has_waited {
            has_waited = false;
            for arrival in arrivals {
                has_waited |= self.test_gap(tx, schema, arrival.index, arrival.key)?;
            }
        }
        for arrival in arrivals.iter().filter(|arrival| arrival.index != HEAP) {
            let Some(next) = self.gap(schema, arrival.index, arrival.key) else { continue };
            let held = self.state_ref().locks.held_mode(tx.slot, LockOwner::Transaction, next);
            if held.is_some_and(LockMode::is_range) {
                let mode = LockMode::RangeExclusive;
                self.acquire(tx, LockOwner::Transaction, arrival.resource, mode, tx.lock_timeout)?;
            }
        }
        Ok(())
    }

    /// The lock that guards the gap in which a key would stand; `None` if the key is there already, as a ghost.
    fn gap(&self, schema: &TableSchema, index: IndexId, key: &Key) -> Option<Resource> {
        let next = place_at(self.table(schema.id)?, index, Bound::Included(key.as_bytes()));
        if next.as_ref().is_some_and(|next| next.key == *key) {
            return None;
        }
        Some(resource_of(schema, index, next.as_ref()))
    }
}
