//! Functions about the server, the database and the session: `OBJECT_ID`, `@@ROWCOUNT`, `ERROR_MESSAGE` …

use std::sync::Arc;

use crate::catalog::catalog::Object;
use crate::catalog::object_name::ParsedName;
use crate::catalog::principal::{PrincipalKind, SecurableId};
use crate::error::{SqlError, SqlResult};
use crate::execute::cursor::find;
use crate::execute::frame::Run;
use crate::execute::session_state::SessionState;
use crate::plan::system_function::SystemFunction;
use crate::storage::{CLUSTERED, LockMode, LockOwner, ObjectId, TableSchema, Uniqueness, fold};
use crate::value::{Decimal, Value};

/// What the server says it is: the major version of SQL Server whose behaviour is imitated.
pub const MAJOR_VERSION: u8 = 16;
const PRODUCT_VERSION: &str = "16.0.1000.6";

fn text(value: impl AsRef<str>) -> Value {
    Value::String(value.as_ref().into())
}

fn optional_text(value: Option<impl AsRef<str>>) -> Value {
    value.map_or(Value::Null, text)
}

fn int(value: bool) -> Value {
    Value::Int(i32::from(value))
}

fn identity_value(value: Option<i64>) -> Value {
    match value {
        Some(value) => Value::Decimal(Box::new(Decimal { mantissa: i128::from(value), precision: 38, scale: 0 })),
        None => Value::Null,
    }
}

