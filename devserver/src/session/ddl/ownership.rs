//! Who owns what: ALTER AUTHORIZATION.
//!
//! Roles and schemas have owners of their own; what is in a schema belongs to its owner.
//!
//! Source: "ALTER AUTHORIZATION" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-authorization-transact-sql.md).

use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot;
use crate::storage::fold;

impl Session {
    /// The number of whoever is to own something. "If the new owner is not the user that is executing this statement,
    /// also requires … IMPERSONATE permission on the new owner if it is a user … or, if the new owner is a role,
    /// membership in the role, or ALTER permission on the role": CONTROL on the database implies both, and nobody can be
    /// granted anything less.
    pub(crate) fn find_new_owner(&self, name: &str) -> SqlResult<i32> {
        let catalog = self.database.catalog.read();
        let (principals, user) = (&catalog.principals, self.state.user);
        let owner = principals.find(name).ok_or_else(|| cannot("find the principal", name))?;
        let may = principals.is_member(user, owner.id) || catalog.permits(user, "CONTROL", SecurableId::Database)?;
        if !may {
            return Err(cannot("find the principal", name));
        }
        if principals.is_special(owner.id) {
            return Err(SqlError::not_supported(format!("{} as an owner", owner.name)));
        }
        Ok(owner.id)
    }

    pub(crate) fn alter_authorization(&mut self, schema: &str, to: &str) -> SqlResult<()> {
        let (id, before) = {
            let catalog = self.database.catalog.read();
            let found = catalog.schema(schema).ok_or_else(|| cannot("find the schema", schema))?;
            if !catalog.permits(self.state.user, "CONTROL", SecurableId::Schema(found.id))? {
                return Err(cannot("find the schema", schema));
            }
            (found.id, found.owner)
        };
        if ["dbo", "guest", "sys", "information_schema"].contains(&fold(schema).as_str()) {
            return Err(SqlError::not_supported(format!("ALTER AUTHORIZATION ON SCHEMA::{schema}")));
        }
        let owner = self.find_new_owner(to)?;
        // "If … the entity is being transferred to a new owner, all permissions on the target will be dropped."
        if owner != before {
            let undo = self.database.catalog.write().set_schema_owner(id, owner);
            self.keep_undo(undo);
        }
        Ok(())
    }
}
