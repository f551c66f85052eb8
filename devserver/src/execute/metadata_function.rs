//! Functions that look into the catalog: names and numbers of objects and types, their properties, and permissions on
//! them.

use std::sync::Arc;

use crate::catalog::catalog::Catalog;
use crate::catalog::constraint::constraints;
use crate::catalog::object::Object;
use crate::catalog::object_name::ParsedName;
use crate::catalog::principal::SecurableId;
use crate::catalog::system_type::system_type_id;
use crate::error::{SqlError, SqlResult};
use crate::execute::frame::Run;
use crate::execute::function_value::{as_i32, int};
use crate::storage::{CatalogName, Column, ObjectId, TableSchema, fold};
use crate::value::Value;

/// Whether the name is one of the current database; of another database that there is, it is refused.
fn is_here(name: &ParsedName, run: &Run<'_>) -> SqlResult<bool> {
    if name.is_in(&run.database.name) {
        return Ok(true);
    }
    match name.database.as_deref().and_then(|other| run.database.server.database_named(other)) {
        Some(other) => Err(SqlError::not_supported(format!("names in the database {} from another one", other.name))),
        None => Ok(false),
    }
}

/// Waits for whoever changes what one of these names means; what is looked up under the same latch afterwards stands.
///
/// Source: "Transaction locking and row versioning guide", schema locks (MicrosoftDocs/sql-docs,
/// docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md).
pub fn settle(names: impl Fn() -> Vec<CatalogName>, run: &mut Run<'_>) -> SqlResult<()> {
    let storage = run.storage()?;
    while storage.latch.has_changed_names() {
        let mut waited = false;
        for name in names() {
            waited |= storage.latch.wait_for_name(&storage.tx, &name)?;
        }
        if !waited {
            break;
        }
    }
    Ok(())
}

fn settle_object(name: &ParsedName, run: &mut Run<'_>) -> SqlResult<()> {
    let schemas = name.schemas(&run.state.default_schema);
    settle(|| schemas.iter().map(|schema| CatalogName::object(schema, &name.name)).collect(), run)
}

/// By its number an object may be any of those that others change.
pub fn settle_objects(run: &mut Run<'_>) -> SqlResult<()> {
    let storage = run.storage()?;
    storage.latch.wait_for_names(&storage.tx, |_| true)
}

/// The permanent or temporary table of a name in a string.
pub fn find_table(name: &str, run: &mut Run<'_>) -> SqlResult<Option<Arc<TableSchema>>> {
    let Some(name) = ParsedName::parse(name) else { return Ok(None) };
    if name.name.starts_with('#') {
        let Some(id) = run.state.temporary_table(&name.name) else { return Ok(None) };
        return Ok(run.storage()?.latch.schema(id).cloned());
    }
    if !is_here(&name, run)? {
        return Ok(None);
    }
    settle_object(&name, run)?;
    let schemas = name.schemas(&run.state.default_schema);
    let storage = run.storage()?;
    for schema in schemas {
        if let Some(id) = storage.latch.find_table(&schema, &name.name) {
            return Ok(storage.latch.schema(id).cloned());
        }
    }
    Ok(None)
}

/// The table of a number; the columns of a view are not asked for.
fn table_by_id(id: ObjectId, run: &mut Run<'_>) -> SqlResult<Option<Arc<TableSchema>>> {
    settle_objects(run)?;
    let table = run.storage()?.latch.schema(id).cloned();
    if table.is_none() && run.database.catalog.read().object_by_id(id).is_some() {
        return Err(columns_of_no_table());
    }
    Ok(table)
}

fn columns_of_no_table() -> SqlError {
    SqlError::not_supported("COLUMNPROPERTY and COL_LENGTH of what is no table")
}

