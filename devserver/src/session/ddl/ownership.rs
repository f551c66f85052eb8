//! Who owns what: ALTER AUTHORIZATION.
//!
//! Roles and schemas have owners of their own; what is in a schema belongs to its owner.
//!
//! Source: "ALTER AUTHORIZATION" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-authorization-transact-sql.md).

use crate::bind::name::display_name;
use crate::catalog::catalog::DBO;
use crate::catalog::object::Object;
use crate::catalog::principal::{DBO_USER, PrincipalKind, SecurableId};
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
    /// The number of whoever is to own something. "If the new owner is not the user that is executing this statement,
    /// also requires … IMPERSONATE permission on the new owner if it is a user … or, if the new owner is a role,
    /// membership in the role, or ALTER permission on the role": CONTROL on the database implies both.
    pub(crate) fn find_new_owner(&self, name: &str) -> SqlResult<i32> {
        let catalog = self.database.catalog.read();
        let (principals, user) = (&catalog.principals, self.state.user);
        let owner = principals.find(name).ok_or_else(|| cannot_find_principal(name))?;
        let may = owner.is_role() && catalog.may_alter_role(user, owner)?
            || principals.is_member(user, owner.id)
            || catalog.permits(user, "CONTROL", SecurableId::Database)?;
        if !may {
            return Err(cannot_find_principal(name));
        }
        if principals.is_special(owner.id) {
            return Err(SqlError::not_supported(format!("{} as an owner", owner.name)));
        }
        Ok(owner.id)
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
                let (id, before) = {
                    let catalog = self.database.catalog.read();
                    let schema = catalog.schema(&name.name).ok_or_else(|| cannot_find_entity("schema", name))?;
                    if !catalog.permits(self.state.user, "TAKE OWNERSHIP", SecurableId::Schema(schema.id))? {
                        return Err(cannot_find_entity("schema", name));
                    }
                    (schema.id, schema.owner)
                };
                if ["dbo", "guest", "sys", "information_schema"].contains(&fold(&name.name).as_str()) {
                    return Err(SqlError::not_supported(format!("ALTER AUTHORIZATION ON SCHEMA::{}", name.name)));
                }
                let owner = self.find_new_owner(to.unwrap_or(DBO))?;
                // "If … the entity is being transferred to a new owner, all permissions on the target will be dropped."
                if owner != before {
                    let undo = self.database.catalog.write().set_schema_owner(id, owner);
                    self.keep_undo(undo);
                }
                Ok(())
            }
            SecurableClass::Object => {
                let is_there = self.is_owner() && self.is_object_with_owner(name)?;
                if !is_there {
                    return Err(cannot_find_entity("object", name));
                }
                self.check_stays_with_schema(name, to)
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

    /// An object belongs to the owner of its schema. To name that owner is to give it one of its own, which only in
    /// schema dbo, whose owner is always the same, makes no difference.
    fn check_stays_with_schema(&self, name: &ObjectName, to: Option<&str>) -> SqlResult<()> {
        let Some(to) = to else { return Ok(()) };
        let owner = self.find_new_owner(to)?;
        let schema = name.schema.as_deref().unwrap_or(&self.state.default_schema);
        if owner == DBO_USER && fold(schema) == DBO {
            return Ok(());
        }
        Err(SqlError::not_supported("an object with an owner of its own"))
    }
}
