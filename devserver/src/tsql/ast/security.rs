//! Users and permissions.

use crate::tsql::ast::name::{Ident, ObjectName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateUser {
    pub name: Ident,
    pub source: UserSource,
    pub default_schema: Option<Ident>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserSource {
    /// The login of the user's name if none was written.
    Login(Ident),
    WithoutLogin,
    ExternalProvider,
}

/// GRANT, DENY or REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    pub action: PermissionAction,
    /// In capitals, words parted by one blank: `EXECUTE`, `VIEW DEFINITION`. `EXEC` is resolved.
    pub permissions: Vec<Ident>,
    /// `None`: on the database.
    pub on: Option<Securable>,
    pub principals: Vec<Ident>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionAction {
    Grant,
    Deny,
    Revoke,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Securable {
    pub class: SecurableClass,
    pub name: ObjectName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurableClass {
    /// `OBJECT::` or nothing.
    Object,
    Type,
}
