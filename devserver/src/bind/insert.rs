//! Binds INSERT: where its rows go, what they are, and what they must be convertible to.

use std::sync::Arc;

use crate::bind::binder::{Binder, QueryScope, ResolvedTable};
use crate::bind::expression::implicit;
use crate::bind::foreign_key::Changes;
use crate::bind::modify::{assigned_twice, computed_column, read_only_table};
use crate::bind::next_value_forbidden::takes_next_value;
use crate::bind::source::column_types;
use crate::error::{SqlError, SqlResult};
use crate::plan::cell::Uses;
use crate::plan::change::{InsertPlan, InsertRows, InsertTarget};
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::plan::options::PlanOptions;
use crate::plan::query::{TableHandle, TablePlace};
use crate::plan::relation::Relation;
use crate::plan::scalar::Scalar;
use crate::plan::table_hints::TableHints;
use crate::storage::{Lifetime, TableSchema};
use crate::tsql::ast::{ColumnRef, Ident, Insert, InsertSource, NewValue, Query, QueryBody, TableSource, TargetName};
use crate::value::{self, SqlType};

impl Binder<'_> {
    pub(crate) fn target_table(&mut self, name: &TargetName) -> SqlResult<TableHandle> {
        self.uses = self.uses.max(Uses::OwnTables);
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
                    crate::bind::binder::display_name(through)
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

    fn takes_identity(&self, table: &TableHandle) -> bool {
        matches!(table.place, TablePlace::Stored(id) if self.state.identity_insert == Some(id))
    }

    /// `columns`: `None` for all that can be given a value.
    pub(crate) fn insert_target(&mut self, table: TableHandle, columns: Option<&[Ident]>) -> SqlResult<InsertTarget> {
        let schema = Arc::clone(&table.schema);
        let identity_insert = self.takes_identity(&table);
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
            if !given && identity_insert && columns.is_some() {
                return Err(identity_not_given(&schema));
            }
        }
        let slot = self.new_slot()?;
        let rules = self.bind_rules(&schema, slot)?;
        Ok(InsertTarget { table, ordinals, rules })
    }

    /// Each value must be convertible to its column.
    pub(crate) fn check_insertable(&self, target: &InsertTarget, types: &[(SqlType, bool)]) -> SqlResult<()> {
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
                if let crate::plan::query::Body::Select(select) = &plan.body {
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
        if columns.is_none() && self.takes_identity(&target.table) {
            return Err(identity_not_given(&target.table.schema));
        }
        self.check_next_values(insert, &target)?;
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

    /// 11739 and 11740: a limited INSERT takes no value from a sequence, not even by a default.
    fn check_next_values(&self, insert: &Insert, target: &InsertTarget) -> SqlResult<()> {
        let limits_query = |query: &Query| {
            query.offset.is_some() || matches!(&query.body, QueryBody::Select(select) if select.top.is_some())
        };
        let is_limited =
            insert.top.is_some() || matches!(&insert.source, InsertSource::Query(query) if limits_query(query));
        if !is_limited {
            return Ok(());
        }
        if self.next_values.all > 0 {
            return Err(ForbiddenPlace::Limited.error());
        }
        let mut defaults = target.rules.defaults.iter().enumerate();
        let takes_one = defaults.any(|(ordinal, default)| {
            !target.ordinals.contains(&ordinal) && default.as_ref().is_some_and(takes_next_value)
        });
        if takes_one { Err(ForbiddenPlace::LimitedDefault.error()) } else { Ok(()) }
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
}

pub(crate) fn explicit_row_version() -> SqlError {
    SqlError::new(
        273,
        "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the timestamp \
         column, or insert a DEFAULT into the timestamp column.",
    )
}

/// 8101, for as many values without a column list as the table has columns, the identity column counted.
/// 545: under IDENTITY_INSERT the identity column has no value of its own.
fn identity_not_given(schema: &TableSchema) -> SqlError {
    SqlError::new(
        545,
        format!(
            "Explicit value must be specified for identity column in table '{}' either when IDENTITY_INSERT is set to ON or \
             when a replication user is inserting into a NOT FOR REPLICATION identity column.",
            schema.name
        ),
    )
}

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

pub(crate) fn count_mismatch(given: usize, wanted: usize, has_list: bool) -> SqlError {
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
