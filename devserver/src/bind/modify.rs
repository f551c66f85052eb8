//! Binds UPDATE and DELETE, and the OUTPUT clauses and rules of all that changes rows.

use std::sync::Arc;

use crate::bind::binder::{Binder, QueryScope, VisibleColumn, VisibleSource};
use crate::bind::expression::{binary_op, bind_binary, implicit};
use crate::bind::foreign_key::Changes;
use crate::bind::insert::count_mismatch;
use crate::bind::query::Item;
use crate::error::{SqlError, SqlResult};
use crate::plan::cell::Uses;
use crate::plan::change::{BoundAssignment, DeletePlan, OutputPlan, UpdatePlan};
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::plan::options::PlanOptions;
use crate::plan::planner::Planner;
use crate::plan::query::{Limit, Operator, OutputColumn, TableHandle, TablePlace};
use crate::plan::relation::Relation;
use crate::plan::scalar::{Condition, Node, Scalar, SlotSet, slot_bit};
use crate::plan::table_hints::{Access, TableHints};
use crate::plan::table_rules::TableRules;
use crate::storage::{Column, Lifetime, TableSchema, fold};
use crate::tsql::ast::{
    AssignOp, Assignment, ColumnRef, Delete, DmlCondition, Expr, Ident, NewValue, ObjectName, Output, SelectItem,
    TableSource, TargetName, Update,
};
use crate::tsql::{parse_expression, parse_predicate};
use crate::value::{self, SqlType};

/// The target of an UPDATE or DELETE in its FROM clause.
struct Target {
    relation: Relation,
    slot: usize,
    table: TableHandle,
    /// The columns by which the statement knows the target: the table's or the CTE's.
    columns: Vec<VisibleColumn>,
    may_repeat: bool,
}

