//! Which collation wins where two texts meet.

use crate::error::{SqlError, SqlResult};
use crate::value::Collation;

/// Where the collation of a string expression comes from; decides which side of a comparison wins.
///
/// Source: "Collation Precedence" (MicrosoftDocs/sql-docs, docs/t-sql/statements/collation-precedence-transact-sql.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollationLabel {
    /// A constant, a variable, or no string at all: gives way to everything.
    Coercible,
    /// A column.
    Implicit(Collation),
    /// COLLATE was written.
    Explicit(Collation),
    /// Two columns of different collations met: an error as soon as somebody compares with it.
    Conflict,
}

impl CollationLabel {
    /// The label of an expression made of two; 468 when both sides were written explicitly and differ.
    pub fn combine(self, other: CollationLabel) -> SqlResult<CollationLabel> {
        self.combine_in(other, "equal to")
    }

    /// Where no label is an answer: 451 and 446 in SQL Server, whose messages name more than is known here.
    pub fn check_resolved(self) -> SqlResult<()> {
        match self {
            CollationLabel::Conflict => Err(SqlError::not_supported("an expression of two collations in this place")),
            _ => Ok(()),
        }
    }

    /// The same for an operation that is named in the error.
    pub fn combine_in(self, other: CollationLabel, operation: &str) -> SqlResult<CollationLabel> {
        use CollationLabel::*;
        Ok(match (self, other) {
            (Explicit(a), Explicit(b)) if a != b => return Err(collation_conflict(a, b, operation)),
            (Explicit(a), _) | (_, Explicit(a)) => Explicit(a),
            (Implicit(a), Implicit(b)) if a != b => Conflict,
            (Conflict, _) | (_, Conflict) => Conflict,
            (Implicit(a), _) | (_, Implicit(a)) => Implicit(a),
            (Coercible, Coercible) => Coercible,
        })
    }
}

pub(super) fn collation_conflict(a: Collation, b: Collation, operation: &str) -> SqlError {
    SqlError::new(
        468,
        format!(
            "Cannot resolve the collation conflict between \"{}\" and \"{}\" in the {operation} operation.",
            a.name(),
            b.name()
        ),
    )
}