fn as_i32(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

pub fn eval(function: SystemFunction, arguments: &[Value], run: &mut Run<'_>) -> SqlResult<Value> {
    let argument = |position: usize| arguments.get(position).unwrap_or(&Value::Null);
    let state = &*run.state;
    Ok(match function {
        SystemFunction::RowCount => Value::Int(state.row_count as i32),
        SystemFunction::RowCountBig => Value::BigInt(state.row_count),
        SystemFunction::Error => Value::Int(state.error),
        SystemFunction::TranCount => Value::Int(state.transaction_count),
        SystemFunction::Spid => Value::SmallInt(state.spid as i16),
        SystemFunction::Version => text(format!(
            "readpast dev server {} (T-SQL of Microsoft SQL Server 2022, {PRODUCT_VERSION})",
            env!("CARGO_PKG_VERSION")
        )),
        SystemFunction::Identity => identity_value(state.identity),
        SystemFunction::NestLevel => Value::Int(state.nest_level as i32),
        SystemFunction::Options => Value::Int(state.options.bits()),
        SystemFunction::LockTimeout => {
            Value::Int(state.options.lock_timeout.map_or(-1, |timeout| timeout.as_millis() as i32))
        }
        SystemFunction::ServerName => text("readpast-devserver"),
        SystemFunction::ProcId => Value::Int(run.scope.procedure.as_ref().map_or(0, |procedure| procedure.id)),
        SystemFunction::ColumnUpdated => {
            let ordinal = as_i32(argument(0)).and_then(|ordinal| usize::try_from(ordinal).ok()).unwrap_or(usize::MAX);
            let updated = run.scope.updated_columns.as_ref().and_then(|updated| updated.get(ordinal).copied());
            int(updated.unwrap_or(false))
        }
        SystemFunction::TriggerNestLevel => Value::Int(state.trigger_level as i32),
        SystemFunction::FetchStatus => Value::Int(state.fetch_status),
        SystemFunction::CursorRows => Value::Int(state.cursor_rows),
        SystemFunction::CursorStatus => cursor_status(argument(0), argument(1), run),
        SystemFunction::DateFirst => Value::TinyInt(7),
        SystemFunction::MaxPrecision => Value::TinyInt(38),
        SystemFunction::Language => text("us_english"),
        SystemFunction::ScopeIdentity => identity_value(run.scope.scope_identity),
        SystemFunction::ErrorNumber => state.caught.last().map_or(Value::Null, |error| Value::Int(error.number)),
        SystemFunction::ErrorMessage => optional_text(state.caught.last().map(|error| &error.message)),
        SystemFunction::ErrorSeverity => {
            state.caught.last().map_or(Value::Null, |error| Value::Int(i32::from(error.severity)))
        }
        SystemFunction::ErrorState => {
            state.caught.last().map_or(Value::Null, |error| Value::Int(i32::from(error.state)))
        }
        SystemFunction::ErrorLine => state.caught.last().map_or(Value::Null, |error| Value::Int(error.line as i32)),
        SystemFunction::ErrorProcedure => optional_text(state.caught.last().and_then(|error| error.procedure.as_ref())),
        SystemFunction::XactState => {
            Value::SmallInt(if state.doomed { -1 } else { i16::from(state.transaction_count > 0) })
        }
        SystemFunction::SessionProperty => session_property(argument(0), run),
        SystemFunction::ContextInfo => match &state.context_info {
            Some(bytes) => Value::Bytes(Arc::clone(bytes)),
            None => Value::Null,
        },
        SystemFunction::HostName => text(&state.host_name),
        SystemFunction::AppName => text(&state.app_name),
        SystemFunction::OriginalLogin | SystemFunction::SuserName => text(&state.login),
        SystemFunction::IsSrvRoleMember => match argument(0).as_str().map(fold).as_deref() {
            Some("sysadmin") => int(state.is_administrator),
            Some("public") => int(true),
            Some(
                "serveradmin" | "securityadmin" | "processadmin" | "setupadmin" | "bulkadmin" | "diskadmin"
                | "dbcreator",
            ) => int(false),
            _ => Value::Null,
        },
        SystemFunction::CurrentTransactionId => Value::BigInt(run.storage()?.tx.id() as i64),
        SystemFunction::ServerProperty => server_property(argument(0))?,
        SystemFunction::DbName => match argument(0) {
            Value::Null if !arguments.is_empty() => Value::Null,
            Value::Null => text(&run.database.name),
            id => optional_text(as_i32(id).and_then(|id| run.database.databases.name(id))),
        },
        SystemFunction::DbId => match argument(0).as_str() {
            Some(name) => run.database.databases.id(name).map_or(Value::Null, |id| Value::SmallInt(id as i16)),
            None if arguments.is_empty() => Value::SmallInt(run.database.id as i16),
            None => Value::Null,
        },
        SystemFunction::DatabasePropertyEx => database_property(argument(0), argument(1), run)?,
        SystemFunction::DatabaseRowVersion => {
            Value::Bytes(run.storage()?.latch.last_row_version().to_be_bytes().into())
        }
        SystemFunction::IdentCurrent => {
            let Some(name) = argument(0).as_str() else { return Ok(Value::Null) };
            let Some(table) = find_table(name, run)? else { return Ok(Value::Null) };
            identity_value(run.storage()?.latch.current_identity(table.id))
        }
        SystemFunction::IdentSeed | SystemFunction::IdentIncr => {
            let Some(name) = argument(0).as_str() else { return Ok(Value::Null) };
            let Some(table) = find_table(name, run)? else { return Ok(Value::Null) };
            let identity = table.columns.iter().find_map(|column| column.identity);
            identity_value(
                identity.map(
                    |identity| {
                        if function == SystemFunction::IdentSeed { identity.seed } else { identity.increment }
                    },
                ),
            )
        }
        SystemFunction::ObjectId => object_id(argument(0), argument(1), run)?,
        SystemFunction::ObjectName => match as_i32(argument(0)) {
            Some(id) => optional_text(named_object(id, run)?.map(|(_, name)| name)),
            None => Value::Null,
        },
        SystemFunction::ObjectSchemaName => match as_i32(argument(0)) {
            Some(id) => optional_text(named_object(id, run)?.map(|(schema, _)| schema)),
            None => Value::Null,
        },
        SystemFunction::ObjectDefinition => {
            let catalog = run.database.catalog.read();
            match as_i32(argument(0)).and_then(|id| catalog.object_by_id(id)) {
                Some(Object::Procedure(procedure)) => text(&procedure.text),
                Some(Object::View(view)) => text(&view.text),
                Some(Object::Trigger(trigger)) => text(&trigger.procedure.text),
                Some(Object::Function(function)) => text(&function.text),
                _ => Value::Null,
            }
        }
        SystemFunction::SchemaId => {
            let catalog = run.database.catalog.read();
            let name = match argument(0).as_str() {
                Some(name) => name,
                None if arguments.is_empty() => &state.default_schema,
                None => return Ok(Value::Null),
            };
            catalog.schema(name).map_or(Value::Null, |schema| Value::Int(schema.id))
        }
        SystemFunction::SchemaName => {
            let catalog = run.database.catalog.read();
            if arguments.is_empty() {
                return Ok(text(&state.default_schema));
            }
            optional_text(as_i32(argument(0)).and_then(|id| catalog.schema_by_id(id)).map(|schema| &schema.name))
        }
        SystemFunction::TypeId => type_id(argument(0), run),
        SystemFunction::TypeName => type_name(argument(0), run),
        SystemFunction::ColLength => {
            let (Some(table), Some(column)) = (argument(0).as_str(), argument(1).as_str()) else {
                return Ok(Value::Null);
            };
            let Some(table) = find_table(table, run)? else { return Ok(Value::Null) };
            match table.column_named(column) {
                Some(column) => {
                    let bytes = table.columns[column].sql_type.max_bytes();
                    Value::SmallInt(bytes.map_or(-1, |bytes| bytes as i16))
                }
                None => Value::Null,
            }
        }
        SystemFunction::ColName => {
            let (Some(table), Some(ordinal)) = (as_i32(argument(0)), as_i32(argument(1))) else {
                return Ok(Value::Null);
            };
            let Some(table) = run.storage()?.latch.schema(table).cloned() else { return Ok(Value::Null) };
            let column = usize::try_from(ordinal - 1).ok().and_then(|ordinal| table.columns.get(ordinal));
            optional_text(column.map(|column| &column.name))
        }
        SystemFunction::ColumnProperty => column_property(argument(0), argument(1), argument(2), run)?,
        SystemFunction::IndexProperty => index_property(argument(0), argument(1), argument(2), run)?,
        SystemFunction::ObjectProperty => object_property(argument(0), argument(1), run)?,
        SystemFunction::DatabasePrincipalId => {
            let catalog = run.database.catalog.read();
            match argument(0).as_str() {
                Some(name) => catalog.principals.find(name).map_or(Value::Null, |principal| Value::Int(principal.id)),
                None if arguments.is_empty() => Value::Int(state.user),
                None => Value::Null,
            }
        }
        SystemFunction::UserName => {
            let catalog = run.database.catalog.read();
            let id = if arguments.is_empty() { Some(state.user) } else { as_i32(argument(0)) };
            optional_text(id.and_then(|id| catalog.principals.by_id(id)).map(|principal| &principal.name))
        }
        SystemFunction::UserId => {
            let catalog = run.database.catalog.read();
            match argument(0).as_str() {
                Some(name) => catalog.principals.find(name).map_or(Value::Null, |principal| Value::Int(principal.id)),
                None => Value::Int(state.user),
            }
        }
        SystemFunction::IsMember | SystemFunction::IsRoleMember => {
            let catalog = run.database.catalog.read();
            let Some(role) = argument(0).as_str().and_then(|name| catalog.principals.find(name)) else {
                return Ok(Value::Null);
            };
            let user = match argument(1).as_str() {
                Some(name) => catalog.principals.find(name).map(|principal| principal.id),
                None => Some(state.user),
            };
            match user {
                Some(user) if role.is_role() => {
                    // dbo is a member of db_owner without being listed.
                    let is_owner = &*role.name == "db_owner" && catalog.principals.is_owner(user);
                    int(is_owner || catalog.principals.is_member(user, role.id))
                }
                _ => Value::Null,
            }
        }
        SystemFunction::HasPermsByName => has_permission(argument(0), argument(1), argument(2), run)?,
        SystemFunction::AppLockMode => {
            let owner = application_lock_owner(argument(0), argument(2), state)?;
            let Some(resource) = argument(1).as_str() else { return Ok(Value::Null) };
            let storage = run.storage()?;
            let mode = storage.latch.application_lock_mode(&storage.tx, owner, resource);
            text(mode.map_or("NoLock", application_mode_name))
        }
        SystemFunction::AppLockTest => {
            let owner = application_lock_owner(argument(0), argument(3), state)?;
            let (Some(resource), Some(mode)) = (argument(1).as_str(), argument(2).as_str()) else {
                return Ok(Value::Null);
            };
            let Some(mode) = application_mode(mode) else {
                return Err(SqlError::not_supported(format!("APPLOCK_TEST with the lock mode '{mode}'")));
            };
            let storage = run.storage()?;
            Value::SmallInt(i16::from(storage.latch.is_application_lock_free(&storage.tx, owner, resource, mode)))
        }
    })
}

/// The owner that APPLOCK_MODE and APPLOCK_TEST ask about.
///
/// Source: "APPLOCK_TEST" (MicrosoftDocs/sql-docs, docs/t-sql/functions/applock-test-transact-sql.md): with the owner
/// Transaction it "must be executed from within a transaction"; what comes outside of one it does not say.
fn application_lock_owner(principal: &Value, owner: &Value, state: &SessionState) -> SqlResult<LockOwner> {
    if principal.as_str().is_none_or(|principal| fold(principal) != "public") {
        return Err(SqlError::not_supported("application locks of another database principal than public"));
    }
    match owner.as_str().map(fold).as_deref() {
        Some("session") => Ok(LockOwner::Session),
        Some("transaction") if state.transaction_count > 0 => Ok(LockOwner::Transaction),
        Some("transaction") => {
            Err(SqlError::not_supported("APPLOCK_MODE and APPLOCK_TEST of the owner Transaction outside a transaction"))
        }
        _ => Err(SqlError::not_supported("a lock owner that is neither 'Transaction' nor 'Session'")),
    }
}

/// A mode that sp_getapplock can take.
pub fn application_mode(name: &str) -> Option<LockMode> {
    Some(match fold(name).as_str() {
        "shared" => LockMode::Shared,
        "update" => LockMode::Update,
        "intentshared" => LockMode::IntentShared,
        "intentexclusive" => LockMode::IntentExclusive,
        "exclusive" => LockMode::Exclusive,
        _ => return None,
    })
}

pub fn application_mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::IntentShared => "IntentShared",
        LockMode::Shared => "Shared",
        LockMode::Update => "Update",
        LockMode::IntentExclusive => "IntentExclusive",
        LockMode::SharedIntentExclusive => "SharedIntentExclusive",
        LockMode::UpdateIntentExclusive => "UpdateIntentExclusive",
        LockMode::Exclusive => "Exclusive",
        // No application lock can have them.
        _ => "NoLock",
    }
}