impl Binder<'_> {
    /// `target op= value` of a variable: its place and the value, of the variable's type.
    pub fn bind_assignment(&mut self, variable: &Ident, op: AssignOp, value: &Expr) -> SqlResult<(usize, Scalar)> {
        let (place, ty) = self.declarations.scalar(variable)?;
        let mut scalar = self.bind_expr(value)?;
        if let AssignOp::Compound(op) = op {
            let before = self.bind_expr(&Expr::Variable(Arc::clone(variable)))?;
            scalar = bind_binary(binary_op(op), before, scalar)?;
        }
        Ok((place, implicit(scalar, ty)?))
    }

    /// The rules of a table, over a slot that must have been made for its new rows.
    pub fn bind_rules(&mut self, schema: &TableSchema, slot: usize) -> SqlResult<TableRules> {
        let scopes = std::mem::take(&mut self.scopes);
        let mut scope = QueryScope::new();
        scope.sources.push(VisibleSource {
            name: Arc::clone(&schema.name),
            schema: None,
            columns: Binder::table_columns(schema, slot),
            slots: slot_bit(slot),
            updatable: false,
        });
        self.scopes.push(scope);
        let rules = self.bind_rules_in_scope(schema, slot);
        self.scopes = scopes;
        rules
    }

    fn bind_rules_in_scope(&mut self, schema: &TableSchema, slot: usize) -> SqlResult<TableRules> {
        let mut defaults = Vec::with_capacity(schema.columns.len());
        let mut computed = Vec::new();
        for (ordinal, column) in schema.columns.iter().enumerate() {
            defaults.push(match &column.default {
                Some(default) => {
                    let scalar = self.bind_default(&parse_expression(&default.text)?)?;
                    Some(implicit(scalar, column.sql_type)?)
                }
                None => None,
            });
            if let Some(text) = &column.computed {
                let scalar = self.bind_expr(&parse_expression(text)?)?;
                computed.push((ordinal, implicit(scalar, column.sql_type)?));
            }
        }
        let mut checks = Vec::with_capacity(schema.checks.len());
        for check in schema.checks.iter().filter(|check| !check.disabled) {
            checks.push((Arc::clone(&check.name), self.bind_condition(&parse_predicate(&check.text)?)?));
        }
        let ordinals = |is_meant: &dyn Fn(&Column) -> bool| {
            let columns = schema.columns.iter().enumerate();
            columns.filter(|(_, column)| is_meant(column)).map(|(ordinal, _)| ordinal).collect()
        };
        Ok(TableRules {
            slot,
            defaults,
            computed,
            checks,
            filled: ordinals(&|column| column.identity.is_some() || column.default.is_some()),
            row_versions: ordinals(&|column| column.sql_type == SqlType::RowVersion),
            required: ordinals(&|column| !column.nullable),
        })
    }

    /// `deleted` and `inserted`: the columns under those names. `beside`: the other tables of the statement.
    pub(crate) fn bind_outputs(
        &mut self,
        outputs: &[Output],
        deleted: Option<Vec<VisibleColumn>>,
        inserted: Option<Vec<VisibleColumn>>,
        beside: Vec<VisibleSource>,
    ) -> SqlResult<Vec<OutputPlan>> {
        let mut plans = Vec::with_capacity(outputs.len());
        for output in outputs {
            let mut scope = QueryScope::new();
            for (name, columns) in [("deleted", &deleted), ("inserted", &inserted)] {
                if let Some(columns) = columns {
                    scope.sources.push(VisibleSource {
                        name: name.into(),
                        schema: None,
                        columns: columns.clone(),
                        slots: 0,
                        updatable: false,
                    });
                }
            }
            scope.sources.extend(beside.iter().cloned());
            self.scopes.push(scope);
            let items = self.bind_output_items(&output.items);
            self.scopes.pop();
            let items = items?;
            for item in &items {
                let mut has_subquery = false;
                item.scalar.visit(&mut |node| has_subquery |= matches!(node, Node::Subquery(_)));
                if has_subquery {
                    return Err(SqlError::new(10705, "Subqueries are not allowed in the OUTPUT clause.").severity(15));
                }
            }
            let columns: Vec<OutputColumn> = items
                .iter()
                .map(|item| OutputColumn {
                    name: Arc::clone(&item.name),
                    ty: item.scalar.ty,
                    nullable: item.scalar.nullable,
                    identity: item.identity,
                    collation: item.scalar.collation(),
                })
                .collect();
            let into = match &output.into {
                Some(into) => {
                    let table = self.target_table(&into.target)?;
                    if table.schema.lifetime == Lifetime::Permanent {
                        self.need("INSERT", &Arc::clone(&table.schema));
                    }
                    if let Some(check) = table.schema.checks.iter().find(|check| !check.disabled) {
                        return Err(SqlError::new(
                            333,
                            format!(
                                "The target table '{}' of the OUTPUT INTO clause cannot have any enabled check \
                                 constraints or any enabled rules. Found check constraint or rule '{}'.",
                                table.schema.name, check.name
                            ),
                        ));
                    }
                    let own_key = table.schema.foreign_keys.first().map(|key| Arc::clone(&key.name));
                    let other = crate::bind::foreign_key::referring_keys(self.latch, &table.schema);
                    if let Some(key) = own_key.or_else(|| other.first().map(|(_, key)| Arc::clone(&key.name))) {
                        return Err(SqlError::new(
                            332,
                            format!(
                                "The target table '{}' of the OUTPUT INTO clause cannot be on either side of a (primary \
                                 key, foreign key) relationship. Found reference constraint '{key}'.",
                                table.schema.name
                            ),
                        ));
                    }
                    let named = (!into.columns.is_empty()).then_some(&into.columns[..]);
                    let target = self.insert_target(table, named)?;
                    if target.ordinals.len() != items.len() {
                        return Err(count_mismatch(items.len(), target.ordinals.len(), named.is_some()));
                    }
                    let types: Vec<(SqlType, bool)> = items
                        .iter()
                        .map(|item| {
                            (item.scalar.ty, item.scalar.as_constant().is_some_and(|constant| constant.is_null()))
                        })
                        .collect();
                    self.check_insertable(&target, &types)?;
                    Some(target)
                }
                None => None,
            };
            plans.push(OutputPlan::new(items.into_iter().map(|item| item.scalar).collect(), columns, into));
        }
        Ok(plans)
    }

    fn bind_output_items(&mut self, items: &[SelectItem]) -> SqlResult<Vec<Item>> {
        // Without a prefix, `*` and columns do not say whether they mean the old or the new row.
        for item in items {
            if matches!(item, SelectItem::Wildcard { table: None }) {
                return Err(SqlError::new(102, "Incorrect syntax near '*'.").severity(15));
            }
        }
        self.bind_items(items, false)
    }

    /// Finds the target of an UPDATE or DELETE among the tables of its FROM clause, or makes it one.
    fn bind_target(
        &mut self,
        name: &TargetName,
        hints: &[crate::tsql::ast::TableHint],
        from: &[TableSource],
        columns_changed: &[&ColumnRef],
    ) -> SqlResult<Target> {
        let own_source;
        let (sources, position): (&[TableSource], Option<usize>) = if from.is_empty() {
            own_source = [match name {
                TargetName::Table(name) => TableSource::Table { name: name.clone(), alias: None, hints: Vec::new() },
                TargetName::Variable(name) => TableSource::Variable { name: Arc::clone(name), alias: None },
            }];
            (&own_source, Some(0))
        } else {
            (from, None)
        };
        let mut relation = self.without_next_value(ForbiddenPlace::Clause, |binder| binder.bind_from(sources))?;
        let position = match position {
            Some(position) => position,
            None => match self.find_target_source(name)? {
                Some(position) => position,
                None => {
                    // The target stands beside the FROM clause: each of its rows meets each of FROM's.
                    let mut target = self.bind_from(&[match name {
                        TargetName::Table(name) => {
                            TableSource::Table { name: name.clone(), alias: None, hints: Vec::new() }
                        }
                        TargetName::Variable(name) => TableSource::Variable { name: Arc::clone(name), alias: None },
                    }])?;
                    let mut slots = Vec::new();
                    target.table_slots(&mut slots);
                    let place = slots.first().and_then(|slot| target.table_in(*slot)).map(|table| table.table.place);
                    if place.is_some_and(|place| reads_table(&mut relation, place)) {
                        return Err(SqlError::not_supported(
                            "a target that stands in the FROM clause under an alias: name the alias as the target",
                        ));
                    }
                    relation = Relation::Join(Box::new(crate::plan::relation::JoinRelation {
                        kind: crate::tsql::ast::JoinKind::Cross,
                        hint: None,
                        left: target,
                        right: relation,
                        on: Vec::new(),
                    }));
                    self.scope().sources.len() - 1
                }
            },
        };
        let source = self.scope().sources[position].clone();
        let not_updatable = || {
            SqlError::new(
                4405,
                format!(
                    "View or function '{}' is not updatable because the modification affects multiple base tables.",
                    source.name
                ),
            )
        };
        if !source.updatable {
            return Err(SqlError::not_supported(format!(
                "changing rows through '{}', which has DISTINCT, GROUP BY or a set operation",
                source.name
            )));
        }
        let slot = if columns_changed.is_empty() {
            let mut slots = Vec::new();
            relation.table_slots(&mut slots);
            slots.retain(|slot| source.slots & slot_bit(*slot) != 0);
            match slots[..] {
                [slot] => slot,
                _ => return Err(not_updatable()),
            }
        } else {
            let mut found: Option<usize> = None;
            for column in columns_changed {
                let (slot, _) = self.target_column(&source, column)?;
                if found.is_some_and(|found| found != slot) {
                    return Err(not_updatable());
                }
                found = Some(slot);
            }
            found.ok_or_else(not_updatable)?
        };
        let is_joined = {
            let mut widths = Vec::new();
            relation.widths(&mut widths);
            widths.len() > 1
        };
        let Some(table) = relation.table_in(slot) else { return Err(not_updatable()) };
        table.access = Access::Change;
        table.hints.check_target_in_from()?;
        // "The … query optimizer ignores the READUNCOMMITTED and NOLOCK hints in the FROM clause that apply to the
        // target table."
        if table.hints.isolation == Some(crate::tsql::ast::IsolationLevel::ReadUncommitted) {
            table.hints.isolation = None;
        }
        if !hints.is_empty() {
            table.hints = TableHints::of_target(hints)?;
        }
        let handle = table.table.clone();
        if let TargetName::Variable(name) = name
            && self.declarations.table(name).is_ok_and(|(_, variable)| variable.read_only)
        {
            return Err(read_only_table(name));
        }
        Ok(Target { relation, slot, table: handle, columns: source.columns, may_repeat: is_joined })
    }

    /// The column of a table that is changed under a name of the target.
    pub(crate) fn target_column(&self, source: &VisibleSource, column: &ColumnRef) -> SqlResult<(usize, usize)> {
        if let Some(table) = &column.table
            && !crate::bind::binder::names_source(table, source)
        {
            return Err(SqlError::new(
                4104,
                format!(
                    "The multi-part identifier \"{}.{}\" could not be bound.",
                    crate::bind::binder::display_name(table),
                    column.name
                ),
            ));
        }
        let name = fold(&column.name);
        match source.columns.iter().find(|column| fold(&column.name) == name) {
            Some(found) => match found.scalar.as_column() {
                Some(place) => Ok(place),
                None => Err(SqlError::new(
                    4406,
                    format!(
                        "Update or insert of view or function '{}' failed because it contains a derived or constant \
                         field.",
                        source.name
                    ),
                )),
            },
            None => Err(SqlError::new(207, format!("Invalid column name '{}'.", column.name))),
        }
    }

    /// The FROM element that the target's name means: an alias, or a table without alias.
    fn find_target_source(&mut self, name: &TargetName) -> SqlResult<Option<usize>> {
        let (wanted, schema): (&str, Option<&Ident>) = match name {
            TargetName::Table(ObjectName { schema, name, .. }) => (name, schema.as_ref()),
            TargetName::Variable(name) => (name, None),
        };
        let folded = fold(wanted);
        let scope = self.scope();
        let mut matches = scope.sources.iter().enumerate().filter(|(_, source)| {
            fold(&source.name) == folded
                && match (schema, &source.schema) {
                    (Some(a), Some(b)) => fold(a) == fold(b),
                    (Some(_), None) => false,
                    (None, _) => true,
                }
        });
        match (matches.next(), matches.next()) {
            (Some((position, _)), None) => Ok(Some(position)),
            (Some(_), Some(_)) => Err(SqlError::new(8154, format!("The table '{wanted}' is ambiguous."))),
            (None, _) => Ok(None),
        }
    }

    fn bind_dml_condition(&mut self, condition: Option<&DmlCondition>) -> SqlResult<Vec<Condition>> {
        let mut conditions = Vec::new();
        match condition {
            None => {}
            Some(DmlCondition::Search(predicate)) => self
                .without_next_value(ForbiddenPlace::Clause, |binder| binder.bind_condition(predicate))?
                .into_conjuncts(&mut conditions),
            // The plan reads the row under the cursor and no other.
            Some(DmlCondition::CurrentOf(_)) => {}
        }
        Ok(conditions)
    }

    pub fn bind_update(&mut self, update: &Update) -> SqlResult<UpdatePlan> {
        self.options = PlanOptions::of(&update.options)?;
        self.ctes.clone_from(&update.ctes);
        self.uses = self.uses.max(Uses::OwnTables);
        self.scopes.push(QueryScope::new());
        let plan = self.bind_update_in_scope(update);
        self.scopes.pop();
        plan
    }

    fn bind_update_in_scope(&mut self, update: &Update) -> SqlResult<UpdatePlan> {
        let changed: Vec<&ColumnRef> =
            update.assignments.iter().filter_map(|assignment| assignment.column.as_ref()).collect();
        let target = self.bind_target(&update.target.name, &update.target.hints, &update.from, &changed)?;
        let Target { relation, slot, table, columns, may_repeat } = target;
        if table.schema.lifetime == Lifetime::Permanent {
            self.need("UPDATE", &Arc::clone(&table.schema));
        }
        let conditions = self.bind_dml_condition(update.condition.as_ref())?;
        let row_slot = self.new_slot()?;
        let rules = self.bind_rules(&Arc::clone(&table.schema), row_slot)?;
        let mut assignments: Vec<BoundAssignment> = Vec::with_capacity(update.assignments.len());
        for assignment in &update.assignments {
            let bound = self.bind_set(assignment, &columns, slot, &table.schema, &rules)?;
            if let Some(column) = bound.column
                && assignments.iter().any(|other| other.column == Some(column))
            {
                return Err(assigned_twice(&table.schema.columns[column].name));
            }
            assignments.push(bound);
        }
        if update.top.is_some() && self.next_values.all > 0 {
            return Err(ForbiddenPlace::Limited.error());
        }
        // A variable that is set may have another value for the next row.
        if assignments.iter().all(|assignment| assignment.variable.is_none()) {
            for assignment in &mut assignments {
                assignment.is_constant = assignment.value.is_constant_in_statement();
            }
        }
        let limit = self.bind_top(update.top.as_ref())?;
        let inserted = moved_columns(&columns, slot, row_slot);
        let beside = self.sources_beside(slot);
        let output = self.bind_outputs(&update.output, Some(columns), Some(inserted), beside)?;
        let set = assignments.iter().map(|assignment| &assignment.value);
        let read = set.clone().chain(output.iter().flat_map(|output| &output.items));
        let kept_slots = slots_of(read.map(Scalar::slots).fold(slot_bit(slot), |slots, more| slots | more), row_slot);
        let mut is_apart = set.chain(rules.computed.iter().map(|(_, computed)| computed)).all(Scalar::is_apart);
        for (_, check) in &rules.checks {
            check.visit(&mut |node| is_apart &= node.is_apart());
        }
        let input = match &update.condition {
            Some(DmlCondition::CurrentOf(_)) => current_row(slot, &update.from, &limit)?,
            _ => self.plan_rows(relation, conditions, limit)?,
        };
        let updates: Vec<usize> = assignments.iter().filter_map(|assignment| assignment.column).collect();
        let changes = Changes { inserts: false, deletes: false, updates: &updates };
        let foreign_keys = self.bind_foreign_keys(&Arc::clone(&table.schema), changes)?;
        Ok(UpdatePlan {
            input,
            table,
            slot,
            may_repeat,
            assignments,
            rules,
            foreign_keys,
            output,
            kept_slots,
            is_apart,
        })
    }

    /// The operator that finds the rows to change.
    fn plan_rows(&mut self, relation: Relation, conditions: Vec<Condition>, limit: Limit) -> SqlResult<Operator> {
        let mut slots = Vec::new();
        relation.widths(&mut slots);
        let planner = Planner { latch: self.latch, options: self.options, used_columns: &self.used_columns };
        let (operator, _) = planner.plan(relation, conditions, &[], !limit.is_none())?;
        if limit.is_none() {
            return Ok(operator);
        }
        let slots = slots.into_iter().map(|(slot, _)| slot).collect();
        Ok(Operator::Top { input: Box::new(operator), slots, sort: Vec::new(), limit })
    }

    /// The tables of the FROM clause that are not the target.
    fn sources_beside(&mut self, target: usize) -> Vec<VisibleSource> {
        let sources = &self.scope().sources;
        sources.iter().filter(|source| source.slots & slot_bit(target) == 0).cloned().collect()
    }

    pub(crate) fn bind_set(
        &mut self,
        assignment: &Assignment,
        columns: &[VisibleColumn],
        slot: usize,
        schema: &TableSchema,
        rules: &TableRules,
    ) -> SqlResult<BoundAssignment> {
        let column = match &assignment.column {
            Some(column) => {
                let name = fold(&column.name);
                let found = columns.iter().find(|column| fold(&column.name) == name);
                let ordinal = found.and_then(|column| column.scalar.as_column()).map(|(_, ordinal)| ordinal);
                let Some(ordinal) = ordinal else {
                    return Err(SqlError::new(207, format!("Invalid column name '{}'.", column.name)));
                };
                let definition = &schema.columns[ordinal];
                if definition.computed.is_some() {
                    return Err(computed_column(&column.name));
                }
                if definition.identity.is_some() {
                    return Err(SqlError::new(8102, format!("Cannot update identity column '{}'.", column.name)));
                }
                if definition.sql_type == SqlType::RowVersion {
                    return Err(SqlError::new(272, "Cannot update a timestamp column."));
                }
                Some(ordinal)
            }
            None => None,
        };
        let variable = match &assignment.variable {
            Some(name) => Some(self.declarations.scalar(name)?),
            None => None,
        };
        let mut value = match (&assignment.value, column) {
            (NewValue::Expr(expr), _) => self.bind_expr(expr).map_err(in_set_list)?,
            (NewValue::Default, Some(column)) => match &rules.defaults[column] {
                Some(default) => default.clone(),
                None => Scalar { ty: schema.columns[column].sql_type, ..Scalar::null() },
            },
            (NewValue::Default, None) => {
                return Err(SqlError::new(156, "Incorrect syntax near the keyword 'DEFAULT'.").severity(15));
            }
        };
        if let AssignOp::Compound(op) = assignment.op {
            let before = match (column, &assignment.variable) {
                (Some(ordinal), _) => {
                    let definition = &schema.columns[ordinal];
                    Scalar {
                        node: Node::Column { slot, ordinal },
                        ty: definition.sql_type,
                        nullable: definition.nullable,
                        label: crate::plan::scalar::CollationLabel::Implicit(definition.collation),
                    }
                }
                (None, Some(name)) => self.bind_expr(&Expr::Variable(Arc::clone(name)))?,
                (None, None) => return Err(SqlError::new(102, "Incorrect syntax near '='.").severity(15)),
            };
            self.note_used(&before);
            value = bind_binary(binary_op(op), before, value)?;
        }
        match (column, variable) {
            (Some(column), _) => {
                let ty = schema.columns[column].sql_type;
                if !value.as_constant().is_some_and(|constant| constant.is_null()) {
                    value::check_conversion(value.ty, ty, false)?;
                }
            }
            (None, Some((_, ty))) => value = implicit(value, ty)?,
            (None, None) => {}
        }
        Ok(BoundAssignment { column, variable, value, is_constant: false })
    }

    pub fn bind_delete(&mut self, delete: &Delete) -> SqlResult<DeletePlan> {
        self.options = PlanOptions::of(&delete.options)?;
        self.ctes.clone_from(&delete.ctes);
        self.uses = self.uses.max(Uses::OwnTables);
        self.scopes.push(QueryScope::new());
        let plan = self.bind_delete_in_scope(delete);
        self.scopes.pop();
        plan
    }

    fn bind_delete_in_scope(&mut self, delete: &Delete) -> SqlResult<DeletePlan> {
        let target = self.bind_target(&delete.target.name, &delete.target.hints, &delete.from, &[])?;
        let Target { relation, slot, table, columns, may_repeat } = target;
        if table.schema.lifetime == Lifetime::Permanent {
            self.need("DELETE", &Arc::clone(&table.schema));
        }
        let conditions = self.bind_dml_condition(delete.condition.as_ref())?;
        let limit = self.bind_top(delete.top.as_ref())?;
        let beside = self.sources_beside(slot);
        let output = self.bind_outputs(&delete.output, Some(columns), None, beside)?;
        let output_slots = output_slots(&output, usize::MAX);
        let input = match &delete.condition {
            Some(DmlCondition::CurrentOf(_)) => current_row(slot, &delete.from, &limit)?,
            _ => self.plan_rows(relation, conditions, limit)?,
        };
        let changes = Changes { inserts: false, deletes: true, updates: &[] };
        let foreign_keys = self.bind_foreign_keys(&Arc::clone(&table.schema), changes)?;
        Ok(DeletePlan { input, table, slot, may_repeat, foreign_keys, output, output_slots })
    }
}

