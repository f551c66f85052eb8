//! Queries: SELECT, what may stand around it, and what can stand in FROM.

use crate::tsql::ast::expression::{Expr, Predicate};
use crate::tsql::ast::hint::TableHint;
use crate::tsql::ast::name::{Ident, ObjectName};
use crate::value::BinaryOp;

/// A SELECT statement with what may stand around the query only at its outermost level.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectStatement {
    pub ctes: Vec<Cte>,
    pub query: Query,
    /// OPTION (LOOP JOIN).
    pub loop_joins: bool,
}

/// `name [(columns)] AS (query)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Cte {
    pub name: Ident,
    /// Empty: the names of the query's columns.
    pub columns: Vec<Ident>,
    pub query: Query,
}

/// A query expression with its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub body: QueryBody,
    pub order_by: Vec<OrderItem>,
    pub offset: Option<Offset>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum QueryBody {
    Select(Box<Select>),
    SetOperation { op: SetOperator, left: Box<QueryBody>, right: Box<QueryBody> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOperator {
    Union,
    UnionAll,
}

/// One SELECT without its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    pub distinct: bool,
    /// `TOP (count)`.
    pub top: Option<Expr>,
    pub items: Vec<SelectItem>,
    /// `INTO table`: creates it.
    pub into: Option<ObjectName>,
    /// What stood between the commas; empty without FROM.
    pub from: Vec<TableSource>,
    pub condition: Option<Predicate>,
    pub group_by: Vec<Expr>,
    pub having: Option<Predicate>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SelectItem {
    /// `*` or `t.*`.
    Wildcard { table: Option<ObjectName> },
    /// `expr [AS alias]` or `alias = expr`.
    Expr { expr: Expr, alias: Option<Ident> },
    /// `@v = expr`, `@v += expr`.
    Assign { variable: Ident, op: AssignOp, value: Expr },
}

/// `=`, or a compound assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssignOp {
    Set,
    /// `+=` and its like: the target becomes `target op value`.
    Compound(BinaryOp),
}

#[derive(Debug, Clone, PartialEq)]
pub struct OrderItem {
    pub expr: Expr,
    pub descending: bool,
}

/// `OFFSET skip ROWS [FETCH NEXT fetch ROWS ONLY]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Offset {
    pub skip: Expr,
    pub fetch: Option<Expr>,
}

/// What can stand in FROM.
#[derive(Debug, Clone, PartialEq)]
pub enum TableSource {
    /// A table, view, synonym, CTE, or `inserted`/`deleted`.
    Table { name: ObjectName, alias: Option<Ident>, hints: Vec<TableHint> },
    /// A table variable or table-valued parameter.
    Variable { name: Ident, alias: Option<Ident> },
    /// `(SELECT …) alias [(columns)]`.
    Derived { query: Box<Query>, alias: Ident, columns: Vec<Ident> },
    /// `(VALUES (…), (…)) alias (columns)`.
    Values { rows: Vec<Vec<Expr>>, alias: Ident, columns: Vec<Ident> },
    /// A table-valued function, without or with column names.
    Function { name: ObjectName, arguments: Vec<Expr>, alias: Option<Ident>, columns: Vec<Ident> },
    /// `OPENJSON(json [, path]) [WITH (columns)] alias`; `columns` is empty without WITH.
    OpenJson { json: Expr, alias: Option<Ident> },
    Join {
        kind: JoinKind,
        /// `LOOP JOIN`.
        loops: bool,
        left: Box<TableSource>,
        right: Box<TableSource>,
        /// `None` for CROSS JOIN only.
        on: Option<Box<Predicate>>,
    },
    /// `left CROSS APPLY right`, or `OUTER APPLY`.
    Apply { outer: bool, left: Box<TableSource>, right: Box<TableSource> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Cross,
}
