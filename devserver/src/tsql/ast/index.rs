//! Index options; CREATE, ALTER and DROP INDEX.

use crate::tsql::ast::name::{Ident, ObjectName};
use crate::tsql::ast::table::{Filter, IndexColumn};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexOption {
    FillFactor(u32),
    IgnoreDupKey(bool),
    StatisticsNoRecompute(bool),
    DropExisting(bool),
    Online(bool),
    AllowRowLocks(bool),
    AllowPageLocks(bool),
    OptimizeForSequentialKey(bool),
    /// How pages are filled, sorted and compressed, and how an index is built: there are no pages here.
    OfStorage,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    pub name: Ident,
    pub unique: bool,
    pub clustered: bool,
    pub table: ObjectName,
    pub columns: Vec<IndexColumn>,
    pub include: Vec<Ident>,
    pub filter: Option<Filter>,
    pub options: Vec<IndexOption>,
}

/// `CREATE STATISTICS name ON table (column) [WITH NORECOMPUTE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateStatistics {
    pub name: Ident,
    pub table: ObjectName,
    pub column: Ident,
    pub no_recompute: bool,
}

/// `ALTER INDEX name ON table SET (options)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterIndex {
    pub name: Ident,
    pub table: ObjectName,
    pub options: Vec<IndexOption>,
}

/// `DROP INDEX [IF EXISTS] name ON table, …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIndex {
    pub if_exists: bool,
    pub indexes: Vec<(Ident, ObjectName)>,
}
