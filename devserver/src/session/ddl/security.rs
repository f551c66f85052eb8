//! Roles, users, logins, and GRANT, DENY and REVOKE.

use std::sync::Arc;

use crate::catalog::catalog::DBO;
use crate::catalog::object::Object;
use crate::catalog::principal::{DBO_USER, INFORMATION_SCHEMA, NOT_KNOWN_ROLES, PrincipalKind, SYS, SecurableId};
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot;
use crate::storage::fold;
use crate::tsql::ast::{
    CreateUser, DropKind, ObjectName, Permission, PermissionAction, Securable, SecurableClass, UserSource,
};

/// What a permission in GRANT, DENY or REVOKE is on, with its name for messages.
struct ResolvedSecurable {
    id: SecurableId,
    /// The permissions that exist on this class of things; on a database, all of them.
    permissions: Option<&'static [&'static str]>,
}

const TABLE_PERMISSIONS: &[&str] =
    &["SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES", "CONTROL", "VIEW DEFINITION"];
const PROCEDURE_PERMISSIONS: &[&str] = &["EXECUTE", "CONTROL", "VIEW DEFINITION"];
const FUNCTION_PERMISSIONS: &[&str] = &["EXECUTE", "REFERENCES", "CONTROL", "VIEW DEFINITION"];
const SEQUENCE_PERMISSIONS: &[&str] = &["UPDATE", "REFERENCES", "CONTROL", "VIEW DEFINITION"];
const TYPE_PERMISSIONS: &[&str] = FUNCTION_PERMISSIONS;

