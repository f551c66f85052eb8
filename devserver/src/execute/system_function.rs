//! Functions about the server, the database and the session: `OBJECT_ID`, `@@ROWCOUNT`, `ERROR_MESSAGE` …

use std::sync::Arc;

use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::execute::application_lock::{application_lock_owner, application_mode, application_mode_name};
use crate::execute::frame::Run;
use crate::execute::function_value::{as_i32, as_variant, identity_value, int, optional_text, text};
use crate::execute::metadata_function::{
    column_length, column_property, has_permission, index_property, named_object, object_id, object_property, settle,
    settle_objects, type_id,
};
use crate::execute::property::{database_property, server_property, version};
use crate::plan::system_function::SystemFunction;
use crate::storage::{CatalogName, fold};
use crate::value::Value;

pub fn eval(function: SystemFunction, arguments: &[Value], run: &mut Run<'_>) -> SqlResult<Value> {
    let argument = |position: usize| arguments.get(position).unwrap_or(&Value::Null);
    let state = &*run.state;
    Ok(match function {
        SystemFunction::RowCount => Value::Int(state.row_count as i32),
        SystemFunction::Error => Value::Int(state.error),
        SystemFunction::TranCount => Value::Int(state.transaction_count),
        SystemFunction::Spid => Value::SmallInt(state.spid as i16),
        SystemFunction::Version => text(version(run.database.server.product)),
        SystemFunction::Identity => identity_value(state.identity),
        SystemFunction::Options => Value::Int(state.options.bits()),
        SystemFunction::LockTimeout => {
            Value::Int(state.options.lock_timeout.map_or(-1, |timeout| timeout.as_millis() as i32))
        }
        SystemFunction::ServerName => text("readpast-devserver"),
        SystemFunction::ProcId => Value::Int(run.activation.procedure.as_ref().map_or(0, |procedure| procedure.id)),
        SystemFunction::FetchStatus => Value::Int(state.fetch_status),
        SystemFunction::ScopeIdentity => identity_value(run.activation.scope_identity),
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
        SystemFunction::SessionProperty => as_variant(session_property(argument(0), run)),
        SystemFunction::SessionContext => {
            argument(0).as_str().and_then(|key| state.context.get(key).cloned()).unwrap_or(Value::Null)
        }
        SystemFunction::HostName => text(&state.host_name),
        SystemFunction::AppName => text(&state.app_name),
        // "Returns NULL on Azure SQL Database": "ORIGINAL_LOGIN" (MicrosoftDocs/sql-docs,
        // docs/t-sql/functions/original-login-transact-sql.md).
        SystemFunction::OriginalLogin if run.database.server.product.is_azure() => Value::Null,
        SystemFunction::OriginalLogin | SystemFunction::SuserName => text(&state.login),
        SystemFunction::ServerProperty => as_variant(server_property(argument(0), run.database.server.product)?),
        SystemFunction::DbName => match argument(0) {
            Value::Null if !arguments.is_empty() => Value::Null,
            Value::Null => text(&run.database.name),
            id => optional_text(as_i32(id).and_then(|id| run.database.server.database(id)).map(|known| known.name)),
        },
        SystemFunction::DbId => match argument(0).as_str() {
            // "NULL is returned if the specified database name is other than the current database": "DB_ID", for Azure.
            Some(name) if run.database.server.product.is_azure() && fold(name) != fold(&run.database.name) => {
                Value::Null
            }
            Some(name) => run.database.server.database_id(name).map_or(Value::Null, |id| Value::SmallInt(id as i16)),
            None if arguments.is_empty() => Value::SmallInt(run.database.id as i16),
            None => Value::Null,
        },
        SystemFunction::DatabasePropertyEx => as_variant(database_property(argument(0), argument(1), run)?),
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
            settle_objects(run)?;
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
            let name = match argument(0).as_str() {
                Some(name) => Arc::from(name),
                None if arguments.is_empty() => Arc::clone(&run.state.default_schema),
                None => return Ok(Value::Null),
            };
            let name: &str = &name;
            settle(|| vec![CatalogName::schema(name)], run)?;
            let catalog = run.database.catalog.read();
            catalog.schema(name).map_or(Value::Null, |schema| Value::Int(schema.id))
        }
        SystemFunction::SchemaName => {
            if arguments.is_empty() {
                return Ok(text(&run.state.default_schema));
            }
            let storage = run.storage()?;
            storage.latch.wait_for_names(&storage.tx, CatalogName::is_schema)?;
            let catalog = run.database.catalog.read();
            optional_text(as_i32(argument(0)).and_then(|id| catalog.schema_by_id(id)).map(|schema| &schema.name))
        }
        SystemFunction::TypeId => type_id(argument(0), run)?,
        SystemFunction::ColLength => column_length(argument(0), argument(1), run)?,
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

fn session_property(option: &Value, run: &Run<'_>) -> Value {
    let options = &run.state.options;
    let on = match option.as_str().map(fold).as_deref() {
        Some("ansi_nulls" | "ansi_warnings" | "concat_null_yields_null" | "quoted_identifier") => true,
        Some("ansi_padding") => options.ansi_padding,
        Some("arithabort") => options.arith_abort,
        Some("numeric_roundabort") => false,
        _ => return Value::Null,
    };
    int(on)
}
