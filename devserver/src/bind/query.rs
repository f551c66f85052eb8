//! Binds queries: what stands in a SELECT, in the order in which it takes effect.
//!
//! A SELECT becomes a [`Block`]. Where it stands decides what happens then: [`Binder::finish`] makes a plan of it, or
//! FROM merges it into the query around it.

use crate::bind::binder::Binder;
use crate::bind::block::{Aggregation, Block, BoundQuery};
use crate::bind::conversion::no_text_or_image;
use crate::bind::grouping::Grouping;
use crate::bind::next_value_forbidden::next_value_here;
use crate::bind::order_by::output_sort;
use crate::bind::query_scope::{Clause, QueryScope};
use crate::error::{SqlError, SqlResult};
use crate::plan::query::Body;
use crate::plan::scalar::{Node, Scalar};
use crate::tsql::ast::{Offset, OrderItem, Query, QueryBody, Select};

impl Binder<'_> {
    /// `outermost`: the query of a SELECT statement, where NEXT VALUE FOR may stand.
    pub fn bind_query(&mut self, query: &Query, outermost: bool) -> SqlResult<BoundQuery> {
        if outermost {
            return self.bind_any_query(query);
        }
        self.without_next_value(|binder| binder.bind_any_query(query))
    }

    fn bind_any_query(&mut self, query: &Query) -> SqlResult<BoundQuery> {
        match &query.body {
            QueryBody::Select(select) => {
                self.scopes.push(QueryScope::new());
                let block = self.bind_select(select, &query.order_by, query.offset.as_ref());
                self.scopes.pop();
                Ok(BoundQuery::Block(Box::new(block?)))
            }
            QueryBody::SetOperation { op, left, right } => {
                let mut plan = self.without_next_value(|binder| binder.bind_set_operation(*op, left, right))?;
                let columns = plan.columns.clone();
                let sort = output_sort(&query.order_by, &columns)?;
                let limit = self.bind_offset(query.offset.as_ref())?;
                if let Body::Set(set) = &mut plan.body {
                    set.sort = sort;
                    set.limit = limit;
                }
                Ok(BoundQuery::Plan(Box::new(plan)))
            }
        }
    }

    pub(super) fn bind_select(
        &mut self,
        select: &Select,
        order_by: &[OrderItem],
        offset: Option<&Offset>,
    ) -> SqlResult<Block> {
        let (relation, conditions) = self.without_next_value(|binder| {
            let relation = binder.bind_from(&select.from)?;
            let mut conditions = Vec::new();
            if let Some(condition) = &select.condition {
                binder.bind_condition(condition)?.into_conjuncts(&mut conditions);
            }
            Ok((relation, conditions))
        })?;
        let base_slots = self.own_slots();

        let mut group_by = Vec::with_capacity(select.group_by.len());
        for expr in &select.group_by {
            let scalar = self.without_next_value(|binder| binder.bind_expr(expr))?;
            let (mut has_subquery, mut has_function) = (false, false);
            scalar.visit(&mut |node| {
                has_subquery |= matches!(node, Node::Subquery(_));
                has_function |= matches!(node, Node::UserFunction { .. });
            });
            if has_function {
                return Err(SqlError::not_supported("GROUP BY a user-defined function"));
            }
            if has_subquery {
                return Err(SqlError::not_supported("a subquery in GROUP BY"));
            }
            if scalar.slots() & base_slots == 0 {
                return Err(SqlError::not_supported("GROUP BY an expression without a column of the query"));
            }
            scalar.label.check_resolved()?;
            no_text_or_image(scalar.ty, "GROUP BY")?;
            group_by.push(scalar);
        }
        let outer_columns = self.outer_columns.len();
        self.scope().group_by = group_by;
        self.scope().clause = Clause::Aggregates;

        self.scope().windows_allowed = true;
        let next_values = self.next_values;
        let mut items = self.bind_items(&select.items)?;
        if self.next_values != next_values {
            let is_ordered = !order_by.is_empty() && self.next_values.without_over != next_values.without_over;
            if select.distinct || select.top.is_some() || offset.is_some() || is_ordered {
                return Err(next_value_here());
            }
        }
        self.scope().windows_allowed = false;
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            self.without_next_value(|binder| binder.bind_condition(condition))?.into_conjuncts(&mut having);
        }
        self.scope().windows_allowed = true;
        let mut sort = self.without_next_value(|binder| binder.bind_order_by(order_by, &items))?;
        self.scope().windows_allowed = false;
        self.scope().clause = Clause::NoAggregates;

        let limit = match offset {
            Some(offset) => self.bind_offset(Some(offset))?,
            None => self.bind_top(select.top.as_ref())?,
        };

        let scope = self.scopes.last_mut().expect("the query's own scope");
        let group_by = std::mem::take(&mut scope.group_by);
        let calls = std::mem::take(&mut scope.aggregates);
        let windows = std::mem::take(&mut scope.windows);
        let (mut aggregate_slot, window_slot) = (scope.aggregate_slot, scope.window_slot);
        let is_grouped = !group_by.is_empty() || !calls.is_empty() || !having.is_empty() || select.having.is_some();
        let aggregation = if is_grouped {
            if aggregate_slot.is_none() {
                aggregate_slot = Some(self.new_slot()?);
            }
            let slot = aggregate_slot.expect("just made");
            let sources = self.scope().sources.clone();
            let grouping = Grouping { slot, group_by: &group_by, base_slots, sources: &sources };
            for item in &mut items {
                grouping.apply(&mut item.scalar, "select list")?;
            }
            for condition in &mut having {
                grouping.apply_condition(condition, "HAVING clause")?;
            }
            for key in &mut sort {
                grouping.apply(&mut key.scalar, "ORDER BY clause")?;
            }
            if !windows.is_empty() {
                return Err(SqlError::not_supported("window functions in a query with groups"));
            }
            let is_own = |scalar: &Scalar| scalar.slots() & base_slots != 0;
            if self.outer_columns[outer_columns..].iter().any(is_own) {
                return Err(SqlError::not_supported("a subquery over the columns of a query with groups"));
            }
            let always_a_row = group_by.is_empty();
            Some(Aggregation { slot, group_by, calls, always_a_row })
        } else {
            None
        };
        if select.distinct {
            items.iter().try_for_each(|item| no_text_or_image(item.scalar.ty, "DISTINCT"))?;
            for key in &sort {
                if !items.iter().any(|item| item.scalar == key.scalar) {
                    return Err(SqlError::not_supported("ORDER BY what SELECT DISTINCT does not list"));
                }
            }
        }
        let windows = window_slot.map(|slot| (slot, windows));
        Ok(Block { relation, conditions, aggregation, having, windows, items, distinct: select.distinct, sort, limit })
    }
}
