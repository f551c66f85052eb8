//! What comes of a step: where to go on, or how far an error reaches.

use crate::error::SqlError;

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Next,
    Break,
    Continue,
    Return(Option<i32>),
}

/// How far an error reaches.
#[derive(Debug)]
pub enum Failure {
    /// On its way to a CATCH.
    Raised {
        error: SqlError,
        /// A name was missing when the statement was bound at the nesting level: TRY at that level does not catch it.
        binding_level: Option<u32>,
    },
    /// The client knows of it already; the procedure or batch in which it happened ends.
    EndScope,
    /// The client knows of it already; everything ends.
    EndBatch,
}

pub type StepResult = Result<Control, Failure>;

/// Where an error came from, as far as it changes what it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Statement,
    /// A statement that changes rows, while it ran.
    Change,
    /// The statement could not be bound when it was reached.
    Binding,
    Throw,
    RaiseError,
    /// CREATE TABLE could not make its table.
    CreateTable,
    AlterTable,
}

/// Why a single statement did not succeed.
pub enum SimpleFailure {
    /// It is still to be decided what the error ends.
    Error(SqlError, Origin),
    /// That was decided further down.
    Passed(Failure),
}

impl From<SqlError> for SimpleFailure {
    fn from(error: SqlError) -> Self {
        SimpleFailure::Error(error, Origin::Statement)
    }
}

impl From<(SqlError, Origin)> for SimpleFailure {
    fn from((error, origin): (SqlError, Origin)) -> Self {
        SimpleFailure::Error(error, origin)
    }
}

/// The client has asked for the end of what runs.
pub fn cancelled() -> SqlError {
    SqlError::new(3617, "The attention was received from the client: the statement was cancelled.").severity(11)
}
