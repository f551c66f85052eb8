//! Binds INSERT: what its rows are, and what they must be convertible to.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::{check_variant, column_types, foreign_text, implicit};
use crate::bind::foreign_key::Changes;
use crate::bind::insert_target::{count_mismatch, explicit_row_version, identity_not_given};
use crate::bind::next_value_forbidden::{next_value_here, takes_next_value};
use crate::bind::output_clause::reads_columns;
use crate::error::{SqlError, SqlResult};
use crate::plan::change::{InsertPlan, InsertRows, InsertTarget};
use crate::plan::query::Body;
use crate::plan::scalar::Scalar;
use crate::plan::table_hints::TableHints;
use crate::storage::Lifetime;
use crate::tsql::ast::{Insert, InsertSource, NewValue, Query, QueryBody};
use crate::value::{self, Collation, SqlType};

impl Binder<'_> {
    pub fn bind_insert(&mut self, insert: &Insert) -> SqlResult<InsertPlan> {
        self.loop_joins = insert.loop_joins;
        self.ctes.clone_from(&insert.ctes);
        let table = self.target_table(&insert.target.name)?;
        let hints = TableHints::of_target(&insert.target.hints)?;
        if hints.readpast {
            return Err(SqlError::not_supported("READPAST on the target of an INSERT"));
        }
        if hints.has_read_committed_lock() {
            let message = "The READCOMMITTEDLOCK lock hint is not allowed on the target table of an INSERT statement.";
            return Err(SqlError::new(4140, message).severity(15));
        }
        let is_permanent = table.schema.lifetime == Lifetime::Permanent;
        if is_permanent {
            self.need("INSERT", &table.schema);
        }
        let target = self.insert_target(table, insert.columns.as_deref())?;
        let width = target.ordinals.len();
        let rows = match &insert.source {
            InsertSource::DefaultValues => {
                if insert.columns.is_some() {
                    return Err(SqlError::new(102, "Incorrect syntax near 'DEFAULT'.").severity(15));
                }
                InsertRows::Values(vec![vec![None; width]])
            }
            InsertSource::Values(rows) => self.bind_insert_values(rows, &target)?,
            InsertSource::Query(query) => {
                let bound = self.bind_query(query, true)?;
                let plan = self.finish(bound)?;
                if plan.columns.len() != width {
                    return Err(count_mismatch(plan.columns.len(), width, insert.columns.is_some()));
                }
                let types: Vec<(SqlType, bool)> = plan.columns.iter().map(|column| (column.ty, false)).collect();
                if let Body::Select(select) = &plan.body {
                    let described: Vec<(SqlType, bool)> = select
                        .items
                        .iter()
                        .map(|item| (item.ty, item.as_constant().is_some_and(|constant| constant.is_null())))
                        .collect();
                    self.check_insertable(&target, &described)?;
                } else {
                    self.check_insertable(&target, &types)?;
                }
                for (column, ordinal) in plan.columns.iter().zip(&target.ordinals) {
                    let is_variant = target.table.schema.columns[*ordinal].sql_type == SqlType::Variant;
                    if is_variant && column.ty.is_character() && column.collation != Collation::default() {
                        return Err(foreign_text());
                    }
                }
                InsertRows::Query(plan)
            }
            InsertSource::Execute(_) => InsertRows::Execute,
        };
        if insert.columns.is_none() && self.takes_identity(&target.table) {
            return Err(identity_not_given(&target.table.schema));
        }
        self.check_next_values(insert, &target)?;
        if matches!(rows, InsertRows::Execute) && !insert.output.is_empty() {
            return Err(SqlError::new(483, "The OUTPUT clause cannot be used in an INSERT...EXEC statement."));
        }
        let limit = self.bind_top(insert.top.as_ref())?;
        let inserted = self.visible_columns(&target.table.schema, target.rules.slot)?;
        let output = self.bind_outputs(&insert.output, None, Some(inserted), Vec::new())?;
        if is_permanent && reads_columns(&output) {
            self.need("SELECT", &target.table.schema);
        }
        let changes = Changes { inserts: true, deletes: false, updates: &[] };
        let foreign_keys = self.bind_foreign_keys(&Arc::clone(&target.table.schema), changes)?;
        Ok(InsertPlan { target, rows, limit, hints, foreign_keys, output })
    }

    /// A limited INSERT takes no value from a sequence, not even by a default.
    fn check_next_values(&self, insert: &Insert, target: &InsertTarget) -> SqlResult<()> {
        let limits_query = |query: &Query| {
            query.offset.is_some() || matches!(&query.body, QueryBody::Select(select) if select.top.is_some())
        };
        let is_limited =
            insert.top.is_some() || matches!(&insert.source, InsertSource::Query(query) if limits_query(query));
        if !is_limited {
            return Ok(());
        }
        let mut defaults = target.rules.defaults.iter().enumerate();
        let takes_one = self.next_values.all > 0
            || defaults.any(|(ordinal, default)| {
                !target.ordinals.contains(&ordinal) && default.as_ref().is_some_and(takes_next_value)
            });
        if takes_one { Err(next_value_here()) } else { Ok(()) }
    }

    fn bind_insert_values(&mut self, rows: &[Vec<NewValue>], target: &InsertTarget) -> SqlResult<InsertRows> {
        let width = target.ordinals.len();
        let mut bound: Vec<Vec<Option<Scalar>>> = Vec::with_capacity(rows.len());
        for row in rows {
            if row.len() != width {
                return Err(count_mismatch(row.len(), width, false));
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
                check_variant(scalar, column.sql_type)?;
            }
        }
        Ok(InsertRows::Values(bound))
    }
}
