//! What a bound query looks like when its access paths are chosen: a tree of [`Operator`]s that fill the slots of a
//! [`crate::execute::frame::Frame`] row by row, and a projection over the slots.

use std::sync::Arc;

use crate::catalog::system_view::SystemView;
use crate::plan::scalar::{Condition, Scalar, SlotSet};
use crate::plan::table_function::TableFunction;
use crate::plan::table_hints::{Access, TableHints};
use crate::storage::{Direction, IndexId, ObjectId, TableSchema};
use crate::tsql::ast::SetOperator;
use crate::value::{Collation, SqlType};

/// Where a column of a result comes from, as far as the client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrigin {
    /// Nobody could give it a value.
    Computed,
    /// A column of a table that takes values.
    Table,
    Identity,
}

/// A column of a query's result.
#[derive(Debug, Clone)]
pub struct OutputColumn {
    /// Empty: no name.
    pub name: Arc<str>,
    pub ty: SqlType,
    pub nullable: bool,
    /// What the catalog says of a view's column: operators and conversions can be NULL whatever they are made of.
    pub shown_nullable: bool,
    pub origin: ColumnOrigin,
    pub collation: Collation,
}

/// A query with everything below it.
#[derive(Debug)]
pub struct QueryPlan {
    pub columns: Vec<OutputColumn>,
    pub body: Body,
    /// The slots of the queries around this one that it reads.
    pub outer_slots: SlotSet,
}

/// No two queries are the same where expressions are compared.
impl PartialEq for QueryPlan {
    fn eq(&self, _: &QueryPlan) -> bool {
        false
    }
}

#[derive(Debug)]
pub enum Body {
    Select(Box<SelectPlan>),
    /// UNION and UNION ALL; both sides have the types of the plan's columns.
    Set(Box<SetPlan>),
    Recursive(Box<RecursivePlan>),
}

#[derive(Debug)]
pub struct SelectPlan {
    pub input: Operator,
    pub items: Vec<Scalar>,
    pub distinct: bool,
    /// What is still to be sorted; empty if the input comes in order.
    pub sort: Vec<SortKey>,
    pub limit: Limit,
}

#[derive(Debug)]
pub struct SetPlan {
    pub op: SetOperator,
    pub left: QueryPlan,
    pub right: QueryPlan,
    /// By output column.
    pub sort: Vec<OutputSort>,
    pub limit: Limit,
}

