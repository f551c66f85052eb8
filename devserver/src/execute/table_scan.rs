//! Reads rows of a table: a range of one of its indexes, or the row under a cursor.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Emit, Flow, Frame, Run};
use crate::plan::query::TableScan;
use crate::plan::scalar::Condition;
use crate::plan::table_hints::Access;
use crate::storage::{Key, Lifetime, Scan, SeekRange};
use crate::tsql::ast::IsolationLevel;
use crate::value::Value;

/// The range that a scan seeks, the values of an IN list excepted; `None` if it can hold no row.
pub fn seek_range(scan: &TableScan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Option<SeekRange>> {
    let mut range = SeekRange { equal: Vec::with_capacity(scan.path.equal.len()), ..Default::default() };
    for seek in &scan.path.equal {
        let value = seek.scalar.eval(run, frame)?;
        if value.is_null() && !seek.is_null {
            return Ok(None);
        }
        range.equal.push(value);
    }
    // A range begins behind the NULLs: a comparison with NULL is never true.
    if let Some((bound, inclusive)) = &scan.path.lower {
        match bound.eval(run, frame)? {
            Value::Null => return Ok(None),
            value => range.lower = Some((value, *inclusive)),
        }
    }
    if let Some((bound, inclusive)) = &scan.path.upper {
        match bound.eval(run, frame)? {
            Value::Null => return Ok(None),
            value => range.upper = Some((value, *inclusive)),
        }
    }
    Ok(Some(range))
}

/// Opens a scan of one of the table's indexes, with the locks that isolation level and hints ask for.
pub fn open_scan(scan: &TableScan, range: &SeekRange, run: &mut Run<'_>) -> SqlResult<Scan> {
    let table = run.table_id(scan.table.place);
    let isolation = run.state.options.isolation;
    let database = run.database;
    let storage = run.storage_of(scan.table.place)?;
    if scan.table.schema.lifetime == Lifetime::Permanent {
        storage.latch.use_data(&mut storage.tx, isolation == IsolationLevel::Snapshot, &database.name)?;
    }
    let path = &scan.path;
    let has_versions = storage.latch.reads_committed_snapshot();
    let locks = scan.hints.lock_plan(isolation, has_versions, scan.access)?;
    Scan::open(&mut storage.latch, &mut storage.tx, table, path.index, range, path.direction, locks, path.covering)
}

/// Puts each row of the range that fulfils the conditions into the frame.
pub fn run_range(
    scan: &TableScan,
    range: &SeekRange,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    let mut cursor = open_scan(scan, range, run)?;
    loop {
        let storage = run.storage_of(scan.table.place)?;
        let Some(found) = cursor.next(&mut storage.latch, &mut storage.tx)? else { return Ok(Flow::Continue) };
        frame.rows[scan.slot].store(found.row, &scan.table.schema);
        if scan.access == Access::Change {
            frame.target = Some(found.key);
        }
        if !Condition::all_hold(&scan.residual, run, frame)? {
            let storage = run.storage_of(scan.table.place)?;
            cursor.release_last(&mut storage.latch, &mut storage.tx);
            continue;
        }
        let kept = frame.kept;
        let flow = emit(run, frame)?;
        if scan.access == Access::Change && frame.kept == kept {
            let storage = run.storage_of(scan.table.place)?;
            cursor.release_last(&mut storage.latch, &mut storage.tx);
        }
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
}

/// The row under the cursor, locked for a change: 16947 if it is gone, 16934 if somebody has changed it.
pub fn read_current(run: &mut Run<'_>) -> SqlResult<(Key, Vec<Value>)> {
    let current = run.activation.current_row.clone().expect("the statement stands on a row");
    let storage = run.storage()?;
    let row = storage.latch.lock_row(&mut storage.tx, current.table, &current.key)?;
    let schema = storage.latch.schema(current.table).cloned();
    let (Some(row), Some(schema)) = (row, schema) else {
        return Err(SqlError::new(16947, "No rows were updated or deleted."));
    };
    let values = row.values(&schema);
    if values != current.values {
        return Err(SqlError::not_supported("a change of a row that has changed since the cursor fetched it"));
    }
    Ok((current.key, values))
}
