//! sp_rename and ALTER SCHEMA … TRANSFER: what has another name or schema afterwards and is otherwise the same.
//!
//! Source: "sp_rename" (MicrosoftDocs/sql-docs, docs/relational-databases/system-stored-procedures/
//! sp-rename-transact-sql.md) and "ALTER SCHEMA" (docs/t-sql/statements/alter-schema-transact-sql.md).

use std::sync::Arc;

use crate::catalog::object::{Object, Procedure, Synonym, Trigger, View};
use crate::catalog::object_name::ParsedName;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find;
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
        let database = Arc::clone(&self.database.name);
        let missing = || {
            SqlError::new(
                15225,
                format!(
                    "No item by the name of '{object}' could be found in the current database '{database}', given that @itemtype was \
                     input as '{}'.",
                    kind.as_deref().unwrap_or("(null)")
                ),
            )
            .severity(11)
        };
        let wrong_kind = || {
            SqlError::new(
                15248,
                format!(
                    "Either the parameter @objname is ambiguous or the claimed @objtype ({}) is wrong.",
                    kind.as_deref().unwrap_or("(null)")
                ),
            )
            .severity(11)
        };
        if new_name.is_empty() || new_name.contains('[') && ParsedName::parse(new_name).is_none() {
            return Err(SqlError::new(
                15006,
                format!("'{new_name}' is not a valid name because it contains invalid characters."),
            ));
        }
        match kind.as_deref() {
            None | Some("object") => {
                let name = ParsedName::parse(object).ok_or_else(missing)?.to_object_name();
                if let Some(schema) = self.lock_existing_name(&name)? {
                    self.lock_name(CatalogName::object(&schema, new_name))?;
                }
                if let Some(table) = self.lookup_table(&name)? {
                    check_not_global(&name)?;
                    self.check_not_within_trigger(table)?;
                    let schema = self.stored_schema(table)?;
                    self.check_alter_object(table, &schema.schema, missing())?;
                    self.check_new_name(&schema.schema, new_name)?;
                    let schema_name = Arc::clone(&schema.schema);
                    return self
                        .table_change(activation, |latch, tx| latch.rename_table(tx, table, &schema_name, new_name));
                }
                if let Some(found) = self.with_binder(|binder| binder.find_object(&name))? {
                    self.check_alter_object(found.id(), found.schema(), missing())?;
                    self.check_new_name(found.schema(), new_name)?;
                    let schema = Arc::clone(found.schema());
                    return self.move_object(&found, &schema, new_name);
                }
                self.rename_constraint(&name, new_name, activation)?.ok_or_else(missing)
            }
            Some("column" | "index") => {
                // The last part is the column's or index's name, those before it the table's.
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
                let of_column = kind.as_deref() == Some("column");
                self.rename_part(table, &schema, &parts.name, new_name, of_column, activation)?.ok_or_else(wrong_kind)
            }
            Some(other) => Err(SqlError::not_supported(format!("sp_rename of the type '{other}'"))),
        }
    }

    /// 15335 if the name is taken.
    fn check_new_name(&self, schema: &str, name: &str) -> SqlResult<()> {
        self.check_free(schema, name).map_err(|_| already_used(name, "object"))
    }

    /// A column or an index. `None` if there is no such one.
    fn rename_part(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        old_name: &str,
        new_name: &str,
        of_column: bool,
        activation: &mut Activation,
    ) -> SqlResult<Option<()>> {
        let new_name: Arc<str> = new_name.into();
        if of_column {
            let Some(ordinal) = schema.column_named(old_name) else { return Ok(None) };
            if schema.column_named(&new_name).is_some_and(|other| other != ordinal) {
                return Err(already_used(&new_name, "COLUMN"));
            }
            let column = &schema.columns[ordinal].name;
            let is_enforced = schema.checks.iter().any(|check| crate::tsql::mentions(&check.text, column))
                || schema
                    .columns
                    .iter()
                    .filter_map(|other| other.computed.as_ref())
                    .any(|text| crate::tsql::mentions(text, column));
            if is_enforced {
                return Err(SqlError::new(
                    15336,
                    format!(
                        "Object '{}.{}.{old_name}' cannot be renamed because the object participates in enforced \
                         dependencies.",
                        schema.schema, schema.name
                    ),
                ));
            }
            self.table_change(activation, |latch, tx| {
                let new_name = Arc::clone(&new_name);
                latch.alter_schema(tx, table, move |schema| {
                    let old_name = std::mem::replace(&mut schema.columns[ordinal].name, Arc::clone(&new_name));
                    for statistics in schema.statistics.iter_mut().filter(|statistics| statistics.column == old_name) {
                        statistics.column = Arc::clone(&new_name);
                    }
                })
            })?;
            return Ok(Some(()));
        }
        let Some(index) = schema.index_named(old_name).or_else(|| schema.disabled_index_named(old_name)) else {
            return Ok(None);
        };
        if schema.index_named(&new_name).is_some_and(|other| other.id != index.id) {
            return Err(already_used(&new_name, "INDEX"));
        }
        let id = index.id;
        self.table_change(activation, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                let indexes = schema.indexes.iter_mut().chain(&mut schema.disabled_indexes);
                indexes.filter(|index| index.id == id).for_each(|index| index.name = Arc::clone(&new_name));
            })
        })?;
        Ok(Some(()))
    }

    /// Constraints are objects: `sp_rename 'dbo.PK_old', 'PK_new'`.
    fn rename_constraint(
        &mut self,
        name: &ObjectName,
        new_name: &str,
        activation: &mut Activation,
    ) -> SqlResult<Option<()>> {
        let found = {
            let latch = self.database.storage.latch();
            latch.tables().into_iter().find(|table| {
                name.schema.as_ref().is_none_or(|schema| fold(schema) == fold(&table.schema))
                    && crate::catalog::constraint::constraint_id(table, &name.name).is_some()
            })
        };
        let Some(schema) = found else { return Ok(None) };
        self.check_new_name(&schema.schema, new_name)?;
        let (old, new_name): (String, Arc<str>) = (fold(&name.name), new_name.into());
        self.table_change(activation, |latch, tx| {
            latch.alter_schema(tx, schema.id, move |schema| {
                let indexes = schema.indexes.iter_mut().map(|index| &mut index.name);
                let checks = schema.checks.iter_mut().map(|check| &mut check.name);
                let defaults = schema.columns.iter_mut().filter_map(|column| column.default.as_mut());
                for name in indexes.chain(checks).chain(defaults.map(|default| &mut default.name)) {
                    if fold(name) == old {
                        *name = Arc::clone(&new_name);
                    }
                }
            })
        })?;
        Ok(Some(()))
    }

    pub(crate) fn transfer_to_schema(
        &mut self,
        schema: &Arc<str>,
        object: &ObjectName,
        of_type: bool,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        if of_type {
            return Err(SqlError::not_supported("ALTER SCHEMA … TRANSFER of a type"));
        }
        let target = self.database.catalog.read().schema(schema).map(|schema| Arc::clone(&schema.name));
        let Some(target) = target else {
            return Err(SqlError::new(
                15151,
                format!("Cannot alter the schema '{schema}', because it does not exist or you do not have permission."),
            ));
        };
        self.check_alter_schema(&target)?;
        let missing = || {
            let mut error = cannot_find("find the object", object);
            error.number = 15151;
            error.message = format!(
                "Cannot find the object '{}', because it does not exist or you do not have permission.",
                object.name
            );
            error
        };
        if let Some(table) = self.lookup_table(object)? {
            let existing = self.stored_schema(table)?;
            self.check_object("CONTROL", table, &existing.schema, missing())?;
            let is_used = self.check_free(&target, &existing.name).is_err();
            if is_used && fold(&target) != fold(&existing.schema) {
                return Err(duplicate_in_schema(&existing.name));
            }
            let name = Arc::clone(&existing.name);
            self.table_change(activation, |latch, tx| latch.rename_table(tx, table, &target, &name))?;
            if fold(&target) != fold(&existing.schema) {
                self.drop_permissions_on(table);
            }
            return Ok(());
        }
        let found = self.with_binder(|binder| binder.find_object(object))?.ok_or_else(missing)?;
        self.check_object("CONTROL", found.id(), found.schema(), missing())?;
        if self.check_free(&target, found.name()).is_err() {
            return Err(duplicate_in_schema(found.name()));
        }
        let name = Arc::clone(found.name());
        self.move_object(&found, &target, &name)?;
        self.drop_permissions_on(found.id());
        Ok(())
    }

    /// "All permissions associated with the securable will be dropped when the securable is moved to the new schema"
    /// ("ALTER SCHEMA", MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-schema-transact-sql.md).
    fn drop_permissions_on(&mut self, object: ObjectId) {
        let undo = self.database.catalog.write().principals.drop_permissions_on(object);
        self.keep_undo(undo);
    }

    /// Puts an object under another schema and name. Its text stays as it was written, as SQL Server leaves it.
    fn move_object(&mut self, object: &Object, schema: &Arc<str>, name: &str) -> SqlResult<()> {
        let name: Arc<str> = name.into();
        let schema = Arc::clone(schema);
        if matches!(object, Object::Sequence(_)) && self.default_takes(object).is_some() {
            return Err(SqlError::not_supported("renaming or moving a sequence that a default takes numbers of"));
        }
        let moved = match object {
            Object::Procedure(procedure) => Object::Procedure(Arc::new(renamed_procedure(procedure, schema, name))),
            Object::Trigger(trigger) => Object::Trigger(Arc::new(Trigger {
                procedure: Arc::new(renamed_procedure(&trigger.procedure, schema, name)),
                ..Trigger::clone(trigger)
            })),
            Object::View(view) => Object::View(Arc::new(View {
                id: view.id,
                schema,
                name,
                columns: view.columns.clone(),
                select: view.select.clone(),
                described: Arc::clone(&view.described),
                text: Arc::clone(&view.text),
                created_at: view.created_at,
            })),
            Object::Sequence(sequence) => Object::Sequence(Arc::new(sequence.named(schema, name))),
            Object::Synonym(synonym) => Object::Synonym(Arc::new(Synonym {
                id: synonym.id,
                schema,
                name,
                target: synonym.target.clone(),
                created_at: synonym.created_at,
            })),
            Object::Function(_) => return Err(SqlError::not_supported("renaming a function")),
        };
        let undo = self.database.catalog.write().remove_object(object.schema(), object.name());
        if let Some(undo) = undo {
            self.keep_undo(undo);
        }
        let undo = self.database.catalog.write().put_object(moved);
        self.keep_undo(undo);
        Ok(())
    }
}

fn renamed_procedure(procedure: &Procedure, schema: Arc<str>, name: Arc<str>) -> Procedure {
    Procedure {
        id: procedure.id,
        full_name: format!("{schema}.{name}").into(),
        schema,
        name,
        parameters: procedure.parameters.clone(),
        body: Arc::clone(&procedure.body),
        text: Arc::clone(&procedure.text),
        created_at: procedure.created_at,
        modified_at: crate::value::now_utc(),
    }
}

fn already_used(name: &str, kind: &str) -> SqlError {
    SqlError::new(
        15335,
        format!(
            "Error: The new name '{name}' is already in use as a {kind} name and would cause a duplicate that is not \
             permitted."
        ),
    )
    .severity(11)
}

fn duplicate_in_schema(name: &str) -> SqlError {
    SqlError::new(15530, format!("The object with name \"{name}\" already exists."))
}