#[derive(Debug, Clone)]
pub struct SortKey {
    pub scalar: Scalar,
    pub descending: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct OutputSort {
    pub column: usize,
    pub descending: bool,
}

/// TOP, OFFSET and FETCH.
#[derive(Debug, Clone, Default)]
pub struct Limit {
    pub skip: Option<Scalar>,
    pub take: Option<Scalar>,
}

impl Limit {
    pub fn is_none(&self) -> bool {
        self.skip.is_none() && self.take.is_none()
    }
}

/// A stored table in a plan.
#[derive(Debug, Clone)]
pub struct TableHandle {
    pub schema: Arc<TableSchema>,
    pub place: TableLocation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableLocation {
    Stored(ObjectId),
    /// A table variable, by its place among the declarations: each call has a table of its own.
    Variable(usize),
}

/// How the rows of a stored table are found.
#[derive(Debug)]
pub struct TableScan {
    pub slot: usize,
    pub table: TableHandle,
    pub path: IndexPath,
    /// Everything else that a row has to fulfil.
    pub residual: Vec<Condition>,
    pub hints: TableHints,
    /// `Change`: this is the statement's target, and the locators of its rows are kept.
    pub access: Access,
}

/// The part of an index that is read.
#[derive(Debug, Default)]
pub struct IndexPath {
    pub index: IndexId,
    pub equal: Vec<SeekValue>,
    /// `column IN (…)` behind the equal columns: a seek for each distinct value.
    pub any_of: Option<AnyOf>,
    pub lower: Option<(Scalar, bool)>,
    pub upper: Option<(Scalar, bool)>,
    pub direction: Direction,
    /// The index holds every column the statement needs: the rows themselves are not locked.
    pub covering: bool,
}

/// The values of an IN that is sought.
#[derive(Debug, Clone)]
pub enum AnyOf {
    List(Vec<Scalar>),
    /// `IN (SELECT …)`: one column, of the sought column's type.
    Query(Arc<QueryPlan>),
}

impl AnyOf {
    /// The slots it reads.
    pub fn slots(&self) -> SlotSet {
        match self {
            AnyOf::List(list) => list.iter().fold(0, |slots, item| slots | item.slots()),
            AnyOf::Query(query) => query.outer_slots,
        }
    }
}

/// A value that an index column must be equal to, of the column's type.
#[derive(Debug, Clone)]
pub struct SeekValue {
    pub scalar: Scalar,
    /// `IS NULL`; otherwise NULL matches nothing.
    pub is_null: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    Inner,
    /// Rows of the left side without partner stay, with NULLs on the right.
    Left,
}

/// A step that fills slots, row by row.
#[derive(Debug)]
pub enum Operator {
    /// One row without columns: a query without FROM.
    Unit,
    Table(Box<TableScan>),
    /// The row under a cursor, see `execute/cursor.rs`.
    Current {
        slot: usize,
    },
    /// `VALUES`.
    Values {
        slot: usize,
        rows: Vec<Vec<Scalar>>,
    },
    /// A derived table; computed again for each row if it reads outer columns (APPLY), else kept.
    Derived {
        slot: usize,
        query: Arc<QueryPlan>,
    },
    View {
        slot: usize,
        view: SystemView,
        /// NOLOCK: it waits for nobody who changes what it shows.
        unlocked: bool,
    },
    /// OPENJSON and its like; computed for each row to their left.
    Function {
        slot: usize,
        function: Arc<TableFunction>,
    },
    /// Within a recursive CTE: the rows found last.
    Working {
        slot: usize,
        working: usize,
    },
    Filter {
        input: Box<Operator>,
        conditions: Vec<Condition>,
    },
    Loop {
        kind: LoopKind,
        left: Box<Operator>,
        right: Box<Operator>,
        /// The slots that become NULL where there is no partner.
        right_slots: Vec<usize>,
        /// The statement's target stands on the right side: where there is no partner, there is no row to change.
        target_on_right: bool,
    },
    Hash(Box<HashJoin>),
    /// TOP and ORDER BY of a derived table that was merged into the statement.
    Top {
        input: Box<Operator>,
        slots: Vec<usize>,
        sort: Vec<SortKey>,
        limit: Limit,
    },
    Window {
        input: Box<Operator>,
        slots: Vec<usize>,
        slot: usize,
        functions: Vec<WindowFunction>,
    },
    Aggregate(Box<AggregateOperator>),
}

/// An equality join over a table of hashes of its right side.
#[derive(Debug)]
pub struct HashJoin {
    pub kind: LoopKind,
    pub left: Operator,
    pub right: Operator,
    /// Both sides of the equalities, of one type each.
    pub keys: Vec<(Scalar, Scalar, Collation)>,
    pub on: Vec<Condition>,
    pub right_slots: Vec<usize>,
    /// The statement's target stands on the right side: a saved row brings its locator with it.
    pub target_on_right: bool,
}

#[derive(Debug)]
pub struct WindowFunction {
    pub kind: WindowKind,
    pub partition_by: Vec<Scalar>,
    /// Empty: each row sees its whole partition; else the rows up to the last of its peers.
    pub order_by: Vec<SortKey>,
}

#[derive(Debug)]
pub enum WindowKind {
    RowNumber,
    FirstValue(Scalar),
    Aggregate(AggregateCall),
    /// NEXT VALUE FOR … OVER: the number of the sequence.
    NextValue(i32),
}

#[derive(Debug)]
pub struct AggregateOperator {
    pub input: Operator,
    pub slot: usize,
    pub group_by: Vec<Scalar>,
    pub calls: Vec<AggregateCall>,
    /// Without GROUP BY there is a row even if there is no input.
    pub always_a_row: bool,
}

#[derive(Debug, Clone)]
pub struct AggregateCall {
    pub function: AggregateFunction,
    pub distinct: bool,
    /// `None` for `COUNT(*)`.
    pub argument: Option<Scalar>,
    /// STRING_AGG.
    pub separator: Option<Scalar>,
    pub ty: SqlType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFunction {
    Count,
    CountBig,
    Sum,
    Min,
    Max,
    StringAgg,
}

#[derive(Debug)]
pub struct RecursivePlan {
    pub anchors: Vec<QueryPlan>,
    pub members: Vec<QueryPlan>,
    /// Under which number the rows found last stand in [`crate::execute::frame::Frame::derived`].
    pub working: usize,
}

pub const NEGATIVE_TOP: (i32, &str) = (127, "A TOP N or FETCH rowcount value may not be negative.");

pub const NEGATIVE_OFFSET: (i32, &str) = (10742, "The offset specified in a OFFSET clause may not be negative.");

pub const NO_FETCH: (i32, &str) = (10744, "The number of rows provided for a FETCH clause must be greater then zero.");
