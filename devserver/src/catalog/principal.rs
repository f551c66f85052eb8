//! Users, roles and permissions of one database.
//!
//! A permission is looked for on the object and on the database, for the user and every role it is a member of. Nobody
//! can be granted anything on a schema. Who owns a schema has CONTROL on it and all that is in it, and so have the members of a role that
//! does. A DENY anywhere beats every GRANT, but "does not apply to object owners"; members of `db_owner` are not asked.
//! [`crate::execute::permission`] tells when a statement asks at all.
//!
//! Who changes any of it has the lock on the database's security until its transaction ends
//! ([`crate::storage::CatalogName::security`]): so a rollback finds what it left, and puts the difference back.
//!
//! Sources: "DENY", "CREATE SCHEMA" (MicrosoftDocs/sql-docs, docs/t-sql/statements/deny-transact-sql.md,
//! docs/t-sql/statements/create-schema-transact-sql.md).

use std::sync::Arc;

use crate::catalog::catalog::{Catalog, DBO, Undo};
use crate::error::{SqlError, SqlResult};
use crate::storage::{ObjectId, fold};

/// The user that `sa` is in every database.
pub const DBO_USER: i32 = 1;
const PUBLIC: i32 = 0;
const GUEST: i32 = 2;
pub const INFORMATION_SCHEMA: i32 = 3;
pub const SYS: i32 = 4;
const DB_OWNER: i32 = 16384;
const DB_DATAREADER: i32 = 16390;
const DB_DATAWRITER: i32 = 16391;

/// The fixed roles that nobody can be a member of here: db_accessadmin, db_securityadmin, db_ddladmin,
/// db_denydatareader and db_denydatawriter.
pub const NOT_KNOWN_ROLES: &[i32] = &[16385, 16386, 16387, 16392, 16393];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrincipalKind {
    /// The login it belongs to; `None` for a user without login.
    User {
        login: Option<Arc<str>>,
        default_schema: Arc<str>,
    },
    Role {
        fixed: bool,
    },
}

/// A user or role.
#[derive(Debug, Clone)]
pub struct Principal {
    pub id: i32,
    pub name: Arc<str>,
    pub kind: PrincipalKind,
}

impl Principal {
    pub fn is_role(&self) -> bool {
        matches!(self.kind, PrincipalKind::Role { .. })
    }
}

/// What a permission is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurableId {
    Database,
    Schema(i32),
    Object { id: ObjectId, schema: i32 },
    Type { id: i32, schema: i32 },
}

/// A GRANT or DENY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionEntry {
    pub on: SecurableId,
    /// In capitals: `EXECUTE`.
    pub permission: Arc<str>,
    pub grantee: i32,
    pub deny: bool,
}

#[derive(Debug, Clone)]
pub struct Principals {
    principals: Vec<Principal>,
    /// (role, member)
    members: Vec<(i32, i32)>,
    permissions: Vec<PermissionEntry>,
    next_id: i32,
    guest_may_connect: bool,
}

impl Principals {
    pub(crate) fn new() -> Principals {
        let user = |id, name: &str, login: Option<&str>| Principal {
            id,
            name: name.into(),
            kind: PrincipalKind::User { login: login.map(Arc::from), default_schema: "dbo".into() },
        };
        let role = |id, name: &str| Principal { id, name: name.into(), kind: PrincipalKind::Role { fixed: true } };
        let principals = vec![
            role(PUBLIC, "public"),
            user(DBO_USER, "dbo", Some("sa")),
            user(GUEST, "guest", None),
            user(INFORMATION_SCHEMA, "INFORMATION_SCHEMA", None),
            user(SYS, "sys", None),
            role(DB_OWNER, "db_owner"),
            role(16385, "db_accessadmin"),
            role(16386, "db_securityadmin"),
            role(16387, "db_ddladmin"),
            role(16389, "db_backupoperator"),
            role(DB_DATAREADER, "db_datareader"),
            role(DB_DATAWRITER, "db_datawriter"),
            role(16392, "db_denydatareader"),
            role(16393, "db_denydatawriter"),
        ];
        Principals { principals, members: Vec::new(), permissions: Vec::new(), next_id: 5, guest_may_connect: false }
    }

    pub fn all(&self) -> &[Principal] {
        &self.principals
    }

    pub fn members(&self) -> &[(i32, i32)] {
        &self.members
    }

    pub fn permissions(&self) -> &[PermissionEntry] {
        &self.permissions
    }

    pub fn find(&self, name: &str) -> Option<&Principal> {
        let name = fold(name);
        self.principals.iter().find(|principal| fold(&principal.name) == name)
    }

    pub fn by_id(&self, id: i32) -> Option<&Principal> {
        self.principals.iter().find(|principal| principal.id == id)
    }

    /// The user a login is in this database. Administrators of the server are `dbo` in every one.
    pub fn user_of_session(&self, login: &str, is_administrator: bool) -> Option<&Principal> {
        if is_administrator {
            return self.by_id(DBO_USER);
        }
        self.user_of_login(login).or_else(|| self.by_id(GUEST).filter(|_| self.guest_may_connect))
    }

    /// Logins without a user of their own are `guest` from now on.
    pub(crate) fn let_guest_connect(&mut self) {
        self.guest_may_connect = true;
    }

    /// The user that was made for a login in this database.
    pub fn user_of_login(&self, login: &str) -> Option<&Principal> {
        let login_name = fold(login);
        self.principals.iter().find(|principal| match &principal.kind {
            PrincipalKind::User { login: Some(login), .. } => fold(login) == login_name,
            _ => false,
        })
    }

