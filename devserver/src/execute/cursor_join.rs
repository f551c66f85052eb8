//! A dynamic cursor over joins: each FETCH goes on behind the row of every table where the last one stood.
//!
//! The tables are read in loops, one within the other. Where such a reading goes on, all tables but the innermost show
//! their row once more, if it is still there and still fulfils the conditions (and so wait for whoever changes it); a
//! table whose outer row is another one begins anew. So the cursor sees what has changed behind it, and asks for no
//! lock on what lies before. Where the row has come to be joined with others since, no page says what is next: refused.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::cursor::{Places, joined_tables};
use crate::execute::cursor_rows::{Fetched, project};
use crate::execute::frame::{Flow, Frame, Run, SlotRow};
use crate::execute::table_scan::{open_scan, seek_range};
use crate::plan::cell::BoundPlan;
use crate::plan::query::{Operator, TableScan};
use crate::plan::scalar::Condition;

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
}

type Take<'t> = &'t mut dyn FnMut(&mut Walk<'_>, &mut Run<'_>, &mut Frame) -> SqlResult<Flow>;

/// The next row behind `places`; empty places are those before the first row.
pub fn next_of_join(bound: &BoundPlan, places: &mut Places, run: &mut Run<'_>) -> SqlResult<Fetched> {
    let select = joined_tables(bound).expect("a dynamic cursor reads tables").select;
    let mut frame = Frame::of(bound);
    let slots = frame.rows.len();
    let begin = if places.is_empty() { Begin::AtStart } else { Begin::BehindPlace };
    let mut walk = Walk { last: places, now: vec![None; slots], is_last: vec![false; slots] };
    let mut fetched = Fetched::End;
    let flow = read(&select.input, begin, &mut walk, run, &mut frame, &mut |_, run, frame| {
        fetched = Fetched::Row(project(select, run, frame)?);
        Ok(Flow::Stop)
    })?;
    if flow == Flow::Stop {
        *places = walk.now;
    }
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
        Operator::Filter { input, conditions } => read(input, begin, walk, run, frame, &mut |walk, run, frame| {
            if Condition::all_hold(conditions, run, frame)? { take(walk, run, frame) } else { Ok(Flow::Continue) }
        }),
        Operator::Loop { left, right, on, .. } => {
            let mut outer = Vec::new();
            slots_of(left, &mut outer);
            let begin_left = if begin == Begin::AtStart { begin } else { Begin::AtPlace };
            read(left, begin_left, walk, run, frame, &mut |walk, run, frame| {
                let is_last = outer.iter().all(|slot| walk.is_last[*slot]);
                let begin_right = if is_last { begin } else { Begin::AtStart };
                read(right, begin_right, walk, run, frame, &mut |walk, run, frame| {
                    if Condition::all_hold(on, run, frame)? { take(walk, run, frame) } else { Ok(Flow::Continue) }
                })
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
    let mut reader = open_scan(scan, scan.index, &range, scan.covering, run)?;
    let last = walk.last.get(scan.slot).and_then(Option::as_ref).filter(|_| begin != Begin::AtStart);
    if let Some((last_range, last)) = last {
        if *last_range != range {
            return Err(SqlError::not_supported(
                "FETCH of a dynamic cursor whose row has been joined with other rows since the last FETCH",
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
        if take(walk, run, frame)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
}

fn slots_of(operator: &Operator, slots: &mut Vec<usize>) {
    match operator {
        Operator::Table(scan) => slots.push(scan.slot),
        Operator::Filter { input, .. } => slots_of(input, slots),
        Operator::Loop { left, right, .. } => {
            slots_of(left, slots);
            slots_of(right, slots);
        }
        _ => unreachable!("a dynamic cursor reads tables in loops"),
    }
}
