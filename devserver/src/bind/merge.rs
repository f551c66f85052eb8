//! Binds MERGE: the source joined with the target, and what each WHEN clause does with a row of that join.
//!
//! Source: "MERGE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/merge-transact-sql.md).

use crate::bind::binder::Binder;
use crate::bind::change_target::assigned_twice;
use crate::bind::conversion::check_variant;
use crate::bind::foreign_key::Changes;
use crate::bind::insert_target::{count_mismatch, explicit_row_version};
use crate::bind::output_clause::{moved_columns, output_slots};
use crate::bind::query_scope::{QueryScope, VisibleSource};
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::change::{BoundAction, BoundAssignment, BoundClause, InsertTarget, MergePlan};
use crate::plan::planner::Planner;
use crate::plan::query::TableHandle;
use crate::plan::relation::{JoinRelation, Relation, TableRelation};
use crate::plan::scalar::Scalar;
use crate::plan::table_hints::{Access, TableHints};
use crate::plan::table_rules::TableRules;
use crate::storage::{Lifetime, fold};
use crate::tsql::ast::{Assignment, JoinKind, Merge, MergeAction, MergeClause, NewValue, TableSource, TargetName};
use crate::value::{self, SqlType};

/// The two sides of a MERGE by the names under which its clauses know them.
struct Sides {
    target: VisibleSource,
    source: Vec<VisibleSource>,
    slot: usize,
    table: TableHandle,
}

