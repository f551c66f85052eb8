//! What a mapping is made of.

use crate::expression::Value;
use crate::names::TableName;

/// Something of the mapping, and the line in which it stands.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) it: T,
    pub(crate) line: usize,
}

/// A column of the order.
#[derive(Debug, Clone)]
pub(crate) struct Ordered {
    pub(crate) column: At<String>,
    pub(crate) descending: bool,
}

/// What a claim does to a row.
#[derive(Debug, Clone)]
pub(crate) enum Claim {
    Set(Vec<Set>),
    /// It is deleted, and kept by the adoption.
    Delete,
}

/// What becomes of a row whose job has ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Delete,
    /// Nothing is set: it stays as the claim has left it.
    Set(Vec<Set>),
    Move {
        table: At<TableName>,
        values: Vec<Set>,
    },
}

/// A column and what it is set to.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) column: At<String>,
    pub(crate) value: Value,
}

/// Columns, or what is made of them, that say something about the job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    /// When it was enqueued, in UTC.
    pub(crate) created: Option<At<Value>>,
    /// From when on it may run, in UTC.
    pub(crate) due: Option<At<Value>>,
    pub(crate) priority: Option<At<Value>>,
    pub(crate) kind: Option<At<Value>>,
    pub(crate) attempts: Option<At<String>>,
    pub(crate) error: Option<At<String>>,
}