    pub fn add(&mut self, name: Arc<str>, kind: PrincipalKind) -> SqlResult<Undo> {
        if self.find(&name).is_some() {
            return Err(SqlError::not_supported(format!("a second principal '{name}'")));
        }
        let id = self.next_id;
        self.next_id += 1;
        self.principals.push(Principal { id, name, kind });
        Ok(Box::new(move |catalog: &mut Catalog| {
            catalog.principals.principals.retain(|principal| principal.id != id);
        }))
    }

    /// Removes a user or role with its memberships and permissions.
    pub fn remove(&mut self, id: i32) -> SqlResult<Undo> {
        if self.members.iter().any(|&(role, _)| role == id) {
            return Err(SqlError::new(15144, "The role has members. It must be empty before it can be dropped."));
        }
        let principals: Vec<_> = self.principals.extract_if(.., |principal| principal.id == id).collect();
        let members: Vec<_> = self.members.extract_if(.., |&mut (_, member)| member == id).collect();
        let permissions = self.drop_permissions(|entry| entry.grantee == id);
        Ok(Box::new(move |catalog: &mut Catalog| {
            permissions(catalog);
            catalog.principals.members.extend(members);
            catalog.principals.principals.extend(principals);
        }))
    }

    pub fn set_member(&mut self, role: i32, member: i32, add: bool) -> Undo {
        let was_member = self.members.contains(&(role, member));
        self.members.retain(|&pair| pair != (role, member));
        if add {
            self.members.push((role, member));
        }
        Box::new(move |catalog: &mut Catalog| drop(catalog.principals.set_member(role, member, was_member)))
    }

    /// GRANT, DENY (`Some(deny)`) or REVOKE (`None`).
    pub fn set_permission(&mut self, on: SecurableId, permission: &str, grantee: i32, deny: Option<bool>) -> Undo {
        let permission: Arc<str> = permission.into();
        let is_it =
            |entry: &PermissionEntry| entry.on == on && entry.permission == permission && entry.grantee == grantee;
        let before = self.permissions.extract_if(.., |entry| is_it(entry)).next().map(|entry| entry.deny);
        if let Some(deny) = deny {
            self.permissions.push(PermissionEntry { on, permission: Arc::clone(&permission), grantee, deny });
        }
        Box::new(move |catalog: &mut Catalog| drop(catalog.principals.set_permission(on, &permission, grantee, before)))
    }

    /// The user itself, `public` and every role it belongs to, directly or through other roles.
    fn with_roles(&self, user: i32) -> Vec<i32> {
        let mut all = vec![user, PUBLIC];
        let mut next = 0;
        while next < all.len() {
            let member = all[next];
            for &(role, role_member) in &self.members {
                if role_member == member && !all.contains(&role) {
                    all.push(role);
                }
            }
            next += 1;
        }
        all
    }

    pub fn is_member(&self, user: i32, role: i32) -> bool {
        self.with_roles(user).contains(&role)
    }

    /// Those that are no user of anybody's.
    pub fn is_special(&self, id: i32) -> bool {
        [PUBLIC, GUEST, INFORMATION_SCHEMA, SYS].contains(&id)
    }

    /// Whether nothing is forbidden to the user.
    pub fn is_owner(&self, user: i32) -> bool {
        user == DBO_USER || self.is_member(user, DB_OWNER)
    }

    /// Whether a member of a fixed role has a permission through it.
    ///
    /// Source: "Permissions of Fixed Database Roles"
    /// (learn.microsoft.com/previous-versions/sql/sql-server-2008-r2/ms189612).
    fn fixed_role_permits(grantees: &[i32], permission: &str) -> bool {
        match permission {
            "SELECT" => grantees.contains(&DB_DATAREADER),
            "INSERT" | "UPDATE" | "DELETE" => grantees.contains(&DB_DATAWRITER),
            _ => false,
        }
    }

    /// Whether the user has a permission on what belongs to `owner`.
    pub(super) fn permits(&self, user: i32, permission: &str, on: SecurableId, owner: i32) -> SqlResult<bool> {
        if user == owner || user == DBO_USER {
            return Ok(true);
        }
        let grantees = self.with_roles(user);
        if grantees.contains(&DB_OWNER) {
            return Ok(true);
        }
        let owns = grantees.contains(&owner);
        let mut granted = owns || Self::fixed_role_permits(&grantees, permission);
        for entry in &self.permissions {
            let is_on_it = entry.on == on || entry.on == SecurableId::Database;
            let implies = *entry.permission == *permission || &*entry.permission == "CONTROL";
            if !grantees.contains(&entry.grantee) || !is_on_it || !implies {
                continue;
            }
            if entry.deny && owns {
                return Err(SqlError::not_supported("DENY that bears on a member of the role that owns the schema"));
            }
            if entry.deny {
                return Ok(false);
            }
            granted = true;
        }
        Ok(granted)
    }

    /// Forgets the permissions on all that is in a schema.
    pub(super) fn drop_permissions_in(&mut self, schema: i32) -> Undo {
        self.drop_permissions(|entry| match entry.on {
            SecurableId::Object { schema: stands_in, .. } | SecurableId::Type { schema: stands_in, .. } => {
                stands_in == schema
            }
            SecurableId::Database | SecurableId::Schema(_) => false,
        })
    }

    fn drop_permissions(&mut self, is_meant: impl Fn(&PermissionEntry) -> bool) -> Undo {
        let dropped: Vec<_> = self.permissions.extract_if(.., |entry| is_meant(entry)).collect();
        Box::new(move |catalog: &mut Catalog| catalog.principals.permissions.extend(dropped))
    }
}

/// The default schema of a user.
pub fn default_schema_of(kind: &PrincipalKind) -> Arc<str> {
    match kind {
        PrincipalKind::User { default_schema, .. } => Arc::clone(default_schema),
        PrincipalKind::Role { .. } => DBO.into(),
    }
}
