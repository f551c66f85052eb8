//! Where NEXT VALUE FOR may not stand: only where it is clear how many values a statement takes from the sequence.
//!
//! Source: "NEXT VALUE FOR", limitations and restrictions (MicrosoftDocs/sql-docs,
//! docs/t-sql/functions/next-value-for-transact-sql.md); the errors are those of
//! docs/relational-databases/errors-events/database-engine-events-and-errors-11000-to-12999.md.

use crate::error::SqlError;

/// A place that rules it out.
#[derive(Debug, Clone, Copy)]
pub enum ForbiddenPlace {
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

impl ForbiddenPlace {
    pub fn error(self) -> SqlError {
        let (number, severity, rest) = match self {
            ForbiddenPlace::Nested => (
                11719,
                15,
                "is not allowed in check constraints, default objects, computed columns, views, user-defined functions, \
                 user-defined aggregates, user-defined table types, sub-queries, common table expressions, derived tables \
                 or return statements.",
            ),
            ForbiddenPlace::Clause => (
                11720,
                15,
                "is not allowed in the TOP, OVER, OUTPUT, ON, WHERE, GROUP BY, HAVING, or ORDER BY clauses.",
            ),
            ForbiddenPlace::Distinct => (
                11721,
                15,
                "cannot be used directly in a statement that uses a DISTINCT, UNION, UNION ALL, EXCEPT or INTERSECT \
                 operator.",
            ),
            ForbiddenPlace::Ordered => (
                11723,
                15,
                "cannot be used directly in a statement that contains an ORDER BY clause unless the OVER clause is \
                 specified.",
            ),
            ForbiddenPlace::AggregateArgument => (11725, 15, "cannot be passed as an argument to an aggregate."),
            ForbiddenPlace::Limited => {
                (11739, 15, "cannot be used if ROWCOUNT option has been set, or the query contains TOP or OFFSET.")
            }
            ForbiddenPlace::LimitedDefault => (
                11740,
                16,
                "cannot be used in a default constraint if ROWCOUNT option has been set, or the query contains TOP or \
                 OFFSET.",
            ),
            ForbiddenPlace::Conditional => {
                (11741, 16, "cannot be used within CASE, CHOOSE, COALESCE, IIF, ISNULL and NULLIF.")
            }
            ForbiddenPlace::Merge => (
                11742,
                16,
                "can only be used with MERGE if it is defined within a default constraint on the target table for insert \
                 actions.",
            ),
        };
        SqlError::new(number, format!("NEXT VALUE FOR function {rest}")).severity(severity)
    }
}
