//! The two functions of sys that tell of indexes, dm_db_index_operational_stats and dm_db_index_physical_stats: their
//! names and columns.

use crate::storage::IndexActivity;
use crate::value::{Length, SqlType};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexFunction {
    /// dm_db_index_operational_stats: what was done to an index.
    Activity,
    /// dm_db_index_physical_stats: what is in it.
    Records,
}

/// A column of type bigint.
pub type Count = (&'static str, fn(&IndexActivity) -> u64);

/// Of [`IndexFunction::Activity`], beside the four columns that say which index it is.
pub const COUNTS: &[Count] = &[
    ("leaf_insert_count", |counts| counts.inserts),
    ("leaf_delete_count", |counts| counts.deletes),
    ("leaf_update_count", |counts| counts.updates),
    ("leaf_ghost_count", |counts| counts.ghosts),
    ("range_scan_count", |counts| counts.range_scans),
    ("singleton_lookup_count", |counts| counts.singleton_lookups),
    ("row_lock_count", |counts| counts.row_locks),
    ("row_lock_wait_count", |counts| counts.row_lock_waits),
    ("row_lock_wait_in_ms", |counts| counts.row_lock_wait_ms),
    ("page_lock_count", |_| 0),
    ("page_lock_wait_count", |_| 0),
    ("page_lock_wait_in_ms", |_| 0),
    ("index_lock_promotion_attempt_count", |counts| counts.promotion_attempts),
    ("index_lock_promotion_count", |counts| counts.promotions),
];

const DESCRIPTION: SqlType = SqlType::NVarChar(Length::Limit(60));

/// Which index it is, in both functions.
const WHICH: [(&str, SqlType); 4] = [
    ("database_id", SqlType::SmallInt),
    ("object_id", SqlType::Int),
    ("index_id", SqlType::Int),
    ("partition_number", SqlType::Int),
];

/// Of [`IndexFunction::Records`], beside [`WHICH`].
const RECORDS: [(&str, SqlType); 5] = [
    ("index_type_desc", DESCRIPTION),
    ("alloc_unit_type_desc", DESCRIPTION),
    ("index_level", SqlType::TinyInt),
    ("record_count", SqlType::BigInt),
    ("ghost_record_count", SqlType::BigInt),
];

impl IndexFunction {
    pub fn by_name(folded: &str) -> Option<IndexFunction> {
        [IndexFunction::Activity, IndexFunction::Records].into_iter().find(|function| function.name() == folded)
    }

    pub fn name(self) -> &'static str {
        match self {
            IndexFunction::Activity => "dm_db_index_operational_stats",
            IndexFunction::Records => "dm_db_index_physical_stats",
        }
    }

    /// The types of its arguments: database, object, index and partition, and how thoroughly to look.
    pub fn parameters(self) -> &'static [SqlType] {
        const TYPES: [SqlType; 5] =
            [SqlType::Int, SqlType::Int, SqlType::Int, SqlType::Int, SqlType::NVarChar(Length::Limit(128))];
        match self {
            IndexFunction::Activity => &TYPES[..4],
            IndexFunction::Records => &TYPES,
        }
    }

    pub fn columns(self) -> Vec<(&'static str, SqlType)> {
        let mut columns = WHICH.to_vec();
        match self {
            IndexFunction::Activity => columns.extend(COUNTS.iter().map(|(name, _)| (*name, SqlType::BigInt))),
            IndexFunction::Records => columns.extend(RECORDS),
        }
        columns
    }
}
