//! Search conditions.

use crate::tsql::ast::expression::Expr;
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::query::Query;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    Equal,
    /// `<>` or `!=`.
    NotEqual,
    Less,
    /// `<=` or `!>`.
    LessOrEqual,
    Greater,
    /// `>=` or `!<`.
    GreaterOrEqual,
}

/// A search condition: true, false or unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// Two or more, in the order written.
    And(Vec<Predicate>),
    /// Two or more, in the order written.
    Or(Vec<Predicate>),
    Not(Box<Predicate>),
    Compare {
        op: CompareOp,
        left: Expr,
        right: Expr,
    },
    Between {
        negated: bool,
        value: Expr,
        low: Expr,
        high: Expr,
    },
    InList {
        negated: bool,
        value: Expr,
        list: Vec<Expr>,
    },
    InQuery {
        negated: bool,
        value: Expr,
        query: Box<Query>,
    },
    Like {
        negated: bool,
        value: Expr,
        pattern: Expr,
        escape: Option<Expr>,
    },
    IsNull {
        negated: bool,
        value: Expr,
    },
    Exists(Box<Query>),
    /// `UPDATE(column)` in a trigger: does the statement set the column?
    Updated(Ident),
}
