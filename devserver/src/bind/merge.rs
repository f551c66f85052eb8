//! Binds MERGE: the source joined with the target, and what each WHEN clause does with a row of that join.
//!
//! Source: "MERGE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/merge-transact-sql.md).

use crate::bind::binder::Binder;
use crate::bind::change_target::{assigned_twice, read_only_table};
use crate::bind::conversion::check_variant;
use crate::bind::foreign_key::Changes;
use crate::bind::insert_target::{count_mismatch, explicit_row_version};
use crate::bind::output::{moved_columns, output_slots};
use crate::bind::query_scope::{QueryScope, VisibleSource};
use crate::error::{SqlError, SqlResult};
use crate::plan::cell::Uses;
use crate::plan::change::{BoundAction, BoundAssignment, BoundClause, InsertTarget, MergePlan};
use crate::plan::collation_label::CollationLabel;
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::plan::options::PlanOptions;
use crate::plan::planner::Planner;
use crate::plan::query::TableHandle;
use crate::plan::relation::{JoinRelation, Relation, TableRelation};
use crate::plan::scalar::{Condition, Node, Scalar};
use crate::plan::table_hints::{Access, TableHints};
use crate::plan::table_rules::TableRules;
use crate::storage::{Lifetime, fold};
use crate::tsql::ast::{
    Assignment, JoinKind, Merge, MergeAction, MergeClause, MergeWhen, NewValue, Predicate, TableSource, TargetName,
    TriggerEvent,
};
use crate::value::{self, Length, SqlType};

/// The two sides of a MERGE by the names under which its clauses know them.
struct Sides {
    target: VisibleSource,
    source: Vec<VisibleSource>,
    slot: usize,
    table: TableHandle,
}

