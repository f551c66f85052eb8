//! What a statement gives back.

use crate::plan::query::OutputColumn;
use crate::value::Value;

/// What a statement gives back.
#[derive(Debug, Default)]
pub struct StatementResult {
    /// The columns of a result set and its rows.
    pub rows: Option<(Vec<OutputColumn>, Vec<Vec<Value>>)>,
    pub count: u64,
    /// An informational message: a row that a unique index ignored.
    pub ignored_duplicates: bool,
}