/// CURSOR_STATUS: -3 if there is no such cursor, -2 if the variable has none.
///
/// Source: "CURSOR_STATUS" (MicrosoftDocs/sql-docs, docs/t-sql/functions/cursor-status-transact-sql.md).
fn cursor_status(place: &Value, name: &Value, run: &Run<'_>) -> Value {
    use crate::tsql::ast::CursorName;
    let (Some(place), Some(name)) = (place.as_str(), name.as_str()) else { return Value::SmallInt(-3) };
    let named = |global: bool| CursorName::Name { name: name.into(), global };
    let (found, absent) = match fold(place).as_str() {
        "local" => (find(&named(false), &run.scope.cursors, &[]), -3),
        "global" => (find(&named(true), &[], &run.state.cursors), -3),
        "variable" => (find(&CursorName::Variable(name.into()), &run.scope.cursors, &[]), -2),
        _ => (None, -3),
    };
    let transactions = run.state.cursor_closing_transactions;
    Value::SmallInt(found.map_or(absent, |cursor| cursor.try_lock().map_or(1, |cursor| cursor.status(transactions))))
}

fn session_property(option: &Value, run: &Run<'_>) -> Value {
    let options = &run.state.options;
    let on = match option.as_str().map(fold).as_deref() {
        Some("ansi_nulls") => options.ansi_nulls,
        Some("ansi_padding") => options.ansi_padding,
        Some("ansi_warnings") => options.ansi_warnings,
        Some("arithabort") => options.arith_abort,
        Some("concat_null_yields_null") => options.concat_null_yields_null,
        Some("numeric_roundabort") => false,
        Some("quoted_identifier") => options.quoted_identifier,
        _ => return Value::Null,
    };
    int(on)
}

