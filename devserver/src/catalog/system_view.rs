//! Catalog views and dynamic management views, computed when they are read.

use std::sync::Arc;

use crate::catalog::lock_view;
use crate::catalog::principal::PrincipalKind;
use crate::catalog::view::{self, CatalogView};
use crate::error::SqlResult;
use crate::execute::frame::Run;
use crate::storage::{ObjectId, TableSchema, Uniqueness, fold};
use crate::value::{Length, SqlType, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemView {
    /// One of the views in [`catalog_view`].
    Catalog(&'static CatalogView),
    Databases,
    DatabasePrincipals,
    DatabaseRoleMembers,
    DatabasePermissions,
    TranLocks,
    ExecSessions,
    ExecRequests,
    WaitingTasks,
    Partitions,
}

pub const NAME: SqlType = SqlType::NVarChar(Length::Limit(128));
pub const SHORT_TEXT: SqlType = SqlType::NVarChar(Length::Limit(60));

pub type ColumnDescription = (&'static str, SqlType);

impl SystemView {
    /// By folded schema; the name in any case.
    pub fn find(schema: &str, name: &str) -> Option<SystemView> {
        let name = fold(name);
        if let Some(view) = view::find(schema, &name) {
            return Some(SystemView::Catalog(view));
        }
        Some(match (schema, name.as_str()) {
            ("sys", "databases") => SystemView::Databases,
            ("sys", "database_principals") => SystemView::DatabasePrincipals,
            ("sys", "database_role_members") => SystemView::DatabaseRoleMembers,
            ("sys", "database_permissions") => SystemView::DatabasePermissions,
            ("sys", "dm_tran_locks") => SystemView::TranLocks,
            ("sys", "dm_exec_sessions") => SystemView::ExecSessions,
            ("sys", "dm_exec_requests") => SystemView::ExecRequests,
            ("sys", "dm_os_waiting_tasks") => SystemView::WaitingTasks,
            ("sys", "partitions") => SystemView::Partitions,
            _ => return None,
        })
    }

    pub fn columns(self) -> &'static [ColumnDescription] {
        match self {
            SystemView::Catalog(view) => view.columns,
            SystemView::Databases => &[
                ("name", NAME),
                ("database_id", SqlType::Int),
                ("is_read_only", SqlType::Bit),
                ("state", SqlType::TinyInt),
                ("state_desc", SHORT_TEXT),
                ("snapshot_isolation_state", SqlType::TinyInt),
                ("snapshot_isolation_state_desc", SHORT_TEXT),
                ("is_read_committed_snapshot_on", SqlType::Bit),
                ("recovery_model_desc", SHORT_TEXT),
                ("collation_name", NAME),
                ("compatibility_level", SqlType::TinyInt),
            ],
            SystemView::DatabasePrincipals => &[
                ("name", NAME),
                ("principal_id", SqlType::Int),
                ("type", SqlType::Char(1)),
                ("type_desc", SHORT_TEXT),
                ("default_schema_name", NAME),
                ("is_fixed_role", SqlType::Bit),
            ],
            SystemView::DatabaseRoleMembers => {
                &[("role_principal_id", SqlType::Int), ("member_principal_id", SqlType::Int)]
            }
            SystemView::DatabasePermissions => &[
                ("class", SqlType::TinyInt),
                ("class_desc", SHORT_TEXT),
                ("major_id", SqlType::Int),
                ("minor_id", SqlType::Int),
                ("grantee_principal_id", SqlType::Int),
                ("permission_name", NAME),
                ("state", SqlType::Char(1)),
                ("state_desc", SHORT_TEXT),
            ],
            SystemView::TranLocks => lock_view::TRAN_LOCKS,
            SystemView::ExecSessions => lock_view::EXEC_SESSIONS,
            SystemView::ExecRequests => lock_view::EXEC_REQUESTS,
            SystemView::WaitingTasks => lock_view::WAITING_TASKS,
            SystemView::Partitions => lock_view::PARTITIONS,
        }
    }
}

pub fn text(value: impl AsRef<str>) -> Value {
    Value::String(value.as_ref().into())
}

pub fn bit(value: bool) -> Value {
    Value::Bit(value)
}

pub fn date(value: (u32, u64)) -> Value {
    Value::DateTime(value.0, value.1)
}

/// The system types with their numbers in sys.types.
pub const SYSTEM_TYPES: &[(&str, u8)] = &[
    ("uniqueidentifier", 36),
    ("date", 40),
    ("time", 41),
    ("datetime2", 42),
    ("datetimeoffset", 43),
    ("tinyint", 48),
    ("smallint", 52),
    ("int", 56),
    ("real", 59),
    ("datetime", 61),
    ("float", 62),
    ("bit", 104),
    ("decimal", 106),
    ("numeric", 108),
    ("bigint", 127),
    ("varbinary", 165),
    ("varchar", 167),
    ("binary", 173),
    ("char", 175),
    ("timestamp", 189),
    ("nvarchar", 231),
    ("nchar", 239),
];

/// `user_type_id` of `sysname`, the one alias among the system's types here.
pub const SYSNAME: i32 = 256;

pub fn system_type_id(folded: &str) -> Option<i32> {
    if folded == "sysname" {
        return Some(SYSNAME);
    }
    SYSTEM_TYPES.iter().find(|(name, _)| *name == folded).map(|(_, id)| i32::from(*id))
}

pub fn system_type_name(id: i32) -> Option<&'static str> {
    if id == SYSNAME {
        return Some("sysname");
    }
    SYSTEM_TYPES.iter().find(|(_, number)| i32::from(*number) == id).map(|(name, _)| *name)
}

pub fn type_number(ty: SqlType) -> u8 {
    match ty {
        SqlType::RowVersion => 189,
        other => system_type_id(other.name()).and_then(|id| u8::try_from(id).ok()).unwrap_or(0),
    }
}

/// (max_length, precision, scale) as sys.columns shows them.
pub fn type_facts(ty: SqlType) -> (i16, u8, u8) {
    let length = ty.max_bytes().map_or(-1, |bytes| bytes as i16);
    let (precision, scale) = match ty {
        SqlType::Decimal { precision, scale } => (precision, scale),
        SqlType::Bit => (1, 0),
        SqlType::TinyInt => (3, 0),
        SqlType::SmallInt => (5, 0),
        SqlType::Int => (10, 0),
        SqlType::BigInt => (19, 0),
        SqlType::Real => (24, 0),
        SqlType::Float => (53, 0),
        SqlType::Date => (10, 0),
        SqlType::DateTime => (23, 3),
        SqlType::Time(scale) => (if scale == 0 { 8 } else { 9 + scale }, scale),
        SqlType::DateTime2(scale) => (if scale == 0 { 19 } else { 20 + scale }, scale),
        SqlType::DateTimeOffset(scale) => (if scale == 0 { 26 } else { 27 + scale }, scale),
        _ => (0, 0),
    };
    (length, precision, scale)
}

/// Constraints have numbers of their own, made from their table's: each table has room for a thousand.
const CONSTRAINT_BASE: ObjectId = 1_000_000_000;

pub struct Constraint<'t> {
    pub id: ObjectId,
    pub name: &'t Arc<str>,
    pub code: &'static str,
    pub description: &'static str,
}

