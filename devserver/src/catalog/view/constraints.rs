//! Keys, checks, defaults and foreign keys.

use std::sync::Arc;

use crate::catalog::constraint::constraints;
use crate::catalog::normal_form::{shown_condition, shown_expression};
use crate::catalog::view::column_types::{BIT, CODE, INT, NAME, TEXT, WHEN, WORD, bit, object_columns, text};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::catalog::view::tables::object_row;
use crate::storage::TableSchema;
use crate::value::Value;

pub(crate) static VIEWS: &[CatalogView] = &[
    CatalogView {
        schema: "sys",
        name: "key_constraints",
        columns: object_columns!(("unique_index_id", INT), ("is_system_named", BIT)),
        rows: key_constraints,
    },
    CatalogView {
        schema: "sys",
        name: "check_constraints",
        columns: object_columns!(
            ("is_disabled", BIT),
            ("is_not_for_replication", BIT),
            ("is_not_trusted", BIT),
            ("parent_column_id", INT),
            ("definition", TEXT),
            ("is_system_named", BIT),
        ),
        rows: check_constraints,
    },
    CatalogView {
        schema: "sys",
        name: "default_constraints",
        columns: object_columns!(("parent_column_id", INT), ("definition", TEXT), ("is_system_named", BIT)),
        rows: default_constraints,
    },
    CatalogView {
        schema: "sys",
        name: "foreign_keys",
        columns: object_columns!(
            ("referenced_object_id", INT),
            ("is_disabled", BIT),
            ("is_not_for_replication", BIT),
            ("is_not_trusted", BIT),
            ("delete_referential_action_desc", WORD),
            ("update_referential_action_desc", WORD),
            ("is_system_named", BIT),
        ),
        rows: foreign_keys,
    },
    CatalogView {
        schema: "sys",
        name: "foreign_key_columns",
        columns: &[
            ("constraint_object_id", INT),
            ("constraint_column_id", INT),
            ("parent_object_id", INT),
            ("parent_column_id", INT),
            ("referenced_object_id", INT),
            ("referenced_column_id", INT),
        ],
        rows: foreign_key_columns,
    },
];

/// The rows of sys.objects for the constraints of some kinds, each with its table.
pub(crate) fn constraint_rows<'f>(
    facts: &'f Facts<'_>,
    codes: &'f [&str],
) -> Vec<(&'f Arc<TableSchema>, Arc<str>, Vec<Value>)> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for constraint in constraints(table).into_iter().filter(|constraint| codes.contains(&constraint.code)) {
            let row = object_row(
                constraint.name,
                (constraint.id, table.id),
                facts.schema_id(&table.schema),
                (constraint.code, constraint.description),
                facts.dates(table.id),
            );
            rows.push((table, Arc::clone(constraint.name), row));
        }
    }
    rows
}

/// Names that the server has made end in two underscores and eight hexadecimal digits.
fn is_system_named(name: &str) -> Value {
    let Some((_, digits)) = name.rsplit_once("__") else { return bit(false) };
    bit(digits.len() == 8 && digits.chars().all(|digit| digit.is_ascii_hexdigit()))
}

fn key_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let rows = constraint_rows(facts, &["PK", "UQ"]).into_iter().map(|(table, name, mut row)| {
        let index = table.index_named(&name);
        row.push(index.map_or(Value::Null, |index| Value::Int(i32::from(index.id))));
        row.push(is_system_named(&name));
        row
    });
    rows.collect()
}

fn check_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, mut row) in constraint_rows(facts, &["C "]) {
        let Some(check) = table.checks.iter().find(|check| check.name == name) else { continue };
        row.extend([
            bit(false),
            bit(false),
            bit(check.not_trusted),
            Value::Int(0),
            text(shown_condition(&check.text)),
            is_system_named(&name),
        ]);
        rows.push(row);
    }
    rows
}

fn default_constraints(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, mut row) in constraint_rows(facts, &["D "]) {
        for (ordinal, column) in table.columns.iter().enumerate() {
            if let Some(default) = column.default.as_ref().filter(|default| default.name == name) {
                row.extend([
                    Value::Int(ordinal as i32 + 1),
                    text(shown_expression(&default.text)),
                    is_system_named(&name),
                ]);
                rows.push(std::mem::take(&mut row));
                break;
            }
        }
    }
    rows
}

fn foreign_keys(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (table, name, mut row) in constraint_rows(facts, &["F "]) {
        let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) else { continue };
        row.extend([
            Value::Int(key.referenced.unwrap_or(table.id)),
            bit(false),
            bit(false),
            bit(key.not_trusted),
            text(if key.cascades { "CASCADE" } else { "NO_ACTION" }),
            text(if key.cascades_updates { "CASCADE" } else { "NO_ACTION" }),
            is_system_named(&name),
        ]);
        rows.push(row);
    }
    rows
}

fn foreign_key_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let number = |table: &TableSchema, column: &str| {
        table.column_named(column).map_or(Value::Null, |ordinal| Value::Int(ordinal as i32 + 1))
    };
    for (table, name, row) in constraint_rows(facts, &["F "]) {
        let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) else { continue };
        let Some(referenced) = facts.table(key.referenced.unwrap_or(table.id)) else { continue };
        for (position, (column, partner)) in key.columns.iter().zip(&key.referenced_columns).enumerate() {
            rows.push(vec![
                row[1].clone(),
                Value::Int(position as i32 + 1),
                Value::Int(table.id),
                number(table, column),
                Value::Int(referenced.id),
                number(referenced, partner),
            ]);
        }
    }
    rows
}
