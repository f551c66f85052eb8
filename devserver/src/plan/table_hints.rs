//! From table hints and the isolation level to the locks of a scan.
//!
//! Source: "Table hints" (MicrosoftDocs/sql-docs, docs/t-sql/queries/hints-transact-sql-table.md).

use crate::error::{SqlError, SqlResult};
use crate::storage::{LockMode, LockPlan, ReadVersion, RowLock};
use crate::tsql::ast::{Ident, IndexRef, IsolationLevel, TableHint};

/// The hints of one table, sorted by what they bear on.
#[derive(Debug, Clone, Default)]
pub struct TableHints {
    /// NOLOCK … SERIALIZABLE: overrides the session's level; and whether it is READCOMMITTEDLOCK.
    pub isolation: Option<(IsolationLevel, bool)>,
    pub readpast: bool,
    pub update: bool,
    /// XLOCK.
    pub exclusive: bool,
    /// ROWLOCK, TABLOCK or TABLOCKX.
    pub granularity: Option<TableHint>,
    pub index: Option<IndexRef>,
    pub force_seek: bool,
    /// FORCESEEK (index (columns)).
    pub seek_columns: Vec<Ident>,
}

/// What a scan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// The rows will be changed or deleted.
    Change,
}

fn conflicting() -> SqlError {
    SqlError::new(1047, "Conflicting locking hints specified.").severity(15)
}

/// What FORCESEEK does not go together with: 10747 and 10748 in SQL Server.
fn check_seek_hints(hints: &[TableHint]) -> SqlResult<()> {
    let seeks = hints.iter().filter(|hint| matches!(hint, TableHint::ForceSeek(_))).count();
    let names_columns = hints.iter().any(|hint| matches!(hint, TableHint::ForceSeek(Some(_))));
    if seeks > 1 || names_columns && hints.iter().any(|hint| matches!(hint, TableHint::Index(_))) {
        return Err(SqlError::not_supported("several hints that choose an index on one table"));
    }
    Ok(())
}

fn not_for_targets() -> SqlError {
    let message = "The FORCESEEK hint is not allowed for target tables of INSERT, UPDATE, or DELETE statements.";
    SqlError::new(10724, message).severity(15)
}

fn readpast_not_allowed() -> SqlError {
    SqlError::new(
        650,
        "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation levels.",
    )
}

/// Sets what a hint has not set otherwise.
fn set<T: PartialEq>(place: &mut Option<T>, value: T) -> SqlResult<()> {
    if place.as_ref().is_some_and(|other| *other != value) {
        return Err(conflicting());
    }
    *place = Some(value);
    Ok(())
}

impl TableHints {
    pub fn of(hints: &[TableHint], access: Access) -> SqlResult<TableHints> {
        let mut result = TableHints::default();
        for hint in hints {
            match hint {
                TableHint::NoLock | TableHint::ReadUncommitted => {
                    if access == Access::Change {
                        return Err(SqlError::new(
                            1065,
                            "The NOLOCK and READUNCOMMITTED lock hints are not allowed for target tables of INSERT, \
                             UPDATE, DELETE or MERGE statements.",
                        )
                        .severity(15));
                    }
                    set(&mut result.isolation, (IsolationLevel::ReadUncommitted, false))?;
                }
                TableHint::ReadCommitted => set(&mut result.isolation, (IsolationLevel::ReadCommitted, false))?,
                TableHint::ReadCommittedLock => set(&mut result.isolation, (IsolationLevel::ReadCommitted, true))?,
                TableHint::RepeatableRead => set(&mut result.isolation, (IsolationLevel::RepeatableRead, false))?,
                TableHint::Serializable | TableHint::HoldLock => {
                    set(&mut result.isolation, (IsolationLevel::Serializable, false))?;
                }
                TableHint::ReadPast => result.readpast = true,
                // Row locks are the only ones the dev server takes by itself.
                TableHint::RowLock | TableHint::TabLock | TableHint::TabLockX => {
                    set(&mut result.granularity, hint.clone())?;
                }
                TableHint::UpdLock => result.update = true,
                TableHint::XLock => result.exclusive = true,
                TableHint::ForceSeek(place) => {
                    result.force_seek = true;
                    if let Some((index, columns)) = place {
                        result.set_index(index)?;
                        result.seek_columns.clone_from(columns);
                    }
                }
                TableHint::Index(index) => result.set_index(index)?,
            }
        }
        result.check_locks()?;
        check_seek_hints(hints)?;
        Ok(result)
    }

    /// TABLOCK or TABLOCKX.
    pub fn locks_table(&self) -> bool {
        matches!(self.granularity, Some(TableHint::TabLock | TableHint::TabLockX))
    }

    fn locks_exclusively(&self) -> bool {
        self.exclusive || self.granularity == Some(TableHint::TabLockX)
    }

    pub fn has_read_committed_lock(&self) -> bool {
        self.isolation.is_some_and(|(_, locks)| locks)
    }

    /// Whether the locking hints go together.
    fn check_locks(&self) -> SqlResult<()> {
        let unlocked = self.isolation == Some((IsolationLevel::ReadUncommitted, false));
        let is_locked = self.update || self.exclusive || self.granularity.is_some();
        if unlocked && is_locked || self.update && self.exclusive {
            return Err(conflicting());
        }
        if self.readpast && unlocked {
            return Err(readpast_not_allowed());
        }
        Ok(())
    }

