//! Users, roles, their members, and permissions.

use crate::catalog::principal::{DBO_USER, PrincipalKind, Principals, SecurableId};
use crate::catalog::view::column_types::{ColumnDescription, NAME, WORD, text};
use crate::value::{SqlType, Value};

pub const PRINCIPALS: &[ColumnDescription] = &[
    ("name", NAME),
    ("principal_id", SqlType::Int),
    ("type", SqlType::Char(1)),
    ("type_desc", WORD),
    ("default_schema_name", NAME),
    ("owning_principal_id", SqlType::Int),
];

pub const ROLE_MEMBERS: &[ColumnDescription] =
    &[("role_principal_id", SqlType::Int), ("member_principal_id", SqlType::Int)];

pub const PERMISSIONS: &[ColumnDescription] = &[
    ("class", SqlType::TinyInt),
    ("class_desc", WORD),
    ("major_id", SqlType::Int),
    ("minor_id", SqlType::Int),
    ("grantee_principal_id", SqlType::Int),
    ("type", SqlType::Char(4)),
    ("permission_name", NAME),
    ("state", SqlType::Char(1)),
    ("state_desc", WORD),
];

pub fn principals(principals: &Principals) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for principal in principals.all() {
        let (code, description, default_schema) = match &principal.kind {
            PrincipalKind::User { default_schema, .. } => ("S", "SQL_USER", text(default_schema)),
            PrincipalKind::Role { .. } => ("R", "DATABASE_ROLE", Value::Null),
        };
        rows.push(vec![
            text(&principal.name),
            Value::Int(principal.id),
            text(code),
            text(description),
            default_schema,
            if principal.is_role() { Value::Int(DBO_USER) } else { Value::Null },
        ]);
    }
    rows
}

pub fn role_members(principals: &Principals) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (role, member) in principals.members() {
        rows.push(vec![Value::Int(*role), Value::Int(*member)]);
    }
    rows
}

pub fn permissions(principals: &Principals) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for entry in principals.permissions() {
        let (class, description, major) = match entry.on {
            SecurableId::Database => (0, "DATABASE", 0),
            SecurableId::Object { id, .. } => (1, "OBJECT_OR_COLUMN", id),
            SecurableId::Schema(id) => (3, "SCHEMA", id),
            SecurableId::Type { id, .. } => (6, "TYPE", id),
        };
        rows.push(vec![
            Value::TinyInt(class),
            text(description),
            Value::Int(major),
            Value::Int(0),
            Value::Int(entry.grantee),
            permission_type(&entry.permission),
            text(&entry.permission),
            text(if entry.deny { "D" } else { "G" }),
            text(if entry.deny { "DENY" } else { "GRANT" }),
        ]);
    }
    rows
}

/// The short name of a permission.
///
/// Source: "sys.database_permissions" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/system-catalog-views/sys-database-permissions-transact-sql.md).
fn permission_type(permission: &str) -> Value {
    let code = match permission {
        "CONNECT" => "CO  ",
        "CONTROL" => "CL  ",
        "CREATE FUNCTION" => "CRFN",
        "CREATE PROCEDURE" => "CRPR",
        "CREATE ROLE" => "CRRL",
        "CREATE SCHEMA" => "CRSM",
        "CREATE TABLE" => "CRTB",
        "CREATE TYPE" => "CRTY",
        "CREATE VIEW" => "CRVW",
        "DELETE" => "DL  ",
        "EXECUTE" => "EX  ",
        "INSERT" => "IN  ",
        "REFERENCES" => "RF  ",
        "SELECT" => "SL  ",
        "UPDATE" => "UP  ",
        "VIEW DEFINITION" => "VW  ",
        _ => return Value::Null,
    };
    text(code)
}
