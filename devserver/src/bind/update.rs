//! Binds UPDATE and DELETE.

use std::ops::Range;
use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::change_target::{Target, assigned_twice, computed_column, current_row};
use crate::bind::conversion::{check_variant, implicit};
use crate::bind::expression::bind_binary;
use crate::bind::foreign_key::Changes;
use crate::bind::name::ResolvedTable;
use crate::bind::next_value_forbidden::next_value_here;
use crate::bind::output_clause::{moved_columns, output_slots, reads_columns, slots_of};
use crate::bind::query_scope::{QueryScope, VisibleColumn};
use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::{PermissionNeed, Uses};
use crate::plan::change::{BoundAssignment, DeletePlan, UpdatePlan};
use crate::plan::collation_label::CollationLabel;
use crate::plan::planner::Planner;
use crate::plan::query::{Limit, Operator};
use crate::plan::relation::Relation;
use crate::plan::scalar::{Condition, Node, Scalar, slot_bit};
use crate::plan::table_rules::TableRules;
use crate::storage::{Lifetime, TableSchema, fold};
use crate::tsql::ast::{
    AssignOp, Assignment, ColumnRef, Delete, DmlCondition, Expr, Ident, NewValue, TargetName, Update,
};
use crate::value::{self, SqlType};

impl Binder<'_> {
    /// `target op= value` of a variable: its place and the value, of the variable's type.
    pub fn bind_assignment(&mut self, variable: &Ident, op: AssignOp, value: &Expr) -> SqlResult<(usize, Scalar)> {
        let (place, ty) = self.declarations.scalar(variable)?;
        let mut scalar = self.bind_expr(value)?;
        if let AssignOp::Compound(op) = op {
            let before = self.bind_expr(&Expr::Variable(Arc::clone(variable)))?;
            scalar = bind_binary(op, before, scalar)?;
        }
        Ok((place, implicit(scalar, ty)?))
    }

    fn bind_dml_condition(&mut self, condition: Option<&DmlCondition>) -> SqlResult<Vec<Condition>> {
        let mut conditions = Vec::new();
        match condition {
            None => {}
            Some(DmlCondition::Search(predicate)) => {
                self.without_next_value(|binder| binder.bind_condition(predicate))?.into_conjuncts(&mut conditions)
            }
            // The plan reads the row under the cursor and no other.
            Some(DmlCondition::CurrentOf(_)) => {}
        }
        Ok(conditions)
    }

    pub fn bind_update(&mut self, update: &Update) -> SqlResult<UpdatePlan> {
        self.loop_joins = update.loop_joins;
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
        let before = self.needs.len();
        let target = self.bind_target(&update.target.name, &update.target.hints, &update.from, &changed)?;
        let to_read = before..self.needs.len();
        let Target { relation, slot, table, columns, may_repeat } = target;
        if table.schema.lifetime == Lifetime::Permanent {
            self.need_change("UPDATE", slot, &table.schema);
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
            return Err(next_value_here());
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
        let reads = update.condition.is_some()
            || reads_columns(&output)
            || assignments.iter().any(|assignment| assignment.value.slots() & slot_bit(slot) != 0);
        if !reads && update.from.is_empty() {
            self.forget_reading(&update.target.name, to_read)?;
        }
        let set = assignments.iter().map(|assignment| &assignment.value);
        let read = set.clone().chain(output.iter().flat_map(|output| &output.items));
        let kept_slots = slots_of(read.map(Scalar::slots).fold(slot_bit(slot), |slots, more| slots | more), row_slot);
        let mut is_apart = set.into_iter().all(Scalar::is_apart);
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

    /// "SELECT permissions are also required for the table being updated if the UPDATE statement contains a WHERE
    /// clause, or if expression in the SET clause uses a column in the table" ("UPDATE", MicrosoftDocs/sql-docs,
    /// docs/t-sql/queries/update-transact-sql.md; "DELETE", docs/t-sql/statements/delete-transact-sql.md). What a CTE
    /// reads is read all the same, and so is what a view does beneath the target. `to_read`: the needs that came with
    /// the target, of which its own may be none, where it has the owner of what names it.
    fn forget_reading(&mut self, target: &TargetName, to_read: Range<usize>) -> SqlResult<()> {
        let TargetName::Table(name) = target else { return Ok(()) };
        if to_read.is_empty() || self.find_cte(name)?.is_some() {
            return Ok(());
        }
        let target = match self.resolve_table(name)? {
            ResolvedTable::Table(table) => table.schema.id,
            ResolvedTable::View(view) => view.id,
            ResolvedTable::System(_) => return Ok(()),
        };
        let is_its_own = |need: &PermissionNeed| matches!(need.on, SecurableId::Object { id, .. } if id == target);
        if let Some(place) = self.needs[to_read.clone()].iter().position(is_its_own) {
            self.needs.remove(to_read.start + place);
        }
        Ok(())
    }

    /// The operator that finds the rows to change.
    fn plan_rows(&mut self, relation: Relation, conditions: Vec<Condition>, limit: Limit) -> SqlResult<Operator> {
        let slots = relation.slot_list();
        let planner = Planner { latch: self.latch, loop_joins: self.loop_joins, used_columns: &self.used_columns };
        let (operator, _) = planner.plan(relation, conditions, &[], !limit.is_none())?;
        if limit.is_none() {
            return Ok(operator);
        }
        Ok(Operator::Top { input: Box::new(operator), slots, sort: Vec::new(), limit })
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
                let ordinal = found.and_then(|column| column.scalar.column_place()).map(|(_, ordinal)| ordinal);
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
                        label: CollationLabel::Implicit(definition.collation),
                    }
                }
                (None, Some(name)) => self.bind_expr(&Expr::Variable(Arc::clone(name)))?,
                (None, None) => return Err(SqlError::new(102, "Incorrect syntax near '='.").severity(15)),
            };
            self.note_used(&before);
            value = bind_binary(op, before, value)?;
        }
        match (column, variable) {
            (Some(column), _) => {
                let ty = schema.columns[column].sql_type;
                if !value.as_constant().is_some_and(|constant| constant.is_null()) {
                    value::check_conversion(value.ty, ty, false)?;
                    check_variant(&value, ty)?;
                }
            }
            (None, Some((_, ty))) => value = implicit(value, ty)?,
            (None, None) => {}
        }
        Ok(BoundAssignment { column, variable, value, is_constant: false })
    }

    pub fn bind_delete(&mut self, delete: &Delete) -> SqlResult<DeletePlan> {
        self.loop_joins = delete.loop_joins;
        self.ctes.clone_from(&delete.ctes);
        self.uses = self.uses.max(Uses::OwnTables);
        self.scopes.push(QueryScope::new());
        let plan = self.bind_delete_in_scope(delete);
        self.scopes.pop();
        plan
    }

    fn bind_delete_in_scope(&mut self, delete: &Delete) -> SqlResult<DeletePlan> {
        let before = self.needs.len();
        let target = self.bind_target(&delete.target.name, &delete.target.hints, &delete.from, &[])?;
        let to_read = before..self.needs.len();
        let Target { relation, slot, table, columns, may_repeat } = target;
        if table.schema.lifetime == Lifetime::Permanent {
            self.need_change("DELETE", slot, &table.schema);
        }
        let conditions = self.bind_dml_condition(delete.condition.as_ref())?;
        let limit = self.bind_top(delete.top.as_ref())?;
        let beside = self.sources_beside(slot);
        let output = self.bind_outputs(&delete.output, Some(columns), None, beside)?;
        if delete.condition.is_none() && delete.from.is_empty() && !reads_columns(&output) {
            self.forget_reading(&delete.target.name, to_read)?;
        }
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
