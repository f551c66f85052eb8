//! Runs the operators of a plan: each puts rows into its slots of the frame and calls `emit` for every one of them,
//! until there are no more or `emit` says stop.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::aggregate;
use crate::execute::evaluate::all_hold;
use crate::execute::frame::{Flow, Frame, Run, SavedRows, SubqueryResult, Values};
use crate::execute::recursion;
use crate::execute::window;
use crate::plan::query::{
    AnyOf, Body, HashJoin, Limit, LoopKind, NEGATIVE_OFFSET, NEGATIVE_TOP, NO_FETCH, Operator, QueryPlan, SelectPlan,
    SetPlan, SortKey, TableScan,
};
use crate::plan::table_hints::Access;
use crate::storage::{IndexId, Key, Lifetime, Scan, SeekRange};
use crate::tsql::ast::{IsolationLevel, SetOperator};
use crate::value::{Collation, SqlType, Value, compare_nulls_first, encode_key};

/// What an operator calls for each row it has put into the frame.
pub type Emit<'e> = &'e mut dyn FnMut(&mut Run<'_>, &mut Frame) -> SqlResult<Flow>;

/// What a query calls for each row of its result.
pub type EmitRow<'e> = &'e mut dyn FnMut(&mut Run<'_>, &mut Frame, Vec<Value>) -> SqlResult<Flow>;

pub fn run_operator(operator: &Operator, run: &mut Run<'_>, frame: &mut Frame, emit: Emit<'_>) -> SqlResult<Flow> {
    match operator {
        Operator::Unit => emit(run, frame),
        Operator::Table(scan) => run_scan(scan, run, frame, emit),
        Operator::Current { slot } => {
            let (key, values) = read_current(run)?;
            frame.rows[*slot] = values.into();
            frame.target = Some(key);
            emit(run, frame)
        }
        Operator::Values { slot, rows } => {
            for row in rows {
                let mut values = Vec::with_capacity(row.len());
                for scalar in row {
                    values.push(scalar.eval(run, frame)?);
                }
                frame.rows[*slot] = values.into();
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Derived { slot, query } => run_derived(*slot, query, run, frame, emit),
        Operator::View { slot, view } => {
            let database = run.database;
            let storage = if view.needs_latch() { run.storage()? } else { run.own_storage()? };
            for row in view.rows(database, &storage.latch) {
                frame.rows[*slot] = row.into();
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Working { slot, working } => {
            let rows = frame.derived.get(working).map(Arc::clone).unwrap_or_default();
            for row in rows.iter() {
                frame.rows[*slot] = Arc::clone(row).into();
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Function { slot, function } => {
            for row in function.rows(run, frame)? {
                frame.rows[*slot] = row.into();
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Filter { input, conditions } => run_operator(input, run, frame, &mut |run, frame| {
            if all_hold(conditions, run, frame)? { emit(run, frame) } else { Ok(Flow::Continue) }
        }),
        Operator::Loop { kind, left, right, on, right_slots, target_on_right } => {
            run_operator(left, run, frame, &mut |run, frame| {
                let mut matched = false;
                let flow = run_operator(right, run, frame, &mut |run, frame| {
                    if !all_hold(on, run, frame)? {
                        return Ok(Flow::Continue);
                    }
                    matched = true;
                    emit(run, frame)
                })?;
                if flow == Flow::Continue && !matched && *kind == LoopKind::Left {
                    frame.set_null(right_slots);
                    if *target_on_right {
                        frame.target = None;
                    }
                    return emit(run, frame);
                }
                Ok(flow)
            })
        }
        Operator::Hash(join) => run_hash_join(join, run, frame, emit),
        Operator::Full { left, right, on, left_slots, right_slots } => {
            let slots: Vec<usize> = right_slots.iter().map(|&(slot, _)| slot).collect();
            let candidates = collect(right, &slots, run, frame)?;
            let mut has_partner = vec![false; candidates.len()];
            let flow = run_operator(left, run, frame, &mut |run, frame| {
                let mut matched = false;
                for (candidate, has_partner) in candidates.iter().zip(&mut has_partner) {
                    frame.restore(&slots, candidate.clone());
                    if !all_hold(on, run, frame)? {
                        continue;
                    }
                    matched = true;
                    *has_partner = true;
                    if emit(run, frame)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
                if matched {
                    return Ok(Flow::Continue);
                }
                frame.set_null(right_slots);
                emit(run, frame)
            })?;
            if flow == Flow::Stop {
                return Ok(flow);
            }
            for (candidate, has_partner) in candidates.into_iter().zip(has_partner) {
                if has_partner {
                    continue;
                }
                frame.restore(&slots, candidate);
                frame.set_null(left_slots);
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Top { input, slots, sort, limit } => run_top(input, slots, sort, limit, run, frame, emit),
        Operator::Window { input, slots, slot, functions } => {
            let rows = collect(input, slots, run, frame)?;
            let computed = window::compute(functions, slots, &rows, run, frame)?;
            for (row, values) in rows.into_iter().zip(computed) {
                frame.restore(slots, row);
                frame.rows[*slot] = values.into();
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Operator::Aggregate(aggregation) => aggregate::run(aggregation, run, frame, emit),
    }
}

/// The row under the cursor, locked for a change: 16947 if it is gone, 16934 if somebody has changed it.
fn read_current(run: &mut Run<'_>) -> SqlResult<(Key, Vec<Value>)> {
    let current = run.scope.current_row.clone().expect("the statement stands on a row");
    let storage = run.storage()?;
    let row = storage.latch.lock_row(&mut storage.tx, current.table, &current.key)?;
    let schema = storage.latch.schema(current.table).cloned();
    let (Some(row), Some(schema)) = (row, schema) else {
        return Err(SqlError::new(16947, "No rows were updated or deleted."));
    };
    let values = row.values(&schema);
    if values != current.values {
        return Err(SqlError::new(
            16934,
            "Optimistic concurrency check failed. The row was modified outside of this cursor.",
        ));
    }
    Ok((current.key, values))
}

/// The rows of an operator, to be replayed.
fn collect(input: &Operator, slots: &[usize], run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<SavedRows>> {
    let mut rows = Vec::new();
    run_operator(input, run, frame, &mut |_, frame| {
        rows.push(frame.save(slots));
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}

/// The range that a scan seeks, the values of an IN list excepted; `None` if it can hold no row.
pub fn seek_range(scan: &TableScan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Option<SeekRange>> {
    let mut range = SeekRange { equal: Vec::with_capacity(scan.equal.len()), ..Default::default() };
    for seek in &scan.equal {
        let value = seek.scalar.eval(run, frame)?;
        if value.is_null() && !seek.is_null {
            return Ok(None);
        }
        range.equal.push(value);
    }
    // A range begins behind the NULLs: a comparison with NULL is never true.
    if let Some((bound, inclusive)) = &scan.lower {
        match bound.eval(run, frame)? {
            Value::Null => return Ok(None),
            value => range.lower = Some((value, *inclusive)),
        }
    }
    if let Some((bound, inclusive)) = &scan.upper {
        match bound.eval(run, frame)? {
            Value::Null => return Ok(None),
            value => range.upper = Some((value, *inclusive)),
        }
    }
    Ok(Some(range))
}

fn run_scan(scan: &TableScan, run: &mut Run<'_>, frame: &mut Frame, emit: Emit<'_>) -> SqlResult<Flow> {
    let Some(mut range) = seek_range(scan, run, frame)? else { return Ok(Flow::Continue) };
    let mut values: Vec<Value> = Vec::new();
    match &scan.any_of {
        None => return run_range(scan, &range, run, frame, emit),
        Some(AnyOf::List(list)) => {
            for item in list {
                values.push(item.eval(run, frame)?);
            }
        }
        Some(AnyOf::Query(query)) => {
            run_query(query, run, frame, &mut |_, _, mut row| {
                values.push(row.swap_remove(0));
                Ok(Flow::Continue)
            })?;
        }
    }
    values.retain(|value| !value.is_null());
    let column = &scan.table.schema.columns[list_column(scan)];
    values.sort_by(|a, b| compare_nulls_first(a, b, column.collation));
    values.dedup_by(|a, b| compare_nulls_first(a, b, column.collation).is_eq());
    let equal = range.equal.len();
    for value in values {
        range.equal.truncate(equal);
        range.equal.push(value);
        if run_range(scan, &range, run, frame, emit)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// The column that stands behind the equal ones: that of the IN list.
fn list_column(scan: &TableScan) -> usize {
    let index = scan.table.schema.index(scan.index).expect("an IN list is sought in an index of the table");
    index.key[scan.equal.len()].column
}

/// Opens a scan of one of the table's indexes, with the locks that isolation level and hints ask for.
pub fn open_scan(
    scan: &TableScan,
    index: IndexId,
    range: &SeekRange,
    covering: bool,
    run: &mut Run<'_>,
) -> SqlResult<Scan> {
    let table = run.table_id(scan.table.place);
    let isolation = run.state.options.isolation;
    let database = run.database;
    let storage = run.storage_of(scan.table.place)?;
    if scan.table.schema.lifetime == Lifetime::Permanent {
        storage.latch.use_data(&mut storage.tx, isolation == IsolationLevel::Snapshot, &database.name)?;
    }
    scan.hints.check_pages(storage.latch.table(table))?;
    let locks = scan.hints.lock_plan(isolation, storage.latch.reads_committed_snapshot(), scan.access)?;
    Scan::open(&mut storage.latch, &mut storage.tx, table, index, range, scan.direction, locks, covering)
}

fn run_range(
    scan: &TableScan,
    range: &SeekRange,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    let mut cursor = open_scan(scan, scan.index, range, scan.covering, run)?;
    loop {
        let storage = run.storage_of(scan.table.place)?;
        let Some(found) = cursor.next(&mut storage.latch, &mut storage.tx)? else { return Ok(Flow::Continue) };
        frame.rows[scan.slot].store(found.row, &scan.table.schema);
        if scan.access == Access::Change {
            frame.target = Some(found.key);
        }
        if !all_hold(&scan.residual, run, frame)? {
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

fn run_derived(
    slot: usize,
    query: &Arc<QueryPlan>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    if query.outer_slots != 0 {
        return run_query(query, run, frame, &mut |run, frame, row| {
            frame.rows[slot] = row.into();
            emit(run, frame)
        });
    }
    if let Some(rows) = frame.derived.get(&slot) {
        let rows = Arc::clone(rows);
        for row in rows.iter() {
            frame.rows[slot] = Arc::clone(row).into();
            if emit(run, frame)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        return Ok(Flow::Continue);
    }
    // The first time the rows go on as they come, so that TOP can end it.
    let mut rows: Vec<Values> = Vec::new();
    let flow = run_query(query, run, frame, &mut |run, frame, row| {
        let row: Values = row.into();
        rows.push(Arc::clone(&row));
        frame.rows[slot] = row.into();
        emit(run, frame)
    })?;
    if flow == Flow::Continue {
        frame.derived.insert(slot, Arc::new(rows));
    }
    Ok(flow)
}

/// Appends the value to a key for a table of hashes; false for NULL, which equals nothing.
fn push_join_key(value: &Value, ty: SqlType, collation: Collation, key: &mut Vec<u8>) -> bool {
    if value.is_null() {
        return false;
    }
    encode_key(value, ty, collation, false, key);
    true
}

fn run_hash_join(join: &HashJoin, run: &mut Run<'_>, frame: &mut Frame, emit: Emit<'_>) -> SqlResult<Flow> {
    let slots: Vec<usize> = join.right_slots.iter().map(|&(slot, _)| slot).collect();
    let mut table: HashMap<Vec<u8>, Vec<SavedRows>> = HashMap::new();
    run_operator(&join.right, run, frame, &mut |run, frame| {
        let mut key = Vec::new();
        for (_, right, collation) in &join.keys {
            let value = right.eval(run, frame)?;
            if !push_join_key(&value, right.ty, *collation, &mut key) {
                return Ok(Flow::Continue);
            }
        }
        table.entry(key).or_default().push(frame.save(&slots));
        Ok(Flow::Continue)
    })?;
    let mut key = Vec::new();
    run_operator(&join.left, run, frame, &mut |run, frame| {
        key.clear();
        let mut comparable = true;
        for (left, _, collation) in &join.keys {
            let value = left.eval(run, frame)?;
            comparable = comparable && push_join_key(&value, left.ty, *collation, &mut key);
        }
        let target = frame.target.clone();
        let mut matched = false;
        if let Some(partners) = table.get(&key).filter(|_| comparable) {
            for partner in partners {
                frame.restore(&slots, partner.clone());
                if !join.target_on_right {
                    frame.target.clone_from(&target);
                }
                if !all_hold(&join.on, run, frame)? {
                    continue;
                }
                matched = true;
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        if !matched && join.kind == LoopKind::Left {
            frame.set_null(&join.right_slots);
            if join.target_on_right {
                frame.target = None;
            }
            return emit(run, frame);
        }
        Ok(Flow::Continue)
    })
}

/// The numbers of TOP or OFFSET and FETCH: (rows to skip, rows to take).
pub fn limit_values(limit: &Limit, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<(usize, usize)> {
    let mut number =
        |scalar: &Option<crate::plan::scalar::Scalar>, absent, too_small: (i32, &str), least| -> SqlResult<usize> {
            let Some(scalar) = scalar else { return Ok(absent) };
            let value = scalar.eval(run, frame)?;
            let Some(number) = value.as_i64() else {
                return Err(SqlError::new(1014, "A TOP or FETCH clause contains an invalid value.").severity(15));
            };
            if number < least {
                return Err(SqlError::new(too_small.0, too_small.1).severity(15));
            }
            Ok(usize::try_from(number).unwrap_or(usize::MAX))
        };
    let skip = number(&limit.skip, 0, NEGATIVE_OFFSET, 0)?;
    let (too_small, least) = if limit.skip.is_some() { (NO_FETCH, 1) } else { (NEGATIVE_TOP, 0) };
    let take = number(&limit.take, usize::MAX, too_small, least)?;
    Ok((skip, take))
}

pub fn eval_keys(sort: &[SortKey], run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Value>> {
    let mut keys = Vec::with_capacity(sort.len());
    for key in sort {
        keys.push(key.scalar.eval(run, frame)?);
    }
    Ok(keys)
}

/// The order of two rows by their sort keys.
pub fn compare_keys(sort: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    for (position, key) in sort.iter().enumerate() {
        let order = compare_nulls_first(&a[position], &b[position], key.scalar.collation());
        if order.is_ne() {
            return if key.descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

fn run_top(
    input: &Operator,
    slots: &[usize],
    sort: &[SortKey],
    limit: &Limit,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    let (skip, take) = limit_values(limit, run, frame)?;
    if take == 0 {
        return Ok(Flow::Continue);
    }
    if sort.is_empty() {
        let mut seen = 0;
        let mut stopped_by_reader = false;
        run_operator(input, run, frame, &mut |run, frame| {
            seen += 1;
            if seen <= skip {
                return Ok(Flow::Continue);
            }
            if emit(run, frame)? == Flow::Stop {
                stopped_by_reader = true;
                return Ok(Flow::Stop);
            }
            Ok(if seen - skip >= take { Flow::Stop } else { Flow::Continue })
        })?;
        return Ok(if stopped_by_reader { Flow::Stop } else { Flow::Continue });
    }
    let mut rows = Vec::new();
    run_operator(input, run, frame, &mut |run, frame| {
        rows.push((eval_keys(sort, run, frame)?, frame.save(slots)));
        Ok(Flow::Continue)
    })?;
    rows.sort_by(|(a, _), (b, _)| compare_keys(sort, a, b));
    for (_, row) in rows.into_iter().skip(skip).take(take) {
        frame.restore(slots, row);
        if emit(run, frame)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// Computes a query and calls `emit` for each row of its result, in its order.
pub fn run_query(plan: &QueryPlan, run: &mut Run<'_>, frame: &mut Frame, emit: EmitRow<'_>) -> SqlResult<Flow> {
    match &plan.body {
        Body::Select(select) => run_select(plan, select, run, frame, emit),
        Body::Set(set) => run_set(plan, set, run, frame, emit),
        Body::Recursive(recursive) => recursion::run(recursive, run, frame, emit),
    }
}

fn project(select: &SelectPlan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Value>> {
    let mut row = Vec::with_capacity(select.items.len());
    for item in &select.items {
        row.push(item.eval(run, frame)?);
    }
    Ok(row)
}

fn run_select(
    plan: &QueryPlan,
    select: &SelectPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: EmitRow<'_>,
) -> SqlResult<Flow> {
    let (skip, take) = limit_values(&select.limit, run, frame)?;
    if take == 0 {
        return Ok(Flow::Continue);
    }
    let mut distinct = select.distinct.then(DistinctRows::default);
    if select.sort.is_empty() {
        let mut seen = 0;
        let mut stopped_by_reader = false;
        run_operator(&select.input, run, frame, &mut |run, frame| {
            let row = project(select, run, frame)?;
            if let Some(distinct) = &mut distinct
                && !distinct.is_new(plan, &row)
            {
                return Ok(Flow::Continue);
            }
            seen += 1;
            if seen <= skip {
                return Ok(Flow::Continue);
            }
            if emit(run, frame, row)? == Flow::Stop {
                stopped_by_reader = true;
                return Ok(Flow::Stop);
            }
            Ok(if seen - skip >= take { Flow::Stop } else { Flow::Continue })
        })?;
        return Ok(if stopped_by_reader { Flow::Stop } else { Flow::Continue });
    }
    let mut rows: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    run_operator(&select.input, run, frame, &mut |run, frame| {
        let row = project(select, run, frame)?;
        if let Some(distinct) = &mut distinct
            && !distinct.is_new(plan, &row)
        {
            return Ok(Flow::Continue);
        }
        rows.push((eval_keys(&select.sort, run, frame)?, row));
        Ok(Flow::Continue)
    })?;
    rows.sort_by(|(a, _), (b, _)| compare_keys(&select.sort, a, b));
    let mut last_keys: Option<Vec<Value>> = None;
    for (position, (keys, row)) in rows.into_iter().enumerate().skip(skip) {
        if position - skip >= take {
            let is_tie = select.limit.with_ties
                && last_keys.as_ref().is_some_and(|last| compare_keys(&select.sort, last, &keys).is_eq());
            if !is_tie {
                break;
            }
        }
        if emit(run, frame, row)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        last_keys = Some(keys);
    }
    Ok(Flow::Continue)
}

/// The rows seen so far, by their key bytes: NULLs are the same here.
#[derive(Default)]
struct DistinctRows {
    seen: HashMap<Vec<u8>, usize>,
}

fn row_key(plan: &QueryPlan, row: &[Value]) -> Vec<u8> {
    let mut key = Vec::new();
    for (value, column) in row.iter().zip(&plan.columns) {
        encode_key(value, column.ty, column.collation, false, &mut key);
    }
    key
}

impl DistinctRows {
    fn is_new(&mut self, plan: &QueryPlan, row: &[Value]) -> bool {
        let count = self.seen.entry(row_key(plan, row)).or_insert(0);
        *count += 1;
        *count == 1
    }

    fn contains(&self, plan: &QueryPlan, row: &[Value]) -> bool {
        self.seen.contains_key(&row_key(plan, row))
    }
}

fn run_set(
    plan: &QueryPlan,
    set: &SetPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: EmitRow<'_>,
) -> SqlResult<Flow> {
    let (skip, take) = limit_values(&set.limit, run, frame)?;
    let mut rows: Vec<Vec<Value>> = Vec::new();
    let mut seen = DistinctRows::default();
    let mut right_rows = DistinctRows::default();
    if matches!(set.op, SetOperator::Except | SetOperator::Intersect) {
        run_query(&set.right, run, frame, &mut |_, _, row| {
            right_rows.is_new(plan, &row);
            Ok(Flow::Continue)
        })?;
    }
    run_query(&set.left, run, frame, &mut |_, _, row| {
        let keep = match set.op {
            SetOperator::UnionAll => true,
            SetOperator::Union => seen.is_new(plan, &row),
            SetOperator::Except => !right_rows.contains(plan, &row) && seen.is_new(plan, &row),
            SetOperator::Intersect => right_rows.contains(plan, &row) && seen.is_new(plan, &row),
        };
        if keep {
            rows.push(row);
        }
        Ok(Flow::Continue)
    })?;
    if matches!(set.op, SetOperator::Union | SetOperator::UnionAll) {
        run_query(&set.right, run, frame, &mut |_, _, row| {
            if set.op == SetOperator::UnionAll || seen.is_new(plan, &row) {
                rows.push(row);
            }
            Ok(Flow::Continue)
        })?;
    }
    rows.sort_by(|a, b| {
        for sort in &set.sort {
            let order = compare_nulls_first(&a[sort.column], &b[sort.column], plan.columns[sort.column].collation);
            if order.is_ne() {
                return if sort.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    });
    for row in rows.into_iter().skip(skip).take(take) {
        if emit(run, frame, row)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// Whether a query has any row.
pub fn exists(plan: &Arc<QueryPlan>, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<bool> {
    let address = Arc::as_ptr(plan) as usize;
    if plan.outer_slots == 0
        && let Some(SubqueryResult::Exists(found)) = frame.subqueries.get(&address)
    {
        return Ok(*found);
    }
    let mut found = false;
    match &plan.body {
        // The select list of EXISTS is not computed, and its order does not matter.
        Body::Select(select) if select.limit.is_none() => {
            run_operator(&select.input, run, frame, &mut |_, _| {
                found = true;
                Ok(Flow::Stop)
            })?;
        }
        _ => {
            run_query(plan, run, frame, &mut |_, _, _| {
                found = true;
                Ok(Flow::Stop)
            })?;
        }
    }
    if plan.outer_slots == 0 {
        frame.subqueries.insert(address, SubqueryResult::Exists(found));
    }
    Ok(found)
}

/// `value IN (SELECT …)`.
pub fn in_query(
    plan: &Arc<QueryPlan>,
    value: &Value,
    collation: Collation,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Option<bool>> {
    let ty = plan.columns[0].ty;
    let address = Arc::as_ptr(plan) as usize;
    let (keys, has_null) = match frame.subqueries.get(&address) {
        Some(SubqueryResult::Set { keys, has_null }) => (Arc::clone(keys), *has_null),
        _ => {
            let (mut keys, mut has_null) = (HashSet::new(), false);
            run_query(plan, run, frame, &mut |_, _, row| {
                let mut key = Vec::new();
                if push_join_key(&row[0], ty, collation, &mut key) {
                    keys.insert(key);
                } else {
                    has_null = true;
                }
                Ok(Flow::Continue)
            })?;
            let keys = Arc::new(keys);
            if plan.outer_slots == 0 {
                frame.subqueries.insert(address, SubqueryResult::Set { keys: Arc::clone(&keys), has_null });
            }
            (keys, has_null)
        }
    };
    if keys.is_empty() && !has_null {
        return Ok(Some(false));
    }
    let mut key = Vec::new();
    if !push_join_key(value, ty, collation, &mut key) {
        return Ok(None);
    }
    Ok(if keys.contains(&key) {
        Some(true)
    } else if has_null {
        None
    } else {
        Some(false)
    })
}

/// The value of `(SELECT …)`: NULL without rows, 512 if there are several.
pub fn scalar_subquery(plan: &Arc<QueryPlan>, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Value> {
    let address = Arc::as_ptr(plan) as usize;
    if let Some(SubqueryResult::Value(value)) = frame.subqueries.get(&address) {
        return Ok(value.clone());
    }
    let mut result: Option<Value> = None;
    run_query(plan, run, frame, &mut |_, _, mut row| {
        if result.is_some() {
            return Err(SqlError::new(
                512,
                "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , \
                 >, >= or when the subquery is used as an expression.",
            ));
        }
        result = Some(row.swap_remove(0));
        Ok(Flow::Continue)
    })?;
    let value = result.unwrap_or(Value::Null);
    if plan.outer_slots == 0 {
        frame.subqueries.insert(address, SubqueryResult::Value(value.clone()));
    }
    Ok(value)
}