/// Properties that SQL Server has, but not the dev server.
///
/// Source: "SERVERPROPERTY" (MicrosoftDocs/sql-docs, docs/t-sql/functions/serverproperty-transact-sql.md).
const UNKNOWN_SERVER_PROPERTIES: &[&str] = &[
    "buildclrversion",
    "collationid",
    "comparisonstyle",
    "computernamephysicalnetbios",
    "editionid",
    "filestreamconfiguredlevel",
    "filestreameffectivelevel",
    "filestreamsharename",
    "hadrmanagerstatus",
    "instancedefaultbackuppath",
    "instancedefaultdatapath",
    "instancedefaultlogpath",
    "isadvancedanalyticsinstalled",
    "isbigdatacluster",
    "isexternalauthenticationonly",
    "isexternalgovernanceenabled",
    "isfulltextinstalled",
    "ispolybaseinstalled",
    "isserversuspendedforsnapshotbackup",
    "istempdbmetadatamemoryoptimized",
    "isxtpsupported",
    "lcid",
    "pathseparator",
    "processid",
    "productbuild",
    "productbuildtype",
    "productupdatereference",
    "resourcelastupdatedatetime",
    "resourceversion",
    "sqlcharset",
    "sqlcharsetname",
    "sqlsortorder",
    "sqlsortordername",
    "suspendeddatabasecount",
];