pub fn column_length(table: &Value, column: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let (Some(name), Some(column)) = (table.as_str(), column.as_str()) else { return Ok(Value::Null) };
    let Some(found) = find_table(name, run)? else {
        let is_other = !object_id(table, &Value::Null, run)?.is_null();
        return if is_other { Err(columns_of_no_table()) } else { Ok(Value::Null) };
    };
    let Some(column) = column_named(&found, column) else { return Ok(Value::Null) };
    Ok(Value::SmallInt(column.sql_type.max_bytes().map_or(-1, |bytes| bytes as i16)))
}

fn column_named<'t>(table: &'t TableSchema, name: &str) -> Option<&'t Column> {
    let name = fold(name);
    table.columns.iter().find(|column| fold(&column.name) == name)
}

/// Metadata can be seen by whoever has any permission on the thing.
///
/// Source: "Metadata visibility configuration" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/security/metadata-visibility-configuration.md).
fn is_visible(id: ObjectId, schema: &str, is_table: bool, run: &Run<'_>) -> SqlResult<bool> {
    let catalog = run.database.catalog.read();
    let user = run.state.user;
    if catalog.principals.is_owner(user) {
        return Ok(true);
    }
    let Some(schema) = catalog.schema(schema) else { return Ok(false) };
    let on = SecurableId::Object { id, schema: schema.id };
    let permissions: &[&str] = if is_table {
        &["SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES", "VIEW DEFINITION", "CONTROL"]
    } else {
        &["EXECUTE", "SELECT", "VIEW DEFINITION", "CONTROL"]
    };
    has_any(&catalog, user, permissions, on)
}

