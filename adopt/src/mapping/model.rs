//! The parts of a mapping.

use crate::expression::Value;
use crate::names::TableName;

#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) it: T,
    pub(crate) line: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Ordered {
    pub(crate) column: At<String>,
    pub(crate) descending: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Claim {
    Set(Vec<Set>),
    /// The row is deleted, and kept by the adoption.
    Delete,
}

/// The change of a row when its job has finished.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Delete,
    /// The row stays as the claim left it.
    Set(Vec<Set>),
    Move {
        table: At<TableName>,
        values: Vec<Set>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) column: At<String>,
    pub(crate) value: Value,
}

/// Columns, or expressions over columns, that describe the job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    /// When the job was enqueued, in UTC.
    pub(crate) created: Option<At<Value>>,
    /// The time from which the job may run, in UTC.
    pub(crate) due: Option<At<Value>>,
    pub(crate) priority: Option<At<Value>>,
    pub(crate) kind: Option<At<Value>>,
    pub(crate) attempts: Option<At<String>>,
    pub(crate) error: Option<At<String>>,
}
