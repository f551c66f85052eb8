//! The one error type of the dev server: what SQL Server sends to a client in an ERROR token.

use std::sync::Arc;

/// An error as SQL Server reports it. Where SQL Server has a number and a wording for the situation, both are used.
///
/// Source: "Database Engine events and errors" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/errors-events/database-engine-events-and-errors.md).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// The error number, for example 1205. Numbers from [`NOT_SUPPORTED`] on are the dev server's own.
    pub number: i32,
    /// The severity ("class" in the TDS specification): 11 to 16 are the user's, 20 and more end the connection.
    pub severity: u8,
    /// The state: 1 unless something else is documented.
    pub state: u8,
    /// The message, in SQL Server's wording where it has one.
    pub message: String,
    /// The procedure in which it was raised, if any.
    pub procedure: Option<Arc<str>>,
    /// The line in the batch or procedure, counted from 1; 0 where it is not known yet.
    pub line: u32,
    /// The messages that come before it: SQL Server tells the reason first, and then in this one what has failed.
    /// `ERROR_NUMBER()` and `@@ERROR` know the last one only.
    pub reasons: Vec<SqlError>,
}

/// The number of "this is T-SQL, but the dev server does not know it". User-defined messages start at 50001, so that
/// nothing of SQL Server's own can be mistaken for it.
pub const NOT_SUPPORTED: i32 = 59_000;

/// A table was changed between a statement's binding and its lock. The statement is bound and run again; no client
/// sees it.
pub const STALE_PLAN: i32 = 59_001;

impl SqlError {
    /// An error of severity 16, state 1, at a line that is not known yet.
    pub fn new(number: i32, message: impl Into<String>) -> Self {
        let message = message.into();
        SqlError { number, severity: 16, state: 1, message, procedure: None, line: 0, reasons: Vec::new() }
    }

    /// The refusal of something that SQL Server may know and the dev server does not.
    pub fn not_supported(what: impl std::fmt::Display) -> Self {
        SqlError::new(NOT_SUPPORTED, format!("not supported by the readpast dev server: {what}"))
    }

    /// The same error with another severity.
    pub fn severity(mut self, severity: u8) -> Self {
        self.severity = severity;
        self
    }

    /// The same error with another state.
    pub fn state(mut self, state: u8) -> Self {
        self.state = state;
        self
    }

    /// The same error, told after its reasons.
    pub fn because(mut self, reasons: impl IntoIterator<Item = SqlError>) -> Self {
        self.reasons.extend(reasons);
        self
    }

    /// The same error at a line; a line that is already known stays.
    pub fn at_line(mut self, line: u32) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        self
    }
}

impl std::fmt::Display for SqlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (error {}, line {})", self.message, self.number, self.line)
    }
}

impl std::error::Error for SqlError {}

/// The result of everything that can fail as SQL Server would.
pub type SqlResult<T> = Result<T, SqlError>;
