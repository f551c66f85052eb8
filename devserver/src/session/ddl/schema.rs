//! CREATE and DROP SCHEMA.

use std::sync::Arc;

use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot;
use crate::storage::fold;
use crate::tsql::ast::ObjectName;

impl Session {
    pub(crate) fn create_schema(&mut self, name: &Arc<str>, owner: Option<&str>) -> SqlResult<()> {
        self.check_create("CREATE SCHEMA")?;
        let owner = owner.map_or(Ok(self.state.user), |owner| self.find_new_owner(owner))?;
        let undo = self.database.catalog.write().add_schema(Arc::clone(name), owner)?;
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn drop_schema(&mut self, name: &ObjectName, if_exists: bool) -> SqlResult<()> {
        let missing = || cannot("drop the schema", &name.name);
        let is_there = self.database.catalog.read().schema(&name.name).is_some();
        if !is_there {
            return if if_exists { Ok(()) } else { Err(missing()) };
        }
        let may_drop = {
            let catalog = self.database.catalog.read();
            let on = catalog.schema(&name.name).map_or(SecurableId::Database, |schema| SecurableId::Schema(schema.id));
            catalog.permits(self.state.user, "CONTROL", on)?
        };
        if !may_drop {
            return Err(missing());
        }
        let table = {
            let latch = self.database.storage.latch();
            latch
                .tables()
                .iter()
                .find(|table| fold(&table.schema) == fold(&name.name))
                .map(|table| Arc::clone(&table.name))
        };
        let undo = {
            let mut catalog = self.database.catalog.write();
            if let Some(object) = table.or_else(|| catalog.first_in_schema(&name.name)) {
                return Err(SqlError::new(
                    3729,
                    format!("Cannot drop schema '{}' because it is being referenced by object '{object}'.", name.name),
                ));
            }
            catalog.remove_schema(&name.name)
        };
        if let Some(undo) = undo {
            self.keep_undo(undo);
        }
        Ok(())
    }
}