fn server_property(property: &Value) -> SqlResult<Value> {
    Ok(match property.as_str().map(fold).as_deref() {
        Some("productmajorversion") => text(MAJOR_VERSION.to_string()),
        Some("productminorversion") => text("0"),
        Some("productversion") => text(PRODUCT_VERSION),
        Some("productlevel") => text("RTM"),
        Some("engineedition") => Value::Int(3),
        Some("edition") => text("readpast dev server"),
        Some("collation") => text(crate::value::Collation::default().name()),
        Some("servername" | "machinename") => text("readpast-devserver"),
        Some("isintegratedsecurityonly" | "isclustered" | "ishadrenabled" | "issingleuser" | "islocaldb") => {
            Value::Int(0)
        }
        Some("licensetype") => text("DISABLED"),
        // A default instance has none; the others do not apply.
        Some("instancename" | "productupdatelevel" | "numlicenses") => Value::Null,
        Some(known) if UNKNOWN_SERVER_PROPERTIES.contains(&known) => {
            return Err(SqlError::not_supported(format!("SERVERPROPERTY('{known}')")));
        }
        _ => Value::Null,
    })
}

/// Properties that SQL Server has, but not the dev server.
///
/// Source: "DATABASEPROPERTYEX" (MicrosoftDocs/sql-docs, docs/t-sql/functions/databasepropertyex-transact-sql.md).
const UNKNOWN_DATABASE_PROPERTIES: &[&str] = &[
    "comparisonstyle",
    "edition",
    "isansinulldefault",
    "isansinullsenabled",
    "isansipaddingenabled",
    "isansiwarningsenabled",
    "isarithmeticabortenabled",
    "isautocreatestatistics",
    "isautocreatestatisticsincremental",
    "isautoupdatestatistics",
    "isclosecursorsoncommitenabled",
    "isdatabasesuspendedforsnapshotbackup",
    "isfulltextenabled",
    "islocalcursorsdefault",
    "ismemoryoptimizedelevatetosnapshotenabled",
    "isnullconcat",
    "isnumericroundabortenabled",
    "isparameterizationforced",
    "isquotedidentifiersenabled",
    "isrecursivetriggersenabled",
    "istornpagedetectionenabled",
    "isxtpsupported",
    "lastgoodcheckdbtime",
    "lcid",
    "maxsizeinbytes",
    "serviceobjective",
    "serviceobjectiveid",
    "sqlsortorder",
    "version",
];

