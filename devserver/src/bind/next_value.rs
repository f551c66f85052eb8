//! Where NEXT VALUE FOR may not stand: only where it is clear how many values a statement takes from the sequence.
//!
//! Source: "NEXT VALUE FOR", limitations and restrictions (MicrosoftDocs/sql-docs,
//! docs/t-sql/functions/next-value-for-transact-sql.md); the errors are those of
//! docs/relational-databases/errors-events/database-engine-events-and-errors-11000-to-12999.md.

use crate::bind::binder::Binder;
use crate::error::{SqlError, SqlResult};
use crate::plan::scalar::{Node, Scalar};

/// A place that rules it out.
#[derive(Debug, Clone, Copy)]
pub enum Forbidden {
    /// A subquery, derived table, CTE, view, function, computed column or CHECK.
    Nested,
    /// WHERE, ON, GROUP BY, HAVING, ORDER BY, TOP, OUTPUT.
    Clause,
    /// A statement with DISTINCT or a set operation.
    Distinct,
    /// A statement with ORDER BY; with OVER it is allowed.
    Ordered,
    AggregateArgument,
    /// A statement with TOP or OFFSET, or under SET ROWCOUNT.
    Limited,
    /// Such a statement, where the sequence is in a column's default.
    LimitedDefault,
    /// CASE, COALESCE and their like.
    Conditional,
    Merge,
}

impl Forbidden {
    pub fn error(self) -> SqlError {
        let (number, severity, rest) = match self {
            Forbidden::Nested => (
                11719,
                15,
                "is not allowed in check constraints, default objects, computed columns, views, user-defined functions, \
                 user-defined aggregates, user-defined table types, sub-queries, common table expressions, derived tables \
                 or return statements.",
            ),
            Forbidden::Clause => (
                11720,
                15,
                "is not allowed in the TOP, OVER, OUTPUT, ON, WHERE, GROUP BY, HAVING, or ORDER BY clauses.",
            ),
            Forbidden::Distinct => (
                11721,
                15,
                "cannot be used directly in a statement that uses a DISTINCT, UNION, UNION ALL, EXCEPT or INTERSECT \
                 operator.",
            ),
            Forbidden::Ordered => (
                11723,
                15,
                "cannot be used directly in a statement that contains an ORDER BY clause unless the OVER clause is \
                 specified.",
            ),
            Forbidden::AggregateArgument => (11725, 15, "cannot be passed as an argument to an aggregate."),
            Forbidden::Limited => {
                (11739, 15, "cannot be used if ROWCOUNT option has been set, or the query contains TOP or OFFSET.")
            }
            Forbidden::LimitedDefault => (
                11740,
                16,
                "cannot be used in a default constraint if ROWCOUNT option has been set, or the query contains TOP or \
                 OFFSET.",
            ),
            Forbidden::Conditional => {
                (11741, 16, "cannot be used within CASE, CHOOSE, COALESCE, IIF, ISNULL and NULLIF.")
            }
            Forbidden::Merge => (
                11742,
                16,
                "can only be used with MERGE if it is defined within a default constraint on the target table for insert \
                 actions.",
            ),
        };
        SqlError::new(number, format!("NEXT VALUE FOR function {rest}")).severity(severity)
    }
}

/// How many were met so far in the statement that is being bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextValues {
    pub all: usize,
    pub without_over: usize,
}

impl Binder<'_> {
    /// Binds what must not contain NEXT VALUE FOR.
    pub fn without_next_value<T>(
        &mut self,
        place: Forbidden,
        bind: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = self.next_values;
        let bound = bind(self)?;
        if self.next_values != before { Err(place.error()) } else { Ok(bound) }
    }
}

pub fn takes_next_value(scalar: &Scalar) -> bool {
    let mut found = false;
    scalar.visit(&mut |node| found |= matches!(node, Node::NextValue(_)));
    found
}
