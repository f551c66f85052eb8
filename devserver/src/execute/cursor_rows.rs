//! The rows of a cursor: how its query is read at OPEN and at each FETCH.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::cursor::{CurrentRow, JoinedTables, joined_tables, keyset_index, select_of, single_table};
use crate::execute::frame::{Flow, Frame, Run, SlotRow};
use crate::execute::limit::limit_values;
use crate::execute::operator::run_operator;
use crate::execute::query::run_query;
use crate::execute::sort::{compare_keys, eval_keys};
use crate::execute::table_scan::{open_scan, seek_range};
use crate::plan::cell::BoundPlan;
use crate::plan::query::{SelectPlan, TableScan};
use crate::plan::scalar::Condition;
use crate::storage::{ScanPlace, SeekRange};
use crate::value::Value;

/// What a FETCH found.
pub enum Fetched {
    Row(Vec<Value>),
    /// Before the first or behind the last row: -1.
    End,
    /// A row of the keyset that is not there any more: -2.
    Gone,
}

/// All rows, for a static cursor.
pub fn static_rows(bound: &BoundPlan, run: &mut Run<'_>) -> SqlResult<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    run_query(&select_of(bound).query, run, &mut Frame::of(bound), &mut |_, _, row| {
        rows.push(row);
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}

pub(super) fn project(select: &SelectPlan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Value>> {
    select.items.iter().map(|item| item.eval(run, frame)).collect()
}

fn key_columns(scan: &TableScan) -> Vec<usize> {
    keyset_index(&scan.table.schema).map_or(&[][..], |index| &index.key).iter().map(|key| key.column).collect()
}

/// The keys of the rows that belong to the cursor, in its order.
pub fn keyset(bound: &BoundPlan, run: &mut Run<'_>) -> SqlResult<Vec<Vec<Value>>> {
    let JoinedTables { select, scans, .. } = joined_tables(bound).expect("a keyset cursor reads tables");
    let keys: Vec<(usize, Vec<usize>)> = scans.iter().map(|scan| (scan.slot, key_columns(scan))).collect();
    let mut frame = Frame::of(bound);
    if select.limit.percent {
        return Err(SqlError::not_supported("TOP … PERCENT in a cursor that is not STATIC"));
    }
    let (skip, take) = limit_values(&select.limit, run, &mut frame)?;
    let mut rows: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    let enough = if select.sort.is_empty() { skip.saturating_add(take) } else { usize::MAX };
    run_operator(&select.input, run, &mut frame, &mut |run, frame| {
        let order = eval_keys(&select.sort, run, frame)?;
        let mut key = Vec::new();
        for (slot, columns) in &keys {
            key.extend(columns.iter().map(|column| frame.rows[*slot].get(*column)));
        }
        rows.push((order, key));
        Ok(if rows.len() < enough { Flow::Continue } else { Flow::Stop })
    })?;
    if !select.sort.is_empty() {
        rows.sort_by(|(a, _), (b, _)| compare_keys(&select.sort, a, b));
    }
    Ok(rows.into_iter().skip(skip).take(take).map(|(_, key)| key).collect())
}

/// The next row of the scan that fulfils the conditions.
pub fn next_dynamic(
    bound: &BoundPlan,
    place: &mut Option<ScanPlace>,
    run: &mut Run<'_>,
) -> SqlResult<(Fetched, Option<CurrentRow>)> {
    let (select, scan) = single_table(bound).expect("a dynamic cursor reads one table");
    let mut frame = Frame::of(bound);
    let Some(range) = seek_range(scan, run, &mut frame)? else {
        return Ok((Fetched::End, None));
    };
    let mut reader = open_scan(scan, scan.index, &range, scan.covering, run)?;
    if let Some(place) = place.as_ref() {
        reader.go_on_from(place);
    }
    loop {
        let storage = run.storage()?;
        let found = reader.next(&mut storage.latch, &mut storage.tx)?;
        *place = Some(reader.place());
        let Some(found) = found else { return Ok((Fetched::End, None)) };
        let values = found.row.values(&scan.table.schema);
        frame.rows[scan.slot] = SlotRow::Stored(found.row, Arc::clone(&scan.table.schema));
        if !Condition::all_hold(&scan.residual, run, &mut frame)? {
            let storage = run.storage()?;
            reader.release_last(&mut storage.latch, &mut storage.tx);
            continue;
        }
        let row = project(select, run, &mut frame)?;
        let current = CurrentRow { table: scan.table.schema.id, key: found.key, values };
        return Ok((Fetched::Row(row), Some(current)));
    }
}

/// The row of a keyset as it is now, whether it still fulfils the conditions or not.
pub fn read_by_key(
    bound: &BoundPlan,
    mut key: Vec<Value>,
    run: &mut Run<'_>,
) -> SqlResult<(Fetched, Option<CurrentRow>)> {
    let JoinedTables { select, scans, .. } = joined_tables(bound).expect("a keyset cursor reads tables");
    let mut frame = Frame::of(bound);
    let mut current = None;
    for scan in &scans {
        let rest = key.split_off(key_columns(scan).len());
        let range = SeekRange { equal: std::mem::replace(&mut key, rest), ..SeekRange::default() };
        let index = keyset_index(&scan.table.schema).expect("a keyset has the keys of an index").id;
        let mut reader = open_scan(scan, index, &range, false, run)?;
        let storage = run.storage_of(scan.table.place)?;
        let Some(found) = reader.next(&mut storage.latch, &mut storage.tx)? else { return Ok((Fetched::Gone, None)) };
        if scans.len() == 1 {
            let values = found.row.values(&scan.table.schema);
            current = Some(CurrentRow { table: scan.table.schema.id, key: found.key, values });
        }
        frame.rows[scan.slot] = SlotRow::Stored(found.row, Arc::clone(&scan.table.schema));
    }
    let row = project(select, run, &mut frame)?;
    Ok((Fetched::Row(row), current))
}
