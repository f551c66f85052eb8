//! What was done to each index, counted for sys.dm_db_index_operational_stats.
//!
//! Source: "sys.dm_db_index_operational_stats" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-dynamic-management-views/sys-dm-db-index-operational-stats-transact-sql.md).

use super::locks::resource::{IndexId, ObjectId};

/// The counts of one index, or of a table's rows, since the server started. A rollback takes none back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexActivity {
    pub inserts: u64,
    /// Deleted without leaving a ghost: the rows of a heap.
    pub deletes: u64,
    pub updates: u64,
    pub ghosts: u64,
    pub range_scans: u64,
    pub singleton_lookups: u64,
    pub row_locks: u64,
    pub row_lock_waits: u64,
    pub row_lock_wait_ms: u64,
    pub promotion_attempts: u64,
    pub promotions: u64,
}

/// As many as the hot tables and their indexes need to have places of their own. A power of two.
const PLACES: usize = 64;

/// The counts of all indexes. To find an index takes a comparison, so that each row may be counted.
#[derive(Debug)]
pub(super) struct Activities {
    counts: Vec<(ObjectId, IndexId, IndexActivity)>,
    /// Where in `counts` an index stood that has this place; a guess that is compared before it is believed.
    places: [u32; PLACES],
}

impl Default for Activities {
    fn default() -> Self {
        Activities { counts: Vec::new(), places: [0; PLACES] }
    }
}

impl Activities {
    #[inline]
    pub(super) fn of(&mut self, table: ObjectId, index: IndexId) -> &mut IndexActivity {
        // A table has few indexes: neighbouring tables do not get in each other's way.
        let place = (table as usize).wrapping_mul(8).wrapping_add(usize::from(index)) % PLACES;
        let guess = self.places[place] as usize;
        let is_right = self.counts.get(guess).is_some_and(|(id, number, _)| *id == table && *number == index);
        let position = if is_right { guess } else { self.find(table, index, place) };
        &mut self.counts[position].2
    }

    #[cold]
    fn find(&mut self, table: ObjectId, index: IndexId, place: usize) -> usize {
        let found = self.counts.iter().position(|(id, number, _)| *id == table && *number == index);
        let position = found.unwrap_or_else(|| {
            self.counts.push((table, index, IndexActivity::default()));
            self.counts.len() - 1
        });
        self.places[place] = position as u32;
        position
    }

    /// The counts of an index; zeros if nothing was ever done to it.
    pub(super) fn get(&self, table: ObjectId, index: IndexId) -> IndexActivity {
        let found = self.counts.iter().find(|(id, number, _)| *id == table && *number == index);
        found.map(|(_, _, counts)| *counts).unwrap_or_default()
    }

    /// A table or (with `index`) one of its indexes is gone; its number may come again.
    pub(super) fn forget(&mut self, table: ObjectId, index: Option<IndexId>) {
        self.counts.retain(|(id, number, _)| *id != table || index.is_some_and(|index| *number != index));
    }
}
