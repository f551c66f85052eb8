//! sys.dm_db_index_operational_stats: what was done to each index.
//!
//! Source: MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-dynamic-management-views/sys-dm-db-index-operational-stats-transact-sql.md. Columns
//! about pages, latches and what stands off a row are left out; who asks for one is refused (59000). There are no page
//! locks.

use crate::catalog::principal::SecurableId;
use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::plan::index_activity::{COUNTS, NAME};
use crate::plan::scalar::Scalar;
use crate::storage::ObjectId;
use crate::value::Value;

pub fn rows(arguments: &[Scalar; 4], run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Vec<Value>>> {
    let mut given = [None; 4];
    for (value, argument) in given.iter_mut().zip(arguments) {
        *value = argument.eval(run, frame)?.as_i64();
    }
    let [database, object, index, partition] = given;
    // 0 is "all" but for an index, which is that of a heap.
    let (database, object, partition) = (database.unwrap_or(0), object.unwrap_or(0), partition.unwrap_or(0));
    let index = index.filter(|index| *index != -1);
    if database != 0 && database != i64::from(run.database.id) {
        return Err(SqlError::not_supported(format!("{NAME} of another database than the current one")));
    }
    check_permission(run, object as ObjectId)?;
    let database_id = run.database.id;
    let latch = &run.storage()?.latch;
    let mut rows = Vec::new();
    for table in latch.tables().iter().filter(|table| object == 0 || i64::from(table.id) == object) {
        let heap = table.clustered().is_none().then_some(table.row_index());
        let ids = heap.into_iter().chain(table.indexes.iter().map(|index| index.id));
        for id in ids.filter(|id| index.is_none_or(|index| index == i64::from(*id)) && partition <= 1) {
            let counts = latch.activity(table.id, id);
            let mut row = vec![
                Value::SmallInt(database_id as i16),
                Value::Int(table.id),
                Value::Int(i32::from(id)),
                Value::Int(1),
            ];
            row.extend(COUNTS.iter().map(|(_, count)| Value::BigInt(count(&counts) as i64)));
            rows.push(row);
        }
    }
    Ok(rows)
}

/// CONTROL on the object, or VIEW DATABASE STATE.
fn check_permission(run: &Run<'_>, object: ObjectId) -> SqlResult<()> {
    let catalog = run.database.catalog.read();
    let user = run.state.user;
    if catalog.principals.has(user, "VIEW DATABASE STATE", SecurableId::Database) {
        return Ok(());
    }
    let table = run.storage.as_ref().and_then(|storage| storage.latch.schema(object));
    let schema = table.and_then(|table| catalog.schema(&table.schema));
    if schema.is_some_and(|schema| {
        catalog.principals.has(user, "CONTROL", SecurableId::Object { id: object, schema: schema.id })
    }) {
        return Ok(());
    }
    let message = format!("VIEW DATABASE STATE permission denied in database '{}'.", run.database.name);
    Err(SqlError::new(262, message).severity(14))
}
