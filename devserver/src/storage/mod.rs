//! Tables, indexes, rows, locks and transactions, in memory.
//!
//! One mutex, the *latch*, guards everything that sessions share ([`Database::latch`]). A statement runs on a blocking
//! thread and holds the latch, so the data structures need no concurrency of their own; what keeps transactions apart
//! are *locks* (`locks/`, and `README.md` in it). A statement that has to wait for a lock gives the latch up while it
//! waits, and looks again at the row afterwards.
//!
//! The way of a statement: [`Latch::open_table`] (intent or table lock, then the schema cannot change) →
//! [`Scan::open`] and [`Scan::next`] (row locks as the [`LockPlan`] says) → [`Latch::insert`], [`Latch::update_rows`],
//! [`Latch::delete`] (X locks on the row and every index entry that is touched, an undo record each) →
//! [`Latch::end_statement`], or [`Latch::rollback_statement`] if it failed → [`Latch::commit`] or [`Latch::rollback`].

mod application_lock;
mod catalog_name;
mod changed_names;
mod consistency;
mod database;
mod ddl;
mod delete;
mod duplicate;
mod entry_key;
mod ghosts;
mod identity;
mod insert;
mod key;
mod lock_plan;
mod locks;
mod own_tables;
mod range;
mod row;
mod scan;
mod schema;
mod serializable;
mod snapshot;
mod state;
mod table;
mod table_lock;
mod tables;
mod transaction;
mod tree;
mod undo;
mod update;
mod versions;
mod waiting;
mod write;

#[cfg(test)]
mod tests;

pub use catalog_name::{CatalogName, Looks};
pub use consistency::{check_consistency, check_live};
pub use database::{Database, Latch, Session};
pub use insert::{Inserted, OnDuplicateKey};
pub use key::Key;
pub use lock_plan::{LockPlan, RowLock};
pub use locks::mode::LockMode;
pub use locks::resource::{END_OF_INDEX, IndexId, LockOwner, ObjectId, Resource};
pub use locks::session::SessionHandle;
pub use locks::view::{LockInfo, LockStatus, WaitInfo};
pub use own_tables::OwnTables;
pub use range::{Direction, SeekRange};
pub use row::Row;
pub use scan::{Found, Scan, ScanPlace};
pub use schema::{
    CLUSTERED, Check, Column, FIRST_NONCLUSTERED, Filter, FilterTerm, ForeignKey, HEAP, Index, IndexOptions, KeyColumn,
    Lifetime, NamedText, Statistics, TableSchema, Uniqueness, fold,
};
pub use snapshot::snapshot_not_allowed;
pub use table::Table;
pub use transaction::{ChangedRow, Mark, StatementMark, Transaction};
pub use update::RowChange;
pub use versions::ReadVersion;
