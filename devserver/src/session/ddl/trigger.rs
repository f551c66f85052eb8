//! CREATE TRIGGER, ENABLE and DISABLE TRIGGER.
//!
//! Source: "CREATE TRIGGER" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-trigger-transact-sql.md); the errors
//! are those of docs/relational-databases/errors-events/database-engine-events-and-errors-2000-to-2999.md.

use std::sync::Arc;

use crate::bind::name::display_name;
use crate::bind::trigger::triggers_of;
use crate::catalog::object::{Object, Procedure, Trigger};
use crate::error::{SqlError, SqlResult};
use crate::session::call::trigger::declarations;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find_object;
use crate::storage::{CatalogName, Lifetime, ObjectId, TableSchema, fold};
use crate::tsql::ast::{CreateTrigger, ObjectName, SwitchTriggers};
use crate::value::{SqlType, now_utc};

impl Session {
    pub(crate) fn create_trigger(&mut self, create: &CreateTrigger) -> SqlResult<()> {
        let no_table = || {
            SqlError::new(
                8197,
                format!(
                    "The object '{}' does not exist or is invalid for this operation.",
                    display_name(&create.table)
                ),
            )
            .state(4)
        };
        let Some(table) = self.lookup_table(&create.table)? else {
            return match self.with_binder(|binder| binder.find_object(&create.table))? {
                Some(Object::View(_)) if create.instead_of => {
                    Err(SqlError::not_supported("INSTEAD OF triggers of views"))
                }
                _ => Err(no_table()),
            };
        };
        let schema = self.stored_schema(table)?;
        if schema.lifetime != Lifetime::Permanent {
            return Err(no_table());
        }
        self.check_alter_object(table, &schema.schema, no_table())?;
        let name = &create.name.name;
        if create.name.schema.as_ref().is_some_and(|written| fold(written) != fold(&schema.schema)) {
            return Err(SqlError::not_supported("a trigger with another schema than its table"));
        }
        self.check_free(&schema.schema, name)?;
        if create.instead_of {
            self.check_instead_of(&schema)?;
        }
        let full_name: Arc<str> = format!("{}.{name}", schema.schema).into();
        self.check_body(&create.body, declarations(&schema)?, &schema.schema).map_err(|mut error| {
            error.procedure.get_or_insert_with(|| Arc::clone(&full_name));
            error
        })?;
        let now = now_utc();
        let procedure = Procedure {
            id: self.new_object_id(),
            schema: Arc::clone(&schema.schema),
            name: Arc::clone(name),
            full_name,
            parameters: Vec::new(),
            body: Arc::clone(&create.body),
            text: Arc::clone(&create.text),
            created_at: now,
            modified_at: now,
        };
        let trigger = Trigger {
            procedure: Arc::new(procedure),
            table,
            events: create.events.clone(),
            instead_of: create.instead_of,
            disabled: false,
        };
        let undo = self.database.catalog.write().put_object(Object::Trigger(Arc::new(trigger)));
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn switch_triggers(&mut self, switch: &SwitchTriggers) -> SqlResult<()> {
        let missing = || cannot_find_object(1088, &switch.table).state(5);
        let Some(table) = self.lookup_table(&switch.table)? else { return Err(missing()) };
        let schema = Arc::clone(&self.stored_schema(table)?.schema);
        self.check_alter_object(table, &schema, missing())?;
        let all = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), table);
        for name in &switch.names {
            if !all.iter().any(|trigger| fold(&trigger.procedure.name) == fold(name)) {
                let word = ObjectName { server: None, database: None, schema: None, name: Arc::clone(name) };
                return Err(cannot_find_object(1088, &word).state(5));
            }
        }
        for trigger in all {
            let is_meant =
                switch.names.is_empty() || switch.names.iter().any(|name| fold(name) == fold(&trigger.procedure.name));
            if is_meant && trigger.disabled == switch.enable {
                let switched = Trigger { disabled: !switch.enable, ..Trigger::clone(&trigger) };
                let undo = self.database.catalog.write().put_object(Object::Trigger(Arc::new(switched)));
                self.keep_undo(undo);
            }
        }
        Ok(())
    }

    fn check_instead_of(&self, schema: &TableSchema) -> SqlResult<()> {
        let others = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), schema.id);
        if others.iter().any(|other| other.instead_of) {
            return Err(SqlError::not_supported("a second INSTEAD OF trigger of a table"));
        }
        if schema.columns.iter().any(|column| column.sql_type == SqlType::RowVersion) {
            return Err(SqlError::not_supported("INSTEAD OF triggers on a table with a rowversion column"));
        }
        if schema.foreign_keys.iter().any(|key| key.cascades || key.cascades_updates) {
            return Err(SqlError::not_supported("an INSTEAD OF trigger on a table with a foreign key that cascades"));
        }
        Ok(())
    }

    /// The triggers of a table go with it.
    pub(crate) fn drop_triggers_of(&mut self, table: ObjectId) -> SqlResult<()> {
        let triggers = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), table);
        for trigger in triggers {
            let procedure = &trigger.procedure;
            self.lock_name(CatalogName::object(&procedure.schema, &procedure.name))?;
            let undo = self.database.catalog.write().remove_object(&procedure.schema, &procedure.name);
            if let Some(undo) = undo {
                self.keep_undo(undo);
            }
        }
        Ok(())
    }
}
