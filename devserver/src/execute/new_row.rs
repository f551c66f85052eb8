//! A row on its way into a table: values converted for their columns, defaults, identities, and what
//! the constraints say of it.

use crate::error::{SqlError, SqlResult};
use crate::execute::evaluate::check_fraction;
use crate::execute::frame::{Frame, Run};
use crate::plan::change::{BoundAssignment, InsertTarget};
use crate::plan::table_rules::TableRules;
use crate::storage::{Inserted, Key, Lifetime, OnDuplicateKey, TableSchema};
use crate::value::{self, SqlType, Value};

/// `database.schema.table`, as messages name a table; a table variable by its own name.
pub fn full_name(run: &Run<'_>, schema: &TableSchema) -> String {
    match schema.lifetime {
        Lifetime::Permanent => format!("{}.{}.{}", run.database.name, schema.schema, schema.name),
        Lifetime::Temporary => format!("tempdb.dbo.{}", schema.name),
        Lifetime::Variable => schema.name.to_string(),
    }
}

/// Converts a value for a column.
pub fn assign(run: &Run<'_>, schema: &TableSchema, ordinal: usize, value: Value, from: SqlType) -> SqlResult<Value> {
    let column = &schema.columns[ordinal];
    if value.is_null() || (from == column.sql_type && !from.is_character() && !from.is_binary()) {
        return Ok(value);
    }
    check_fraction(run, &value, from, column.sql_type)?;
    value::assign(value, from, column.sql_type, |kept| {
        truncated(&full_name(run, schema), &column.name, &kept, run.database.compatibility_level())
    })
}

/// "For database compatibility level 140 or lower versions, error message 2628 remains an opt-in error message"
/// ("ALTER DATABASE SCOPED CONFIGURATION", MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/alter-database-scoped-configuration-transact-sql.md): then it is 8152.
pub fn truncated(table: &str, column: &str, kept: &str, compatibility_level: u8) -> SqlError {
    if compatibility_level < 150 {
        return SqlError::new(8152, "String or binary data would be truncated.");
    }
    SqlError::new(
        2628,
        format!(
            "String or binary data would be truncated in table '{table}', column '{column}'. Truncated value: '{kept}'."
        ),
    )
}

/// 515.
pub(crate) fn lacks_value(column: &str, table: &str, verb: &str) -> SqlError {
    let message = format!(
        "Cannot insert the value NULL into column '{column}', table '{table}'; column does not allow nulls. {verb} fails."
    );
    SqlError::new(515, message).state(2)
}

/// Fills in row versions and looks whether there is a value where there must be one: 515.
pub(crate) fn compute_row(
    run: &mut Run<'_>,
    schema: &TableSchema,
    rules: &TableRules,
    row: &mut [Value],
    verb: &str,
) -> SqlResult<()> {
    for &ordinal in &rules.row_versions {
        let version = run.storage()?.latch.next_row_version();
        row[ordinal] = Value::Bytes(version.to_be_bytes().into());
    }
    for &ordinal in &rules.required {
        if row[ordinal].is_null() {
            let column = &schema.columns[ordinal];
            return Err(lacks_value(&column.name, &full_name(run, schema), verb));
        }
    }
    Ok(())
}

/// Fills in row versions and looks whether the row is allowed: 515, 547.
pub(crate) fn finish_row(
    run: &mut Run<'_>,
    frame: &mut Frame,
    schema: &TableSchema,
    rules: &TableRules,
    row: &mut Vec<Value>,
    verb: &str,
) -> SqlResult<()> {
    compute_row(run, schema, rules, row, verb)?;
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

/// A new row of the given values and of defaults, and the value of its identity column. `counts`: the row is to be
/// inserted; else the identity column, unless it is given, is 0 and its counter stays.
pub(crate) fn new_row(
    run: &mut Run<'_>,
    frame: &mut Frame,
    target: &InsertTarget,
    values: impl Iterator<Item = Option<(Value, SqlType)>>,
    counts: bool,
) -> SqlResult<(Vec<Value>, Option<i64>)> {
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
                if let Some(value) = identity.filter(|_| counts) {
                    storage.latch.note_identity(table, value);
                }
            }
            continue;
        }
        if column.identity.is_some() {
            let value = if counts { run.storage_of(target.table.place)?.latch.next_identity(table)? } else { 0 };
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
    Ok((row, identity))
}

/// Inserts one row of the given values; returns the complete row and its key, or `None` if a unique index ignored it.
pub(crate) fn insert_row(
    run: &mut Run<'_>,
    frame: &mut Frame,
    target: &InsertTarget,
    values: impl Iterator<Item = Option<(Value, SqlType)>>,
    on_duplicate: OnDuplicateKey,
    verb: &str,
) -> SqlResult<Option<(Vec<Value>, Key)>> {
    let schema = &target.table.schema;
    let table = run.table_id(target.table.place);
    let (mut row, identity) = new_row(run, frame, target, values, true)?;
    finish_row(run, frame, schema, &target.rules, &mut row, verb)?;
    let storage = run.storage_of(target.table.place)?;
    let inserted = storage.latch.insert_or(&mut storage.tx, table, &row, on_duplicate)?;
    if let Some(identity) = identity {
        run.state.identity = Some(identity);
        run.activation.scope_identity = Some(identity);
    }
    match inserted {
        Inserted::Row(key) => Ok(Some((row, key))),
        Inserted::DuplicateIgnored => Ok(None),
    }
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
                    run.activation.values[place] = value::convert(row[ordinal].clone(), column, ty, None, false)?;
                }
            }
            None => {
                if let Some((place, _)) = assignment.variable {
                    run.activation.values[place] = value;
                }
            }
        }
    }
    Ok(row)
}
