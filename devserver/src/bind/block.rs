//! A bound SELECT before its access paths are chosen: FROM can still merge it into the query around it.

use std::sync::Arc;

use crate::plan::query::{AggregateCall, ColumnOrigin, Limit, QueryPlan, SortKey, WindowFunction};
use crate::plan::relation::Relation;
use crate::plan::scalar::{Condition, Scalar};

/// An element of a select list.
#[derive(Debug)]
pub struct Item {
    pub name: Arc<str>,
    pub scalar: Scalar,
    pub origin: ColumnOrigin,
    /// `@v = …`: the place of the variable; the scalar has its type.
    pub variable: Option<usize>,
}

/// One bound SELECT.
#[derive(Debug)]
pub struct Block {
    pub relation: Relation,
    pub conditions: Vec<Condition>,
    pub aggregation: Option<Aggregation>,
    pub having: Vec<Condition>,
    pub windows: Option<(usize, Vec<WindowFunction>)>,
    pub items: Vec<Item>,
    pub distinct: bool,
    pub sort: Vec<SortKey>,
    pub limit: Limit,
}

#[derive(Debug)]
pub struct Aggregation {
    pub slot: usize,
    pub group_by: Vec<Scalar>,
    pub calls: Vec<AggregateCall>,
    pub always_a_row: bool,
}

impl Block {
    /// Whether it can be merged into the query around it.
    pub fn is_mergeable(&self) -> bool {
        !self.distinct && self.aggregation.is_none() && self.items.iter().all(|item| item.variable.is_none())
    }
}

#[derive(Debug)]
pub enum BoundQuery {
    Block(Box<Block>),
    Plan(Box<QueryPlan>),
}
