//! sp_rename: tables and columns get other names.
//!
//! Source: "sp_rename" (MicrosoftDocs/sql-docs, docs/relational-databases/system-stored-procedures/
//! sp-rename-transact-sql.md).

use std::sync::Arc;

use crate::catalog::object_name::ParsedName;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::storage::{CatalogName, ObjectId, TableSchema, fold};
use crate::tsql::ast::ObjectName;

fn check_not_global(name: &ObjectName) -> SqlResult<()> {
    if name.name.starts_with("##") {
        return Err(SqlError::not_supported("renaming a global temporary table, or its columns and indexes"));
    }
    Ok(())
}

impl Session {
    /// `kind`: the @objtype of sp_rename.
    pub(crate) fn rename(
        &mut self,
        object: &str,
        new_name: &str,
        kind: Option<&str>,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        self.changing_names(|session| session.rename_locked(object, new_name, kind, activation))
    }

    fn rename_locked(
        &mut self,
        object: &str,
        new_name: &str,
        kind: Option<&str>,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let kind = kind.map(fold);
        let wrong_kind = || SqlError::not_supported("sp_rename of what is not of the given @objtype");
        if new_name.is_empty() || new_name.contains('[') {
            return Err(SqlError::not_supported("sp_rename to a name that is empty or in brackets"));
        }
        match kind.as_deref() {
            None | Some("object") => {
                let name = ParsedName::parse(object).ok_or_else(wrong_kind)?.to_object_name();
                if let Some(schema) = self.lock_existing_name(&name)? {
                    self.lock_name(CatalogName::object(&schema, new_name))?;
                }
                let Some(table) = self.lookup_table(&name)? else {
                    return Err(SqlError::not_supported("sp_rename of anything but tables and columns that are there"));
                };
                check_not_global(&name)?;
                self.check_not_within_trigger(table)?;
                let schema = self.stored_schema(table)?;
                self.check_alter_object(table, &schema.schema, wrong_kind())?;
                self.check_free(&schema.schema, new_name).map_err(|_| already_used(new_name))?;
                let schema_name = Arc::clone(&schema.schema);
                self.table_change(activation, |latch, tx| latch.rename_table(tx, table, &schema_name, new_name))
            }
            Some("column") => {
                // The last part is the column's name, those before it the table's.
                let parts = ParsedName::parse(object).ok_or_else(wrong_kind)?;
                let table_name = ObjectName {
                    server: None,
                    database: None,
                    schema: parts.database.as_deref().map(Arc::from),
                    name: parts.schema.as_deref().ok_or_else(wrong_kind)?.into(),
                };
                check_not_global(&table_name)?;
                self.lock_existing_name(&table_name)?;
                let table = self.lookup_table(&table_name)?.ok_or_else(wrong_kind)?;
                self.check_not_within_trigger(table)?;
                let schema = self.stored_schema(table)?;
                self.check_alter_object(table, &schema.schema, wrong_kind())?;
                self.rename_column(table, &schema, &parts.name, new_name, activation)?.ok_or_else(wrong_kind)
            }
            Some(other) => Err(SqlError::not_supported(format!("sp_rename of the type '{other}'"))),
        }
    }

    /// `None` if there is no such column.
    fn rename_column(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        old_name: &str,
        new_name: &str,
        activation: &mut Activation,
    ) -> SqlResult<Option<()>> {
        let new_name: Arc<str> = new_name.into();
        let Some(ordinal) = schema.column_named(old_name) else { return Ok(None) };
        if schema.column_named(&new_name).is_some_and(|other| other != ordinal) {
            return Err(already_used(&new_name));
        }
        let column = &schema.columns[ordinal].name;
        let is_enforced = schema.checks.iter().any(|check| crate::tsql::mentions(&check.text, column))
            || schema
                .columns
                .iter()
                .filter_map(|other| other.computed.as_ref())
                .any(|text| crate::tsql::mentions(text, column));
        if is_enforced {
            return Err(SqlError::not_supported("sp_rename of a column that CHECKs or computed columns name"));
        }
        self.table_change(activation, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                let old_name = std::mem::replace(&mut schema.columns[ordinal].name, Arc::clone(&new_name));
                for statistics in schema.statistics.iter_mut().filter(|statistics| statistics.column == old_name) {
                    statistics.column = Arc::clone(&new_name);
                }
            })
        })?;
        Ok(Some(()))
    }
}

fn already_used(name: &str) -> SqlError {
    SqlError::not_supported(format!("the new name '{name}', which is in use"))
}
