//! The hints of tables and queries.

use crate::tsql::ast::name::Ident;

/// A table hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableHint {
    NoLock,
    ReadUncommitted,
    ReadCommitted,
    ReadCommittedLock,
    RepeatableRead,
    Serializable,
    HoldLock,
    ReadPast,
    RowLock,
    TabLock,
    TabLockX,
    UpdLock,
    XLock,
    /// `FORCESEEK` or `FORCESEEK (index (columns))`.
    ForceSeek(Option<(IndexRef, Vec<Ident>)>),
    /// `INDEX (a)`.
    Index(IndexRef),
}

/// An index in a hint: by name, or by number (0 the heap or clustered index scan, 1 the clustered index).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexRef {
    Name(Ident),
    Number(u32),
}
