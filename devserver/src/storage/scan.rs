//! Reading rows in the order of an index, with the locks that the isolation level and the hints ask for.
//!
//! A [`Scan`] knows no more than the range, where it is, and its [`LockPlan`]; each step seeks from the last key anew.
//! That is what makes it safe to lose the latch between two steps or in the middle of one, while it waits for a lock.
//! The locks of a step, in SQL Server's order: the entry of the non-clustered index, then the row in the clustered
//! index (not if the index covers the query). `README.md` explains what happens at each of them.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use super::database::{Latch, lock_timeout};
use super::key::{Key, advance_past_prefix};
use super::lock_mode::LockMode;
use super::locks::{Answer, LockOwner, Resource};
use super::own_tables::is_own;
use super::row::Row;
use super::schema::{FIRST_NONCLUSTERED, HEAP, Index, IndexId, Lifetime, ObjectId, TableSchema};
use super::table::{Entry, Table, encode_column};
use super::transaction::Transaction;
use super::tree::Tree;
use super::versions::{ReadVersion, Reader};
use crate::error::{SqlError, SqlResult};
use crate::value::Value;

/// The lock that is taken on each row that is read, and on its index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLock {
    /// NOLOCK: uncommitted inserts and updates are seen, deleted rows are not.
    None,
    Shared,
    Update,
    Exclusive,
}

impl RowLock {
    fn mode(self) -> Option<LockMode> {
        match self {
            RowLock::None => None,
            RowLock::Shared => Some(LockMode::Shared),
            RowLock::Update => Some(LockMode::Update),
            RowLock::Exclusive => Some(LockMode::Exclusive),
        }
    }
}

/// Which locks a scan takes, and for how long. The executor derives it from the isolation level, the hints and the kind
/// of statement:
///
/// | statement | table_mode | row | hold |
/// |---|---|---|---|
/// | SELECT, READ COMMITTED | IS | Shared | no |
/// | SELECT, REPEATABLE READ | IS | Shared | yes |
/// | SELECT WITH (NOLOCK) | Sch-S | None | no |
/// | SELECT WITH (UPDLOCK), target of UPDATE and DELETE | IX | Update | yes |
/// | SELECT WITH (XLOCK) | IX | Exclusive | yes |
/// | WITH (TABLOCK) | S | None | no |
/// | WITH (TABLOCKX) | X | None | yes |
/// | HOLDLOCK, SERIALIZABLE | as without | as without | yes, `keep_rejected` and `serializable` |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockPlan {
    pub table_mode: LockMode,
    pub row: RowLock,
    /// Keep the row locks until the transaction ends; [`Scan::release_last`] gives those of a row back that did not
    /// qualify. Without it a lock lasts until the row has been read.
    pub hold: bool,
    /// READPAST: skip what is locked.
    pub readpast: bool,
    /// NOWAIT: as `SET LOCK_TIMEOUT 0`, for this table.
    pub no_wait: bool,
    /// What is read: the rows as they are, or as a snapshot has them, which takes no locks.
    pub read: ReadVersion,
    /// REPEATABLE READ and above: rows that were read stay locked even if they do not qualify.
    pub keep_rejected: bool,
    /// Nobody may insert what this scan would have found: see `serializable.rs`.
    pub serializable: bool,
}

