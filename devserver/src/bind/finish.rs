//! From a bound query to its plan: the planner chooses the access paths, and what is above them is put on top.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::block::{Aggregation, Block, BoundQuery};
use crate::error::SqlResult;
use crate::plan::planner::Planner;
use crate::plan::query::{
    AggregateFunction, AggregateOperator, Body, Limit, Operator, OutputColumn, QueryPlan, SelectPlan, SortKey,
};
use crate::plan::relation::Relation;
use crate::plan::scalar::{Condition, Node, Scalar, SlotSet, slot_bit};
use crate::value::{Collation, SqlType, Value};

/// "The result of most expressions is considered nullable even if only nonnullable columns are present" ("CREATE
/// TABLE", MicrosoftDocs/sql-docs, docs/t-sql/statements/create-table-transact-sql.md), that of COALESCE too
/// ("COALESCE", docs/t-sql/language-elements/coalesce-transact-sql.md).
fn is_operation(scalar: &Scalar) -> bool {
    matches!(
        scalar.node,
        Node::Negative(_) | Node::Binary(..) | Node::Convert { .. } | Node::Case { .. } | Node::Coalesce(_)
    )
}

impl Binder<'_> {
    /// Chooses the access paths of a bound query.
    pub fn finish(&mut self, bound: BoundQuery) -> SqlResult<QueryPlan> {
        match bound {
            BoundQuery::Plan(plan) => Ok(*plan),
            BoundQuery::Block(block) => self.finish_block(*block),
        }
    }

    fn finish_block(&mut self, block: Block) -> SqlResult<QueryPlan> {
        let Block { relation, conditions, aggregation, having, windows, items, distinct, mut sort, limit } = block;
        let mut own = relation.slots();
        let mut columns = Vec::with_capacity(items.len());
        for item in &items {
            columns.push(OutputColumn {
                name: Arc::clone(&item.name),
                ty: item.scalar.ty,
                nullable: item.scalar.nullable,
                shown_nullable: item.scalar.nullable || is_operation(&item.scalar),
                origin: item.origin,
                collation: output_collation(&item.scalar),
            });
        }
        let mut slots_read: SlotSet = relation.outer_slots();
        for condition in conditions.iter().chain(&having) {
            slots_read |= condition.slots();
        }
        for item in &items {
            slots_read |= item.scalar.slots();
        }
        for key in &sort {
            slots_read |= key.scalar.slots();
        }
        for scalar in [&limit.skip, &limit.take].into_iter().flatten() {
            slots_read |= scalar.slots();
        }

        let simple = aggregation.is_none() && windows.is_none();
        let order: &[SortKey] = if simple { &sort } else { &[] };
        let planner = Planner { latch: self.latch, loop_joins: self.loop_joins, used_columns: &self.used_columns };
        let mut kept_slots = relation.slot_list();
        let extreme = aggregation.as_ref().and_then(|aggregation| extreme(aggregation, &relation));
        let mut input = match extreme {
            Some(key) => {
                let mut conditions = conditions;
                if key.scalar.nullable {
                    conditions.push(Condition::Not(Box::new(Condition::IsNull(key.scalar.clone()))));
                }
                let slots = kept_slots.clone();
                let (input, ordered) = planner.plan(relation, conditions, &[key], true)?;
                let one = Scalar::constant(Value::BigInt(1), SqlType::BigInt);
                let limit = Limit { take: Some(one), ..Limit::default() };
                if ordered { Operator::Top { input: Box::new(input), slots, sort: Vec::new(), limit } } else { input }
            }
            None => {
                let (input, ordered) = planner.plan(relation, conditions, order, !limit.is_none())?;
                if ordered && simple {
                    sort.clear();
                }
                input
            }
        };
        if let Some(Aggregation { slot, group_by, calls, always_a_row }) = aggregation {
            own |= slot_bit(slot);
            for scalar in group_by.iter().chain(calls.iter().filter_map(|call| call.argument.as_ref())) {
                slots_read |= scalar.slots();
            }
            kept_slots = vec![slot];
            let aggregate = AggregateOperator { input, slot, group_by, calls, always_a_row };
            input = Operator::Aggregate(Box::new(aggregate));
        }
        if !having.is_empty() {
            input = Operator::Filter { input: Box::new(input), conditions: having };
        }
        if let Some((slot, functions)) = windows {
            own |= slot_bit(slot);
            slots_read |= functions.iter().fold(0, |slots, function| slots | function.slots());
            input = Operator::Window { input: Box::new(input), slots: kept_slots, slot, functions };
        }
        let items = items.into_iter().map(|item| item.scalar).collect();
        let select = SelectPlan { input, items, distinct, sort, limit };
        Ok(QueryPlan { columns, body: Body::Select(Box::new(select)), outer_slots: slots_read & !own })
    }
}

/// The order in which the first row has the MIN or MAX that is all the query asks of one table: an index may have it.
fn extreme(aggregation: &Aggregation, relation: &Relation) -> Option<SortKey> {
    let (Relation::Table(table), [call], []) = (relation, &aggregation.calls[..], &aggregation.group_by[..]) else {
        return None;
    };
    let descending = match call.function {
        AggregateFunction::Min => false,
        AggregateFunction::Max => true,
        _ => return None,
    };
    let scalar = call.argument.clone()?;
    let (slot, _) = scalar.as_column()?;
    (slot == table.slot).then_some(SortKey { scalar, descending })
}

/// The collation of a computed column.
pub fn output_collation(scalar: &Scalar) -> Collation {
    scalar.collation()
}