pub fn constraints(table: &TableSchema) -> Vec<Constraint<'_>> {
    let mut found: Vec<(&Arc<str>, &'static str, &'static str)> = Vec::new();
    for index in &table.indexes {
        match index.uniqueness {
            Uniqueness::PrimaryKey => found.push((&index.name, "PK", "PRIMARY_KEY_CONSTRAINT")),
            Uniqueness::UniqueConstraint => found.push((&index.name, "UQ", "UNIQUE_CONSTRAINT")),
            Uniqueness::Index | Uniqueness::None => {}
        }
    }
    for column in &table.columns {
        if let Some(default) = &column.default {
            found.push((&default.name, "D ", "DEFAULT_CONSTRAINT"));
        }
    }
    for check in &table.checks {
        found.push((&check.name, "C ", "CHECK_CONSTRAINT"));
    }
    for key in &table.foreign_keys {
        found.push((&key.name, "F ", "FOREIGN_KEY_CONSTRAINT"));
    }
    let first = CONSTRAINT_BASE.wrapping_add(table.id.wrapping_mul(1000));
    let numbered = found.into_iter().enumerate();
    numbered
        .map(|(position, (name, code, description))| Constraint {
            id: first.wrapping_add(position as ObjectId),
            name,
            code,
            description,
        })
        .collect()
}