/// The part of an index to scan: the first key columns equal to given values, and at most one range on the column after
/// them. NULL is a value in `equal` (for IS NULL); a range never includes NULLs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeekRange {
    pub equal: Vec<Value>,
    /// The bound and whether it belongs to the range.
    pub lower: Option<(Value, bool)>,
    pub upper: Option<(Value, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

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
    finished: bool,
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
        let timeout = if plan.no_wait { Some(Duration::ZERO) } else { tx.lock_timeout };
        let table_mode =
            if plan.serializable && index == HEAP { serializable_heap_mode(plan) } else { plan.table_mode };
        latch.lock_table_within(tx, table, table_mode, plan.hold, timeout)?;
        let schema = latch.schema_of(table)?;
        let row_mode = plan.row.mode().filter(|_| schema.lifetime == Lifetime::Permanent);
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
        scan.set_range(range)?;
        scan.finished = is_empty(&scan.low, &scan.high);
        if scan.schema.lifetime == Lifetime::Permanent {
            let counts = latch.state().activity.of(table, index);
            if scan.whole_key { counts.singleton_lookups += 1 } else { counts.range_scans += 1 }
        }
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

    /// Translates the range into bounds.
    fn set_range(&mut self, range: &SeekRange) -> SqlResult<()> {
        let schema = Arc::clone(&self.schema);
        let Some(index) = schema.index(self.index) else {
            if self.index == schema.row_index() && *range == SeekRange::default() {
                return Ok(());
            }
            return Err(SqlError::not_supported(format!("index {} of table '{}'", self.index, schema.name)));
        };
        let prefix = Key::encode(|bytes| {
            for (key, value) in index.key.iter().zip(&range.equal) {
                encode_column(&schema, *key, value, bytes);
            }
        });
        let columns_left = index.key.len().checked_sub(range.equal.len());
        let has_inequality = range.lower.is_some() || range.upper.is_some();
        match columns_left {
            Some(0) if has_inequality => return Err(range_too_long(index)),
            None => return Err(range_too_long(index)),
            _ => {}
        }
        if has_inequality {
            self.set_inequality(index, prefix.as_bytes(), range);
            return Ok(());
        }
        if !range.equal.is_empty() {
            self.high = before_end_of(prefix.as_bytes());
            self.low = Bound::Included(prefix);
        }
        self.whole_key = index.is_unique() && columns_left == Some(0);
        Ok(())
    }

    fn set_inequality(&mut self, index: &Index, prefix: &[u8], range: &SeekRange) {
        let key = index.key[range.equal.len()];
        let bytes_of = |value: &Value| {
            let mut bytes = prefix.to_vec();
            encode_column(&self.schema, key, value, &mut bytes);
            bytes
        };
        let null = (Value::Null, false);
        // NULL is the lowest value, so that it ends a range without lower bound.
        let lower = range.lower.as_ref().unwrap_or(&null);
        let (first, last) =
            if key.descending { (range.upper.as_ref(), Some(lower)) } else { (Some(lower), range.upper.as_ref()) };
        self.low = match first {
            Some((value, true)) => Bound::Included(Key::new(&bytes_of(value))),
            Some((value, false)) => after_end_of(&bytes_of(value)),
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Included(Key::new(prefix)),
        };
        self.high = match last {
            Some((value, true)) => before_end_of(&bytes_of(value)),
            Some((value, false)) => Bound::Excluded(Key::new(&bytes_of(value))),
            None if prefix.is_empty() => Bound::Unbounded,
            None => before_end_of(prefix),
        };
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
                if self.schema.lifetime == Lifetime::Permanent {
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
        ScanPlace { low: self.low.clone(), high: self.high.clone(), finished: self.finished }
    }

    pub fn go_on_from(&mut self, place: &ScanPlace) {
        self.low = place.low.clone();
        self.high = place.high.clone();
        self.finished = place.finished && is_empty(&self.low, &self.high);
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
        let is_unlocked = latch.is_unlocked(tx, resource, mode);
        if is_unlocked {
            latch.state().activity.of(self.table, self.index).row_locks += 1;
        }
        is_unlocked
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
            latch.state().activity.of(self.table, self.index).row_locks += 1;
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
            return Err(SqlError::not_supported(format!("index {} of table '{}'", self.index, self.schema.name)));
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
        if self.index >= FIRST_NONCLUSTERED && !self.covering && self.schema.lifetime == Lifetime::Permanent {
            latch.state().activity.of(self.table, self.schema.row_index()).singleton_lookups += 1;
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
        if let Resource::Key { object, index, .. } = resource {
            latch.state().activity.of(object, index).row_locks += 1;
        }
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
        if self.plan.no_wait {
            return Err(lock_timeout());
        }
        let timeout = tx.lock_timeout;
        let grant = latch.acquire(tx, LockOwner::Transaction, resource, mode, timeout)?;
        if hold && grant.new {
            latch.count_key_lock(tx, resource);
        }
        Ok(Attempt::Locked { taken: true, waited: true })
    }
}

/// A heap has no keys whose gaps could be locked: SERIALIZABLE locks the table, exclusively if not only to read.
fn serializable_heap_mode(plan: LockPlan) -> LockMode {
    match plan.row {
        RowLock::None => plan.table_mode,
        RowLock::Shared => LockMode::Shared,
        RowLock::Update | RowLock::Exclusive => LockMode::Exclusive,
    }
}

fn release(latch: &mut Latch<'_>, tx: &Transaction, locked: LockedRow) {
    for resource in [locked.row, locked.entry].into_iter().flatten() {
        latch.state().locks.release(tx.slot, LockOwner::Transaction, resource);
    }
}

fn range_too_long(index: &Index) -> SqlError {
    SqlError::not_supported(format!("a seek with more values than index '{}' has key columns", index.name))
}

/// The upper bound that includes every key beginning with `prefix`.
fn before_end_of(prefix: &[u8]) -> Bound<Key> {
    let mut has_end = false;
    let end = Key::encode(|bytes| {
        bytes.extend_from_slice(prefix);
        has_end = advance_past_prefix(bytes);
    });
    if has_end { Bound::Excluded(end) } else { Bound::Unbounded }
}

/// The lower bound that excludes every key beginning with `prefix`.
fn after_end_of(prefix: &[u8]) -> Bound<Key> {
    let mut bytes = prefix.to_vec();
    if advance_past_prefix(&mut bytes) {
        Bound::Included(Key::new(&bytes))
    } else {
        // Nothing can be behind a prefix of nothing but 0xFF except what begins with it.
        Bound::Excluded(Key::new(&[prefix, &[u8::MAX]].concat()))
    }
}

/// Whether no key can lie between the bounds.
fn is_empty(low: &Bound<Key>, high: &Bound<Key>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
    }
}