impl Binder<'_> {
    pub fn bind_merge(&mut self, merge: &Merge) -> SqlResult<MergePlan> {
        self.options = PlanOptions::of(&merge.options)?;
        self.ctes.clone_from(&merge.ctes);
        self.uses = self.uses.max(Uses::OwnTables);
        check_clauses(&merge.clauses)?;

        self.scopes.push(QueryScope::new());
        let plan = self.without_next_value(ForbiddenPlace::Merge, |binder| binder.bind_merge_in_scope(merge));
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
            return Err(SqlError::new(
                5318,
                "In a MERGE statement, the source and target cannot have the same name or alias. Use different aliases \
                 for the source and target to ensure that they have unique names in the MERGE statement.",
            ));
        }
        let source_slots = source_relation.slot_list();
        let sides = Sides { target, source, slot, table };

        self.show(&sides, true, true);
        let mut on = Vec::new();
        self.bind_condition(&merge.on)?.into_conjuncts(&mut on);

        let row_slot = self.new_slot()?;
        let rules = self.bind_rules(&sides.table.schema.clone(), row_slot)?;
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            clauses.push(self.bind_merge_clause(clause, &sides, &rules)?);
        }

        self.show(&sides, true, true);
        let limit = self.bind_top(merge.top.as_ref())?;
        let action_slot = self.new_slot()?;
        self.merge_action = Some(action_slot);
        let inserted = moved_columns(&sides.target.columns, slot, row_slot);
        let deleted = sides.target.columns.clone();
        let output = self.bind_outputs(&merge.output, Some(deleted), Some(inserted), sides.source);
        self.merge_action = None;
        let output = output?;
        let output_slots = output_slots(&output, row_slot);

        let has = |when: MergeWhen| clauses.iter().any(|clause| clause.when == when);
        let planner = Planner { latch: self.latch, options: self.options, used_columns: &self.used_columns };
        let by_source = if has(MergeWhen::NotMatchedBySource) {
            let all = TableRelation {
                slot,
                table: table_relation.table.clone(),
                hints: hints.clone(),
                access: Access::Change,
            };
            Some(planner.plan(Relation::Table(all), Vec::new(), &[], false)?.0)
        } else {
            None
        };
        let mut updates: Vec<usize> = Vec::new();
        for clause in &clauses {
            if let BoundAction::Update(assignments) = &clause.action {
                updates.extend(assignments.iter().filter_map(|assignment| assignment.column));
            }
        }
        let kind = if has(MergeWhen::NotMatchedByTarget) { JoinKind::Left } else { JoinKind::Inner };
        let right = Relation::Table(table_relation);
        let join = JoinRelation { kind, hint: None, left: source_relation, right, on };
        let (input, _) = planner.plan(Relation::Join(Box::new(join)), Vec::new(), &[], false)?;
        let changes = Changes {
            inserts: has(MergeWhen::NotMatchedByTarget),
            deletes: clauses.iter().any(|clause| matches!(clause.action, BoundAction::Delete)),
            updates: &updates,
        };
        let foreign_keys = self.bind_foreign_keys(&sides.table.schema.clone(), changes)?;
        Ok(MergePlan {
            foreign_keys,
            input,
            by_source,
            table: sides.table,
            slot,
            source_slots,
            action_slot,
            clauses,
            rules,
            limit,
            hints,
            output,
            output_slots,
        })
    }

    fn bind_merge_target(&mut self, merge: &Merge) -> SqlResult<(TableRelation, VisibleSource)> {
        let hints = merge.target.hints.clone();
        let named = match &merge.target.name {
            TargetName::Table(name) => {
                TableSource::Table { name: name.clone(), alias: merge.alias.clone(), hints: Vec::new() }
            }
            TargetName::Variable(name) => {
                let (_, variable) = self.declarations.table(name)?;
                if variable.read_only {
                    return Err(read_only_table(name));
                }
                TableSource::Variable { name: name.clone(), alias: merge.alias.clone() }
            }
        };
        let relation = self.bind_from(std::slice::from_ref(&named))?;
        let target = std::mem::take(&mut self.scope().sources).remove(0);
        let Relation::Table(mut table) = relation else {
            return Err(SqlError::not_supported(format!(
                "MERGE into '{}', which is not simply the columns of one table",
                target.name
            )));
        };
        self.check_not_logical(&table.table)?;
        for event in [TriggerEvent::Insert, TriggerEvent::Update, TriggerEvent::Delete] {
            self.check_not_taken_over(table.slot, event)?;
        }
        table.access = Access::Change;
        table.hints = TableHints::of(&hints, Access::Change)?;
        let schema = table.table.schema.clone();
        if schema.lifetime == Lifetime::Permanent {
            for clause in &merge.clauses {
                let permission = match clause.action {
                    MergeAction::Update(_) => "UPDATE",
                    MergeAction::Delete => "DELETE",
                    MergeAction::Insert { .. } => "INSERT",
                };
                self.need_change(permission, table.slot, &schema);
            }
        }
        Ok((table, target))
    }

    /// Lets expressions see the target, the source, or both.
    fn show(&mut self, sides: &Sides, target: bool, source: bool) {
        let scope = self.scope();
        scope.sources.clear();
        if target {
            scope.sources.push(sides.target.clone());
        }
        if source {
            scope.sources.extend(sides.source.iter().cloned());
        }
    }

    fn bind_merge_clause(&mut self, clause: &MergeClause, sides: &Sides, rules: &TableRules) -> SqlResult<BoundClause> {
        let when = clause.when;
        self.show(sides, when != MergeWhen::NotMatchedByTarget, when != MergeWhen::NotMatchedBySource);
        let mut conditions = Vec::new();
        if let Some(condition) = &clause.condition {
            self.bind_clause_condition(condition, when)?.into_conjuncts(&mut conditions);
        }
        let action = match &clause.action {
            MergeAction::Delete => BoundAction::Delete,
            MergeAction::Update(assignments) => {
                BoundAction::Update(self.bind_merge_update(assignments, sides, rules)?)
            }
            MergeAction::Insert { columns, values } => {
                let target = self.insert_target(sides.table.clone(), columns.as_deref())?;
                let values = match values {
                    Some(values) => self.bind_merge_values(values, &target, columns.is_some())?,
                    None => vec![None; target.ordinals.len()],
                };
                BoundAction::Insert(Box::new(target), values)
            }
        };
        Ok(BoundClause { when, conditions, action })
    }

    /// A condition of a clause sees one side only: 5333 and 5334 for the other.
    fn bind_clause_condition(&mut self, condition: &Predicate, when: MergeWhen) -> SqlResult<Condition> {
        self.bind_condition(condition).map_err(|error| {
            let (number, side, clause) = match when {
                MergeWhen::NotMatchedByTarget => (5333, "source", "WHEN NOT MATCHED"),
                MergeWhen::NotMatchedBySource => (5334, "target", "WHEN NOT MATCHED BY SOURCE"),
                MergeWhen::Matched => return error,
            };
            if !matches!(error.number, 207 | 4104) {
                return error;
            }
            // The name stands in quotes in the message that is replaced.
            let name = error.message.split(['\'', '"']).nth(1).unwrap_or_default().to_string();
            SqlError::new(
                number,
                format!(
                    "The identifier '{name}' cannot be bound. Only {side} columns are allowed in the '{clause}' clause \
                     of a MERGE statement."
                ),
            )
        })
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

    /// `$action`: nvarchar(10).
    pub fn bind_merge_action(&mut self) -> SqlResult<Scalar> {
        let Some(slot) = self.merge_action else {
            return Err(SqlError::new(207, "Invalid column name '$action'."));
        };
        let action = Scalar {
            node: Node::Column { slot, ordinal: 0 },
            ty: SqlType::NVarChar(Length::Limit(10)),
            nullable: false,
            label: CollationLabel::Coercible,
        };
        self.note_used(&action);
        Ok(action)
    }
}

fn clause_name(when: MergeWhen) -> &'static str {
    match when {
        MergeWhen::Matched => "WHEN MATCHED",
        MergeWhen::NotMatchedByTarget => "WHEN NOT MATCHED",
        MergeWhen::NotMatchedBySource => "WHEN NOT MATCHED BY SOURCE",
    }
}

/// What the grammar lets through: a clause behind one that takes all (5324), an action twice (10714).
fn check_clauses(clauses: &[MergeClause]) -> SqlResult<()> {
    for (position, clause) in clauses.iter().enumerate() {
        let name = clause_name(clause.when);
        for earlier in clauses[..position].iter().filter(|earlier| earlier.when == clause.when) {
            if std::mem::discriminant(&earlier.action) == std::mem::discriminant(&clause.action) {
                let action = match clause.action {
                    MergeAction::Update(_) => "UPDATE",
                    MergeAction::Delete => "DELETE",
                    MergeAction::Insert { .. } => "INSERT",
                };
                return Err(SqlError::new(
                    10714,
                    format!(
                        "An action of type '{action}' cannot appear more than once in a '{name}' clause of a MERGE \
                         statement."
                    ),
                )
                .severity(15));
            }
            if earlier.condition.is_none() {
                return Err(SqlError::new(
                    5324,
                    format!(
                        "In a MERGE statement, a '{name}' clause with a search condition cannot appear after a '{name}' \
                         clause with no search condition."
                    ),
                )
                .severity(15));
            }
        }
    }
    Ok(())
}