/// The names of a table's constraints.
pub fn constraint_names(table: &TableSchema) -> Vec<Arc<str>> {
    constraints(table).into_iter().map(|constraint| Arc::clone(constraint.name)).collect()
}

/// The number of a constraint by name.
pub fn constraint_id(table: &TableSchema, name: &str) -> Option<ObjectId> {
    constraints(table).into_iter().find(|constraint| fold(constraint.name) == fold(name)).map(|found| found.id)
}

/// The rows of a view.
pub fn rows(view: SystemView, run: &mut Run<'_>) -> SqlResult<Vec<Vec<Value>>> {
    match view {
        SystemView::Catalog(view) => return view::rows(view, run),
        SystemView::TranLocks => return lock_view::tran_locks(run),
        SystemView::ExecSessions => return Ok(lock_view::exec_sessions(run)),
        SystemView::ExecRequests => return lock_view::exec_requests(run),
        SystemView::WaitingTasks => return lock_view::waiting_tasks(run),
        SystemView::Partitions => return lock_view::partitions(run),
        _ => {}
    }
    let versions = {
        let latch = &run.storage()?.latch;
        (latch.allows_snapshot(), latch.reads_committed_snapshot())
    };
    let database = Arc::clone(run.database);
    let catalog = database.catalog.read();
    let mut rows = Vec::new();
    match view {
        SystemView::Databases => {
            rows.push(vec![
                text(&database.name),
                Value::Int(database.id),
                bit(database.is_read_only()),
                Value::TinyInt(0),
                text("ONLINE"),
                Value::TinyInt(u8::from(versions.0)),
                text(if versions.0 { "ON" } else { "OFF" }),
                bit(versions.1),
                text("SIMPLE"),
                text(crate::value::Collation::default().name()),
                Value::TinyInt(160),
            ]);
        }
        SystemView::DatabasePrincipals => {
            for principal in catalog.principals.all() {
                let (code, description, default_schema, fixed) = match &principal.kind {
                    PrincipalKind::User { default_schema, .. } => ("S", "SQL_USER", text(default_schema), false),
                    PrincipalKind::Role { fixed } => ("R", "DATABASE_ROLE", Value::Null, *fixed),
                };
                rows.push(vec![
                    text(&principal.name),
                    Value::Int(principal.id),
                    text(code),
                    text(description),
                    default_schema,
                    bit(fixed && principal.id != 0),
                ]);
            }
        }
        SystemView::DatabaseRoleMembers => {
            for (role, member) in catalog.principals.members() {
                rows.push(vec![Value::Int(*role), Value::Int(*member)]);
            }
        }
        SystemView::DatabasePermissions => {
            for entry in catalog.principals.permissions() {
                use crate::catalog::principal::SecurableId;
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
                    text(&entry.permission),
                    text(if entry.deny { "D" } else { "G" }),
                    text(if entry.deny { "DENY" } else { "GRANT" }),
                ]);
            }
        }
        SystemView::TranLocks
        | SystemView::ExecSessions
        | SystemView::ExecRequests
        | SystemView::WaitingTasks
        | SystemView::Partitions
        | SystemView::Catalog(_) => {}
    }
    Ok(rows)
}
