//! Reading rows in the order of an index, with the locks that the isolation level and the hints ask for.
//!
//! A [`Scan`] knows no more than the range, where it is, and its [`LockPlan`]; each step seeks from the last key anew.
//! That is what makes it safe to lose the latch between two steps or in the middle of one, while it waits for a lock.
//! The locks of a step, in SQL Server's order: the entry of the non-clustered index, then the row in the clustered
//! index (not if the index covers the query). `locks/README.md` explains what happens at each of them.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::database::Latch;
use super::key::Key;
use super::lock_plan::{LockPlan, serializable_heap_mode};
use super::locks::mode::LockMode;
use super::locks::resource::{IndexId, LockOwner, ObjectId, Resource};
use super::locks::wait::Answer;
use super::own_tables::is_own;
use super::range::{Direction, SeekRange, index_is_gone, is_empty};
use super::row::Row;
use super::schema::{FIRST_NONCLUSTERED, HEAP, Index, Lifetime, TableSchema};
use super::table::{Entry, Table};
use super::transaction::Transaction;
use super::tree::Tree;
use super::versions::{ReadVersion, Reader};
use crate::error::{SqlError, SqlResult};

/// A row that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where it stands: for [`Latch::update_rows`], [`Latch::delete`] and [`Latch::read`].
    pub key: Key,
    pub row: Row,
}

/// See [`Scan::place`].
#[derive(Debug, Clone)]
pub struct ScanPlace {
    low: Bound<Key>,
    high: Bound<Key>,
}

impl ScanPlace {
    /// The entry that was found last.
    fn key(&self, direction: Direction) -> Option<&Key> {
        let edge = if direction == Direction::Forward { &self.low } else { &self.high };
        match edge {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        }
    }
}

/// A scan of an index.
#[derive(Debug)]
pub struct Scan {
    pub(super) table: ObjectId,
    pub(super) index: IndexId,
    pub(super) schema: Arc<TableSchema>,
    pub(super) direction: Direction,
    plan: LockPlan,
    /// The locks of rows; `None` if the plan, the kind of table or a table lock makes them needless.
    pub(super) row_mode: Option<LockMode>,
    escalations_seen: u32,
    covering: bool,
    pub(super) low: Bound<Key>,
    pub(super) high: Bound<Key>,
    pub(super) finished: bool,
    /// The range is one whole key of a unique index.
    pub(super) whole_key: bool,
    /// SERIALIZABLE, backward: the gap behind the range is locked.
    pub(super) end_locked: bool,
    /// Whose view of the versions is read.
    reader: Option<Reader>,
    /// The locks kept for the row that was returned last.
    last: LockedRow,
    /// It has gone past an entry since that was last counted.
    stepped: bool,
}

/// What was locked for one row.
#[derive(Debug, Clone, Copy, Default)]
struct LockedRow {
    entry: Option<Resource>,
    row: Option<Resource>,
}

/// The outcome of asking for one lock.
#[derive(Debug, Clone, Copy)]
pub(super) enum Attempt {
    /// It is there; `taken` if it must be released again one day.
    Locked {
        taken: bool,
        waited: bool,
    },
    Skip,
}

impl Scan {
    /// Begins a scan: locks the table. `covering`: the query needs no columns but those of the non-clustered index, so
    /// the rows themselves are not locked.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`]; 208 if the table is gone.
    #[allow(clippy::too_many_arguments)] // Each is a decision of the plan; a struct would only be taken apart again.
    pub fn open(
        latch: &mut Latch<'_>,
        tx: &mut Transaction,
        table: ObjectId,
        index: IndexId,
        range: &SeekRange,
        direction: Direction,
        plan: LockPlan,
        covering: bool,
    ) -> SqlResult<Scan> {
        let table_mode =
            if plan.serializable && index == HEAP { serializable_heap_mode(plan) } else { plan.table_mode };
        latch.lock_table(tx, table, table_mode, plan.hold)?;
        let schema = latch.schema_of(table)?;
        let row_mode = plan.row.mode().filter(|_| schema.lifetime.is_shared());
        let mut scan = Scan {
            table,
            index,
            schema,
            direction,
            plan,
            row_mode,
            escalations_seen: tx.escalations,
            covering: covering && index >= FIRST_NONCLUSTERED,
            low: Bound::Unbounded,
            high: Bound::Unbounded,
            finished: false,
            whole_key: false,
            end_locked: false,
            reader: None,
            last: LockedRow::default(),
            stepped: false,
        };
        scan.reader = scan.choose_reader(latch, tx)?;
        scan.drop_needless_row_locks(latch, tx);
        let keys = range.keys(&scan.schema, index)?;
        (scan.low, scan.high, scan.whole_key) = (keys.low, keys.high, keys.is_whole_key);
        scan.finished = is_empty(&scan.low, &scan.high);
        if plan.serializable && scan.row_mode.is_some() {
            latch.state().locks.begin_ranges(tx.slot);
        }
        Ok(scan)
    }

