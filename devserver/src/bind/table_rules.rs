//! Binds what a table does to its new rows: defaults, checks.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::query_scope::{QueryScope, VisibleSource};
use crate::error::SqlResult;
use crate::plan::scalar::slot_bit;
use crate::plan::table_rules::TableRules;
use crate::storage::{Column, TableSchema};
use crate::tsql::{parse_expression, parse_predicate};
use crate::value::SqlType;

impl Binder<'_> {
    /// The rules of a table, over a slot that must have been made for its new rows.
    pub fn bind_rules(&mut self, schema: &TableSchema, slot: usize) -> SqlResult<TableRules> {
        let scopes = std::mem::take(&mut self.scopes);
        let mut scope = QueryScope::new();
        scope.sources.push(VisibleSource {
            name: Arc::clone(&schema.name),
            schema: None,
            columns: self.visible_columns(schema, slot)?,
            slots: slot_bit(slot),
            updatable: false,
        });
        self.scopes.push(scope);
        let rules = self.owned(&schema.schema, |binder| binder.bind_rules_in_scope(schema, slot));
        self.scopes = scopes;
        rules
    }

    fn bind_rules_in_scope(&mut self, schema: &TableSchema, slot: usize) -> SqlResult<TableRules> {
        let mut defaults = Vec::with_capacity(schema.columns.len());
        for column in &schema.columns {
            defaults.push(match &column.default {
                Some(default) => {
                    let scalar = self.bind_default(&parse_expression(&default.text)?)?;
                    Some(implicit(scalar, column.sql_type)?)
                }
                None => None,
            });
        }
        let mut checks = Vec::with_capacity(schema.checks.len());
        for check in &schema.checks {
            checks.push((Arc::clone(&check.name), self.bind_check(&parse_predicate(&check.text)?)?));
        }
        let ordinals = |is_meant: &dyn Fn(&Column) -> bool| -> Vec<usize> {
            let columns = schema.columns.iter().enumerate();
            columns.filter(|(_, column)| is_meant(column)).map(|(ordinal, _)| ordinal).collect()
        };
        Ok(TableRules {
            slot,
            defaults,
            checks,
            filled: ordinals(&|column| column.identity.is_some() || column.default.is_some()),
            row_versions: ordinals(&|column| column.sql_type == SqlType::RowVersion),
            required: ordinals(&|column| !column.nullable && column.computed.is_none()),
        })
    }
}