fn database_property(name: &Value, property: &Value, run: &Run<'_>) -> SqlResult<Value> {
    let (Some(name), Some(property)) = (name.as_str(), property.as_str().map(fold)) else { return Ok(Value::Null) };
    if fold(name) != fold(&run.database.name) {
        return Err(SqlError::not_supported("DATABASEPROPERTYEX of another database than the current one"));
    }
    let read_only = run.database.is_read_only();
    Ok(match property.as_str() {
        "updateability" => text(if read_only { "READ_ONLY" } else { "READ_WRITE" }),
        "status" => text("ONLINE"),
        "collation" => text(crate::value::Collation::default().name()),
        "recovery" => text("SIMPLE"),
        "useraccess" => text("MULTI_USER"),
        // Nothing is replicated, cloned or restored here.
        "isautoclose" | "isautoshrink" | "isinstandby" | "isclone" | "isverifiedclone" | "ismergepublished"
        | "ispublished" | "issubscribed" | "issyncwithbackup" => Value::Int(0),
        known if UNKNOWN_DATABASE_PROPERTIES.contains(&known) => {
            return Err(SqlError::not_supported(format!("DATABASEPROPERTYEX('…', '{known}')")));
        }
        _ => Value::Null,
    })
}

/// The permanent or temporary table of a name in a string.
fn find_table(name: &str, run: &mut Run<'_>) -> SqlResult<Option<Arc<TableSchema>>> {
    let Some(name) = ParsedName::parse(name) else { return Ok(None) };
    if name.name.starts_with('#') {
        let Some(id) = run.state.temporary_table(&name.name) else { return Ok(None) };
        return Ok(run.storage()?.latch.schema(id).cloned());
    }
    if !name.is_in(&run.database.name) {
        return Ok(None);
    }
    let schemas = name.schemas(&run.state.default_schema);
    let storage = run.storage()?;
    for schema in schemas {
        if let Some(id) = storage.latch.find_table(&schema, &name.name) {
            return Ok(storage.latch.schema(id).cloned());
        }
    }
    Ok(None)
}

/// Metadata can be seen by whoever has any permission on the thing.
///
/// Source: "Metadata visibility configuration" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/security/metadata-visibility-configuration.md).
fn is_visible(id: ObjectId, schema: &str, is_table: bool, run: &Run<'_>) -> bool {
    let catalog = run.database.catalog.read();
    let user = run.state.user;
    if catalog.principals.is_owner(user) {
        return true;
    }
    let Some(schema) = catalog.schema(schema) else { return false };
    let on = SecurableId::Object { id, schema: schema.id };
    let permissions: &[&str] = if is_table {
        &["SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES", "ALTER", "VIEW DEFINITION", "CONTROL"]
    } else {
        &["EXECUTE", "SELECT", "ALTER", "VIEW DEFINITION", "CONTROL"]
    };
    permissions.iter().any(|permission| catalog.principals.has(user, permission, on))
}

fn object_id(name: &Value, kind: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let Some(name_text) = name.as_str() else { return Ok(Value::Null) };
    let kind = kind.as_str().map(|kind| fold(kind.trim()));
    let wants = |wanted: &str| kind.as_deref().is_none_or(|kind| kind == wanted);
    if wants("u")
        && let Some(table) = find_table(name_text, run)?
    {
        let visible = name_text.contains('#') || is_visible(table.id, &table.schema, true, run);
        return Ok(if visible { Value::Int(table.id) } else { Value::Null });
    }
    let Some(name) = ParsedName::parse(name_text) else { return Ok(Value::Null) };
    if !name.is_in(&run.database.name) {
        return Ok(Value::Null);
    }
    for schema in name.schemas(&run.state.default_schema) {
        let catalog = run.database.catalog.read();
        let found = match catalog.object(&schema, &name.name) {
            Some(Object::Procedure(procedure)) if wants("p") => procedure.id,
            Some(Object::View(view)) if wants("v") => view.id,
            Some(Object::Trigger(trigger)) if wants("tr") => trigger.procedure.id,
            Some(Object::Function(function)) if wants(if function.returns.is_some() { "fn" } else { "if" }) => {
                function.id
            }
            Some(Object::Synonym(synonym)) if wants("sn") => synonym.id,
            Some(Object::Sequence(sequence)) if wants("so") => sequence.id,
            _ => continue,
        };
        drop(catalog);
        return Ok(if is_visible(found, &schema, false, run) { Value::Int(found) } else { Value::Null });
    }
    // Constraints are objects too.
    if ["pk", "uq", "d", "c", "f"].iter().any(|kind| wants(kind)) {
        for table in run.storage()?.latch.tables() {
            if name.schema.as_deref().is_some_and(|schema| fold(schema) != fold(&table.schema)) {
                continue;
            }
            let found = crate::catalog::constraint::constraints(&table)
                .into_iter()
                .find(|constraint| fold(constraint.name) == fold(&name.name) && wants(&fold(constraint.code.trim())));
            if let Some(found) = found {
                return Ok(Value::Int(found.id));
            }
        }
    }
    Ok(Value::Null)
}