/// An aggregate has its own error where it stands in SET.
fn in_set_list(error: SqlError) -> SqlError {
    match error.number {
        147 => SqlError::new(157, "An aggregate may not appear in the set list of an UPDATE statement.").severity(15),
        _ => error,
    }
}

fn reads_table(relation: &mut Relation, place: TablePlace) -> bool {
    let mut slots = Vec::new();
    relation.table_slots(&mut slots);
    slots.into_iter().any(|slot| relation.table_in(slot).is_some_and(|table| table.table.place == place))
}

/// The same columns over another slot.
pub(crate) fn moved_columns(columns: &[VisibleColumn], from: usize, to: usize) -> Vec<VisibleColumn> {
    let mut moved = columns.to_vec();
    for column in &mut moved {
        let replaced = column.scalar.replace(&mut |scalar| match scalar.node {
            Node::Column { slot, ordinal } if slot == from => {
                Ok(Some(Scalar { node: Node::Column { slot: to, ordinal }, ..scalar.clone() }))
            }
            _ => Ok(None),
        });
        debug_assert!(replaced.is_ok(), "the replacement never fails");
    }
    moved
}

pub(crate) fn output_slots(outputs: &[OutputPlan], new_row: usize) -> Vec<usize> {
    let mut slots = 0;
    for scalar in outputs.iter().flat_map(|output| &output.items) {
        slots |= scalar.slots();
    }
    slots_of(slots, new_row)
}