    fn choose_reader(&self, latch: &Latch<'_>, tx: &Transaction) -> SqlResult<Option<Reader>> {
        let snapshot = match self.plan.read {
            ReadVersion::Statement => tx.statement_snapshot,
            ReadVersion::Transaction => tx.snapshot,
            ReadVersion::Current => return Ok(None),
        };
        if self.schema.lifetime != Lifetime::Permanent {
            return Ok(None);
        }
        if self.plan.read == ReadVersion::Transaction {
            latch.check_definition(tx, self.table)?;
        }
        Ok(snapshot.map(|snapshot| Reader { transaction: tx.id(), snapshot }))
    }

    fn drop_needless_row_locks(&mut self, latch: &Latch<'_>, tx: &Transaction) {
        self.row_mode = self.row_mode.filter(|mode| !latch.table_lock_covers(tx, self.table, *mode));
    }

    /// The next row, locked as the plan says; `None` at the end.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`]; 208 if the table is gone.
    pub fn next(&mut self, latch: &mut Latch<'_>, tx: &mut Transaction) -> SqlResult<Option<Found>> {
        self.last = LockedRow::default();
        while !self.finished {
            latch.count_row(tx)?;
            if self.escalations_seen != tx.escalations {
                self.escalations_seen = tx.escalations;
                self.drop_needless_row_locks(latch, tx);
            }
            let Some(table) = latch.table(self.table) else {
                return Err(SqlError::new(208, format!("Invalid object name '{}'.", self.schema.name)));
            };
            let found = if let Some(reader) = self.reader {
                match (self.next_version(latch, reader), self.row_mode) {
                    (Some(found), Some(mode)) => self.lock_version(latch, tx, found, mode)?,
                    (found, _) => found,
                }
            } else if self.plan.serializable
                && let Some(mode) = self.row_mode
            {
                self.next_protected(latch, tx, mode)?
            } else if self.index >= FIRST_NONCLUSTERED {
                self.next_entry(latch, tx)?
            } else {
                let Some((key, record)) = self.step(&table.rows) else {
                    break;
                };
                let position = Key::new(key);
                if self.schema.lifetime.is_shared() {
                    let is_ghost = record.ghost;
                    self.move_past(position.clone());
                    self.finished |= self.whole_key;
                    if is_ghost && self.is_nobodys(latch, tx, &position) {
                        None
                    } else {
                        self.read_row(latch, tx, position, None)?
                    }
                } else {
                    // Nobody else can have changed or locked it.
                    let row = (!record.ghost).then(|| record.row.clone());
                    self.move_past(position.clone());
                    self.finished |= self.whole_key;
                    row.map(|row| Found { key: position, row })
                }
            };
            if std::mem::take(&mut self.stepped) && !is_own(self.table) {
                latch.state().entries_read += 1;
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        self.finished = true;
        Ok(None)
    }

    /// UPDLOCK and XLOCK under SNAPSHOT: the row that was seen is locked, and nobody has changed it since.
    fn lock_version(
        &self,
        latch: &mut Latch<'_>,
        tx: &mut Transaction,
        found: Found,
        mode: LockMode,
    ) -> SqlResult<Option<Found>> {
        let row = Resource::key(self.table, self.schema.row_index(), found.key.as_bytes());
        let Attempt::Locked { .. } = self.lock(latch, tx, row, mode, true)? else { return Ok(None) };
        latch.check_conflict(tx, self.table, &found.key)?;
        Ok(Some(found))
    }

    /// Where the scan is, for another scan of the same range to go on from.
    pub fn place(&self) -> ScanPlace {
        ScanPlace { low: self.low.clone(), high: self.high.clone() }
    }

    /// Goes on behind the entry that another scan of this range has found last; `again`: with it.
    pub fn go_on(&mut self, place: &ScanPlace, again: bool) {
        let Some(key) = place.key(self.direction) else { return };
        let edge = if again { Bound::Included(key.clone()) } else { Bound::Excluded(key.clone()) };
        match self.direction {
            Direction::Forward => self.low = edge,
            Direction::Backward => self.high = edge,
        }
        self.finished = is_empty(&self.low, &self.high);
    }

    /// Whether the entry that was found last is that of the place.
    pub fn stands_at(&self, place: &ScanPlace) -> bool {
        self.place().key(self.direction) == place.key(self.direction)
    }

    /// Gives back the locks of the row that [`Scan::next`] returned last: it does not qualify. Without `hold` there are
    /// none, with `keep_rejected` they stay.
    pub fn release_last(&mut self, latch: &mut Latch<'_>, tx: &mut Transaction) {
        if self.plan.keep_rejected {
            return;
        }
        let last = std::mem::take(&mut self.last);
        release(latch, tx, last);
    }

    /// The entry that is next in a tree, if it is within the range.
    fn step<'tree, V>(&self, tree: &'tree Tree<V>) -> Option<(&'tree [u8], &'tree V)> {
        let low = self.low.as_ref().map(Key::as_bytes);
        let high = self.high.as_ref().map(Key::as_bytes);
        let next = match self.direction {
            Direction::Forward => tree.next(low),
            Direction::Backward => tree.previous(high),
        };
        next.filter(|(key, _)| RangeBounds::<[u8]>::contains(&(low, high), *key))
    }

    /// The next key of the index within the range, ghosts included.
    pub(super) fn peek_key(&self, table: &Table) -> Option<Key> {
        if self.index < FIRST_NONCLUSTERED {
            return self.step(&table.rows).map(|(key, _)| Key::new(key));
        }
        self.step(&table.tree(self.index)?.entries).map(|(key, _)| Key::new(key))
    }

    pub(super) fn move_past(&mut self, position: Key) {
        self.stepped = true;
        match self.direction {
            Direction::Forward => self.low = Bound::Excluded(position),
            Direction::Backward => self.high = Bound::Excluded(position),
        }
        self.finished = is_empty(&self.low, &self.high);
    }

    /// Whether a row's ghost was kept after its transaction: a lock on it would be given back at once.
    fn is_nobodys(&self, latch: &mut Latch<'_>, tx: &Transaction, key: &Key) -> bool {
        let Some(mode) = self.row_mode else { return true };
        let resource = Resource::key(self.table, self.schema.row_index(), key.as_bytes());
        latch.is_unlocked(tx, resource, mode)
    }

    /// Locks and reads the row of the next index entry. `None` if there is none, or if it was skipped.
    fn next_entry(&mut self, latch: &mut Latch<'_>, tx: &mut Transaction) -> SqlResult<Option<Found>> {
        let Some((position, entry)) = self.peek_entry(latch)? else {
            self.finished = true;
            return Ok(None);
        };
        self.move_past(position.clone());
        let bytes = position.as_bytes();
        let row_key_start = usize::from(entry.row_key_start);
        let row_key = Key::new(&bytes[row_key_start..]);
        let Some(mode) = self.row_mode else {
            return if entry.ghost { Ok(None) } else { self.read_row(latch, tx, row_key, None) };
        };
        // Of a unique index the columns alone are the resource, so that it can be locked while it is not there.
        let is_unique = self.schema.index(self.index).is_some_and(Index::is_unique);
        let locked_bytes = if is_unique { &bytes[..row_key_start] } else { bytes };
        let resource = Resource::key(self.table, self.index, locked_bytes);
        // A ghost that was kept: nobody's, so that its lock would be given back at once.
        if entry.ghost && latch.is_unlocked(tx, resource, mode) {
            return Ok(None);
        }
        let Attempt::Locked { taken, waited } = self.lock(latch, tx, resource, mode, self.plan.hold)? else {
            return Ok(None);
        };
        let is_there = if waited {
            let tree = latch.table(self.table).and_then(|table| table.tree(self.index));
            tree.and_then(|tree| tree.entries.get(position.as_bytes())).is_some_and(|entry| !entry.ghost)
        } else {
            !entry.ghost
        };
        if !is_there {
            release(latch, tx, LockedRow { entry: taken.then_some(resource), row: None });
            return Ok(None);
        }
        self.read_row(latch, tx, row_key, Some((resource, taken)))
    }

    fn peek_entry(&self, latch: &Latch<'_>) -> SqlResult<Option<(Key, Entry)>> {
        let tree = latch.table(self.table).and_then(|table| table.tree(self.index));
        let Some(tree) = tree else {
            return Err(index_is_gone(self.index, &self.schema));
        };
        Ok(self.step(&tree.entries).map(|(key, entry)| (Key::new(key), *entry)))
    }

    /// Locks and reads a row. `entry` is the lock of the index entry it was found by, and whether it was taken.
    pub(super) fn read_row(
        &mut self,
        latch: &mut Latch<'_>,
        tx: &mut Transaction,
        key: Key,
        entry: Option<(Resource, bool)>,
    ) -> SqlResult<Option<Found>> {
        let mut locked = LockedRow { entry: entry.and_then(|(resource, taken)| taken.then_some(resource)), row: None };
        if let Some(mode) = self.row_mode.filter(|_| !self.covering) {
            let resource = Resource::key(self.table, self.schema.row_index(), key.as_bytes());
            // A reader that waits for the row holds its lock on the entry meanwhile, as in SQL Server.
            if let Some((entry, false)) = entry
                && !self.plan.readpast
                && !latch.state_ref().locks.is_free(tx.slot, resource, mode)
            {
                let answer = latch.state().locks.request(tx.slot, LockOwner::Transaction, entry, mode);
                debug_assert_ne!(answer, Answer::Blocked, "it was free just before, under the same latch");
                locked.entry = Some(entry);
            }
            match self.lock(latch, tx, resource, mode, self.plan.hold) {
                Ok(Attempt::Locked { taken, .. }) => locked.row = taken.then_some(resource),
                Ok(Attempt::Skip) => {
                    release(latch, tx, locked);
                    return Ok(None);
                }
                Err(error) => {
                    release(latch, tx, locked);
                    return Err(error);
                }
            }
        }
        let row = latch.table(self.table).and_then(|table| table.live_row(&key)).cloned();
        let Some(row) = row else {
            release(latch, tx, locked);
            return Ok(None);
        };
        if self.plan.hold {
            self.last = locked;
        } else {
            release(latch, tx, locked);
        }
        Ok(Some(Found { key, row }))
    }

    /// Asks for one lock. A lock that would be released at once is not taken at all if it is free: nobody can tell the
    /// difference while this thread has the latch.
    pub(super) fn lock(
        &self,
        latch: &mut Latch<'_>,
        tx: &mut Transaction,
        resource: Resource,
        mode: LockMode,
        hold: bool,
    ) -> SqlResult<Attempt> {
        if !hold && latch.state_ref().locks.is_free(tx.slot, resource, mode) {
            return Ok(Attempt::Locked { taken: false, waited: false });
        }
        if hold
            && let Answer::Granted { new } =
                latch.state().locks.request(tx.slot, LockOwner::Transaction, resource, mode)
        {
            if new {
                latch.count_key_lock(tx, resource);
            }
            return Ok(Attempt::Locked { taken: true, waited: false });
        }
        if self.plan.readpast {
            return Ok(Attempt::Skip);
        }
        let timeout = tx.lock_timeout;
        let grant = latch.acquire(tx, LockOwner::Transaction, resource, mode, timeout)?;
        if hold && grant.new {
            latch.count_key_lock(tx, resource);
        }
        Ok(Attempt::Locked { taken: true, waited: true })
    }
}

fn release(latch: &mut Latch<'_>, tx: &Transaction, locked: LockedRow) {
    for resource in [locked.row, locked.entry].into_iter().flatten() {
        latch.state().locks.release(tx.slot, LockOwner::Transaction, resource);
    }
}
