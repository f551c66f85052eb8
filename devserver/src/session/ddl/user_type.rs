//! CREATE and DROP TYPE.

use std::sync::Arc;

use crate::bind::name::display_name;
use crate::bind::{foreign_key_definition, table_definition};
use crate::catalog::object::Object;
use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::{CreateType, ObjectName};

impl Session {
    pub(crate) fn create_type(&mut self, create: &CreateType) -> SqlResult<()> {
        self.check_create("CREATE TYPE")?;
        let schema = self.schema_for(&create.name)?;
        let name = Arc::clone(&create.name.name);
        foreign_key_definition::refuse(&create.definition.constraints)?;
        let template =
            self.with_binder(|binder| table_definition::template(binder, &name, &schema, &create.definition))?;
        let object = self.new_object_id();
        let undo = self.database.catalog.write().add_type(schema, name, Arc::new(template), object)?;
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn drop_type(&mut self, name: &ObjectName, if_exists: bool) -> SqlResult<()> {
        let missing = || {
            let message = format!(
                "Could not find the type '{}'. Either it does not exist or you do not have the necessary permission.",
                display_name(name)
            );
            SqlError::new(218, message)
        };
        let Some(found) = self.with_binder(|binder| binder.find_user_type(name))? else {
            if if_exists {
                return Ok(());
            }
            return Err(missing());
        };
        let may_drop = {
            let catalog = self.database.catalog.read();
            let schema = catalog.schema(&found.schema).map_or(0, |schema| schema.id);
            catalog.permits(self.state.user, "CONTROL", SecurableId::Type { id: found.id, schema })?
                || catalog.permits(self.state.user, "ALTER", SecurableId::Schema(schema))?
        };
        if !may_drop {
            return Err(missing());
        }
        let undo = {
            let mut catalog = self.database.catalog.write();
            let user = catalog.objects().find(|object| match object {
                Object::Procedure(procedure) => procedure
                    .parameters
                    .iter()
                    .any(|parameter| parameter.ty.template().is_some_and(|used| Arc::ptr_eq(used, &found.template))),
                _ => false,
            });
            if let Some(user) = user {
                let message = format!("DROP of the type {}, which {} uses", display_name(name), user.name());
                return Err(SqlError::not_supported(message));
            }
            catalog.remove_type(&found.schema, &found.name)
        };
        if let Some(undo) = undo {
            self.keep_undo(undo);
        }
        Ok(())
    }
}
