//! Binds INSERT, UPDATE and DELETE with their OUTPUT clauses.

use std::sync::Arc;

use super::bind_expression::{binary_op, bind_binary, implicit};
use super::bind_query::Item;
use super::bind_source::{Relation, column_types};
use super::binder::{Binder, PlanOptions, QueryScope, ResolvedTable, VisibleColumn, VisibleSource};
use super::foreign_key::{Changes, ForeignKeys};
use super::locking::{Access, TableHints};
use super::plan::Planner;
use super::query::{Limit, Operator, OutputColumn, QueryPlan, TableHandle, TablePlace};
use super::scalar::{Condition, Node, Scalar, slot_bit};
use crate::error::{SqlError, SqlResult};
use crate::storage::{Lifetime, TableSchema, fold};
use crate::tsql::ast::{
    AssignOp, Assignment, ColumnRef, Delete, DmlCondition, Expr, Ident, Insert, InsertSource, NewValue, ObjectName,
    Output, SelectItem, TableSource, TargetName, Update,
};
use crate::tsql::{parse_expression, parse_predicate};
use crate::value::{self, SqlType};

/// What a table does to each new row.
#[derive(Debug)]
pub struct TableRules {
    /// The slot in which the new row stands for computed columns and checks.
    pub slot: usize,
    /// For each column its default, of the column's type.
    pub defaults: Vec<Option<Scalar>>,
    pub computed: Vec<(usize, Scalar)>,
    pub checks: Vec<(Arc<str>, Condition)>,
}

/// Where rows are inserted.
#[derive(Debug)]
pub struct InsertTarget {
    pub table: TableHandle,
    /// The columns that are given a value, in the order of the values.
    pub ordinals: Vec<usize>,
    pub rules: TableRules,
}

#[derive(Debug)]
pub struct OutputPlan {
    pub items: Vec<Scalar>,
    pub columns: Vec<OutputColumn>,
    pub into: Option<InsertTarget>,
}

#[derive(Debug)]
pub enum InsertRows {
    /// `None` is DEFAULT.
    Values(Vec<Vec<Option<Scalar>>>),
    Query(QueryPlan),
    /// The rows come from a procedure.
    Execute,
}

#[derive(Debug)]
pub struct InsertPlan {
    pub target: InsertTarget,
    pub rows: InsertRows,
    pub limit: Limit,
    pub hints: TableHints,
    pub foreign_keys: ForeignKeys,
    pub output: Vec<OutputPlan>,
}

#[derive(Debug)]
pub struct UpdatePlan {
    pub input: Operator,
    pub table: TableHandle,
    pub slot: usize,
    /// A row may be found several times; only the first counts.
    pub may_repeat: bool,
    pub assignments: Vec<BoundAssignment>,
    pub rules: TableRules,
    pub foreign_keys: ForeignKeys,
    pub output: Vec<OutputPlan>,
    /// The slots that OUTPUT reads, the new row excepted.
    pub output_slots: Vec<usize>,
}

#[derive(Debug)]
pub struct BoundAssignment {
    /// The column and the type of the value before it is assigned.
    pub column: Option<usize>,
    pub variable: Option<(usize, SqlType)>,
    pub value: Scalar,
}