    /// Adds the hints behind the target of UPDATE or DELETE to those that its table has in the FROM clause: "All lock
    /// hints are propagated to all the tables and views that are accessed by the query plan, including tables and
    /// views referenced in a view. Also, SQL Server performs the corresponding lock consistency checks."
    pub fn add_of_target(&mut self, target: &TableHints) -> SqlResult<()> {
        if let Some(isolation) = target.isolation {
            set(&mut self.isolation, isolation)?;
        }
        if let Some(granularity) = &target.granularity {
            set(&mut self.granularity, granularity.clone())?;
        }
        self.readpast |= target.readpast;
        self.update |= target.update;
        self.exclusive |= target.exclusive;
        self.check_locks()
    }

    /// The hints that the target of UPDATE or DELETE has in the FROM clause: "the hint can't be specified for a table
    /// that is the target" is said there of FORCESCAN, and of FORCESEEK with an index and its columns. Of the latter
    /// that does not mean what stands behind the table in the FROM clause of the statement itself: Microsoft's
    /// durabletask-mssql deletes so (Scripts/logic.sql).
    pub fn check_target_in_from(&self, is_in_from: bool) -> SqlResult<()> {
        if !self.seek_columns.is_empty() && !is_in_from {
            return Err(not_for_targets());
        }
        Ok(())
    }

    /// The hints behind the target of INSERT, UPDATE or DELETE: none that chooses how the table is read.
    pub fn of_target(hints: &[TableHint]) -> SqlResult<TableHints> {
        if hints.iter().any(|hint| matches!(hint, TableHint::ForceSeek(_))) {
            return Err(not_for_targets());
        }
        if hints.iter().any(|hint| matches!(hint, TableHint::Index(_))) {
            return Err(SqlError::new(1069, "Index hints are only allowed in a FROM or OPTION clause."));
        }
        TableHints::of(hints, Access::Change)
    }

    fn set_index(&mut self, index: &IndexRef) -> SqlResult<()> {
        if self.index.as_ref().is_some_and(|other| other != index) {
            return Err(SqlError::not_supported("two hints with different indexes on one table"));
        }
        self.index = Some(index.clone());
        Ok(())
    }

    /// The locks under the session's isolation level; 650 for READPAST where it is not allowed. `versions`: the
    /// database has READ_COMMITTED_SNAPSHOT.
    pub fn lock_plan(&self, session: IsolationLevel, versions: bool, access: Access) -> SqlResult<LockPlan> {
        let mut level = self.isolation.map_or(session, |(level, _)| level);
        // "When UPDLOCK is specified, the READCOMMITTED and READCOMMITTEDLOCK isolation level hints are ignored."
        if self.update && level == IsolationLevel::ReadCommitted {
            level = session;
        }
        let changes = access == Access::Change;
        let wants_locks = self.update || self.exclusive || self.locks_table();
        if self.readpast && session == IsolationLevel::Snapshot && level == IsolationLevel::Serializable {
            return Err(SqlError::not_supported("READPAST with HOLDLOCK under SNAPSHOT isolation"));
        }
        let reads_versions = level == IsolationLevel::ReadCommitted && versions && !self.has_read_committed_lock();
        let is_read_level = matches!(level, IsolationLevel::ReadCommitted | IsolationLevel::RepeatableRead);
        if self.readpast && (reads_versions || !is_read_level) {
            return Err(readpast_not_allowed());
        }
        let plan = LockPlan {
            table_mode: LockMode::SchemaStability,
            row: RowLock::None,
            hold: false,
            readpast: self.readpast,
            read: ReadVersion::Current,
            keep_rejected: false,
            serializable: false,
        };
        if session == IsolationLevel::Snapshot && (changes || wants_locks) && (self.isolation.is_some() || wants_locks)
        {
            return Err(SqlError::not_supported("locking hints under SNAPSHOT isolation"));
        }
        if level == IsolationLevel::Snapshot {
            // Locks come when the row is changed; then it must be the one that was seen.
            let table_mode = if changes { LockMode::IntentExclusive } else { LockMode::SchemaStability };
            return Ok(LockPlan { table_mode, hold: changes, read: ReadVersion::Transaction, ..plan });
        }
        let reads_freely = !changes && !wants_locks;
        if level == IsolationLevel::ReadUncommitted && reads_freely {
            return Ok(plan);
        }
        if reads_versions && reads_freely {
            return Ok(LockPlan { read: ReadVersion::Statement, ..plan });
        }
        let serializable = level == IsolationLevel::Serializable;
        let holds_reads = serializable || level == IsolationLevel::RepeatableRead;
        let (table_mode, row, hold) = if self.locks_table() {
            // "If UPDLOCK is combined with TABLOCK, … an exclusive (X) lock is taken instead."
            if self.locks_exclusively() || self.update || changes {
                (LockMode::Exclusive, RowLock::None, true)
            } else {
                (LockMode::Shared, RowLock::None, holds_reads)
            }
        } else if self.exclusive {
            (LockMode::IntentExclusive, RowLock::Exclusive, true)
        } else if self.update || changes {
            (LockMode::IntentExclusive, RowLock::Update, true)
        } else {
            (LockMode::IntentShared, RowLock::Shared, holds_reads)
        };
        Ok(LockPlan { table_mode, row, hold, keep_rejected: holds_reads, serializable, ..plan })
    }
}
