//! Catalog views and dynamic management views, computed when they are read.

use std::sync::Arc;

use super::catalog::{Object, UserTypeKind};
use super::frame::Run;
use super::lock_view;
use super::principal::PrincipalKind;
use crate::error::SqlResult;
use crate::storage::{Lifetime, ObjectId, TableSchema, Uniqueness, fold};
use crate::value::{Length, SqlType, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemView {
    Tables,
    Columns,
    Indexes,
    IndexColumns,
    Types,
    TableTypes,
    Schemas,
    Objects,
    Procedures,
    Parameters,
    Databases,
    DatabasePrincipals,
    DatabaseRoleMembers,
    DatabasePermissions,
    SqlModules,
    TranLocks,
    ExecSessions,
    ExecRequests,
    WaitingTasks,
    Partitions,
    InformationTables,
    InformationColumns,
}

pub const NAME: SqlType = SqlType::NVarChar(Length::Limit(128));
const TEXT: SqlType = SqlType::NVarChar(Length::Max);
pub const SHORT_TEXT: SqlType = SqlType::NVarChar(Length::Limit(60));
const CODE: SqlType = SqlType::Char(2);

pub type ColumnDescription = (&'static str, SqlType);

impl SystemView {
    /// By folded schema; the name in any case.
    pub fn find(schema: &str, name: &str) -> Option<SystemView> {
        Some(match (schema, fold(name).as_str()) {
            ("sys", "tables") => SystemView::Tables,
            ("sys", "columns") => SystemView::Columns,
            ("sys", "indexes") => SystemView::Indexes,
            ("sys", "index_columns") => SystemView::IndexColumns,
            ("sys", "types") => SystemView::Types,
            ("sys", "table_types") => SystemView::TableTypes,
            ("sys", "schemas") => SystemView::Schemas,
            ("sys", "objects" | "all_objects") => SystemView::Objects,
            ("sys", "procedures") => SystemView::Procedures,
            ("sys", "parameters") => SystemView::Parameters,
            ("sys", "databases") => SystemView::Databases,
            ("sys", "database_principals") => SystemView::DatabasePrincipals,
            ("sys", "database_role_members") => SystemView::DatabaseRoleMembers,
            ("sys", "database_permissions") => SystemView::DatabasePermissions,
            ("sys", "sql_modules") => SystemView::SqlModules,
            ("sys", "dm_tran_locks") => SystemView::TranLocks,
            ("sys", "dm_exec_sessions") => SystemView::ExecSessions,
            ("sys", "dm_exec_requests") => SystemView::ExecRequests,
            ("sys", "dm_os_waiting_tasks") => SystemView::WaitingTasks,
            ("sys", "partitions") => SystemView::Partitions,
            ("information_schema", "tables") => SystemView::InformationTables,
            ("information_schema", "columns") => SystemView::InformationColumns,
            _ => return None,
        })
    }

    pub fn columns(self) -> &'static [ColumnDescription] {
        match self {
            SystemView::Tables => &[
                ("name", NAME),
                ("object_id", SqlType::Int),
                ("schema_id", SqlType::Int),
                ("type", CODE),
                ("type_desc", SHORT_TEXT),
                ("lock_escalation", SqlType::TinyInt),
                ("lock_escalation_desc", SHORT_TEXT),
                ("is_ms_shipped", SqlType::Bit),
            ],
            SystemView::Columns => &[
                ("object_id", SqlType::Int),
                ("name", NAME),
                ("column_id", SqlType::Int),
                ("system_type_id", SqlType::TinyInt),
                ("user_type_id", SqlType::Int),
                ("max_length", SqlType::SmallInt),
                ("precision", SqlType::TinyInt),
                ("scale", SqlType::TinyInt),
                ("collation_name", NAME),
                ("is_nullable", SqlType::Bit),
                ("is_identity", SqlType::Bit),
                ("is_computed", SqlType::Bit),
            ],
            SystemView::Indexes => &[
                ("object_id", SqlType::Int),
                ("name", NAME),
                ("index_id", SqlType::Int),
                ("type", SqlType::TinyInt),
                ("type_desc", SHORT_TEXT),
                ("is_unique", SqlType::Bit),
                ("is_primary_key", SqlType::Bit),
                ("is_unique_constraint", SqlType::Bit),
                ("ignore_dup_key", SqlType::Bit),
                ("is_disabled", SqlType::Bit),
                ("has_filter", SqlType::Bit),
                ("filter_definition", TEXT),
            ],
            SystemView::IndexColumns => &[
                ("object_id", SqlType::Int),
                ("index_id", SqlType::Int),
                ("index_column_id", SqlType::Int),
                ("column_id", SqlType::Int),
                ("key_ordinal", SqlType::TinyInt),
                ("is_descending_key", SqlType::Bit),
                ("is_included_column", SqlType::Bit),
            ],
            SystemView::Types => &[
                ("name", NAME),
                ("system_type_id", SqlType::TinyInt),
                ("user_type_id", SqlType::Int),
                ("schema_id", SqlType::Int),
                ("is_user_defined", SqlType::Bit),
                ("is_table_type", SqlType::Bit),
            ],
            SystemView::TableTypes => &[
                ("name", NAME),
                ("user_type_id", SqlType::Int),
                ("schema_id", SqlType::Int),
                ("type_table_object_id", SqlType::Int),
            ],
            SystemView::Schemas => &[("name", NAME), ("schema_id", SqlType::Int), ("principal_id", SqlType::Int)],
            SystemView::Objects | SystemView::Procedures => &[
                ("name", NAME),
                ("object_id", SqlType::Int),
                ("schema_id", SqlType::Int),
                ("parent_object_id", SqlType::Int),
                ("type", CODE),
                ("type_desc", SHORT_TEXT),
                ("create_date", SqlType::DateTime),
                ("modify_date", SqlType::DateTime),
                ("is_ms_shipped", SqlType::Bit),
            ],
            SystemView::Parameters => &[
                ("object_id", SqlType::Int),
                ("name", NAME),
                ("parameter_id", SqlType::Int),
                ("is_output", SqlType::Bit),
                ("has_default_value", SqlType::Bit),
                ("is_readonly", SqlType::Bit),
            ],
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
            SystemView::SqlModules => &[("object_id", SqlType::Int), ("definition", TEXT)],
            SystemView::TranLocks => lock_view::TRAN_LOCKS,
            SystemView::ExecSessions => lock_view::EXEC_SESSIONS,
            SystemView::ExecRequests => lock_view::EXEC_REQUESTS,
            SystemView::WaitingTasks => lock_view::WAITING_TASKS,
            SystemView::Partitions => lock_view::PARTITIONS,
            SystemView::InformationTables => &[
                ("TABLE_CATALOG", NAME),
                ("TABLE_SCHEMA", NAME),
                ("TABLE_NAME", NAME),
                ("TABLE_TYPE", SqlType::VarChar(Length::Limit(10))),
            ],
            SystemView::InformationColumns => &[
                ("TABLE_CATALOG", NAME),
                ("TABLE_SCHEMA", NAME),
                ("TABLE_NAME", NAME),
                ("COLUMN_NAME", NAME),
                ("ORDINAL_POSITION", SqlType::Int),
                ("IS_NULLABLE", SqlType::VarChar(Length::Limit(3))),
                ("DATA_TYPE", NAME),
                ("CHARACTER_MAXIMUM_LENGTH", SqlType::Int),
                ("COLLATION_NAME", NAME),
            ],
        }
    }
}

pub fn text(value: impl AsRef<str>) -> Value {
    Value::String(value.as_ref().into())
}

fn bit(value: bool) -> Value {
    Value::Bit(value)
}

pub fn date(value: (u32, u64)) -> Value {
    Value::DateTime(value.0, value.1)
}

/// The system types with their numbers in sys.types.
const SYSTEM_TYPES: &[(&str, u8)] = &[
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
const SYSNAME: i32 = 256;

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

fn type_number(ty: SqlType) -> u8 {
    match ty {
        SqlType::RowVersion => 189,
        other => system_type_id(other.name()).and_then(|id| u8::try_from(id).ok()).unwrap_or(0),
    }
}

/// (max_length, precision, scale) as sys.columns shows them.
fn type_facts(ty: SqlType) -> (i16, u8, u8) {
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

struct Constraint<'t> {
    id: ObjectId,
    name: &'t Arc<str>,
    code: &'static str,
    description: &'static str,
}

fn constraints(table: &TableSchema) -> Vec<Constraint<'_>> {
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
    let tables: Vec<Arc<TableSchema>> =
        run.storage()?.latch.tables().into_iter().filter(|table| table.lifetime == Lifetime::Permanent).collect();
    match view {
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
    let schema_id = |name: &str| catalog.schema(name).map_or(Value::Null, |schema| Value::Int(schema.id));
    let mut rows = Vec::new();
    match view {
        SystemView::Tables => {
            for table in &tables {
                let (escalation, escalation_name) = match table.lock_escalation {
                    crate::storage::LockEscalation::Table => (0, "TABLE"),
                    crate::storage::LockEscalation::Disable => (1, "DISABLE"),
                    crate::storage::LockEscalation::Auto => (2, "AUTO"),
                };
                rows.push(vec![
                    text(&table.name),
                    Value::Int(table.id),
                    schema_id(&table.schema),
                    text("U "),
                    text("USER_TABLE"),
                    Value::TinyInt(escalation),
                    text(escalation_name),
                    bit(false),
                ]);
            }
        }
        SystemView::Columns => {
            for table in &tables {
                push_columns(&mut rows, table, table.id);
            }
            for user_type in catalog.user_types() {
                if let UserTypeKind::Table { template, object } = &user_type.kind {
                    push_columns(&mut rows, template, *object);
                }
            }
        }
        SystemView::Indexes => {
            for table in &tables {
                if table.clustered().is_none() {
                    rows.push(index_row(table.id, None));
                }
                for index in &table.indexes {
                    rows.push(index_row(table.id, Some(index)));
                }
            }
        }
        SystemView::IndexColumns => {
            for table in &tables {
                for index in &table.indexes {
                    let key = index.key.iter().map(|key| (key.column, key.descending, false));
                    let included = index.included.iter().map(|column| (*column, false, true));
                    for (position, (column, descending, is_included)) in key.chain(included).enumerate() {
                        rows.push(vec![
                            Value::Int(table.id),
                            Value::Int(i32::from(index.id)),
                            Value::Int(position as i32 + 1),
                            Value::Int(column as i32 + 1),
                            Value::TinyInt(if is_included { 0 } else { position as u8 + 1 }),
                            bit(descending),
                            bit(is_included),
                        ]);
                    }
                }
            }
        }
        SystemView::Types => {
            let sys = Value::Int(super::catalog::SYS_SCHEMA_ID);
            for (name, id) in SYSTEM_TYPES {
                let id_value = Value::Int(i32::from(*id));
                rows.push(vec![text(name), Value::TinyInt(*id), id_value, sys.clone(), bit(false), bit(false)]);
            }
            rows.push(vec![text("sysname"), Value::TinyInt(231), Value::Int(SYSNAME), sys, bit(false), bit(false)]);
            for user_type in catalog.user_types() {
                let (system, is_table) = match &user_type.kind {
                    UserTypeKind::Table { .. } => (243, true),
                    UserTypeKind::Alias { base, .. } => (type_number(*base), false),
                };
                rows.push(vec![
                    text(&user_type.name),
                    Value::TinyInt(system),
                    Value::Int(user_type.id),
                    schema_id(&user_type.schema),
                    bit(true),
                    bit(is_table),
                ]);
            }
        }
        SystemView::TableTypes => {
            for user_type in catalog.user_types() {
                if let UserTypeKind::Table { object, .. } = &user_type.kind {
                    rows.push(vec![
                        text(&user_type.name),
                        Value::Int(user_type.id),
                        schema_id(&user_type.schema),
                        Value::Int(*object),
                    ]);
                }
            }
        }
        SystemView::Schemas => {
            for schema in catalog.schemas() {
                rows.push(vec![text(&schema.name), Value::Int(schema.id), Value::Int(schema.owner)]);
            }
        }
        SystemView::Objects | SystemView::Procedures => {
            let unknown = Value::Null;
            if view == SystemView::Objects {
                for table in &tables {
                    rows.push(object_row(
                        &table.name,
                        table.id,
                        schema_id(&table.schema),
                        0,
                        "U ",
                        "USER_TABLE",
                        &unknown,
                    ));
                    for constraint in constraints(table) {
                        rows.push(object_row(
                            constraint.name,
                            constraint.id,
                            schema_id(&table.schema),
                            table.id,
                            constraint.code,
                            constraint.description,
                            &unknown,
                        ));
                    }
                }
            }
            for object in catalog.objects() {
                let (code, description, created, modified) = match object {
                    Object::Procedure(procedure) => {
                        ("P ", "SQL_STORED_PROCEDURE", date(procedure.created_at), date(procedure.modified_at))
                    }
                    Object::View(view) => ("V ", "VIEW", date(view.created_at), date(view.created_at)),
                    Object::Trigger(trigger) => {
                        let procedure = &trigger.procedure;
                        ("TR", "SQL_TRIGGER", date(procedure.created_at), date(procedure.modified_at))
                    }
                    Object::Function(function) => {
                        let (code, description) = match function.returns {
                            Some(_) => ("FN", "SQL_SCALAR_FUNCTION"),
                            None => ("IF", "SQL_INLINE_TABLE_VALUED_FUNCTION"),
                        };
                        (code, description, date(function.created_at), date(function.modified_at))
                    }
                    Object::Synonym(synonym) => ("SN", "SYNONYM", date(synonym.created_at), date(synonym.created_at)),
                    Object::Sequence(_) => ("SO", "SEQUENCE_OBJECT", Value::Null, Value::Null),
                };
                if view == SystemView::Procedures && code != "P " {
                    continue;
                }
                let schema = schema_id(object.schema());
                let mut row = object_row(object.name(), object.id(), schema, 0, code, description, &created);
                row[7] = modified;
                rows.push(row);
            }
        }
        SystemView::Parameters => {
            for object in catalog.objects() {
                let Object::Procedure(procedure) = object else { continue };
                for (position, parameter) in procedure.parameters.iter().enumerate() {
                    rows.push(vec![
                        Value::Int(procedure.id),
                        text(&parameter.name),
                        Value::Int(position as i32 + 1),
                        bit(parameter.output),
                        // SQL Server knows this of CLR procedures only.
                        bit(false),
                        bit(parameter.ty.template().is_some()),
                    ]);
                }
            }
        }
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
                use super::principal::SecurableId;
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
        SystemView::SqlModules => {
            for object in catalog.objects() {
                match object {
                    Object::Procedure(procedure) => rows.push(vec![Value::Int(procedure.id), text(&procedure.text)]),
                    Object::View(view) => rows.push(vec![Value::Int(view.id), text(&view.text)]),
                    Object::Trigger(trigger) => {
                        rows.push(vec![Value::Int(trigger.procedure.id), text(&trigger.procedure.text)]);
                    }
                    Object::Function(function) => rows.push(vec![Value::Int(function.id), text(&function.text)]),
                    Object::Sequence(_) | Object::Synonym(_) => {}
                }
            }
        }
        SystemView::InformationTables => {
            for table in &tables {
                rows.push(vec![text(&database.name), text(&table.schema), text(&table.name), text("BASE TABLE")]);
            }
            for object in catalog.objects() {
                if let Object::View(view) = object {
                    rows.push(vec![text(&database.name), text(&view.schema), text(&view.name), text("VIEW")]);
                }
            }
        }
        SystemView::InformationColumns => {
            for table in &tables {
                for (ordinal, column) in table.columns.iter().enumerate() {
                    let length = match column.sql_type.length() {
                        Some(Length::Max) => Value::Int(-1),
                        Some(Length::Limit(length)) => Value::Int(i32::from(length)),
                        None => Value::Null,
                    };
                    let is_text = column.sql_type.is_character();
                    rows.push(vec![
                        text(&database.name),
                        text(&table.schema),
                        text(&table.name),
                        text(&column.name),
                        Value::Int(ordinal as i32 + 1),
                        text(if column.nullable { "YES" } else { "NO" }),
                        text(column.sql_type.name()),
                        length,
                        if is_text { text(column.collation.name()) } else { Value::Null },
                    ]);
                }
            }
        }
        SystemView::TranLocks
        | SystemView::ExecSessions
        | SystemView::ExecRequests
        | SystemView::WaitingTasks
        | SystemView::Partitions => {}
    }
    Ok(rows)
}

#[allow(clippy::too_many_arguments)] // The columns of the row.
fn object_row(
    name: &str,
    id: ObjectId,
    schema: Value,
    parent: ObjectId,
    code: &str,
    description: &str,
    created: &Value,
) -> Vec<Value> {
    vec![
        text(name),
        Value::Int(id),
        schema,
        Value::Int(parent),
        text(code),
        text(description),
        created.clone(),
        created.clone(),
        bit(false),
    ]
}

fn push_columns(rows: &mut Vec<Vec<Value>>, table: &TableSchema, id: ObjectId) {
    for (ordinal, column) in table.columns.iter().enumerate() {
        let (length, precision, scale) = type_facts(column.sql_type);
        let number = type_number(column.sql_type);
        rows.push(vec![
            Value::Int(id),
            text(&column.name),
            Value::Int(ordinal as i32 + 1),
            Value::TinyInt(number),
            Value::Int(i32::from(number)),
            Value::SmallInt(length),
            Value::TinyInt(precision),
            Value::TinyInt(scale),
            if column.sql_type.is_character() { text(column.collation.name()) } else { Value::Null },
            bit(column.nullable),
            bit(column.identity.is_some()),
            bit(column.computed.is_some()),
        ]);
    }
}

fn index_row(table: ObjectId, index: Option<&crate::storage::Index>) -> Vec<Value> {
    let (kind, description) = match index {
        None => (0, "HEAP"),
        Some(index) if index.is_clustered() => (1, "CLUSTERED"),
        Some(_) => (2, "NONCLUSTERED"),
    };
    let filter = index.and_then(|index| index.filter.as_ref());
    vec![
        Value::Int(table),
        index.map_or(Value::Null, |index| text(&index.name)),
        Value::Int(index.map_or(0, |index| i32::from(index.id))),
        Value::TinyInt(kind),
        text(description),
        bit(index.is_some_and(|index| index.is_unique())),
        bit(index.is_some_and(|index| index.uniqueness == Uniqueness::PrimaryKey)),
        bit(index.is_some_and(|index| index.uniqueness == Uniqueness::UniqueConstraint)),
        bit(index.is_some_and(|index| index.ignore_dup_key)),
        bit(false),
        bit(filter.is_some()),
        filter.map_or(Value::Null, |filter| text(format!("({})", filter.text))),
    ]
}
