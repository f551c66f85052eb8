//! What a query offers to its expressions: the tables of its FROM clause under their names, and its aggregates.

use std::sync::Arc;

use crate::plan::query::{AggregateCall, ColumnOrigin, WindowFunction};
use crate::plan::scalar::{Scalar, SlotSet};
use crate::storage::fold;
use crate::tsql::ast::ObjectName;

/// A column that can be named.
#[derive(Debug, Clone)]
pub struct VisibleColumn {
    pub name: Arc<str>,
    pub scalar: Scalar,
    pub origin: ColumnOrigin,
}

/// A table, derived table, CTE … with the name under which its columns can be reached.
#[derive(Debug, Clone)]
pub struct VisibleSource {
    pub name: Arc<str>,
    /// Of a table without alias: `schema.table.column` reaches it too.
    pub schema: Option<Arc<str>>,
    pub columns: Vec<VisibleColumn>,
    /// The slots of its tables.
    pub slots: SlotSet,
    /// Set on a table or on what was merged over tables: an UPDATE or DELETE can name it.
    pub updatable: bool,
}

/// Where in a query an expression stands, as far as aggregates are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clause {
    /// WHERE, ON, VALUES, SET …: 147.
    NoAggregates,
    /// The argument of an aggregate: 130.
    InAggregate,
    /// The select list, HAVING, ORDER BY.
    Aggregates,
}

/// What a query offers to its expressions.
#[derive(Debug)]
pub struct QueryScope {
    pub sources: Vec<VisibleSource>,
    /// ON sees only the sources of its own join.
    pub visible_from: usize,
    pub clause: Clause,
    pub aggregate_slot: Option<usize>,
    pub group_by: Vec<Scalar>,
    pub aggregates: Vec<AggregateCall>,
    pub window_slot: Option<usize>,
    pub windows: Vec<WindowFunction>,
    pub windows_allowed: bool,
}

impl QueryScope {
    pub(crate) fn new() -> QueryScope {
        QueryScope {
            sources: Vec::new(),
            visible_from: 0,
            clause: Clause::NoAggregates,
            aggregate_slot: None,
            group_by: Vec::new(),
            aggregates: Vec::new(),
            window_slot: None,
            windows: Vec::new(),
            windows_allowed: false,
        }
    }
}

/// Whether `table` in `table.column` means this source.
pub fn names_source(table: &ObjectName, source: &VisibleSource) -> bool {
    if fold(&table.name) != fold(&source.name) {
        return false;
    }
    match (&table.schema, &source.schema) {
        (None, _) => true,
        (Some(written), Some(schema)) => fold(written) == fold(schema),
        (Some(_), None) => false,
    }
}

/// Whether names are equal; the second is folded already.
pub fn same_name(name: &str, folded: &str) -> bool {
    if name.is_ascii() && folded.is_ascii() { name.eq_ignore_ascii_case(folded) } else { fold(name) == folded }
}
