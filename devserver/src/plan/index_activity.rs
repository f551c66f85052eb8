//! The columns of sys.dm_db_index_operational_stats.

use crate::storage::IndexActivity;

pub const NAME: &str = "dm_db_index_operational_stats";

/// A column of type bigint.
pub type Count = (&'static str, fn(&IndexActivity) -> u64);

/// Beside the four columns that say which index it is.
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

/// How many columns it has.
pub const WIDTH: usize = 4 + COUNTS.len();