impl Session {
    pub(crate) fn create_role(&mut self, name: &Arc<str>, owner: Option<&str>) -> SqlResult<()> {
        self.check_create("CREATE ROLE")?;
        let owner = owner.map_or(Ok(self.state.user), |owner| self.find_new_owner(owner))?;
        if owner != DBO_USER {
            return Err(SqlError::not_supported("a role with another owner than dbo"));
        }
        let kind = PrincipalKind::Role { fixed: false };
        let undo = self.database.catalog.write().principals.add(Arc::clone(name), kind)?;
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn create_user(&mut self, create: &CreateUser) -> SqlResult<()> {
        self.check_create("ALTER ANY USER")?;
        let login = match &create.source {
            UserSource::Login(login) => Some(login),
            UserSource::ExternalProvider => {
                // Azure SQL's users need no login. Here the session's database is the only one that it opens.
                if self.engine.find_login(&create.name).is_none() {
                    self.create_login(&create.name, None, &Arc::clone(&self.database.name))?;
                }
                Some(&create.name)
            }
            UserSource::WithoutLogin => None,
        };
        if let Some(login) = login {
            if self.engine.find_login(login).is_none() {
                let message = format!("'{login}' is not a valid login or you do not have permission.");
                return Err(SqlError::new(15007, message));
            }
            if self.database.catalog.read().principals.user_of_login(login).is_some() {
                return Err(SqlError::new(15063, "The login already has an account under a different user name."));
            }
        }
        let default_schema = create.default_schema.clone().unwrap_or_else(|| DBO.into());
        let kind = PrincipalKind::User { login: login.cloned(), default_schema };
        let undo = self.database.catalog.write().principals.add(Arc::clone(&create.name), kind)?;
        self.keep_undo(undo);
        Ok(())
    }

    fn resolve_securable(&self, on: Option<&Securable>) -> SqlResult<ResolvedSecurable> {
        let Some(Securable { class, name }) = on else {
            return Ok(ResolvedSecurable { id: SecurableId::Database, permissions: None });
        };
        let missing = |word: &str| cannot(&format!("find the {word}"), &name.name);
        match class {
            SecurableClass::Type => {
                let found = self.with_binder(|binder| binder.find_user_type(name))?.ok_or_else(|| missing("type"))?;
                let catalog = self.database.catalog.read();
                let schema = catalog.schema(&found.schema).ok_or_else(|| missing("type"))?.id;
                let permissions = Some(TYPE_PERMISSIONS);
                Ok(ResolvedSecurable { id: SecurableId::Type { id: found.id, schema }, permissions })
            }
            SecurableClass::Object => {
                let table = self.lookup_table(name)?;
                let (id, schema_name, permissions) = match table {
                    Some(table) => {
                        let schema = self.stored_schema(table)?;
                        (table, Arc::clone(&schema.schema), TABLE_PERMISSIONS)
                    }
                    None => {
                        let found = self.with_binder(|binder| binder.find_object(name))?;
                        let found = found.ok_or_else(|| missing("object"))?;
                        let permissions = match &found {
                            Object::Procedure(_) => PROCEDURE_PERMISSIONS,
                            Object::View(_) => TABLE_PERMISSIONS,
                            Object::Function(_) => FUNCTION_PERMISSIONS,
                            Object::Trigger(_) => &[],
                            Object::Sequence(_) => SEQUENCE_PERMISSIONS,
                        };
                        (found.id(), Arc::clone(found.schema()), permissions)
                    }
                };
                let catalog = self.database.catalog.read();
                let schema = catalog.schema(&schema_name).ok_or_else(|| missing("object"))?.id;
                Ok(ResolvedSecurable { id: SecurableId::Object { id, schema }, permissions: Some(permissions) })
            }
        }
    }

    pub(crate) fn change_permission(&mut self, change: &Permission) -> SqlResult<()> {
        let securable = self.resolve_securable(change.on.as_ref())?;
        let may_grant = {
            let catalog = self.database.catalog.read();
            catalog.permits(self.state.user, "CONTROL", securable.id)?
        };
        if !may_grant {
            return Err(SqlError::new(
                15151,
                "Cannot find the object, because it does not exist or you do not have permission.",
            ));
        }
        for permission in &change.permissions {
            if securable.permissions.is_some_and(|known| !known.contains(&&**permission)) {
                let message = format!("Granted or revoked privilege {permission} is not compatible with object.");
                return Err(SqlError::new(4606, message));
            }
        }
        let grantees = self.find_grantees(change, securable.id)?;
        let deny = match change.action {
            PermissionAction::Grant => Some(false),
            PermissionAction::Deny => Some(true),
            PermissionAction::Revoke => None,
        };
        for grantee in grantees {
            for permission in &change.permissions {
                let undo = {
                    let mut catalog = self.database.catalog.write();
                    catalog.principals.set_permission(securable.id, permission, grantee, deny)
                };
                self.keep_undo(undo);
            }
        }
        Ok(())
    }

    /// Those to whom permissions on something are granted, and so on: all of them are found before anything changes.
    fn find_grantees(&self, change: &Permission, on: SecurableId) -> SqlResult<Vec<i32>> {
        let catalog = self.database.catalog.read();
        let owner = catalog.owner_of(on);
        let mut grantees = Vec::new();
        for principal in &change.principals {
            let grantee = catalog.principals.find(principal).ok_or_else(|| cannot("find the principal", principal))?;
            if [self.state.user, owner, DBO_USER, INFORMATION_SCHEMA, SYS].contains(&grantee.id) {
                return Err(SqlError::new(
                    4624,
                    "Cannot grant, deny, or revoke permissions to sa, dbo, entity owner, information_schema, sys, or \
                         yourself.",
                ));
            }
            if matches!(grantee.kind, PrincipalKind::Role { fixed: true }) && grantee.id != 0 {
                return Err(SqlError::new(4617, "Cannot grant, deny or revoke permissions to or from special roles."));
            }
            grantees.push(grantee.id);
        }
        Ok(grantees)
    }

    pub(crate) fn alter_role(&mut self, role: &str, member: &str, add: bool) -> SqlResult<()> {
        let undo = {
            let mut catalog = self.database.catalog.write();
            let role_id = match catalog.principals.find(role) {
                Some(principal) if principal.is_role() && catalog.may_alter_role(self.state.user, principal)? => {
                    principal.id
                }
                _ => return Err(cannot("alter the role", role)),
            };
            let Some(member_id) = catalog.principals.find(member).map(|principal| principal.id) else {
                return Err(cannot(if add { "add the principal" } else { "drop the principal" }, member));
            };
            if catalog.principals.is_member(role_id, member_id) {
                return Err(SqlError::new(15413, "Cannot make a role a member of itself."));
            }
            if add && NOT_KNOWN_ROLES.contains(&role_id) {
                return Err(SqlError::not_supported(format!("members of {role}")));
            }
            catalog.principals.set_member(role_id, member_id, add)
        };
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn drop_principal(&mut self, kind: DropKind, name: &ObjectName, if_exists: bool) -> SqlResult<()> {
        let missing = || cannot(if kind == DropKind::Role { "drop the role" } else { "drop the user" }, &name.name);
        let undo = {
            let mut catalog = self.database.catalog.write();
            let id = match catalog.principals.find(&name.name) {
                Some(principal)
                    if principal.is_role() == (kind == DropKind::Role) && principal.id > 4 && principal.id < 16384 =>
                {
                    let may_drop = match kind {
                        DropKind::Role => catalog.may_alter_role(self.state.user, principal)?,
                        _ => catalog.permits(self.state.user, "ALTER ANY USER", SecurableId::Database)?,
                    };
                    if !may_drop {
                        return Err(missing());
                    }
                    principal.id
                }
                Some(_) => return Err(missing()),
                None if if_exists => return Ok(()),
                None => return Err(missing()),
            };
            if catalog.schemas().iter().any(|schema| schema.owner == id) {
                return Err(SqlError::new(
                    15138,
                    "The database principal owns a schema in the database, and cannot be dropped.",
                ));
            }
            catalog.principals.remove(id)?
        };
        self.keep_undo(undo);
        Ok(())
    }

    pub(crate) fn create_login(
        &mut self,
        name: &Arc<str>,
        password: Option<&Arc<str>>,
        default_database: &str,
    ) -> SqlResult<()> {
        if !self.is_administrator() {
            return Err(SqlError::new(15247, "User does not have permission to perform this action."));
        }
        if self.engine.find_login(name).is_some() {
            return Err(SqlError::new(15025, format!("The server principal '{name}' already exists.")));
        }
        self.engine.server.add_login(name, password.cloned(), default_database.into(), false);
        Ok(())
    }

    pub(crate) fn alter_login(&mut self, name: &str, password: &Arc<str>) -> SqlResult<()> {
        let mut logins = self.engine.server.logins.write();
        let login = logins.iter_mut().find(|login| fold(&login.name) == fold(name) && login.password.is_some());
        match login {
            Some(login) if self.is_administrator() => {
                login.password = Some(Arc::clone(password));
                Ok(())
            }
            _ => Err(cannot("alter the login", name)),
        }
    }

    pub(crate) fn drop_login(&mut self, name: &str) -> SqlResult<()> {
        let missing = || cannot("drop the login", name);
        if !self.is_administrator() || fold(name) == "sa" {
            return Err(missing());
        }
        let mut logins = self.engine.server.logins.write();
        let before = logins.len();
        logins.retain(|login| fold(&login.name) != fold(name));
        if logins.len() == before { Err(missing()) } else { Ok(()) }
    }
}
