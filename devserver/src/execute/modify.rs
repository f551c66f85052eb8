//! Runs SELECT, INSERT, UPDATE and DELETE.
//!
//! A change first finds its rows, under their locks, and computes what becomes of them; then it changes them; then it
//! computes OUTPUT. So no statement meets its own changes.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run, SavedRows, Values};
use crate::execute::limit::limit_values;
use crate::execute::operator::run_operator;
use crate::execute::query::run_query;
use crate::plan::change::{BoundAssignment, DeletePlan, InsertPlan, InsertRows, InsertTarget, OutputPlan, UpdatePlan};
use crate::plan::query::{Body, Operator, OutputColumn, QueryPlan};
use crate::plan::select_statement::SelectStatementPlan;
use crate::plan::table_rules::TableRules;
pub use crate::storage::OnDuplicateKey;
use crate::storage::{Inserted, Key, Lifetime, LockMode, RowChange, TableSchema};
use crate::tsql::ast::IsolationLevel;
use crate::value::{self, SqlType, Value};

/// The rows of INSERT … EXEC, with the types of their columns.
pub type CapturedRows = Vec<(Vec<Value>, Arc<[SqlType]>)>;

/// What a statement gives back.
#[derive(Debug, Default)]
pub struct StatementResult {
    /// The columns of a result set and its rows.
    pub rows: Option<(Vec<OutputColumn>, Vec<Vec<Value>>)>,
    pub count: u64,
    /// An informational message: a row that a unique index ignored.
    pub ignored_duplicates: bool,
}

