//! sys.dm_db_index_operational_stats: what was done to each index; sys.dm_db_index_physical_stats: what is in it.
//!
//! Source: MicrosoftDocs/sql-docs, docs/relational-databases/system-dynamic-management-views/
//! sys-dm-db-index-operational-stats-transact-sql.md and sys-dm-db-index-physical-stats-transact-sql.md. There are no
//! pages here, and so no page locks. Columns about pages, latches and what stands off a row are left out; who asks for
//! one is refused (59000).

use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::execute::function_value::text;
use crate::plan::index_function::{COUNTS, IndexFunction};
use crate::plan::scalar::Scalar;
use crate::storage::{HEAP, IndexId, LockMode, ObjectId, TableSchema};
use crate::value::Value;

pub fn rows(
    function: IndexFunction,
    arguments: &[Scalar],
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<Vec<Value>>> {
    let mut given = Vec::with_capacity(arguments.len());
    for argument in arguments {
        given.push(argument.eval(run, frame)?);
    }
    // 0 is "all" but for an index, which is that of a heap.
    let number = |position: usize| given[position].as_i64();
    let (database, object, partition) = (number(0).unwrap_or(0), number(1).unwrap_or(0), number(3).unwrap_or(0));
    let index = number(2).filter(|index| *index != -1);
    if database != 0 && database != i64::from(run.database.id) {
        let name = function.name();
        return Err(SqlError::not_supported(format!("{name} of another database than the current one")));
    }
    check_permission(run, object as ObjectId)?;
    let counts = given.get(4).map(counts_records).transpose()?.unwrap_or(false);
    let database_id = run.database.id;
    let tables = run.storage()?.latch.tables();
    let mut rows = Vec::new();
    for table in tables.iter().filter(|table| object == 0 || i64::from(table.id) == object) {
        let heap = table.clustered().is_none().then_some(table.row_index());
        let ids = heap.into_iter().chain(table.indexes.iter().map(|index| index.id));
        for id in ids.filter(|id| index.is_none_or(|index| index == i64::from(*id)) && partition <= 1) {
            let mut row = vec![
                Value::SmallInt(database_id as i16),
                Value::Int(table.id),
                Value::Int(i32::from(id)),
                Value::Int(1),
            ];
            match function {
                IndexFunction::Activity => {
                    let counts = run.storage()?.latch.activity(table.id, id);
                    row.extend(COUNTS.iter().map(|(_, count)| Value::BigInt(count(&counts) as i64)));
                }
                IndexFunction::Records => row.extend(records(table, id, counts, run)?),
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Whether a mode counts records: LIMITED, which is the default, only tells which indexes there are.
fn counts_records(mode: &Value) -> SqlResult<bool> {
    match mode.as_str().map(str::to_uppercase).as_deref() {
        None | Some("LIMITED") => Ok(false),
        Some("SAMPLED") => Ok(true),
        Some("DETAILED") => Err(SqlError::not_supported(
            "the mode DETAILED of dm_db_index_physical_stats: no level of an index but its leaves is here, which SAMPLED counts",
        )),
        Some(other) => Err(SqlError::not_supported(format!("the mode {other} of dm_db_index_physical_stats"))),
    }
}

/// The leaves of an index. A ghost is one from its deletion on, committed or not. The function waits for the table, as
/// any reader does ("Because the function requires only an Intent-Shared (IS) table lock …").
fn records(table: &TableSchema, index: IndexId, counts: bool, run: &mut Run<'_>) -> SqlResult<[Value; 5]> {
    let has_rows = index == table.row_index();
    if has_rows && table.columns.iter().any(|column| column.sql_type.is_max() || column.sql_type.is_text_or_image()) {
        return Err(SqlError::not_supported(format!(
            "dm_db_index_physical_stats of the rows of {}, whose (max) columns have records of their own (LOB_DATA)",
            table.name
        )));
    }
    let storage = run.storage()?;
    storage.latch.lock_table(&mut storage.tx, table.id, LockMode::IntentShared, false)?;
    let found = storage.latch.table(table.id).and_then(|table| table.entry_counts(index));
    let [live, ghosts] = match found {
        Some(found) if counts => found.map(|count| Value::BigInt(count as i64)),
        _ => [Value::Null, Value::Null],
    };
    let kind = match index {
        HEAP => "HEAP",
        _ if has_rows => "CLUSTERED INDEX",
        _ => "NONCLUSTERED INDEX",
    };
    Ok([text(kind), text("IN_ROW_DATA"), Value::TinyInt(0), live, ghosts])
}

/// CONTROL on the object, or VIEW DATABASE STATE.
fn check_permission(run: &Run<'_>, object: ObjectId) -> SqlResult<()> {
    let catalog = run.database.catalog.read();
    let user = run.state.user;
    if catalog.permits(user, "VIEW DATABASE STATE", SecurableId::Database)? {
        return Ok(());
    }
    let table = run.storage.as_ref().and_then(|storage| storage.latch.schema(object));
    if let Some(schema) = table.and_then(|table| catalog.schema(&table.schema))
        && catalog.permits(user, "CONTROL", SecurableId::Object { id: object, schema: schema.id })?
    {
        return Ok(());
    }
    let message = format!("VIEW DATABASE STATE permission denied in database '{}'.", run.database.name);
    Err(SqlError::new(262, message).severity(14))
}