impl Binder<'_> {
    pub fn bind_merge(&mut self, merge: &Merge) -> SqlResult<MergePlan> {
        self.loop_joins = merge.loop_joins;
        self.ctes.clone_from(&merge.ctes);
        self.uses = self.uses.max(Uses::OwnTables);

        self.scopes.push(QueryScope::new());
        let plan = self.without_next_value(|binder| binder.bind_merge_in_scope(merge));
        self.scopes.pop();
        plan
    }

    fn bind_merge_in_scope(&mut self, merge: &Merge) -> SqlResult<MergePlan> {
        let (table_relation, target) = self.bind_merge_target(merge)?;
        let slot = table_relation.slot;
        let table = table_relation.table.clone();
        let hints = table_relation.hints.clone();
        // The source does not see the target.
        let source_relation = self.bind_from(std::slice::from_ref(&merge.source))?;
        let source = std::mem::take(&mut self.scope().sources);
        if source.iter().any(|source| fold(&source.name) == fold(&target.name)) {
            return Err(SqlError::not_supported("MERGE with source and target of one name"));
        }
        let sides = Sides { target, source, slot, table };

        self.show(&sides, true);
        let mut on = Vec::new();
        self.bind_condition(&merge.on)?.into_conjuncts(&mut on);

        let row_slot = self.new_slot()?;
        let rules = self.bind_rules(&sides.table.schema.clone(), row_slot)?;
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            clauses.push(self.bind_merge_clause(clause, &sides, &rules)?);
        }

        self.show(&sides, true);
        let inserted = moved_columns(&sides.target.columns, slot, row_slot);
        let deleted = sides.target.columns.clone();
        let output = self.bind_outputs(&merge.output, Some(deleted), Some(inserted), sides.source)?;
        let output_slots = output_slots(&output, row_slot);

        let inserts = clauses.iter().any(|clause| matches!(clause.action, BoundAction::Insert(..)));
        let planner = Planner { latch: self.latch, loop_joins: self.loop_joins, used_columns: &self.used_columns };
        let mut updates: Vec<usize> = Vec::new();
        for clause in &clauses {
            if let BoundAction::Update(assignments) = &clause.action {
                updates.extend(assignments.iter().filter_map(|assignment| assignment.column));
            }
        }
        let kind = if inserts { JoinKind::Left } else { JoinKind::Inner };
        let right = Relation::Table(table_relation);
        let join = JoinRelation { kind, loops: false, left: source_relation, right, on };
        let (input, _) = planner.plan(Relation::Join(Box::new(join)), Vec::new(), &[], false)?;
        let changes = Changes { inserts, deletes: false, updates: &updates };
        let foreign_keys = self.bind_foreign_keys(&sides.table.schema.clone(), changes)?;
        Ok(MergePlan { foreign_keys, input, table: sides.table, slot, clauses, rules, hints, output, output_slots })
    }

    fn bind_merge_target(&mut self, merge: &Merge) -> SqlResult<(TableRelation, VisibleSource)> {
        let hints = merge.target.hints.clone();
        let TargetName::Table(name) = &merge.target.name else {
            return Err(SqlError::not_supported("MERGE into a table variable"));
        };
        let named = TableSource::Table { name: name.clone(), alias: merge.alias.clone(), hints: Vec::new() };
        let relation = self.bind_from(std::slice::from_ref(&named))?;
        let target = std::mem::take(&mut self.scope().sources).remove(0);
        let Relation::Table(mut table) = relation else {
            return Err(SqlError::not_supported(format!(
                "MERGE into '{}', which is not simply the columns of one table",
                target.name
            )));
        };
        self.check_not_logical(&table.table)?;
        table.access = Access::Change;
        table.hints = TableHints::of(&hints, Access::Change)?;
        let schema = table.table.schema.clone();
        if schema.lifetime == Lifetime::Permanent {
            for clause in &merge.clauses {
                let permission = match clause.action {
                    MergeAction::Update(_) => "UPDATE",
                    MergeAction::Insert { .. } => "INSERT",
                };
                self.need_change(permission, table.slot, &schema);
            }
        }
        Ok((table, target))
    }

    /// Lets expressions see the source, and the target too.
    fn show(&mut self, sides: &Sides, target: bool) {
        let scope = self.scope();
        scope.sources.clear();
        if target {
            scope.sources.push(sides.target.clone());
        }
        scope.sources.extend(sides.source.iter().cloned());
    }

    fn bind_merge_clause(&mut self, clause: &MergeClause, sides: &Sides, rules: &TableRules) -> SqlResult<BoundClause> {
        self.show(sides, matches!(clause.action, MergeAction::Update(_)));
        let mut conditions = Vec::new();
        if let Some(condition) = &clause.condition {
            let bound = self.bind_condition(condition).map_err(|error| match (error.number, &clause.action) {
                (207 | 4104, MergeAction::Insert { .. }) => {
                    SqlError::not_supported("a condition of WHEN NOT MATCHED that names no column of the source")
                }
                _ => error,
            });
            bound?.into_conjuncts(&mut conditions);
        }
        let action = match &clause.action {
            MergeAction::Update(assignments) => {
                BoundAction::Update(self.bind_merge_update(assignments, sides, rules)?)
            }
            MergeAction::Insert { columns, values } => {
                let target = self.insert_target(sides.table.clone(), columns.as_deref())?;
                let values = self.bind_merge_values(values, &target, columns.is_some())?;
                BoundAction::Insert(Box::new(target), values)
            }
        };
        Ok(BoundClause { conditions, action })
    }

    fn bind_merge_update(
        &mut self,
        assignments: &[Assignment],
        sides: &Sides,
        rules: &TableRules,
    ) -> SqlResult<Vec<BoundAssignment>> {
        let mut bound: Vec<BoundAssignment> = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            if let Some(column) = &assignment.column {
                if assignment.variable.is_some() {
                    return Err(SqlError::not_supported(
                        "SET @variable = column = expression in MERGE, as in SQL Server",
                    ));
                }
                self.target_column(&sides.target, column)?;
            }
            let next =
                self.bind_set(assignment, &sides.target.columns, sides.slot, &sides.table.schema.clone(), rules)?;
            if let Some(column) = next.column
                && bound.iter().any(|other| other.column == Some(column))
            {
                return Err(assigned_twice(&sides.table.schema.columns[column].name));
            }
            bound.push(next);
        }
        Ok(bound)
    }

    fn bind_merge_values(
        &mut self,
        values: &[NewValue],
        target: &InsertTarget,
        has_list: bool,
    ) -> SqlResult<Vec<Option<Scalar>>> {
        if values.len() != target.ordinals.len() {
            return Err(count_mismatch(values.len(), target.ordinals.len(), has_list));
        }
        let mut bound = Vec::with_capacity(values.len());
        for (value, ordinal) in values.iter().zip(&target.ordinals) {
            let column = &target.table.schema.columns[*ordinal];
            bound.push(match value {
                NewValue::Default => None,
                NewValue::Expr(expr) => {
                    let scalar = self.bind_expr(expr)?;
                    if column.sql_type == SqlType::RowVersion {
                        return Err(explicit_row_version());
                    }
                    if !scalar.as_constant().is_some_and(value::Value::is_null) {
                        value::check_conversion(scalar.ty, column.sql_type, false)?;
                        check_variant(&scalar, column.sql_type)?;
                    }
                    Some(scalar)
                }
            });
        }
        Ok(bound)
    }
}
