//! INSERT, UPDATE, DELETE and MERGE as plans.

use crate::plan::query::{Limit, Operator, OutputColumn, QueryPlan, TableHandle, TableLocation};
use crate::plan::scalar::{Condition, Scalar};
use crate::plan::table_hints::TableHints;
use crate::plan::table_rules::{ForeignKeys, TableRules};
use crate::value::SqlType;

/// Where rows are inserted.
#[derive(Debug)]
pub struct InsertTarget {
    pub table: TableHandle,
    /// The columns that are given a value, in the order of the values.
    pub ordinals: Vec<usize>,
    pub rules: TableRules,
}

#[derive(Debug)]
pub enum InsertRows {
    /// `None` is DEFAULT.
    Values(Vec<Vec<Option<Scalar>>>),
    Query(QueryPlan),
    /// The rows come from a procedure.
    Execute,
}

#[derive(Debug)]
pub struct InsertPlan {
    pub target: InsertTarget,
    pub rows: InsertRows,
    pub limit: Limit,
    pub hints: TableHints,
    pub foreign_keys: ForeignKeys,
    pub output: Vec<OutputPlan>,
}

#[derive(Debug)]
pub struct UpdatePlan {
    pub input: Operator,
    pub table: TableHandle,
    pub slot: usize,
    /// A row may be found several times; only the first counts.
    pub may_repeat: bool,
    pub assignments: Vec<BoundAssignment>,
    pub rules: TableRules,
    pub foreign_keys: ForeignKeys,
    pub output: Vec<OutputPlan>,
    /// The slots that SET and OUTPUT read, the new row excepted.
    pub kept_slots: Vec<usize>,
    /// The new rows are computed from the old ones alone: without the latch.
    pub is_apart: bool,
}

#[derive(Debug)]
pub struct BoundAssignment {
    /// The column and the type of the value before it is assigned.
    pub column: Option<usize>,
    pub variable: Option<(usize, SqlType)>,
    pub value: Scalar,
    /// The value is the same for each row of the statement.
    pub is_constant: bool,
}

#[derive(Debug)]
pub struct DeletePlan {
    pub input: Operator,
    pub table: TableHandle,
    pub slot: usize,
    pub may_repeat: bool,
    pub foreign_keys: ForeignKeys,
    pub output: Vec<OutputPlan>,
    pub output_slots: Vec<usize>,
}

#[derive(Debug)]
pub struct OutputPlan {
    pub items: Vec<Scalar>,
    pub columns: Vec<OutputColumn>,
    pub into: Option<InsertTarget>,
    /// It is computed from the rows alone and goes to the client or into a table variable: without the latch.
    pub is_apart: bool,
}

impl OutputPlan {
    pub fn new(items: Vec<Scalar>, columns: Vec<OutputColumn>, into: Option<InsertTarget>) -> OutputPlan {
        let is_own = |target: &InsertTarget| matches!(target.table.place, TableLocation::Variable(_));
        let defaults = into.iter().flat_map(|target| target.rules.defaults.iter().flatten());
        let is_apart = into.as_ref().is_none_or(is_own) && items.iter().chain(defaults).all(Scalar::is_apart);
        OutputPlan { items, columns, into, is_apart }
    }
}

#[derive(Debug)]
pub struct MergePlan {
    /// The source joined with the target; rows without partner in the target come too if they can be inserted.
    pub input: Operator,
    pub table: TableHandle,
    /// The target's slot.
    pub slot: usize,
    pub clauses: Vec<BoundClause>,
    pub rules: TableRules,
    pub hints: TableHints,
    pub foreign_keys: ForeignKeys,
    pub output: Vec<OutputPlan>,
    /// The slots that OUTPUT reads, the new row excepted.
    pub output_slots: Vec<usize>,
}

#[derive(Debug)]
pub struct BoundClause {
    pub conditions: Vec<Condition>,
    pub action: BoundAction,
}

#[derive(Debug)]
pub enum BoundAction {
    /// Of a row that ON has matched.
    Update(Vec<BoundAssignment>),
    /// Of a row without partner in the target; `None` is DEFAULT.
    Insert(Box<InsertTarget>, Vec<Option<Scalar>>),
}
