//! The keys of index entries: their bytes, how long they may be, and what is locked of them.

use super::key::Key;
use super::locks::resource::{ObjectId, Resource};
use super::schema::{Index, KeyColumn, TableSchema, key_too_long, max_key_bytes};
use crate::error::SqlResult;
use crate::value::units::units;
use crate::value::{Value, encode_key};

/// An index entry as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryKey {
    pub(super) key: Key,
    pub(super) row_key_start: usize,
}

impl EntryKey {
    /// The index columns' part.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.key.as_bytes()[..self.row_key_start]
    }
}

pub(super) fn row_resource(schema: &TableSchema, key: &Key) -> Resource {
    Resource::key(schema.id, schema.row_index(), key.as_bytes())
}

/// What is locked of an index entry. Of a unique index it is the columns alone, so that a reader can lock a key that is
/// not there; the row's key belongs to it only where it tells entries apart.
pub(super) fn entry_resource_of(table: ObjectId, index: &Index, key: &[u8], row_key_start: usize) -> Resource {
    let bytes = if index.is_unique() { &key[..row_key_start] } else { key };
    Resource::key(table, index.id, bytes)
}

pub(super) fn entry_resource(table: ObjectId, index: &Index, entry: &EntryKey) -> Resource {
    entry_resource_of(table, index, entry.key.as_bytes(), entry.row_key_start)
}

/// Appends the index columns' part of a key.
pub(super) fn encode_columns(schema: &TableSchema, index: &Index, values: &[Value], out: &mut Vec<u8>) {
    for key in &index.key {
        encode_column(schema, *key, &values[key.column], out);
    }
}

/// Refuses a key that is longer than SQL Server allows.
pub(super) fn check_key_length(schema: &TableSchema, index: &Index, values: &[Value]) -> SqlResult<()> {
    let limit = max_key_bytes(index);
    let most: usize = index.key.iter().map(|key| stored_bytes_at_most(&values[key.column])).sum();
    if most > limit {
        let length = index.key.iter().map(|key| stored_bytes(schema, *key, &values[key.column])).sum();
        if length > limit {
            return Err(key_too_long(index, length));
        }
    }
    Ok(())
}

/// No value takes more bytes than this in a key of SQL Server. Counting the characters is for keys that may be too
/// long.
fn stored_bytes_at_most(value: &Value) -> usize {
    match value {
        Value::String(text) => 2 * text.len(),
        Value::Bytes(bytes) => bytes.len(),
        // decimal(38), the largest of the others.
        _ => 17,
    }
}

/// The bytes a value takes in a key of SQL Server; for all but text and binary an upper bound will do, since 32 columns
/// of them are never too long.
fn stored_bytes(schema: &TableSchema, key: KeyColumn, value: &Value) -> usize {
    match value {
        Value::String(text) if schema.columns[key.column].sql_type.is_unicode() => 2 * units(text).count(),
        Value::String(text) => text.chars().count(),
        _ => stored_bytes_at_most(value),
    }
}

pub(super) fn encode_column(schema: &TableSchema, key: KeyColumn, value: &Value, out: &mut Vec<u8>) {
    let column = &schema.columns[key.column];
    encode_key(value, column.sql_type, column.collation, key.descending, out);
}
