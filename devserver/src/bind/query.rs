//! Binds queries: select list, GROUP BY, ORDER BY, TOP and set operations.
//!
//! A SELECT becomes a [`Block`]. Where it stands decides what happens then: [`Binder::finish`] makes a plan of it, or
//! FROM merges it into the query around it.

use std::sync::Arc;

use crate::bind::binder::{Binder, Clause, QueryScope, VisibleColumn, VisibleSource, names_source};
use crate::bind::expression::{implicit, is_null};
use crate::bind::source::output_collation;
use crate::error::{SqlError, SqlResult};
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::plan::planner::Planner;
use crate::plan::query::{
    AggregateCall, AggregateFunction, AggregateOperator, Body, Limit, NEGATIVE_OFFSET, NEGATIVE_TOP, NO_FETCH,
    Operator, OutputColumn, OutputSort, QueryPlan, SelectPlan, SetPlan, SortKey, WindowFunction,
};
use crate::plan::relation::Relation;
use crate::plan::scalar::{Condition, Node, Scalar, SlotSet, slot_bit};
use crate::storage::fold;
use crate::tsql::ast::{Expr, Literal, Offset, OrderItem, Query, QueryBody, Select, SelectItem, SetOperator, Top};
use crate::value::{SqlType, Value};

/// An element of a select list.
#[derive(Debug)]
pub struct Item {
    pub name: Arc<str>,
    pub scalar: Scalar,
    pub identity: bool,
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
    /// The slots of the grouped rows that subqueries read.
    pub kept: Vec<usize>,
}

impl Block {
    /// Whether it can be merged into the query around it.
    pub fn is_mergeable(&self) -> bool {
        !self.distinct
            && self.aggregation.is_none()
            && !self.limit.with_ties
            && self.items.iter().all(|item| item.variable.is_none())
    }
}

#[derive(Debug)]
pub enum BoundQuery {
    Block(Box<Block>),
    Plan(Box<QueryPlan>),
}

