//! Changes of rows: INSERT, UPDATE, DELETE and MERGE.

use crate::tsql::ast::control::Execute;
use crate::tsql::ast::expression::{Expr, Predicate};
use crate::tsql::ast::hint::TableHint;
use crate::tsql::ast::name::{ColumnRef, Ident, ObjectName};
use crate::tsql::ast::query::{AssignOp, Cte, Query, SelectItem, TableSource};

/// What INSERT, UPDATE, DELETE and MERGE change, and what `OUTPUT … INTO` writes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub name: TargetName,
    pub hints: Vec<TableHint>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TargetName {
    /// A table, a CTE, or (UPDATE and DELETE) an alias of the FROM clause.
    Table(ObjectName),
    /// A table variable.
    Variable(Ident),
}

/// `OUTPUT items [INTO target [(columns)]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Never [`SelectItem::Assign`].
    pub items: Vec<SelectItem>,
    pub into: Option<OutputInto>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OutputInto {
    pub target: TargetName,
    /// Empty: all columns of the target.
    pub columns: Vec<Ident>,
}

/// A value in VALUES or SET: an expression or `DEFAULT`.
#[derive(Debug, Clone, PartialEq)]
pub enum NewValue {
    Expr(Expr),
    Default,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    pub ctes: Vec<Cte>,
    pub top: Option<Expr>,
    pub target: Target,
    /// `None` without a column list.
    pub columns: Option<Vec<Ident>>,
    /// At most one with INTO, followed by at most one without.
    pub output: Vec<Output>,
    pub source: InsertSource,
    /// OPTION (LOOP JOIN).
    pub loop_joins: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InsertSource {
    Values(Vec<Vec<NewValue>>),
    DefaultValues,
    Query(Box<Query>),
    Execute(Box<Execute>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    pub ctes: Vec<Cte>,
    pub top: Option<Expr>,
    pub target: Target,
    pub assignments: Vec<Assignment>,
    pub output: Vec<Output>,
    pub from: Vec<TableSource>,
    pub condition: Option<DmlCondition>,
    /// OPTION (LOOP JOIN).
    pub loop_joins: bool,
}

/// One element of SET in an UPDATE: `column op value`, `@v op value`, or `@v = column op value` (both are there then).
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub variable: Option<Ident>,
    pub column: Option<ColumnRef>,
    pub op: AssignOp,
    pub value: NewValue,
}

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a statement has one, and hardly ever the small variant")]
pub enum DmlCondition {
    Search(Predicate),
    /// `WHERE CURRENT OF cursor`.
    CurrentOf(Ident),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    pub ctes: Vec<Cte>,
    pub top: Option<Expr>,
    pub target: Target,
    pub output: Vec<Output>,
    pub from: Vec<TableSource>,
    pub condition: Option<DmlCondition>,
    /// OPTION (LOOP JOIN).
    pub loop_joins: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    pub ctes: Vec<Cte>,
    pub target: Target,
    pub alias: Option<Ident>,
    pub source: TableSource,
    pub on: Predicate,
    /// One of each action at most.
    pub clauses: Vec<MergeClause>,
    pub output: Vec<Output>,
    /// OPTION (LOOP JOIN).
    pub loop_joins: bool,
}

/// `WHEN … [AND condition] THEN action`.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeClause {
    pub condition: Option<Predicate>,
    pub action: MergeAction,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MergeAction {
    /// WHEN MATCHED.
    Update(Vec<Assignment>),
    /// WHEN NOT MATCHED.
    Insert { columns: Option<Vec<Ident>>, values: Vec<NewValue> },
}
