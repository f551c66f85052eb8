//! A dynamic cursor: what it holds while it is open, and how each FETCH goes on behind the row of every table where
//! the last one stood.
//!
//! The tables are read in loops, one within the other. Where such a reading goes on, all tables but the innermost show
//! their row once more, if it is still there and still fulfils the conditions (and so wait for whoever changes it); a
//! table whose outer row is another one begins anew. So the cursor sees what has changed behind it, and asks for no
//! lock on what lies before. Where the row has come to be joined with others since, no page says what is next: refused.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run, SlotRow};
use crate::execute::open_cursor::{CurrentRow, OpenCursor, Places};
use crate::execute::table_scan::{open_scan, seek_range};
use crate::plan::cached_plan::{BoundPlan, Plan};
use crate::plan::query::{Body, LoopKind, Operator, OutputColumn, SelectPlan, TableScan};
use crate::plan::scalar::Condition;
use crate::storage::Key;
use crate::value::Value;

pub fn columns_of(bound: &BoundPlan) -> &[OutputColumn] {
    match &bound.plan {
        Plan::Select(plan) => &plan.query.columns,
        _ => unreachable!("a cursor's plan holds a SELECT"),
    }
}

/// The SELECT of a cursor and its tables, by slot. `None` where a dynamic cursor cannot go on where it stands: it goes
/// through loops, with no order to keep and no count of rows.
pub fn tables_of(bound: &BoundPlan) -> Option<(&SelectPlan, Vec<&TableScan>)> {
    let Plan::Select(plan) = &bound.plan else { return None };
    let Body::Select(select) = &plan.query.body else { return None };
    let mut scans = Vec::new();
    let goes_on = collect(&select.input, &mut scans)
        && !select.distinct
        && select.sort.is_empty()
        && select.limit.is_none()
        && scans.iter().all(|scan| scan.path.any_of.is_none());
    scans.sort_by_key(|scan| scan.slot);
    goes_on.then_some((select, scans))
}

fn collect<'a>(operator: &'a Operator, scans: &mut Vec<&'a TableScan>) -> bool {
    match operator {
        Operator::Table(scan) => {
            scans.push(scan);
            true
        }
        Operator::Loop { kind: LoopKind::Inner, left, right, .. } => collect(left, scans) && collect(right, scans),
        _ => false,
    }
}

/// Where an operator begins to read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    AtStart,
    /// With the row of the last FETCH.
    AtPlace,
    BehindPlace,
}

struct Walk<'a> {
    last: &'a Places,
    now: Places,
    /// By slot: the row is that of the last FETCH.
    is_last: Vec<bool>,
    /// Of the row that was read last.
    key: Option<Key>,
}

type Take<'t> = &'t mut dyn FnMut(&mut Walk<'_>, &mut Run<'_>, &mut Frame) -> SqlResult<Flow>;

/// The next row behind the places of the cursor.
pub fn fetch_next(open: &mut OpenCursor, run: &mut Run<'_>) -> SqlResult<Option<Vec<Value>>> {
    let (select, scans) = tables_of(&open.bound).expect("it was so when the cursor was opened");
    let mut frame = Frame::of(&open.bound);
    let slots = frame.rows.len();
    let begin = if open.places.is_empty() { Begin::AtStart } else { Begin::BehindPlace };
    let mut walk = Walk { last: &open.places, now: vec![None; slots], is_last: vec![false; slots], key: None };
    let mut fetched = None;
    let mut current = None;
    let flow = read(&select.input, begin, &mut walk, run, &mut frame, &mut |walk, run, frame| {
        if let ([scan], SlotRow::Stored(row, schema)) = (&scans[..], &frame.rows[scans[0].slot]) {
            let key = walk.key.take().expect("a row was read");
            current = Some(CurrentRow { table: scan.table.schema.id, key, values: row.values(schema) });
        }
        fetched = Some(select.items.iter().map(|item| item.eval(run, frame)).collect::<SqlResult<_>>()?);
        Ok(Flow::Stop)
    })?;
    if flow == Flow::Stop {
        open.places = walk.now;
    }
    open.current = current;
    Ok(fetched)
}

fn read(
    operator: &Operator,
    begin: Begin,
    walk: &mut Walk<'_>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    take: Take<'_>,
) -> SqlResult<Flow> {
    match operator {
        Operator::Table(scan) => read_table(scan, begin, walk, run, frame, take),
        Operator::Loop { left, right, .. } => {
            let mut outer = Vec::new();
            collect(left, &mut outer);
            let begin_left = if begin == Begin::AtStart { begin } else { Begin::AtPlace };
            read(left, begin_left, walk, run, frame, &mut |walk, run, frame| {
                let is_last = outer.iter().all(|scan| walk.is_last[scan.slot]);
                let begin_right = if is_last { begin } else { Begin::AtStart };
                read(right, begin_right, walk, run, frame, take)
            })
        }
        _ => unreachable!("a dynamic cursor reads tables in loops"),
    }
}

fn read_table(
    scan: &TableScan,
    begin: Begin,
    walk: &mut Walk<'_>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    take: Take<'_>,
) -> SqlResult<Flow> {
    let Some(range) = seek_range(scan, run, frame)? else { return Ok(Flow::Continue) };
    let mut reader = open_scan(scan, &range, run)?;
    let last = walk.last.get(scan.slot).and_then(Option::as_ref).filter(|_| begin != Begin::AtStart);
    if let Some((last_range, last)) = last {
        if *last_range != range {
            return Err(SqlError::not_supported(
                "FETCH of a cursor whose conditions have other values since the last FETCH",
            ));
        }
        reader.go_on(last, begin == Begin::AtPlace);
    }
    loop {
        let storage = run.storage_of(scan.table.place)?;
        let Some(found) = reader.next(&mut storage.latch, &mut storage.tx)? else { return Ok(Flow::Continue) };
        frame.rows[scan.slot] = SlotRow::Stored(found.row, Arc::clone(&scan.table.schema));
        if !Condition::all_hold(&scan.residual, run, frame)? {
            let storage = run.storage_of(scan.table.place)?;
            reader.release_last(&mut storage.latch, &mut storage.tx);
            continue;
        }
        walk.is_last[scan.slot] = begin == Begin::AtPlace && last.is_some_and(|(_, last)| reader.stands_at(last));
        walk.now[scan.slot] = Some((range.clone(), reader.place()));
        walk.key = Some(found.key);
        if take(walk, run, frame)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
}
