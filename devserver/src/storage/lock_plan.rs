//! Which locks a scan takes, as the executor has decided it.

use super::locks::mode::LockMode;
use super::versions::ReadVersion;

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
    pub(super) fn mode(self) -> Option<LockMode> {
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
    /// Keep the row locks until the transaction ends; `Scan::release_last` gives those of a row back that did not
    /// qualify. Without it a lock lasts until the row has been read.
    pub hold: bool,
    /// READPAST: skip what is locked.
    pub readpast: bool,
    /// What is read: the rows as they are, or as a snapshot has them, which takes no locks.
    pub read: ReadVersion,
    /// REPEATABLE READ and above: rows that were read stay locked even if they do not qualify.
    pub keep_rejected: bool,
    /// Nobody may insert what this scan would have found: see `serializable.rs`.
    pub serializable: bool,
}

/// A heap has no keys whose gaps could be locked: SERIALIZABLE locks the table, exclusively if not only to read.
pub(super) fn serializable_heap_mode(plan: LockPlan) -> LockMode {
    match plan.row {
        RowLock::None => plan.table_mode,
        RowLock::Shared => LockMode::Shared,
        RowLock::Update | RowLock::Exclusive => LockMode::Exclusive,
    }
}
