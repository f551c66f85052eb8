//! Who owns what: ALTER AUTHORIZATION.
//!
//! Roles have owners of their own. Schemas and what is in them belong to dbo here, because ownership chaining is only
//! imitated for one owner.
//!
//! Source: "ALTER AUTHORIZATION" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-authorization-transact-sql.md).

use crate::bind::name::display_name;
use crate::catalog::catalog::DBO;
use crate::catalog::object::Object;
use crate::catalog::principal::{DBO_USER, PrincipalKind};
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find_principal;
use crate::storage::fold;
use crate::tsql::ast::{ObjectName, Securable, SecurableClass};

fn cannot_find_entity(word: &str, name: &ObjectName) -> SqlError {
    let name = display_name(name);
    SqlError::new(
        15151,
        format!("Cannot find the {word} '{name}', because it does not exist or you do not have permission."),
    )
}

impl Session {
    /// The number of whoever is to own something: a user or role that the session may hand it to.
    pub(crate) fn find_new_owner(&self, name: &str) -> SqlResult<i32> {
        let catalog = self.database.catalog.read();
        let found = catalog.principals.find(name).filter(|owner| {
            catalog.principals.is_owner(self.state.user) || catalog.principals.is_member(self.state.user, owner.id)
        });
        found.map(|owner| owner.id).ok_or_else(|| cannot_find_principal(name))
    }

    /// `to`: `None` for SCHEMA OWNER.
    pub(crate) fn alter_authorization(&mut self, on: &Securable, to: Option<&str>) -> SqlResult<()> {
        let name = &on.name;
        match on.class {
            SecurableClass::Role => {
                let role = {
                    let catalog = self.database.catalog.read();
                    let role = catalog.principals.find(&name.name).filter(|role| role.is_role());
                    let role = role.filter(|role| catalog.principals.controls_role(self.state.user, role));
                    let role = role.ok_or_else(|| cannot_find_entity("role", name))?;
                    if role.kind == (PrincipalKind::Role { fixed: true }) {
                        return Err(SqlError::not_supported("ALTER AUTHORIZATION ON a fixed role"));
                    }
                    role.id
                };
                let owner = self.find_new_owner(to.unwrap_or(DBO))?;
                let undo = self.database.catalog.write().principals.set_owner(role, owner);
                self.keep_undo(undo);
                Ok(())
            }
            SecurableClass::Schema => {
                let is_there = self.is_owner() && self.database.catalog.read().schema(&name.name).is_some();
                if !is_there {
                    return Err(cannot_find_entity("schema", name));
                }
                if ["dbo", "guest", "sys", "information_schema"].contains(&fold(&name.name).as_str()) {
                    return Err(SqlError::not_supported(format!("ALTER AUTHORIZATION ON SCHEMA::{}", name.name)));
                }
                self.check_stays_with_dbo(to, "a schema")
            }
            SecurableClass::Object => {
                let is_there = self.is_owner() && self.is_object_with_owner(name)?;
                if !is_there {
                    return Err(cannot_find_entity("object", name));
                }
                self.check_stays_with_dbo(to, "an object")
            }
            SecurableClass::Type | SecurableClass::Database | SecurableClass::User => {
                Err(SqlError::not_supported("ALTER AUTHORIZATION ON anything but roles, schemas and objects"))
            }
        }
    }

    /// Tables, views, functions, procedures and synonyms have owners; triggers have that of their table.
    fn is_object_with_owner(&self, name: &ObjectName) -> SqlResult<bool> {
        if self.lookup_table(name)?.is_some() {
            return Ok(true);
        }
        match self.with_binder(|binder| binder.find_object(name))? {
            Some(Object::Trigger(_)) => Err(SqlError::not_supported("ALTER AUTHORIZATION ON a trigger")),
            found => Ok(found.is_some()),
        }
    }

    fn check_stays_with_dbo(&self, to: Option<&str>, what: &str) -> SqlResult<()> {
        let owner = to.map_or(Ok(DBO_USER), |to| self.find_new_owner(to))?;
        if owner == DBO_USER {
            return Ok(());
        }
        Err(SqlError::not_supported(format!("{what} that does not belong to dbo")))
    }
}
