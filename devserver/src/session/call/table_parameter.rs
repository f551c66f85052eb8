//! Table-valued parameters from the client: the table is made and filled.

use std::sync::Arc;

use crate::catalog::parameter::VariableType;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::new_row::{lacks_value, truncated};
use crate::plan::cached_plan::Uses;
use crate::session::client_session::Session;
use crate::storage::{CatalogName, Column, ObjectId, TableSchema};
use crate::tsql::ast::ObjectName;
use crate::value::{self, SqlType, Value};

impl Session {
    /// Makes the table of a table-valued parameter and fills it.
    pub(crate) fn table_parameter(
        &mut self,
        name: &ObjectName,
        columns: &[SqlType],
        rows: Vec<Vec<Value>>,
    ) -> SqlResult<(ObjectId, VariableType)> {
        let schemas = match &name.schema {
            Some(schema) => vec![Arc::clone(schema)],
            None => vec![Arc::clone(&self.state.default_schema), crate::catalog::catalog::DBO.into()],
        };
        let user_type = loop {
            let found = {
                let catalog = self.database.catalog.read();
                schemas.iter().find_map(|schema| catalog.user_type(schema, &name.name).cloned())
            };
            let mut waited = false;
            if self.database.storage.has_changed_names() {
                for schema in &schemas {
                    waited |= self.waits_for(CatalogName::user_type(schema, &name.name))?;
                }
            }
            if !waited {
                break found;
            }
        };
        if let Some(user_type) = &user_type {
            self.check_type(user_type)?;
        }
        let Some(user_type) = user_type else { return Err(crate::bind::type_name::type_not_found(name)) };
        let template = Arc::clone(&user_type.template);
        let table = self.filled_table(&template, columns, rows)?;
        Ok((table, VariableType::TableType { user_type, template }))
    }

    /// Makes the table of a parameter that the client gave no type: the type is that of the parameter it is passed to.
    pub(crate) fn take_untyped_table(
        &mut self,
        wanted: &VariableType,
        columns: &[SqlType],
        rows: Vec<Vec<Value>>,
        place: usize,
        callee: &mut Activation,
    ) -> SqlResult<()> {
        let Some(template) = wanted.template().cloned() else {
            return Err(SqlError::not_supported(
                "a table-valued parameter without the name of a type for a parameter that is no table",
            ));
        };
        if let VariableType::TableType { user_type, .. } = wanted {
            self.check_type(user_type)?;
        }
        let table = self.filled_table(&template, columns, rows)?;
        callee.tables[place] = Some(table);
        callee.owned_tables.push(table);
        Ok(())
    }

    fn filled_table(
        &mut self,
        template: &Arc<TableSchema>,
        columns: &[SqlType],
        rows: Vec<Vec<Value>>,
    ) -> SqlResult<ObjectId> {
        let table = self.create_table_variable(template)?;
        match self.fill_table(table, template, columns, rows) {
            Ok(()) => Ok(table),
            Err(error) => {
                self.own_tables.remove(table);
                Err(error)
            }
        }
    }

    fn fill_table(
        &mut self,
        table: ObjectId,
        template: &TableSchema,
        columns: &[SqlType],
        rows: Vec<Vec<Value>>,
    ) -> SqlResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if columns.len() != template.columns.len() {
            return Err(SqlError::not_supported("a table-valued parameter with more or fewer columns than its type"));
        }
        let computes = |column: &Column| column.identity.is_some() || column.computed.is_some();
        if template.columns.iter().any(computes) || !template.checks.is_empty() {
            return Err(SqlError::not_supported(
                "a table-valued parameter whose type has identity or computed columns or CHECKs",
            ));
        }
        let level = self.database.compatibility_level();
        let mut nothing = Activation::default();
        self.with_run(Uses::OwnTables, &mut nothing, |run| {
            for mut values in rows {
                for ((value, given_type), column) in values.iter_mut().zip(columns).zip(&template.columns) {
                    let given = std::mem::replace(value, Value::Null);
                    *value = value::assign(given, *given_type, column.sql_type, |kept| {
                        truncated(&template.name, &column.name, &kept, level)
                    })?;
                    if value.is_null() && !column.nullable {
                        return Err(lacks_value(&column.name, &template.name, "INSERT"));
                    }
                }
                let storage = run.own_storage()?;
                storage.latch.insert(&mut storage.tx, table, &values)?;
            }
            Ok(())
        })
    }
}