fn has_any(catalog: &Catalog, user: i32, permissions: &[&str], on: SecurableId) -> SqlResult<bool> {
    for permission in permissions {
        if catalog.permits(user, permission, on)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub fn object_id(name: &Value, kind: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let Some(name_text) = name.as_str() else { return Ok(Value::Null) };
    let kind = kind.as_str().map(|kind| fold(kind.trim()));
    let wants = |wanted: &str| kind.as_deref().is_none_or(|kind| kind == wanted);
    if wants("u")
        && let Some(table) = find_table(name_text, run)?
    {
        let visible = name_text.contains('#') || is_visible(table.id, &table.schema, true, run)?;
        return Ok(if visible { Value::Int(table.id) } else { Value::Null });
    }
    let Some(name) = ParsedName::parse(name_text) else { return Ok(Value::Null) };
    // No #temp table, and no other object is called so.
    if name.name.starts_with('#') || !is_here(&name, run)? {
        return Ok(Value::Null);
    }
    settle_object(&name, run)?;
    for schema in name.schemas(&run.state.default_schema) {
        let catalog = run.database.catalog.read();
        let found = match catalog.object(&schema, &name.name) {
            Some(Object::Procedure(procedure)) if wants("p") => procedure.id,
            Some(Object::View(view)) if wants("v") => view.id,
            Some(Object::Trigger(trigger)) if wants("tr") => trigger.procedure.id,
            Some(Object::Function(function)) if wants("fn") => function.id,
            Some(Object::Sequence(sequence)) if wants("so") => sequence.id,
            _ => continue,
        };
        drop(catalog);
        return Ok(if is_visible(found, &schema, false, run)? { Value::Int(found) } else { Value::Null });
    }
    // Constraints are objects too.
    if ["pk", "uq", "d", "c", "f"].iter().any(|kind| wants(kind)) {
        for table in run.storage()?.latch.tables() {
            if name.schema.as_deref().is_some_and(|schema| fold(schema) != fold(&table.schema)) {
                continue;
            }
            let found = constraints(&table)
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
pub fn named_object(id: ObjectId, run: &mut Run<'_>) -> SqlResult<Option<(Arc<str>, Arc<str>)>> {
    settle_objects(run)?;
    if let Some(table) = run.storage()?.latch.schema(id) {
        return Ok(Some((Arc::clone(&table.schema), Arc::clone(&table.name))));
    }
    for table in run.storage()?.latch.tables() {
        if let Some(found) = constraints(&table).into_iter().find(|found| found.id == id) {
            return Ok(Some((Arc::clone(&table.schema), Arc::clone(found.name))));
        }
    }
    let catalog = run.database.catalog.read();
    Ok(catalog.object_by_id(id).map(|object| (Arc::clone(object.schema()), Arc::clone(object.name()))))
}

pub fn type_id(name: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let Some(name) = name.as_str().and_then(ParsedName::parse) else { return Ok(Value::Null) };
    if name.schema.as_deref().is_none_or(|schema| fold(schema) == "sys")
        && let Some(system) = system_type_id(&fold(&name.name))
    {
        return Ok(Value::Int(system));
    }
    let schemas = name.schemas(&run.state.default_schema);
    settle(|| schemas.iter().map(|schema| CatalogName::user_type(schema, &name.name)).collect(), run)?;
    let catalog = run.database.catalog.read();
    for schema in schemas {
        if let Some(user_type) = catalog.user_type(&schema, &name.name) {
            let on = match catalog.schema(&user_type.schema) {
                Some(schema) => SecurableId::Type { id: user_type.id, schema: schema.id },
                None => SecurableId::Database,
            };
            let permissions = ["EXECUTE", "REFERENCES", "VIEW DEFINITION", "CONTROL"];
            let visible = has_any(&catalog, run.state.user, &permissions, on)?;
            return Ok(if visible { Value::Int(user_type.id) } else { Value::Null });
        }
    }
    Ok(Value::Null)
}

pub fn column_property(id: &Value, column: &Value, property: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let (Some(id), Some(column), Some(property)) = (as_i32(id), column.as_str(), property.as_str()) else {
        return Ok(Value::Null);
    };
    let Some(table) = table_by_id(id, run)? else { return Ok(Value::Null) };
    let Some(column) = column_named(&table, column) else { return Ok(Value::Null) };
    Ok(match fold(property).as_str() {
        "allowsnull" => int(column.nullable),
        "isidentity" => int(column.identity.is_some()),
        "iscomputed" => int(column.computed.is_some()),
        other => return Err(SqlError::not_supported(format!("COLUMNPROPERTY of '{other}'"))),
    })
}

pub fn index_property(id: &Value, index: &Value, property: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let (Some(id), Some(index), Some(property)) = (as_i32(id), index.as_str(), property.as_str()) else {
        return Ok(Value::Null);
    };
    settle_objects(run)?;
    let Some(table) = run.storage()?.latch.schema(id).cloned() else { return Ok(Value::Null) };
    let Some(index) = table.index_named(index) else { return Ok(Value::Null) };
    match fold(property).as_str() {
        "indexid" => Ok(Value::Int(i32::from(index.id))),
        other => Err(SqlError::not_supported(format!("INDEXPROPERTY of '{other}'"))),
    }
}

pub fn object_property(id: &Value, property: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
    let (Some(id), Some(property)) = (as_i32(id), property.as_str()) else { return Ok(Value::Null) };
    settle_objects(run)?;
    let is_table = run.storage()?.latch.schema(id).is_some();
    if !is_table && run.database.catalog.read().object_by_id(id).is_none() {
        return Ok(Value::Null);
    }
    Ok(int(match fold(property).as_str() {
        "isusertable" => is_table,
        other => return Err(SqlError::not_supported(format!("OBJECTPROPERTY of '{other}'"))),
    }))
}

/// HAS_PERMS_BY_NAME; NULL where the securable is not known.
pub fn has_permission(securable: &Value, class: &Value, permission: &Value, run: &mut Run<'_>) -> SqlResult<Value> {
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
        (Some("object"), Some(name)) => {
            settle_object(&name, run)?;
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
        (Some(class), Some(_)) => {
            return Err(SqlError::not_supported(format!("HAS_PERMS_BY_NAME of the class '{class}'")));
        }
        _ => return Ok(Value::Null),
    };
    let catalog = run.database.catalog.read();
    Ok(int(catalog.permits(run.state.user, &permission, on)?))
}
