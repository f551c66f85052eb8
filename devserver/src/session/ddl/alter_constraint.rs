//! ALTER TABLE … ADD and DROP CONSTRAINT.

use std::sync::Arc;

use crate::bind::{foreign_key_definition, table_definition};
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::frame::Frame;
use crate::plan::cached_plan::Uses;
use crate::session::client_session::Session;
use crate::storage::{Index, Lifetime, ObjectId, TableSchema, Uniqueness, fold};
use crate::tsql::ast::{Ident, TableDefinition};
use crate::tsql::parse_expression;

impl Session {
    pub(crate) fn add_table_constraints(
        &mut self,
        table: ObjectId,
        definition: &TableDefinition,
        check: bool,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        if definition.constraints.is_empty() {
            return Ok(());
        }
        let before = self.stored_schema(table)?;
        let mut after = TableSchema::clone(&before);
        table_definition::add_constraints(&mut after, &[], &definition.constraints)?;
        let added: Vec<Index> = after.indexes.split_off(before.indexes.len());
        for index in &added {
            let is_nullable = index.key.iter().any(|key| before.columns[key.column].nullable);
            if index.uniqueness == Uniqueness::PrimaryKey && is_nullable {
                return Err(SqlError::new(
                    8111,
                    format!("Cannot define PRIMARY KEY constraint on nullable column in table '{}'.", before.name),
                ));
            }
        }
        let mut new_keys = Vec::new();
        if before.lifetime == Lifetime::Permanent {
            new_keys = self
                .with_binder(|binder| foreign_key_definition::foreign_keys(binder, &before, &definition.constraints))?;
            for key in &mut new_keys {
                key.not_trusted = !check;
            }
            after.foreign_keys.extend(new_keys.iter().cloned());
            let mut complete = after.clone();
            complete.indexes.extend(added.iter().cloned());
            self.check_constraint_names(&complete, Some(table))?;
        }
        for constraint in &mut after.checks[before.checks.len()..] {
            constraint.not_trusted = !check;
        }
        // The others may call functions that are not for this user.
        let mut new_checks = after.clone();
        new_checks.checks.drain(..before.checks.len());
        self.with_binder(|binder| {
            for (column, old) in after.columns.iter().zip(&before.columns) {
                if let (Some(default), None) = (&column.default, &old.default) {
                    let default = parse_expression(&default.text)?;
                    binder.owned(&after.schema, |binder| binder.bind_default(&default))?;
                }
            }
            table_definition::check_checks(binder, &new_checks)
        })?;
        if check && after.checks.len() > before.checks.len() {
            let names: Vec<Arc<str>> =
                after.checks[before.checks.len()..].iter().map(|check| Arc::clone(&check.name)).collect();
            self.look_at_rows(table, &after, &names, activation)?;
        }
        if check && !new_keys.is_empty() {
            self.look_for_partners(table, &before, &new_keys, activation)?;
        }
        let (columns, checks, foreign_keys) = (after.columns, after.checks, after.foreign_keys);
        self.table_change(activation, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                schema.columns = columns;
                schema.checks = checks;
                schema.foreign_keys = foreign_keys;
            })
        })?;
        for index in added {
            let schema = self.stored_schema(table)?;
            self.add_index(table, &schema, index, activation)?;
        }
        Ok(())
    }

    /// 547 if a row breaks one of the checks.
    fn look_at_rows(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        names: &[Arc<str>],
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let (rules, functions, slots) = self.with_binder(|binder| {
            let slot = binder.new_slot()?;
            let rules = binder.bind_rules(schema, slot)?;
            Ok((rules, binder.called_functions(), binder.slots))
        })?;
        self.with_run(Uses::Database, activation, |run| {
            let storage = run.storage()?;
            let rows = storage.latch.rows_to_rebuild(&mut storage.tx, table)?;
            let mut frame = Frame { functions: functions.clone(), ..Frame::new(slots) };
            for row in rows {
                frame.rows[rules.slot] = row.into();
                for (name, condition) in rules.checks.iter().filter(|(name, _)| names.contains(name)) {
                    if condition.test(run, &mut frame)? == Some(false) {
                        return Err(SqlError::new(
                            547,
                            format!(
                                "The ALTER TABLE statement conflicted with the CHECK constraint \"{name}\". The conflict \
                                 occurred in database \"{}\", table \"{}.{}\".",
                                run.database.name, schema.schema, schema.name
                            ),
                        ));
                    }
                }
            }
            Ok(())
        })
    }

    pub(crate) fn drop_constraint(
        &mut self,
        table: ObjectId,
        name: &Ident,
        if_exists: bool,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let schema = self.stored_schema(table)?;
        let folded = fold(name);
        let index = schema.index_named(name);
        if let Some(index) =
            index.filter(|index| matches!(index.uniqueness, Uniqueness::PrimaryKey | Uniqueness::UniqueConstraint))
        {
            let index = index.clone();
            return self.remove_index(table, &schema, &index, activation);
        }
        let is_default = schema
            .columns
            .iter()
            .any(|column| column.default.as_ref().is_some_and(|default| fold(&default.name) == folded));
        let is_check = schema.checks.iter().any(|check| fold(&check.name) == folded);
        let is_key = schema.foreign_keys.iter().any(|key| fold(&key.name) == folded);
        if !is_default && !is_check && !is_key {
            if if_exists {
                return Ok(());
            }
            return Err(SqlError::new(3728, format!("'{name}' is not a constraint.")));
        }
        self.table_change(activation, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                schema.checks.retain(|check| fold(&check.name) != folded);
                schema.foreign_keys.retain(|key| fold(&key.name) != folded);
                for column in &mut schema.columns {
                    if column.default.as_ref().is_some_and(|default| fold(&default.name) == folded) {
                        column.default = None;
                    }
                }
            })
        })
    }
}
