//! ALTER TABLE: columns and constraints of a table that has rows.
//!
//! What the rows do not notice (defaults, checks, a column that reads as a constant) changes the schema alone;
//! everything else goes through [`Session::rebuild`], which computes each row anew and builds table and indexes from
//! them.
//!
//! Source: "ALTER TABLE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-table-transact-sql.md); the errors are
//! those of docs/relational-databases/errors-events/database-engine-events-and-errors-4000-to-4999.md.

use std::sync::Arc;

use crate::bind::table_definition;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::frame::Run;
use crate::plan::cached_plan::Uses;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find_object;
use crate::storage::{Lifetime, ObjectId, TableSchema, fold};
use crate::tsql::ast::{AlterTable, AlterTableAction, AlterTableDrop};
use crate::value::Value;

impl Session {
    pub(crate) fn alter_table(&mut self, alter: &AlterTable, activation: &mut Activation) -> SqlResult<()> {
        let missing = |number| cannot_find_object(number, &alter.table);
        let table = self.lookup_table(&alter.table)?.ok_or_else(|| missing(4902))?;
        self.check_not_within_trigger(table)?;
        let schema = self.stored_schema(table)?;
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(table, &schema.schema, missing(1088))?;
        }
        self.under_table_lock(table, activation, |session, schema, activation| {
            session.alter_table_parts(table, schema, &alter.action, activation)
        })?;
        self.note_table_change(table);
        Ok(())
    }

    fn alter_table_parts(
        &mut self,
        table: ObjectId,
        schema: &Arc<TableSchema>,
        action: &AlterTableAction,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        match action {
            AlterTableAction::SetLockEscalation(escalation) => {
                let escalation = *escalation;
                self.table_change(activation, |latch, tx| {
                    latch.alter_schema(tx, table, |schema| schema.lock_escalation = escalation)
                })
            }
            AlterTableAction::Add { definition, check } => {
                if !definition.indexes.is_empty() {
                    return Err(SqlError::not_supported("ALTER TABLE … ADD INDEX"));
                }
                for column in &definition.columns {
                    self.add_column(table, column, activation)?;
                }
                self.add_table_constraints(table, definition, check.unwrap_or(true), activation)
                    .map_err(table_definition::constraint_failed)
            }
            AlterTableAction::Drop(drops) => {
                for drop in drops {
                    match drop {
                        AlterTableDrop::Column { name, if_exists } => {
                            self.drop_column(table, name, *if_exists, activation)?;
                        }
                        AlterTableDrop::Constraint { name, if_exists } => {
                            self.drop_constraint(table, name, *if_exists, activation)?;
                        }
                    }
                }
                Ok(())
            }
            AlterTableAction::Rebuild(options) => self.rebuild_clustered(table, schema, options, activation),
            AlterTableAction::AlterColumn { name, data_type, collation, nullable } => {
                self.alter_column(table, schema, name, data_type, collation.as_ref(), *nullable, activation)
            }
            AlterTableAction::CheckConstraint(names) => {
                let keys = schema.foreign_keys.iter().map(|key| &key.name);
                let constraints: Vec<_> = keys.chain(schema.checks.iter().map(|check| &check.name)).collect();
                match names.iter().find(|name| !constraints.iter().any(|constraint| fold(constraint) == fold(name))) {
                    Some(name) => Err(SqlError::new(4917, format!("Constraint '{name}' does not exist."))),
                    None => Ok(()),
                }
            }
        }
    }

    /// Builds a table anew, each row as `convert` makes it of the old one.
    pub(crate) fn rebuild(
        &mut self,
        table: ObjectId,
        schema: TableSchema,
        activation: &mut Activation,
        mut convert: impl FnMut(&mut Run<'_>, Vec<Value>) -> SqlResult<Vec<Value>>,
    ) -> SqlResult<()> {
        let result = self.with_run(Uses::Database, activation, |run| {
            let storage = run.storage()?;
            let rows = storage.latch.rows_to_rebuild(&mut storage.tx, table)?;
            let mut converted = Vec::with_capacity(rows.len());
            for row in rows {
                converted.push(convert(run, row)?);
            }
            let database = run.database;
            let storage = run.storage()?;
            let result = storage.latch.rebuild_table(&mut storage.tx, table, schema, &converted);
            database.changed();
            result
        });
        self.schema_changed();
        result
    }
}
