//! Tables, indexes, rows, locks and transactions, in memory.
//!
//! One mutex, the *latch*, guards everything that sessions share ([`Database::latch`]). A statement runs on a blocking
//! thread and holds the latch, so the data structures need no concurrency of their own; what keeps transactions apart
//! are *locks* (`locks.rs`, and `README.md` beside it). A statement that has to wait for a lock gives the latch up
//! while it waits, and looks again at the row afterwards.
//!
//! The way of a statement: [`Latch::open_table`] (intent or table lock, then the schema cannot change) →
//! [`Scan::open`] and [`Scan::next`] (row locks as the [`LockPlan`] says) → [`Latch::insert`], [`Latch::update_rows`],
//! [`Latch::delete`] (X locks on the row and every index entry that is touched, an undo record each) →
//! [`Latch::end_statement`], or [`Latch::rollback_statement`] if it failed → [`Latch::commit`] or [`Latch::rollback`].

mod activity;
mod check;
mod database;
mod ddl;
mod ghosts;
mod key;
mod lock_mode;
mod locks;
mod own_tables;
mod row;
mod scan;
mod schema;
mod serializable;
mod table;
mod transaction;
mod tree;
mod versions;
mod write;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod locking_tests;
#[cfg(test)]
mod range_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod version_tests;

pub use activity::IndexActivity;
pub use check::{check_consistency, check_live};
pub use database::{Database, Latch, Session, SessionHandle};
pub use key::Key;
pub use lock_mode::LockMode;
pub use locks::{END_OF_INDEX, LockInfo, LockOwner, LockStatus, Resource, WaitInfo};
pub use own_tables::OwnTables;
pub use row::Row;
pub use scan::{Direction, Found, LockPlan, RowLock, Scan, ScanPlace, SeekRange};
pub use schema::{
    CLUSTERED, Check, Column, FIRST_NONCLUSTERED, Filter, FilterOperator, FilterTerm, ForeignKey, HEAP, Identity,
    Index, IndexId, IndexOptions, KeyColumn, Lifetime, LockEscalation, NamedText, ObjectId, ReferentialAction,
    TableSchema, Uniqueness, fold,
};
pub use table::Table;
pub use transaction::{ChangedRow, Mark, StatementMark, Transaction};
pub use versions::ReadVersion;
pub use write::{Inserted, OnDuplicateKey, RowChange};
