//! CREATE and ALTER TRIGGER, ENABLE and DISABLE TRIGGER.
//!
//! Source: "CREATE TRIGGER" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-trigger-transact-sql.md); the errors
//! are those of docs/relational-databases/errors-events/database-engine-events-and-errors-2000-to-2999.md.

use std::sync::Arc;

use crate::bind::trigger::triggers_of;
use crate::catalog::catalog::already_there;
use crate::catalog::object::{Object, Procedure, Trigger};
use crate::error::{SqlError, SqlResult};
use crate::session::call::trigger::declarations;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find;
use crate::storage::{CatalogName, Lifetime, ObjectId, ReferentialAction, TableSchema, fold};
use crate::tsql::ast::{CreateTrigger, Creation, ObjectName, SwitchTriggers, TriggerEvent};
use crate::value::{SqlType, now_utc};

impl Session {
    pub(crate) fn create_trigger(&mut self, create: &CreateTrigger) -> SqlResult<()> {
        let no_table = || {
            SqlError::new(
                8197,
                format!(
                    "The object '{}' does not exist or is invalid for this operation.",
                    crate::bind::name::display_name(&create.table)
                ),
            )
            .state(4)
        };
        let (schema, is_view) = match self.lookup_table(&create.table)? {
            Some(table) => (self.stored_schema(table)?, false),
            None => match self.with_binder(|binder| binder.find_object(&create.table))? {
                Some(Object::View(view)) if create.instead_of => {
                    (Arc::new(self.with_binder(|binder| binder.view_as_table(&view))?), true)
                }
                _ => return Err(no_table()),
            },
        };
        let table = schema.id;
        if schema.lifetime != Lifetime::Permanent {
            return Err(SqlError::new(
                8197,
                format!("The object '{}' does not exist or is invalid for this operation.", schema.name),
            )
            .state(6));
        }
        self.check_alter_object(table, &schema.schema, no_table())?;
        let name = &create.name.name;
        if create.name.schema.as_ref().is_some_and(|written| fold(written) != fold(&schema.schema)) {
            return Err(SqlError::new(
                2103,
                format!(
                    "Cannot create trigger '{}' because its schema is different from the schema of the target table or \
                     view.",
                    crate::bind::name::display_name(&create.name)
                ),
            ));
        }
        let existing = self.database.catalog.read().object(&schema.schema, name).cloned();
        let existing = match (existing, create.creation) {
            (Some(Object::Trigger(trigger)), Creation::Alter | Creation::CreateOrAlter) => {
                if trigger.table != table {
                    return Err(SqlError::new(
                        2110,
                        format!(
                            "Cannot alter trigger '{name}' on '{}' because this trigger does not belong to this object.",
                            crate::bind::name::display_name(&create.table)
                        ),
                    ));
                }
                Some(trigger)
            }
            (Some(_), _) => return Err(already_there(name)),
            (None, Creation::Alter) => return Err(crate::bind::name::invalid_object(&create.name)),
            (None, _) => {
                self.check_free(&schema.schema, name)?;
                None
            }
        };
        if create.instead_of {
            self.check_instead_of(create, &schema, is_view, existing.as_deref())?;
        }
        let full_name: Arc<str> = format!("{}.{name}", schema.schema).into();
        self.check_body(&create.body, declarations(&schema)?, &schema.schema).map_err(|mut error| {
            error.procedure.get_or_insert_with(|| Arc::clone(&full_name));
            error
        })?;
        let now = now_utc();
        let procedure = Procedure {
            id: existing.as_ref().map_or_else(|| self.new_object_id(), |trigger| trigger.procedure.id),
            schema: Arc::clone(&schema.schema),
            name: Arc::clone(name),
            full_name,
            parameters: Vec::new(),
            body: Arc::clone(&create.body),
            text: Arc::clone(&create.text),
            created_at: existing.as_ref().map_or(now, |trigger| trigger.procedure.created_at),
            modified_at: now,
        };
        let trigger = Trigger {
            procedure: Arc::new(procedure),
            table,
            events: create.events.clone(),
            instead_of: create.instead_of,
            disabled: existing.is_some_and(|trigger| trigger.disabled),
        };
        let undo = self.database.catalog.write().put_object(Object::Trigger(Arc::new(trigger)));
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn switch_triggers(&mut self, switch: &SwitchTriggers) -> SqlResult<()> {
        let missing = || cannot_find("find the object", &switch.table);
        let (table, schema) = match self.lookup_table(&switch.table)? {
            Some(table) => (table, Arc::clone(&self.stored_schema(table)?.schema)),
            None => match self.with_binder(|binder| binder.find_object(&switch.table))? {
                Some(Object::View(view)) => (view.id, Arc::clone(&view.schema)),
                _ => return Err(missing()),
            },
        };
        self.check_alter_object(table, &schema, missing())?;
        let all = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), table);
        for name in &switch.names {
            if !all.iter().any(|trigger| fold(&trigger.procedure.name) == fold(name)) {
                let word = ObjectName { server: None, database: None, schema: None, name: Arc::clone(name) };
                return Err(cannot_find("find the object", &word));
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

    /// What an INSTEAD OF trigger may not stand beside: another one for the same statement (2111), a foreign key of the
    /// table that cascades (2113).
    fn check_instead_of(
        &self,
        create: &CreateTrigger,
        schema: &TableSchema,
        is_view: bool,
        own: Option<&Trigger>,
    ) -> SqlResult<()> {
        let word = if create.creation == Creation::Alter { "alter" } else { "create" };
        let (trigger, target) =
            (crate::bind::name::display_name(&create.name), crate::bind::name::display_name(&create.table));
        let others = triggers_of(&self.database.catalog.read().objects().collect::<Vec<_>>(), schema.id);
        let others = others
            .iter()
            .filter(|other| other.instead_of && own.is_none_or(|own| own.procedure.id != other.procedure.id));
        if let Some(event) = others.flat_map(|other| &other.events).find(|event| create.events.contains(event)) {
            let event = match event {
                TriggerEvent::Insert => "INSERT",
                TriggerEvent::Update => "UPDATE",
                TriggerEvent::Delete => "DELETE",
            };
            let kind = if is_view { "view" } else { "table" };
            return Err(SqlError::new(
                2111,
                format!(
                    "Cannot {word} trigger '{trigger}' on {kind} '{target}' because an INSTEAD OF {event} trigger already \
                     exists on this object."
                ),
            ));
        }
        for key in &schema.foreign_keys {
            let actions = [(TriggerEvent::Delete, key.on_delete), (TriggerEvent::Update, key.on_update)];
            for (_, action) in actions.iter().filter(|(event, _)| create.events.contains(event)) {
                match action {
                    ReferentialAction::NoAction => {}
                    ReferentialAction::Cascade => {
                        return Err(SqlError::new(
                            2113,
                            format!(
                                "Cannot {word} INSTEAD OF DELETE or INSTEAD OF UPDATE TRIGGER '{trigger}' on table \
                                 '{target}'. This is because the table has a FOREIGN KEY with cascading DELETE or UPDATE."
                            ),
                        ));
                    }
                    ReferentialAction::SetNull | ReferentialAction::SetDefault => {
                        return Err(SqlError::not_supported(
                            "an INSTEAD OF trigger on a table with a foreign key that sets NULL or defaults",
                        ));
                    }
                }
            }
        }
        if !is_view && schema.columns.iter().any(|column| column.sql_type == SqlType::RowVersion) {
            return Err(SqlError::not_supported("INSTEAD OF triggers on a table with a rowversion column"));
        }
        Ok(())
    }

    /// The triggers of a table or view go with it.
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
