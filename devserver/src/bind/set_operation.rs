//! Binds UNION.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::block::BoundQuery;
use crate::bind::conversion::{implicit, no_text_or_image};
use crate::bind::query_scope::QueryScope;
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::{Body, ColumnOrigin, Limit, Operator, QueryPlan, SelectPlan, SetPlan};
use crate::plan::scalar::Node;
use crate::tsql::ast::{QueryBody, SetOperator};
use crate::value::{SqlType, Value};

impl Binder<'_> {
    pub(super) fn bind_set_operation(
        &mut self,
        op: SetOperator,
        left: &QueryBody,
        right: &QueryBody,
    ) -> SqlResult<QueryPlan> {
        let left = self.bind_operand(left)?;
        let right = self.bind_operand(right)?;
        if left.columns.len() != right.columns.len() {
            return Err(SqlError::not_supported("a set operation of queries with different numbers of columns"));
        }
        let mut columns = left.columns.iter().chain(&right.columns);
        columns.try_for_each(|column| no_text_or_image(column.ty, "UNION, INTERSECT and EXCEPT"))?;
        let mut types = Vec::with_capacity(left.columns.len());
        for (position, (a, b)) in left.columns.iter().zip(&right.columns).enumerate() {
            types.push(if is_null_column(&left, position) {
                b.ty
            } else if is_null_column(&right, position) {
                a.ty
            } else {
                a.ty.combine(b.ty)?
            });
        }
        let mut labels = Vec::with_capacity(types.len());
        for position in 0..types.len() {
            let label = label_of(&left, position).combine_in(label_of(&right, position), "UNION")?;
            label.check_resolved()?;
            labels.push(label);
        }
        let left = self.with_column_types(left, &types)?;
        let right = self.with_column_types(right, &types)?;
        let mut columns = left.columns.clone();
        for (column, label) in columns.iter_mut().zip(labels) {
            if let CollationLabel::Implicit(collation) | CollationLabel::Explicit(collation) = label {
                column.collation = collation;
            }
        }
        for (column, other) in columns.iter_mut().zip(&right.columns) {
            column.nullable |= other.nullable;
            column.shown_nullable |= other.shown_nullable;
            column.origin = ColumnOrigin::Computed;
        }
        let outer_slots = left.outer_slots | right.outer_slots;
        let set = SetPlan { op, left, right, sort: Vec::new(), limit: Limit::default() };
        Ok(QueryPlan { columns, body: Body::Set(Box::new(set)), outer_slots })
    }

    pub(crate) fn bind_operand(&mut self, body: &QueryBody) -> SqlResult<QueryPlan> {
        match body {
            QueryBody::Select(select) => {
                self.scopes.push(QueryScope::new());
                let block = self.bind_select(select, &[], None);
                self.scopes.pop();
                self.finish(BoundQuery::Block(Box::new(block?)))
            }
            QueryBody::SetOperation { op, left, right } => self.bind_set_operation(*op, left, right),
        }
    }

    /// The plan with its columns converted to other types.
    pub fn with_column_types(&mut self, mut plan: QueryPlan, types: &[SqlType]) -> SqlResult<QueryPlan> {
        if plan.columns.iter().zip(types).all(|(column, ty)| column.ty == *ty) {
            return Ok(plan);
        }
        match &mut plan.body {
            Body::Select(select) if !select.distinct => {
                let items = std::mem::take(&mut select.items);
                for (item, ty) in items.into_iter().zip(types) {
                    select.items.push(implicit(item, *ty)?);
                }
            }
            // What compares its rows does so before they are converted.
            Body::Select(_) | Body::Set(_) | Body::Recursive(_) => {
                let slot = self.new_slot()?;
                let mut items = Vec::with_capacity(types.len());
                for (column, ty) in Binder::output_columns(&plan.columns, slot).into_iter().zip(types) {
                    items.push(implicit(column.scalar, *ty)?);
                }
                let (columns, outer_slots) = (plan.columns.clone(), plan.outer_slots);
                let input = Operator::Derived { slot, query: Arc::new(plan) };
                let select = SelectPlan { input, items, distinct: false, sort: Vec::new(), limit: Limit::default() };
                plan = QueryPlan { columns, body: Body::Select(Box::new(select)), outer_slots };
            }
        }
        for (column, ty) in plan.columns.iter_mut().zip(types) {
            column.ty = *ty;
        }
        Ok(plan)
    }
}

/// Where the collation of a column of a query comes from.
fn label_of(plan: &QueryPlan, position: usize) -> CollationLabel {
    let column = &plan.columns[position];
    match &plan.body {
        _ if !column.ty.has_collation() => CollationLabel::Coercible,
        Body::Select(select) => select.items[position].label,
        Body::Set(_) | Body::Recursive(_) => CollationLabel::Implicit(column.collation),
    }
}

fn is_null_column(plan: &QueryPlan, position: usize) -> bool {
    match &plan.body {
        Body::Select(select) => matches!(select.items[position].node, Node::Constant(Value::Null)),
        Body::Set(_) | Body::Recursive(_) => false,
    }
}