/// Schema and name of an object.
fn named_object(id: ObjectId, run: &mut Run<'_>) -> SqlResult<Option<(Arc<str>, Arc<str>)>> {
    if let Some(table) = run.storage()?.latch.schema(id) {
        return Ok(Some((Arc::clone(&table.schema), Arc::clone(&table.name))));
    }
    for table in run.storage()?.latch.tables() {
        if let Some(found) = crate::catalog::constraint::constraints(&table).into_iter().find(|found| found.id == id) {
            return Ok(Some((Arc::clone(&table.schema), Arc::clone(found.name))));
        }
    }
    let catalog = run.database.catalog.read();
    Ok(catalog.object_by_id(id).map(|object| (Arc::clone(object.schema()), Arc::clone(object.name()))))
}

fn type_id(name: &Value, run: &Run<'_>) -> Value {
    let Some(name) = name.as_str().and_then(ParsedName::parse) else { return Value::Null };
    if name.schema.as_deref().is_none_or(|schema| fold(schema) == "sys")
        && let Some(system) = crate::catalog::system_type::system_type_id(&fold(&name.name))
    {
        return Value::Int(system);
    }
    let catalog = run.database.catalog.read();
    for schema in name.schemas(&run.state.default_schema) {
        if let Some(user_type) = catalog.user_type(&schema, &name.name) {
            let on = match catalog.schema(&user_type.schema) {
                Some(schema) => SecurableId::Type { id: user_type.id, schema: schema.id },
                None => SecurableId::Database,
            };
            let visible = ["EXECUTE", "REFERENCES", "VIEW DEFINITION", "CONTROL"]
                .iter()
                .any(|permission| catalog.principals.has(run.state.user, permission, on));
            return if visible { Value::Int(user_type.id) } else { Value::Null };
        }
    }
    Value::Null
}

fn type_name(id: &Value, run: &Run<'_>) -> Value {
    let Some(id) = as_i32(id) else { return Value::Null };
    if let Some(name) = crate::catalog::system_type::system_type_name(id) {
        return text(name);
    }
    let catalog = run.database.catalog.read();
    optional_text(catalog.user_type_by_id(id).map(|user_type| &user_type.name))
}

fn column_property(id: &Value, column: &Value, property: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let (Some(id), Some(column), Some(property)) = (as_i32(id), column.as_str(), property.as_str()) else {
        return Ok(Value::Null);
    };
    let Some(table) = run.storage()?.latch.schema(id).cloned() else { return Ok(Value::Null) };
    let Some(ordinal) = table.column_named(column) else { return Ok(Value::Null) };
    let column = &table.columns[ordinal];
    Ok(match fold(property).as_str() {
        "allowsnull" => int(column.nullable),
        "columnid" => Value::Int(ordinal as i32 + 1),
        "isidentity" => int(column.identity.is_some()),
        "iscomputed" => int(column.computed.is_some()),
        _ => Value::Null,
    })
}

fn index_property(id: &Value, index: &Value, property: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let (Some(id), Some(index), Some(property)) = (as_i32(id), index.as_str(), property.as_str()) else {
        return Ok(Value::Null);
    };
    let Some(table) = run.storage()?.latch.schema(id).cloned() else { return Ok(Value::Null) };
    let Some(index) = table.index_named(index) else { return Ok(Value::Null) };
    Ok(match fold(property).as_str() {
        "indexid" => Value::Int(i32::from(index.id)),
        "isunique" => int(index.is_unique()),
        "isclustered" => int(index.is_clustered()),
        "isdisabled" | "ishypothetical" | "isstatistics" | "ispadindex" => int(false),
        "indexdepth" => Value::Int(1),
        _ => Value::Null,
    })
}