impl Binder<'_> {
    /// `outermost`: the query of a SELECT statement, where ORDER BY needs no TOP and variables can be assigned.
    pub fn bind_query(&mut self, query: &Query, outermost: bool) -> SqlResult<BoundQuery> {
        if outermost {
            return self.bind_any_query(query, true);
        }
        self.without_next_value(ForbiddenPlace::Nested, |binder| binder.bind_any_query(query, false))
    }

    fn bind_any_query(&mut self, query: &Query, outermost: bool) -> SqlResult<BoundQuery> {
        match &query.body {
            QueryBody::Select(select) => {
                let allowed_without_top = outermost || select.top.is_some() || query.offset.is_some();
                if !query.order_by.is_empty() && !allowed_without_top {
                    return Err(SqlError::new(
                        1033,
                        "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and \
                         common table expressions, unless TOP, OFFSET or FOR XML is also specified.",
                    )
                    .severity(15));
                }
                self.scopes.push(QueryScope::new());
                let block = self.bind_select(select, &query.order_by, query.offset.as_ref(), outermost);
                self.scopes.pop();
                Ok(BoundQuery::Block(Box::new(block?)))
            }
            QueryBody::SetOperation { op, left, right } => {
                let mut plan = self.without_next_value(ForbiddenPlace::Distinct, |binder| {
                    binder.bind_set_operation(*op, left, right)
                })?;
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

    fn bind_set_operation(&mut self, op: SetOperator, left: &QueryBody, right: &QueryBody) -> SqlResult<QueryPlan> {
        let left = self.bind_operand(left)?;
        let right = self.bind_operand(right)?;
        if left.columns.len() != right.columns.len() {
            return Err(SqlError::new(
                205,
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of \
                 expressions in their target lists.",
            ));
        }
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
        let left = self.with_column_types(left, &types)?;
        let right = self.with_column_types(right, &types)?;
        let mut columns = left.columns.clone();
        for (column, other) in columns.iter_mut().zip(&right.columns) {
            column.nullable |= other.nullable;
            column.identity = false;
        }
        let outer_slots = left.outer_slots | right.outer_slots;
        let set = SetPlan { op, left, right, sort: Vec::new(), limit: Limit::default() };
        Ok(QueryPlan { columns, body: Body::Set(Box::new(set)), outer_slots })
    }

    pub(crate) fn bind_operand(&mut self, body: &QueryBody) -> SqlResult<QueryPlan> {
        match body {
            QueryBody::Select(select) => {
                self.scopes.push(QueryScope::new());
                let block = self.bind_select(select, &[], None, false);
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

    fn bind_offset(&mut self, offset: Option<&Offset>) -> SqlResult<Limit> {
        let Some(offset) = offset else { return Ok(Limit::default()) };
        let skip = Some(self.bind_row_count(&offset.skip, &OFFSET)?);
        let take = match &offset.fetch {
            Some(fetch) => Some(self.bind_row_count(fetch, &FETCH)?),
            None => None,
        };
        Ok(Limit { skip, take, with_ties: false })
    }

    /// The number in TOP, OFFSET or FETCH, which the rows that it counts have no part in.
    fn bind_row_count(&mut self, expr: &Expr, clause: &RowCountClause) -> SqlResult<Scalar> {
        let scalar = self.without_next_value(ForbiddenPlace::Clause, |binder| binder.bind_expr(expr))?;
        if self.scopes.last().is_some() && scalar.slots() & self.own_slots() != 0 {
            return Err(SqlError::new(
                4115,
                format!(
                    "The reference to column \"{}\" is not allowed in an argument to a TOP, OFFSET, or FETCH clause. Only \
                     references to columns at an outer scope or standalone expressions and subqueries are allowed here.",
                    column_in(expr).unwrap_or_default()
                ),
            )
            .severity(15));
        }
        let constant = scalar.as_constant();
        if !scalar.ty.is_integer() || is_null(expr) {
            return Err(SqlError::new(clause.not_integer.0, clause.not_integer.1).severity(15));
        }
        if constant.and_then(|constant| constant.as_i64()).is_some_and(|number| number < clause.least) {
            return Err(SqlError::new(clause.too_small.0, clause.too_small.1).severity(15));
        }
        implicit(scalar, SqlType::BigInt)
    }

    pub fn bind_top(&mut self, top: Option<&Top>) -> SqlResult<Limit> {
        let Some(top) = top else { return Ok(Limit::default()) };
        Ok(Limit { skip: None, take: Some(self.bind_row_count(&top.count, &TOP)?), with_ties: top.with_ties })
    }

    fn bind_select(
        &mut self,
        select: &Select,
        order_by: &[OrderItem],
        offset: Option<&Offset>,
        outermost: bool,
    ) -> SqlResult<Block> {
        let (relation, conditions) = self.without_next_value(ForbiddenPlace::Clause, |binder| {
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
            let scalar = self.without_next_value(ForbiddenPlace::Clause, |binder| binder.bind_expr(expr))?;
            let mut has_subquery = false;
            scalar.visit(&mut |node| has_subquery |= matches!(node, Node::Subquery(_)));
            if has_subquery {
                return Err(SqlError::new(
                    144,
                    "Cannot use an aggregate or a subquery in an expression used for the group by list of a GROUP BY \
                     clause.",
                )
                .severity(15));
            }
            if scalar.slots() & base_slots == 0 {
                return Err(SqlError::new(
                    164,
                    "Each GROUP BY expression must contain at least one column that is not an outer reference.",
                )
                .severity(15));
            }
            group_by.push(scalar);
        }
        let outer_columns = self.outer_columns.len();
        self.scope().group_by = group_by;
        self.scope().clause = Clause::Aggregates;

        self.scope().windows_allowed = true;
        let next_values = self.next_values;
        let mut items = self.bind_items(&select.items, outermost)?;
        if self.next_values != next_values {
            let is_ordered = !order_by.is_empty() && self.next_values.without_over != next_values.without_over;
            let forbidden = if select.distinct {
                Some(ForbiddenPlace::Distinct)
            } else if select.top.is_some() || offset.is_some() {
                Some(ForbiddenPlace::Limited)
            } else {
                is_ordered.then_some(ForbiddenPlace::Ordered)
            };
            if let Some(forbidden) = forbidden {
                return Err(forbidden.error());
            }
        }
        self.scope().windows_allowed = false;
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            self.without_next_value(ForbiddenPlace::Clause, |binder| binder.bind_condition(condition))?
                .into_conjuncts(&mut having);
        }
        self.scope().windows_allowed = true;
        let mut sort =
            self.without_next_value(ForbiddenPlace::Clause, |binder| binder.bind_order_by(order_by, &items))?;
        self.scope().windows_allowed = false;
        self.scope().clause = Clause::NoAggregates;

        if select.top.is_some() && offset.is_some() {
            return Err(SqlError::new(10741, "A TOP can not be used in the same query or sub-query as a OFFSET.")
                .severity(15)
                .state(2));
        }
        let limit = match offset {
            Some(offset) => self.bind_offset(Some(offset))?,
            None => self.bind_top(select.top.as_ref())?,
        };
        if limit.with_ties && sort.is_empty() {
            return Err(SqlError::new(
                1062,
                "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.",
            )
            .severity(15));
        }

        let scope = self.scopes.last_mut().expect("the query's own scope");
        let group_by = std::mem::take(&mut scope.group_by);
        let calls = std::mem::take(&mut scope.aggregates);
        let mut windows = std::mem::take(&mut scope.windows);
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
            for scalar in windows.iter_mut().flat_map(WindowFunction::scalars_mut) {
                grouping.apply(scalar, "select list")?;
            }
            // Subqueries read the columns of GROUP BY from a row of the group.
            let mut kept: SlotSet = 0;
            for scalar in &self.outer_columns[outer_columns..] {
                if scalar.slots() & base_slots == 0 {
                    continue;
                }
                if !group_by.iter().any(|expression| expression.same_as(scalar)) {
                    return Err(grouping.not_grouped(scalar, "select list"));
                }
                kept |= scalar.slots();
            }
            let always_a_row = group_by.is_empty();
            let kept = (0..SlotSet::BITS as usize).filter(|slot| kept & slot_bit(*slot) != 0).collect();
            Some(Aggregation { slot, group_by, calls, always_a_row, kept })
        } else {
            None
        };
        if select.distinct {
            for key in &sort {
                if !items.iter().any(|item| item.scalar.same_as(&key.scalar)) {
                    return Err(SqlError::new(
                        145,
                        "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.",
                    )
                    .severity(15));
                }
            }
        }
        let windows = window_slot.map(|slot| (slot, windows));
        Ok(Block { relation, conditions, aggregation, having, windows, items, distinct: select.distinct, sort, limit })
    }

    pub fn bind_items(&mut self, items: &[SelectItem], outermost: bool) -> SqlResult<Vec<Item>> {
        let mut bound = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::Wildcard { table } => {
                    let scope = self.scopes.last().expect("the query's own scope");
                    let mut columns: Vec<VisibleColumn> = Vec::new();
                    let mut known = false;
                    for source in &scope.sources {
                        if table.as_ref().is_none_or(|table| names_source(table, source)) {
                            known = true;
                            columns.extend(source.columns.iter().cloned());
                        }
                    }
                    if !known {
                        return Err(match table {
                            Some(table) => SqlError::new(
                                107,
                                format!(
                                    "The column prefix '{}' does not match with a table name or alias name used in \
                                     the query.",
                                    crate::bind::binder::display_name(table)
                                ),
                            )
                            .severity(15),
                            None => SqlError::new(263, "Must specify table to select from."),
                        });
                    }
                    for column in columns {
                        self.note_used(&column.scalar);
                        bound.push(Item {
                            name: column.name,
                            scalar: column.scalar,
                            identity: column.identity,
                            variable: None,
                        });
                    }
                }
                SelectItem::Expr { expr, alias } => {
                    let scalar = self.bind_expr(expr)?;
                    let name = match (alias, expr) {
                        (Some(alias), _) => Arc::clone(alias),
                        (None, Expr::Column(column)) => Arc::clone(&column.name),
                        _ => "".into(),
                    };
                    let identity = match expr {
                        Expr::Column(column) => self.is_identity(&column.name, &scalar),
                        _ => false,
                    };
                    bound.push(Item { name, scalar, identity, variable: None });
                }
                SelectItem::Assign { variable, op, value } => {
                    if !outermost {
                        return Err(SqlError::new(102, "Incorrect syntax near '='.").severity(15));
                    }
                    let (place, scalar) = self.bind_assignment(variable, *op, value)?;
                    bound.push(Item { name: "".into(), scalar, identity: false, variable: Some(place) });
                }
            }
        }
        let assigning = bound.iter().filter(|item| item.variable.is_some()).count();
        if assigning > 0 && assigning < bound.len() {
            return Err(SqlError::new(
                141,
                "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval \
                 operations.",
            )
            .severity(15));
        }
        Ok(bound)
    }

    fn is_identity(&self, name: &str, scalar: &Scalar) -> bool {
        let Some(place) = scalar.as_column() else { return false };
        let Some(scope) = self.scopes.last() else { return false };
        let name = fold(name);
        scope
            .sources
            .iter()
            .flat_map(|source| &source.columns)
            .any(|column| column.identity && column.scalar.as_column() == Some(place) && fold(&column.name) == name)
    }

    fn bind_order_by(&mut self, order_by: &[OrderItem], items: &[Item]) -> SqlResult<Vec<SortKey>> {
        let mut sort: Vec<SortKey> = Vec::with_capacity(order_by.len());
        for item in order_by {
            let scalar = match &item.expr {
                Expr::Literal(Literal::Int(position)) => {
                    let position = usize::try_from(*position).unwrap_or(0);
                    match position.checked_sub(1).and_then(|position| items.get(position)) {
                        Some(item) => item.scalar.clone(),
                        None => return Err(bad_position(position)),
                    }
                }
                Expr::Literal(_) => {
                    return Err(SqlError::new(
                        408,
                        "A constant expression was encountered in the ORDER BY list, position 1.",
                    ));
                }
                Expr::Column(column) if column.table.is_none() => {
                    let name = fold(&column.name);
                    let mut named = items.iter().filter(|item| fold(&item.name) == name);
                    match (named.next(), named.next()) {
                        (Some(item), None) => item.scalar.clone(),
                        (Some(first), Some(second)) if !first.scalar.same_as(&second.scalar) => {
                            return Err(SqlError::new(209, format!("Ambiguous column name '{}'.", column.name)));
                        }
                        (Some(item), Some(_)) => item.scalar.clone(),
                        (None, _) => self.bind_expr(&item.expr)?,
                    }
                }
                expr => self.bind_expr(expr)?,
            };
            let repeated = sort.iter().any(|key| key.scalar.same_as(&scalar) && scalar.as_column().is_some());
            if repeated {
                return Err(SqlError::new(
                    169,
                    "A column has been specified more than once in the order by list. Columns in the order by list \
                     must be unique.",
                )
                .severity(15));
            }
            sort.push(SortKey { scalar, descending: item.descending });
        }
        Ok(sort)
    }

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
                identity: item.identity,
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

        let simple = aggregation.is_none() && windows.is_none() && !limit.with_ties;
        let order: &[SortKey] = if simple { &sort } else { &[] };
        let planner = Planner { latch: self.latch, options: self.options, used_columns: &self.used_columns };
        let mut widths = Vec::new();
        relation.widths(&mut widths);
        let extreme = aggregation.as_ref().and_then(|aggregation| extreme(aggregation, &relation));
        let mut input = match extreme {
            Some(key) => {
                let mut conditions = conditions;
                if key.scalar.nullable {
                    conditions.push(Condition::Not(Box::new(Condition::IsNull(key.scalar.clone()))));
                }
                let slots = widths.iter().map(|&(slot, _)| slot).collect();
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
        if let Some(Aggregation { slot, group_by, calls, always_a_row, kept }) = aggregation {
            own |= slot_bit(slot);
            for scalar in group_by.iter().chain(calls.iter().filter_map(|call| call.argument.as_ref())) {
                slots_read |= scalar.slots();
            }
            widths.retain(|(slot, _)| kept.contains(slot));
            widths.push((slot, group_by.len() + calls.len()));
            let aggregate = AggregateOperator { input, slot, group_by, calls, always_a_row, kept };
            input = Operator::Aggregate(Box::new(aggregate));
        }
        if !having.is_empty() {
            input = Operator::Filter { input: Box::new(input), conditions: having };
        }
        if let Some((slot, functions)) = windows {
            own |= slot_bit(slot);
            slots_read |= functions.iter().fold(0, |slots, function| slots | function.slots());
            let slots = widths.iter().map(|&(slot, _)| slot).collect();
            input = Operator::Window { input: Box::new(input), slots, slot, functions };
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

/// Turns expressions over the rows into expressions over the groups.
struct Grouping<'g> {
    slot: usize,
    group_by: &'g [Scalar],
    base_slots: SlotSet,
    sources: &'g [VisibleSource],
}

impl Grouping<'_> {
    fn replacement(&self, scalar: &Scalar, clause: &str) -> SqlResult<Option<Scalar>> {
        for (ordinal, expression) in self.group_by.iter().enumerate() {
            if expression.same_as(scalar) {
                let node = Node::Column { slot: self.slot, ordinal };
                return Ok(Some(Scalar { node, ..scalar.clone() }));
            }
        }
        match &scalar.node {
            Node::Column { slot, .. } if slot_bit(*slot) & self.base_slots != 0 => {
                Err(self.not_grouped(scalar, clause))
            }
            _ => Ok(None),
        }
    }

    fn not_grouped(&self, scalar: &Scalar, clause: &str) -> SqlError {
        let name = self.column_name(scalar);
        let (number, name) = match clause {
            "HAVING clause" => (8121, format!("'{name}'")),
            "ORDER BY clause" => (8127, format!("\"{name}\"")),
            _ => (8120, format!("'{name}'")),
        };
        SqlError::new(
            number,
            format!(
                "Column {name} is invalid in the {clause} because it is not contained in either an aggregate function or \
                 the GROUP BY clause."
            ),
        )
    }

    fn column_name(&self, scalar: &Scalar) -> String {
        for source in self.sources {
            for column in &source.columns {
                if column.scalar.same_as(scalar) {
                    return format!("{}.{}", source.name, column.name);
                }
            }
        }
        String::new()
    }

    fn apply(&self, scalar: &mut Scalar, clause: &str) -> SqlResult<()> {
        scalar.replace(&mut |scalar| self.replacement(scalar, clause))
    }

    fn apply_condition(&self, condition: &mut Condition, clause: &str) -> SqlResult<()> {
        condition.replace(&mut |scalar| self.replacement(scalar, clause))
    }
}

/// A clause that takes a number of rows, and its errors.
struct RowCountClause {
    not_integer: (i32, &'static str),
    too_small: (i32, &'static str),
    least: i64,
}

const NOT_INTEGER: (i32, &str) =
    (1060, "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.");

const TOP: RowCountClause = RowCountClause { not_integer: NOT_INTEGER, too_small: NEGATIVE_TOP, least: 0 };
const FETCH: RowCountClause = RowCountClause { not_integer: NOT_INTEGER, too_small: NO_FETCH, least: 1 };
const OFFSET: RowCountClause = RowCountClause {
    not_integer: (10743, "The number of rows provided for a OFFSET clause must be an integer."),
    too_small: NEGATIVE_OFFSET,
    least: 0,
};

/// A column that an expression names, for a message.
fn column_in(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Unary { operand, .. } => column_in(operand),
        Expr::Binary { left, right, .. } => column_in(left).or_else(|| column_in(right)),
        Expr::Cast { expr, .. } | Expr::Convert { expr, .. } => column_in(expr),
        Expr::Function(call) => call.arguments.iter().find_map(column_in),
        _ => None,
    }
}

fn bad_position(position: usize) -> SqlError {
    SqlError::new(
        108,
        format!("The ORDER BY position number {position} is out of range of the number of items in the select list."),
    )
    .severity(15)
}

/// ORDER BY of a set operation: by name or position of a result column.
fn output_sort(order_by: &[OrderItem], columns: &[OutputColumn]) -> SqlResult<Vec<OutputSort>> {
    let mut sort = Vec::with_capacity(order_by.len());
    for item in order_by {
        let column = match &item.expr {
            Expr::Literal(Literal::Int(position)) => {
                let position = usize::try_from(*position).unwrap_or(0);
                if position == 0 || position > columns.len() {
                    return Err(bad_position(position));
                }
                position - 1
            }
            Expr::Column(column) if column.table.is_none() => {
                let name = fold(&column.name);
                match columns.iter().position(|column| fold(&column.name) == name) {
                    Some(position) => position,
                    None => return Err(SqlError::new(207, format!("Invalid column name '{}'.", column.name))),
                }
            }
            _ => {
                return Err(SqlError::new(
                    104,
                    "ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or \
                     EXCEPT operator.",
                )
                .severity(15));
            }
        };
        sort.push(OutputSort { column, descending: item.descending });
    }
    Ok(sort)
}

fn is_null_column(plan: &QueryPlan, position: usize) -> bool {
    match &plan.body {
        Body::Select(select) => matches!(select.items[position].node, Node::Constant(Value::Null)),
        Body::Set(_) | Body::Recursive(_) => false,
    }
}
