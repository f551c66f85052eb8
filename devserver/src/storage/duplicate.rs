//! What is said of a key that is there already.

use super::schema::{Index, TableSchema, Uniqueness};
use crate::error::SqlError;
use crate::value::{Value, format_for_message};

/// The name of a table as errors print it.
fn object_name(schema: &TableSchema) -> String {
    format!("{}.{}", schema.schema, schema.name)
}

/// A key as errors print it: `(1, abc)`.
fn key_for_message(schema: &TableSchema, index: &Index, values: &[Value]) -> String {
    let columns = index.key.iter().map(|key| key.column);
    let texts: Vec<String> =
        columns.map(|column| format_for_message(&values[column], schema.columns[column].sql_type)).collect();
    format!("({})", texts.join(", "))
}

pub(super) fn duplicate_error(schema: &TableSchema, index: &Index, values: &[Value]) -> SqlError {
    let object = object_name(schema);
    let name = &index.name;
    let key = key_for_message(schema, index, values);
    let constraint = match index.uniqueness {
        Uniqueness::PrimaryKey => "PRIMARY KEY",
        Uniqueness::UniqueConstraint => "UNIQUE KEY",
        Uniqueness::Index | Uniqueness::None => {
            let message = format!(
                "Cannot insert duplicate key row in object '{object}' with unique index '{name}'. The duplicate key \
                 value is {key}."
            );
            return SqlError::new(2601, message).severity(14);
        }
    };
    let message = format!(
        "Violation of {constraint} constraint '{name}'. Cannot insert duplicate key in object '{object}'. The duplicate \
         key value is {key}."
    );
    SqlError::new(2627, message).severity(14)
}

/// 1505: a unique index over rows that are not.
pub(super) fn duplicate_while_creating(schema: &TableSchema, index: &Index, values: &[Value]) -> SqlError {
    let message = format!(
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name '{}' and \
         the index name '{}'. The duplicate key value is {}.",
        object_name(schema),
        index.name,
        key_for_message(schema, index, values)
    );
    SqlError::new(1505, message)
}