pub fn run_select(plan: &SelectStatementPlan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<StatementResult> {
    let limit = run.row_limit();
    let goes_on = |count: usize| if count < limit { Flow::Continue } else { Flow::Stop };
    let Some(variables) = &plan.variables else {
        let mut rows = Vec::new();
        run_query(&plan.query, run, frame, &mut |_, frame, row| {
            frame.next_values.clear();
            rows.push(row);
            Ok(goes_on(rows.len()))
        })?;
        let count = rows.len() as u64;
        return Ok(StatementResult { rows: Some((plan.query.columns.clone(), rows)), count, ..Default::default() });
    };
    let mut count: usize = 0;
    if let Body::Select(select) = &plan.query.body
        && select.sort.is_empty()
        && select.limit.is_none()
        && !select.distinct
    {
        // Each assignment sees those before it, in this row and in the rows before.
        run_operator(&select.input, run, frame, &mut |run, frame| {
            for (item, place) in select.items.iter().zip(variables) {
                run.scope.values[*place] = item.eval(run, frame)?;
            }
            frame.next_values.clear();
            count += 1;
            Ok(goes_on(count))
        })?;
        return Ok(StatementResult { count: count as u64, ..Default::default() });
    }
    run_query(&plan.query, run, frame, &mut |run, frame, row| {
        frame.next_values.clear();
        for (value, place) in row.into_iter().zip(variables) {
            run.scope.values[*place] = value;
        }
        count += 1;
        Ok(goes_on(count))
    })?;
    Ok(StatementResult { count: count as u64, ..Default::default() })
}

/// `database.schema.table`, as messages name a table; a table variable by its own name.
pub fn full_name(run: &Run<'_>, schema: &TableSchema) -> String {
    match schema.lifetime {
        Lifetime::Permanent => format!("{}.{}.{}", run.database.name, schema.schema, schema.name),
        Lifetime::Temporary => format!("tempdb.dbo.{}", schema.name),
        Lifetime::Variable => schema.name.to_string(),
    }
}

/// 3906 and 3930: nothing may be changed now.
pub(crate) fn check_writable(run: &Run<'_>, schema: &TableSchema) -> SqlResult<()> {
    if schema.lifetime == Lifetime::Variable {
        return Ok(());
    }
    if run.state.doomed {
        return Err(SqlError::new(
            3930,
            "The current transaction cannot be committed and cannot support operations that write to the log file. Roll \
             back the transaction.",
        ));
    }
    if schema.lifetime == Lifetime::Permanent && run.database.is_read_only() {
        return Err(SqlError::new(
            3906,
            format!("Failed to update database \"{}\" because the database is read-only.", run.database.name),
        ));
    }
    Ok(())
}

/// The same for the target and for what OUTPUT writes to.
pub(crate) fn check_all_writable(run: &mut Run<'_>, schema: &TableSchema, outputs: &[OutputPlan]) -> SqlResult<()> {
    check_writable(run, schema)?;
    if schema.lifetime == Lifetime::Permanent {
        let is_snapshot = run.state.options.isolation == IsolationLevel::Snapshot;
        let database = run.database;
        let storage = run.storage()?;
        storage.latch.use_data(&mut storage.tx, is_snapshot, &database.name)?;
    }
    for into in outputs.iter().filter_map(|output| output.into.as_ref()) {
        check_writable(run, &into.table.schema)?;
    }
    Ok(())
}

/// Converts a value for a column.
pub fn assign(run: &Run<'_>, schema: &TableSchema, ordinal: usize, value: Value, from: SqlType) -> SqlResult<Value> {
    let column = &schema.columns[ordinal];
    if value.is_null() || (from == column.sql_type && !from.is_character() && !from.is_binary()) {
        return Ok(value);
    }
    value::assign(value, from, column.sql_type).map_err(|error| error.for_column(&full_name(run, schema), &column.name))
}

/// Fills in computed columns and looks whether the row is allowed: 515, 547.
pub(crate) fn finish_row(
    run: &mut Run<'_>,
    frame: &mut Frame,
    schema: &TableSchema,
    rules: &TableRules,
    row: &mut Vec<Value>,
    verb: &str,
) -> SqlResult<()> {
    for &ordinal in &rules.row_versions {
        let version = run.storage()?.latch.next_row_version();
        row[ordinal] = Value::Bytes(version.to_be_bytes().into());
    }
    for (ordinal, computed) in &rules.computed {
        frame.rows[rules.slot] = row.as_slice().into();
        row[*ordinal] = computed.eval(run, frame)?;
    }
    for &ordinal in &rules.required {
        if row[ordinal].is_null() {
            let column = &schema.columns[ordinal];
            return Err(SqlError::new(
                515,
                format!(
                    "Cannot insert the value NULL into column '{}', table '{}'; column does not allow nulls. {verb} fails.",
                    column.name,
                    full_name(run, schema)
                ),
            )
            .state(2));
        }
    }
    if !rules.checks.is_empty() {
        frame.rows[rules.slot] = row.as_slice().into();
        for (name, condition) in &rules.checks {
            if condition.test(run, frame)? == Some(false) {
                return Err(SqlError::new(
                    547,
                    format!(
                        "The {verb} statement conflicted with the CHECK constraint \"{name}\". The conflict occurred in \
                         database \"{}\", table \"{}.{}\".",
                        run.database.name, schema.schema, schema.name
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Inserts one row of the given values; returns the complete row, or `None` if a unique index ignored it.
pub(crate) fn insert_row(
    run: &mut Run<'_>,
    frame: &mut Frame,
    target: &InsertTarget,
    values: impl Iterator<Item = Option<(Value, SqlType)>>,
    on_duplicate: OnDuplicateKey,
    verb: &str,
) -> SqlResult<Option<Vec<Value>>> {
    let schema = &target.table.schema;
    let table = run.table_id(target.table.place);
    let mut row = vec![Value::Null; schema.columns.len()];
    let mut given = vec![false; schema.columns.len()];
    for (ordinal, value) in target.ordinals.iter().zip(values) {
        if let Some((value, from)) = value {
            row[*ordinal] = assign(run, schema, *ordinal, value, from)?;
            given[*ordinal] = true;
        }
    }
    frame.next_values.clear();
    let mut identity = None;
    for &ordinal in &target.rules.filled {
        let column = &schema.columns[ordinal];
        if given[ordinal] {
            if column.identity.is_some() {
                identity = row[ordinal].as_i64();
                let storage = run.storage_of(target.table.place)?;
                if let Some(value) = identity {
                    storage.latch.note_identity(table, value);
                }
            }
            continue;
        }
        if column.identity.is_some() {
            let value = run.storage_of(target.table.place)?.latch.next_identity(table)?;
            identity = Some(value);
            row[ordinal] = value::convert(Value::BigInt(value), SqlType::BigInt, column.sql_type, None, false)
                .map_err(|_| {
                    SqlError::new(
                        8115,
                        format!(
                            "Arithmetic overflow error converting IDENTITY to data type {}.",
                            column.sql_type.name()
                        ),
                    )
                })?;
        } else if let Some(default) = &target.rules.defaults[ordinal] {
            row[ordinal] = default.eval(run, frame)?;
        }
    }
    finish_row(run, frame, schema, &target.rules, &mut row, verb)?;
    let storage = run.storage_of(target.table.place)?;
    let inserted = storage.latch.insert_or(&mut storage.tx, table, &row, on_duplicate)?;
    if let (Some(identity), true) = (identity, schema.lifetime != Lifetime::Variable) {
        run.state.identity = Some(identity);
        run.scope.scope_identity = Some(identity);
    }
    match inserted {
        Inserted::Row(_) => Ok(Some(row)),
        Inserted::DuplicateIgnored => Ok(None),
    }
}

/// Lets other sessions go on while OUTPUT is computed, if it needs nothing but the changed rows: those are locked.
fn prepare_output(outputs: &[OutputPlan], run: &mut Run<'_>) -> SqlResult<()> {
    if !outputs.is_empty() && outputs.iter().all(|output| output.is_apart) {
        run.own_storage()?.latch.let_go();
    }
    Ok(())
}

/// Computes one OUTPUT clause for the row in the frame.
pub(crate) fn run_output(
    output: &OutputPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    result: &mut Vec<Vec<Value>>,
) -> SqlResult<()> {
    let mut row = Vec::with_capacity(output.items.len());
    for item in &output.items {
        row.push(item.eval(run, frame)?);
    }
    match &output.into {
        Some(target) => {
            let values = row.into_iter().zip(&output.items).map(|(value, item)| Some((value, item.ty)));
            // The identity of a table that OUTPUT writes to is not the statement's.
            let (identity, scope_identity) = (run.state.identity, run.scope.scope_identity);
            insert_row(run, frame, target, values, OnDuplicateKey::AsIndexSays, "INSERT")?;
            (run.state.identity, run.scope.scope_identity) = (identity, scope_identity);
        }
        None => result.push(row),
    }
    Ok(())
}

pub(crate) fn output_result(
    outputs: &[OutputPlan],
    rows: Vec<Vec<Value>>,
) -> Option<(Vec<OutputColumn>, Vec<Vec<Value>>)> {
    let output = outputs.iter().find(|output| output.into.is_none())?;
    Some((output.columns.clone(), rows))
}

/// `executed`: the rows and column types of INSERT … EXEC.
pub fn run_insert(
    plan: &InsertPlan,
    executed: Option<CapturedRows>,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<StatementResult> {
    let schema = &plan.target.table.schema;
    check_all_writable(run, schema, &plan.output)?;
    if plan.hints.table || plan.hints.page {
        let table = run.table_id(plan.target.table.place);
        let storage = run.storage()?;
        plan.hints.check_pages(storage.latch.table(table))?;
        storage.latch.lock_table(&mut storage.tx, table, LockMode::Exclusive, true)?;
    }
    let (_, take) = limit_values(&plan.limit, run, frame)?;
    let mut rows: Vec<Vec<Option<(Value, SqlType)>>> = Vec::new();
    match (&plan.rows, executed) {
        (InsertRows::Values(list), _) => {
            for values in list {
                frame.next_values.clear();
                let mut row = Vec::with_capacity(values.len());
                for value in values {
                    row.push(match value {
                        Some(scalar) => Some((scalar.eval(run, frame)?, scalar.ty)),
                        None => None,
                    });
                }
                rows.push(row);
            }
        }
        (InsertRows::Query(query), _) => {
            run_query(query, run, frame, &mut |_, frame, row| {
                frame.next_values.clear();
                let typed = row.into_iter().zip(&query.columns).map(|(value, column)| Some((value, column.ty)));
                rows.push(typed.collect());
                Ok(Flow::Continue)
            })?;
        }
        (InsertRows::Execute, Some(executed)) => {
            for (row, types) in executed {
                if row.len() != plan.target.ordinals.len() {
                    return Err(SqlError::new(
                        213,
                        "Column name or number of supplied values does not match table definition.",
                    ));
                }
                rows.push(row.into_iter().zip(types.iter()).map(|(value, ty)| Some((value, *ty))).collect());
            }
        }
        (InsertRows::Execute, None) => return Err(SqlError::not_supported("INSERT … EXEC in this place")),
    }
    let mut result = Vec::new();
    let mut count = 0;
    let mut ignored_duplicates = false;
    let mut new_rows: Vec<Values> = Vec::new();
    let take = if plan.limit.is_none() && !reads_top(&plan.rows) { take.min(run.row_limit()) } else { take };
    for row in rows.into_iter().take(take) {
        let Some(inserted) =
            insert_row(run, frame, &plan.target, row.into_iter(), OnDuplicateKey::AsIndexSays, "INSERT")?
        else {
            ignored_duplicates = true;
            continue;
        };
        count += 1;
        if plan.output.is_empty() && !plan.foreign_keys.has_references() {
            continue;
        }
        let inserted: Values = inserted.into();
        for output in &plan.output {
            frame.rows[plan.target.rules.slot] = Arc::clone(&inserted).into();
            run_output(output, run, frame, &mut result)?;
        }
        if plan.foreign_keys.has_references() {
            new_rows.push(inserted);
        }
    }
    for row in &new_rows {
        plan.foreign_keys.check_row("INSERT", row, run)?;
    }
    Ok(StatementResult { rows: output_result(&plan.output, result), count, ignored_duplicates })
}

/// The target's row in the frame, changed as SET says. `constants`: what is the same for each row, as soon as it is
/// known; for each assignment, or empty.
pub(crate) fn changed_row(
    plan_assignments: &[BoundAssignment],
    constants: &mut [Option<Value>],
    schema: &TableSchema,
    slot: usize,
    run: &mut Run<'_>,
    frame: &mut Frame,
) -> SqlResult<Vec<Value>> {
    frame.next_values.clear();
    let mut row = frame.rows[slot].to_vec();
    for (place, assignment) in plan_assignments.iter().enumerate() {
        if let (Some(ordinal), Some(Some(constant))) = (assignment.column, constants.get(place)) {
            row[ordinal] = constant.clone();
            continue;
        }
        let value = assignment.value.eval(run, frame)?;
        match assignment.column {
            Some(ordinal) => {
                row[ordinal] = assign(run, schema, ordinal, value, assignment.value.ty)?;
                if let (true, Some(constant)) = (assignment.is_constant, constants.get_mut(place)) {
                    *constant = Some(row[ordinal].clone());
                }
                if let Some((place, ty)) = assignment.variable {
                    let column = schema.columns[ordinal].sql_type;
                    run.scope.values[place] = value::convert(row[ordinal].clone(), column, ty, None, false)?;
                }
            }
            None => {
                if let Some((place, _)) = assignment.variable {
                    run.scope.values[place] = value;
                }
            }
        }
    }
    Ok(row)
}

/// SET ROWCOUNT "is ignored for INSERT, UPDATE, and DELETE statements when an explicit TOP expression is used"
/// (docs/t-sql/statements/set-rowcount-transact-sql.md).
fn row_limit(input: &Operator, run: &Run<'_>) -> usize {
    if matches!(input, Operator::Top { .. }) { usize::MAX } else { run.row_limit() }
}

fn reads_top(rows: &InsertRows) -> bool {
    match rows {
        InsertRows::Query(QueryPlan { body: Body::Select(select), .. }) => !select.limit.is_none(),
        _ => false,
    }
}

pub fn run_update(plan: &UpdatePlan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<StatementResult> {
    let schema = &plan.table.schema;
    check_all_writable(run, schema, &plan.output)?;
    let table = run.table_id(plan.table.place);
    let limit = row_limit(&plan.input, run);
    let mut seen: FxHashSet<Key> = FxHashSet::default();
    let mut found: Vec<(Key, SavedRows)> = Vec::new();
    let sets_columns = plan.assignments.iter().any(|assignment| assignment.column.is_some());
    run_operator(&plan.input, run, frame, &mut |_, frame| {
        let Some(key) = frame.target.clone() else { return Ok(Flow::Continue) };
        frame.kept += 1;
        if plan.may_repeat && !seen.insert(key.clone()) {
            return Ok(Flow::Continue);
        }
        found.push((key, frame.save(&plan.kept_slots)));
        Ok(if found.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    // The rows that were found are locked, so that others may go on while the new ones are computed.
    if plan.is_apart {
        run.own_storage()?.latch.let_go();
    }
    let mut changes: Vec<RowChange> = Vec::with_capacity(found.len());
    let mut saved: Vec<SavedRows> = Vec::new();
    // Old and new rows, where somebody refers to them.
    let mut moved: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    let mut constants = vec![None; plan.assignments.len()];
    for (key, mut row) in found {
        frame.exchange(&plan.kept_slots, &mut row);
        let mut values = changed_row(&plan.assignments, &mut constants, schema, plan.slot, run, frame)?;
        if sets_columns {
            finish_row(run, frame, schema, &plan.rules, &mut values, "UPDATE")?;
        }
        if plan.foreign_keys.has_referrers() {
            moved.push((frame.rows[plan.slot].to_vec(), values.clone()));
        }
        if !plan.output.is_empty() {
            frame.exchange(&plan.kept_slots, &mut row);
            saved.push(row);
        }
        changes.push(RowChange::new(schema, key, values)?);
    }
    if sets_columns {
        let storage = run.storage_of(plan.table.place)?;
        storage.latch.update_rows(&mut storage.tx, table, &changes)?;
        for change in changes.iter().filter(|_| plan.foreign_keys.has_references()) {
            plan.foreign_keys.check_row("UPDATE", &change.values, run)?;
        }
        plan.foreign_keys.rows_updated("UPDATE", &moved, run, frame)?;
    }
    let count = changes.len() as u64;
    prepare_output(&plan.output, run)?;
    let mut result = Vec::new();
    for (change, row) in changes.into_iter().zip(saved) {
        frame.restore(&plan.kept_slots, row);
        let values: Values = change.values.into();
        for output in &plan.output {
            frame.rows[plan.rules.slot] = Arc::clone(&values).into();
            run_output(output, run, frame, &mut result)?;
        }
    }
    Ok(StatementResult { rows: output_result(&plan.output, result), count, ..Default::default() })
}

pub fn run_delete(plan: &DeletePlan, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<StatementResult> {
    check_all_writable(run, &plan.table.schema, &plan.output)?;
    let table = run.table_id(plan.table.place);
    let limit = row_limit(&plan.input, run);
    let mut seen: FxHashSet<Key> = FxHashSet::default();
    let mut keys: Vec<Key> = Vec::new();
    let mut saved: Vec<SavedRows> = Vec::new();
    // Where somebody refers to them.
    let mut gone: Vec<Vec<Value>> = Vec::new();
    let keeps_rows = !plan.output.is_empty();
    run_operator(&plan.input, run, frame, &mut |_, frame| {
        let Some(key) = frame.target.clone() else { return Ok(Flow::Continue) };
        frame.kept += 1;
        if plan.may_repeat && !seen.insert(key.clone()) {
            return Ok(Flow::Continue);
        }
        if keeps_rows {
            saved.push(frame.save(&plan.output_slots));
        }
        if plan.foreign_keys.has_referrers() {
            gone.push(frame.rows[plan.slot].to_vec());
        }
        keys.push(key);
        Ok(if keys.len() < limit { Flow::Continue } else { Flow::Stop })
    })?;
    let storage = run.storage_of(plan.table.place)?;
    storage.latch.delete_rows(&mut storage.tx, table, &keys)?;
    plan.foreign_keys.rows_deleted("DELETE", &gone, run, frame)?;
    prepare_output(&plan.output, run)?;
    let mut result = Vec::new();
    for row in saved {
        frame.restore(&plan.output_slots, row);
        for output in &plan.output {
            run_output(output, run, frame, &mut result)?;
        }
    }
    Ok(StatementResult { rows: output_result(&plan.output, result), count: keys.len() as u64, ..Default::default() })
}