#[derive(Debug)]
pub struct DeletePlan {
    pub input: Operator,
    pub table: TableHandle,
    pub slot: usize,
    pub may_repeat: bool,
    pub foreign_keys: ForeignKeys,
    pub output: Vec<OutputPlan>,
    pub output_slots: Vec<usize>,
}

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
        Ok(TableRules { slot, defaults, computed, checks })
    }

    fn target_table(&mut self, name: &TargetName) -> SqlResult<TableHandle> {
        self.uses_storage = true;
        match name {
            TargetName::Table(name) => {
                if self.find_cte(name)?.is_some() {
                    return Err(SqlError::not_supported("inserting through a CTE"));
                }
                self.resolve_base_table(name)
            }
            TargetName::Variable(name) => {
                let (place, variable) = self.declarations.table(name)?;
                if variable.read_only {
                    return Err(read_only_table(name));
                }
                let schema = variable.ty.template().expect("a table variable has a table").clone();
                Ok(TableHandle { schema, place: TablePlace::Variable(place) })
            }
        }
    }

    /// The table that an INSERT means, and its columns by the table's own names: a CTE or view over one table hands the
    /// rows on, whatever its WHERE says.
    fn insert_through(
        &mut self,
        name: &TargetName,
        columns: Option<&[Ident]>,
    ) -> SqlResult<(TableHandle, Option<Vec<Ident>>)> {
        let through = match name {
            TargetName::Table(name) if self.find_cte(name)?.is_some() => Some(name),
            TargetName::Table(name) => matches!(self.resolve_table(name)?, ResolvedTable::View(_)).then_some(name),
            TargetName::Variable(_) => None,
        };
        let Some(through) = through else { return Ok((self.target_table(name)?, columns.map(<[Ident]>::to_vec))) };
        let needs = self.needs.len();
        self.scopes.push(QueryScope::new());
        let source = TableSource::Table { name: through.clone(), alias: None, hints: Vec::new() };
        let bound = self.bind_from(std::slice::from_ref(&source));
        let scope = self.scopes.pop();
        self.needs.truncate(needs);
        let table = match bound? {
            Relation::Table(table) => Some(table),
            Relation::Block(block) if block.window.is_none() && block.limit.is_none() => match block.input {
                Relation::Table(table) => Some(table),
                _ => None,
            },
            _ => None,
        };
        let (Some(table), Some(visible)) = (table, scope.and_then(|mut scope| scope.sources.pop())) else {
            return Err(SqlError::new(
                4405,
                format!(
                    "View or function '{}' is not updatable because the modification affects multiple base tables.",
                    super::binder::display_name(through)
                ),
            ));
        };
        let schema = Arc::clone(&table.table.schema);
        let mut names = Vec::new();
        match columns {
            Some(columns) => {
                for name in columns {
                    let column = ColumnRef { table: None, name: Arc::clone(name) };
                    let (_, ordinal) = self.target_column(&visible, &column)?;
                    names.push(Arc::clone(&schema.columns[ordinal].name));
                }
            }
            None => {
                for column in &visible.columns {
                    let column = ColumnRef { table: None, name: Arc::clone(&column.name) };
                    let (_, ordinal) = self.target_column(&visible, &column)?;
                    let column = &schema.columns[ordinal];
                    if column.identity.is_none() && column.computed.is_none() {
                        names.push(Arc::clone(&column.name));
                    }
                }
            }
        }
        Ok((table.table, Some(names)))
    }

    /// `columns`: `None` for all that can be given a value.
    pub(super) fn insert_target(&mut self, table: TableHandle, columns: Option<&[Ident]>) -> SqlResult<InsertTarget> {
        let schema = Arc::clone(&table.schema);
        let identity_insert = matches!(table.place, TablePlace::Stored(id) if self.state.identity_insert == Some(id));
        let mut ordinals = Vec::new();
        match columns {
            None => {
                for (ordinal, column) in schema.columns.iter().enumerate() {
                    if column.computed.is_none() && column.identity.is_none() {
                        ordinals.push(ordinal);
                    }
                }
            }
            Some(names) => {
                for name in names {
                    let Some(ordinal) = schema.column_named(name) else {
                        return Err(SqlError::new(207, format!("Invalid column name '{name}'.")));
                    };
                    if ordinals.contains(&ordinal) {
                        return Err(assigned_twice(name));
                    }
                    if schema.columns[ordinal].computed.is_some() {
                        return Err(computed_column(name));
                    }
                    ordinals.push(ordinal);
                }
            }
        }
        for (ordinal, column) in schema.columns.iter().enumerate() {
            if column.identity.is_none() {
                continue;
            }
            let given = ordinals.contains(&ordinal);
            if given && !identity_insert {
                return Err(SqlError::new(
                    544,
                    format!(
                        "Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT is set to \
                         OFF.",
                        schema.name
                    ),
                ));
            }
            if !given && identity_insert {
                return Err(SqlError::new(
                    545,
                    format!(
                        "Explicit value must be specified for identity column in table '{}' either when \
                         IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR \
                         REPLICATION identity column.",
                        schema.name
                    ),
                ));
            }
        }
        let slot = self.new_slot()?;
        let rules = self.bind_rules(&schema, slot)?;
        Ok(InsertTarget { table, ordinals, rules })
    }

    /// Each value must be convertible to its column.
    fn check_insertable(&self, target: &InsertTarget, types: &[(SqlType, bool)]) -> SqlResult<()> {
        for (ordinal, &(ty, is_null)) in target.ordinals.iter().zip(types) {
            if target.table.schema.columns[*ordinal].sql_type == SqlType::RowVersion {
                return Err(explicit_row_version());
            }
            if !is_null {
                value::check_conversion(ty, target.table.schema.columns[*ordinal].sql_type, false)?;
            }
        }
        Ok(())
    }

    pub fn bind_insert(&mut self, insert: &Insert) -> SqlResult<InsertPlan> {
        self.options = PlanOptions::of(&insert.options)?;
        self.ctes.clone_from(&insert.ctes);
        let (table, columns) = self.insert_through(&insert.target.name, insert.columns.as_deref())?;
        let hints = TableHints::of_target(&insert.target.hints)?;
        if hints.readpast {
            return Err(SqlError::not_supported("READPAST on the target of an INSERT"));
        }
        if hints.read_committed_lock {
            let message = "The READCOMMITTEDLOCK lock hint is not allowed on the target table of an INSERT statement.";
            return Err(SqlError::new(4140, message).severity(15));
        }
        if table.schema.lifetime == Lifetime::Permanent {
            self.need("INSERT", &Arc::clone(&table.schema));
        }
        let target = self.insert_target(table, columns.as_deref())?;
        let width = target.ordinals.len();
        let rows = match &insert.source {
            InsertSource::DefaultValues => {
                if insert.columns.is_some() {
                    return Err(SqlError::new(102, "Incorrect syntax near 'DEFAULT'.").severity(15));
                }
                InsertRows::Values(vec![vec![None; width]])
            }
            InsertSource::Values(rows) => self.bind_insert_values(rows, &target, insert.columns.is_some())?,
            InsertSource::Query(query) => {
                let bound = self.bind_query(query, true)?;
                let plan = self.finish(bound)?;
                if plan.columns.len() != width {
                    let (given, has_list) = (plan.columns.len(), insert.columns.is_some());
                    let error = identity_without_list(&target.table.schema, given, width).filter(|_| !has_list);
                    return Err(error.unwrap_or_else(|| count_mismatch(given, width, has_list)));
                }
                let types: Vec<(SqlType, bool)> = plan.columns.iter().map(|column| (column.ty, false)).collect();
                if let super::query::Body::Select(select) = &plan.body {
                    let described: Vec<(SqlType, bool)> = select
                        .items
                        .iter()
                        .map(|item| (item.ty, item.as_constant().is_some_and(|constant| constant.is_null())))
                        .collect();
                    self.check_insertable(&target, &described)?;
                } else {
                    self.check_insertable(&target, &types)?;
                }
                InsertRows::Query(plan)
            }
            InsertSource::Execute(_) => InsertRows::Execute,
        };
        if matches!(rows, InsertRows::Execute) && !insert.output.is_empty() {
            return Err(SqlError::new(483, "The OUTPUT clause cannot be used in an INSERT...EXEC statement."));
        }
        let limit = self.bind_top(insert.top.as_ref())?;
        let inserted = Binder::table_columns(&target.table.schema, target.rules.slot);
        let output = self.bind_outputs(&insert.output, None, Some(inserted), Vec::new())?;
        let changes = Changes { inserts: true, deletes: false, updates: &[] };
        let foreign_keys = self.bind_foreign_keys(&Arc::clone(&target.table.schema), changes)?;
        Ok(InsertPlan { target, rows, limit, hints, foreign_keys, output })
    }

    fn bind_insert_values(
        &mut self,
        rows: &[Vec<NewValue>],
        target: &InsertTarget,
        has_list: bool,
    ) -> SqlResult<InsertRows> {
        let width = target.ordinals.len();
        let mut bound: Vec<Vec<Option<Scalar>>> = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != width {
                return Err(if has_list {
                    let (number, word) = if row.len() < width { (109, "more") } else { (110, "fewer") };
                    SqlError::new(
                        number,
                        format!(
                            "There are {word} columns in the INSERT statement than values specified in the VALUES \
                             clause. The number of values in the VALUES clause must match the number of columns \
                             specified in the INSERT statement."
                        ),
                    )
                    .severity(15)
                } else {
                    identity_without_list(&target.table.schema, row.len(), width)
                        .unwrap_or_else(|| count_mismatch(row.len(), width, false))
                });
            }
            let mut values = Vec::with_capacity(width);
            for value in row {
                values.push(match value {
                    NewValue::Expr(expr) => Some(self.bind_expr(expr)?),
                    NewValue::Default => None,
                });
            }
            bound.push(values);
        }
        // Several rows are a table of their own: each column has one type before it meets the target's.
        if bound.len() > 1 && bound.iter().flatten().all(Option::is_some) {
            let scalars: Vec<Vec<Scalar>> = bound.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
            let types = column_types(&scalars, width)?;
            let mut converted = Vec::with_capacity(scalars.len());
            for row in scalars {
                let mut values = Vec::with_capacity(width);
                for (value, ty) in row.into_iter().zip(&types) {
                    values.push(Some(implicit(value, *ty)?));
                }
                converted.push(values);
            }
            bound = converted;
        }
        for row in &bound {
            for (scalar, ordinal) in row.iter().zip(&target.ordinals) {
                let Some(scalar) = scalar else { continue };
                let column = &target.table.schema.columns[*ordinal];
                if scalar.as_constant().is_some_and(|constant| constant.is_null()) {
                    continue;
                }
                if column.sql_type == SqlType::RowVersion {
                    return Err(explicit_row_version());
                }
                value::check_conversion(scalar.ty, column.sql_type, false)?;
            }
        }
        Ok(InsertRows::Values(bound))
    }

    /// `deleted` and `inserted`: the columns under those names. `beside`: the other tables of the statement.
    pub(super) fn bind_outputs(
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
                    let other = super::foreign_key::referring_keys(self.latch, &table.schema);
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
            plans.push(OutputPlan { items: items.into_iter().map(|item| item.scalar).collect(), columns, into });
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
        let mut relation = self.bind_from(sources)?;
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
                    relation = Relation::Join(Box::new(super::bind_source::JoinRelation {
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
        // "The … query optimizer ignores the READUNCOMMITTED and NOLOCK hints in the FROM clause that apply to the target table."
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
    pub(super) fn target_column(&self, source: &VisibleSource, column: &ColumnRef) -> SqlResult<(usize, usize)> {
        if let Some(table) = &column.table
            && !super::binder::names_source(table, source)
        {
            return Err(SqlError::new(
                4104,
                format!(
                    "The multi-part identifier \"{}.{}\" could not be bound.",
                    super::binder::display_name(table),
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
            Some(DmlCondition::Search(predicate)) => self.bind_condition(predicate)?.into_conjuncts(&mut conditions),
            // The plan reads the row under the cursor and no other.
            Some(DmlCondition::CurrentOf(_)) => {}
        }
        Ok(conditions)
    }

    pub fn bind_update(&mut self, update: &Update) -> SqlResult<UpdatePlan> {
        self.options = PlanOptions::of(&update.options)?;
        self.ctes.clone_from(&update.ctes);
        self.uses_storage = true;
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
        let limit = self.bind_top(update.top.as_ref())?;
        let inserted = moved_columns(&columns, slot, row_slot);
        let beside = self.sources_beside(slot);
        let output = self.bind_outputs(&update.output, Some(columns), Some(inserted), beside)?;
        let output_slots = output_slots(&output, row_slot);
        let input = match &update.condition {
            Some(DmlCondition::CurrentOf(_)) => current_row(slot, &update.from, &limit)?,
            _ => self.plan_rows(relation, conditions, limit)?,
        };
        let updates: Vec<usize> = assignments.iter().filter_map(|assignment| assignment.column).collect();
        let changes = Changes { inserts: false, deletes: false, updates: &updates };
        let foreign_keys = self.bind_foreign_keys(&Arc::clone(&table.schema), changes)?;
        Ok(UpdatePlan { input, table, slot, may_repeat, assignments, rules, foreign_keys, output, output_slots })
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

    pub(super) fn bind_set(
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
            (NewValue::Expr(expr), _) => self.bind_expr(expr)?,
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
                        label: super::scalar::CollationLabel::Implicit(definition.collation),
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
        Ok(BoundAssignment { column, variable, value })
    }

    pub fn bind_delete(&mut self, delete: &Delete) -> SqlResult<DeletePlan> {
        self.options = PlanOptions::of(&delete.options)?;
        self.ctes.clone_from(&delete.ctes);
        self.uses_storage = true;
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

fn reads_table(relation: &mut Relation, place: TablePlace) -> bool {
    let mut slots = Vec::new();
    relation.table_slots(&mut slots);
    slots.into_iter().any(|slot| relation.table_in(slot).is_some_and(|table| table.table.place == place))
}

/// The same columns over another slot.
pub(super) fn moved_columns(columns: &[VisibleColumn], from: usize, to: usize) -> Vec<VisibleColumn> {
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

pub(super) fn output_slots(outputs: &[OutputPlan], new_row: usize) -> Vec<usize> {
    let mut slots = 0;
    for scalar in outputs.iter().flat_map(|output| &output.items) {
        slots |= scalar.slots();
    }
    (0..64).filter(|&slot| slot != new_row && slots & slot_bit(slot) != 0).collect()
}

pub(super) fn explicit_row_version() -> SqlError {
    SqlError::new(
        273,
        "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the timestamp \
         column, or insert a DEFAULT into the timestamp column.",
    )
}

/// 8101, for as many values without a column list as the table has columns, the identity column counted.
fn identity_without_list(schema: &TableSchema, given: usize, wanted: usize) -> Option<SqlError> {
    let has_identity = schema.columns.iter().any(|column| column.identity.is_some());
    (has_identity && given == wanted + 1).then(|| {
        SqlError::new(
            8101,
            format!(
                "An explicit value for the identity column in table '{}' can only be specified when a column list is used \
                 and IDENTITY_INSERT is ON.",
                schema.name
            ),
        )
    })
}

pub(super) fn read_only_table(name: &str) -> SqlError {
    SqlError::new(10700, format!("The table-valued parameter \"{name}\" is READONLY and cannot be modified."))
}

pub(super) fn assigned_twice(column: &str) -> SqlError {
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

fn computed_column(name: &str) -> SqlError {
    SqlError::new(
        271,
        format!(
            "The column \"{name}\" cannot be modified because it is either a computed column or is the result of a \
             UNION operator."
        ),
    )
}

pub(super) fn count_mismatch(given: usize, wanted: usize, has_list: bool) -> SqlError {
    if !has_list {
        return SqlError::new(213, "Column name or number of supplied values does not match table definition.");
    }
    let (number, word) = if given < wanted { (120, "fewer") } else { (121, "more") };
    SqlError::new(
        number,
        format!(
            "The select list for the INSERT statement contains {word} items than the insert list. The number of SELECT \
             values must match the number of INSERT columns."
        ),
    )
    .severity(15)
}

/// WHERE CURRENT OF, which stands alone.
fn current_row(slot: usize, from: &[TableSource], limit: &Limit) -> SqlResult<Operator> {
    if !from.is_empty() || !limit.is_none() {
        return Err(SqlError::not_supported("WHERE CURRENT OF together with FROM or TOP"));
    }
    Ok(Operator::Current { slot })
}