fn slots_of(set: SlotSet, new_row: usize) -> Vec<usize> {
    (0..64).filter(|&slot| slot != new_row && set & slot_bit(slot) != 0).collect()
}

pub(crate) fn read_only_table(name: &str) -> SqlError {
    SqlError::new(10700, format!("The table-valued parameter \"{name}\" is READONLY and cannot be modified."))
}

pub(crate) fn assigned_twice(column: &str) -> SqlError {
    SqlError::new(
        264,
        format!(
            "The column name '{column}' is specified more than once in the SET clause or column list of an INSERT. A \
             column cannot be assigned more than one value in the same clause. Modify the clause to make sure that a \
             column is updated only once. If this statement updates or inserts columns into a view, column aliasing can \
             conceal the duplication in your code."
        ),
    )
}

pub(crate) fn computed_column(name: &str) -> SqlError {
    SqlError::new(
        271,
        format!(
            "The column \"{name}\" cannot be modified because it is either a computed column or is the result of a \
             UNION operator."
        ),
    )
}

/// WHERE CURRENT OF, which stands alone.
fn current_row(slot: usize, from: &[TableSource], limit: &Limit) -> SqlResult<Operator> {
    if !from.is_empty() || !limit.is_none() {
        return Err(SqlError::not_supported("WHERE CURRENT OF together with FROM or TOP"));
    }
    Ok(Operator::Current { slot })
}
