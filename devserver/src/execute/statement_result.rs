//! What a statement gives back.

/// What a statement gives back when it succeeds. The rows for the client stand apart: they are wanted too when it
/// fails.
#[derive(Debug, Default)]
pub struct StatementResult {
    pub count: u64,
    /// An informational message: a row that a unique index ignored.
    pub ignored_duplicates: bool,
}