fn object_property(id: &Value, property: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let (Some(id), Some(property)) = (as_i32(id), property.as_str()) else { return Ok(Value::Null) };
    let property = fold(property);
    if let Some(table) = run.storage()?.latch.schema(id).cloned() {
        return Ok(match property.as_str() {
            "isusertable" | "istable" => int(true),
            "isprocedure" | "isview" => int(false),
            "tablehasclustindex" => int(table.clustered().is_some()),
            "tablehasprimarykey" => int(table.indexes.iter().any(|index| index.uniqueness == Uniqueness::PrimaryKey)),
            "tablehasidentity" => int(table.columns.iter().any(|column| column.identity.is_some())),
            "tablehasindex" => int(!table.indexes.is_empty()),
            "tablehasnonclustindex" => int(table.indexes.iter().any(|index| index.id != CLUSTERED)),
            _ => Value::Null,
        });
    }
    let catalog = run.database.catalog.read();
    Ok(match (catalog.object_by_id(id), property.as_str()) {
        (None, _) => Value::Null,
        (Some(object), "isprocedure") => int(matches!(object, Object::Procedure(_))),
        (Some(object), "isview") => int(matches!(object, Object::View(_))),
        (Some(_), "isusertable" | "istable") => int(false),
        (Some(_), "execisquotedidenton" | "execisansinullson") => int(true),
        _ => Value::Null,
    })
}

/// HAS_PERMS_BY_NAME; NULL where the securable is not known.
fn has_permission(securable: &Value, class: &Value, permission: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let Some(permission) = permission.as_str().map(str::to_uppercase) else { return Ok(Value::Null) };
    let permission = if permission == "EXEC" { "EXECUTE".to_string() } else { permission };
    let class = class.as_str().map(fold);
    let name = securable.as_str().and_then(ParsedName::parse);
    let on = match (class.as_deref(), name) {
        (Some("database"), name) => {
            if name.is_some_and(|name| fold(&name.name) != fold(&run.database.name)) {
                return Ok(Value::Null);
            }
            SecurableId::Database
        }
        (Some("schema"), Some(name)) => {
            let catalog = run.database.catalog.read();
            match catalog.schema(&name.name) {
                Some(schema) => SecurableId::Schema(schema.id),
                None => return Ok(Value::Null),
            }
        }
        (Some("type"), Some(name)) => {
            let catalog = run.database.catalog.read();
            let found = name.schemas(&run.state.default_schema).into_iter().find_map(|schema| {
                let user_type = catalog.user_type(&schema, &name.name)?;
                Some(SecurableId::Type { id: user_type.id, schema: catalog.schema(&schema)?.id })
            });
            match found {
                Some(on) => on,
                None => return Ok(Value::Null),
            }
        }
        (Some("object"), Some(name)) => {
            let mut found = None;
            for schema in name.schemas(&run.state.default_schema) {
                let table = run.storage()?.latch.find_table(&schema, &name.name);
                let catalog = run.database.catalog.read();
                let id = table.or_else(|| catalog.object(&schema, &name.name).map(Object::id));
                if let (Some(id), Some(schema)) = (id, catalog.schema(&schema)) {
                    found = Some(SecurableId::Object { id, schema: schema.id });
                    break;
                }
            }
            match found {
                Some(on) => on,
                None => return Ok(Value::Null),
            }
        }
        _ => return Ok(Value::Null),
    };
    let catalog = run.database.catalog.read();
    Ok(int(catalog.principals.has(run.state.user, &permission, on)))
}

/// The default schema of a user.
pub fn default_schema_of(kind: &PrincipalKind) -> Arc<str> {
    match kind {
        PrincipalKind::User { default_schema, .. } => Arc::clone(default_schema),
        PrincipalKind::Role { .. } => crate::catalog::catalog::DBO.into(),
    }
}
