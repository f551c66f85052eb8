//! The part of an index that a scan reads, as values and as bytes.

use std::ops::Bound;

use super::entry_key::encode_column;
use super::key::{Key, advance_past_prefix};
use super::locks::resource::IndexId;
use super::schema::{Index, TableSchema};
use crate::error::{STALE_PLAN, SqlError, SqlResult};
use crate::value::Value;

/// The error of a plan whose index has been dropped, or whose CREATE INDEX has been rolled back.
pub(super) fn index_is_gone(index: IndexId, schema: &TableSchema) -> SqlError {
    let message = format!("index {index} of table '{}' was dropped after the statement's plan was made", schema.name);
    SqlError::new(STALE_PLAN, message)
}

/// The part of an index to scan: the first key columns equal to given values, and at most one range on the column after
/// them. NULL is a value in `equal` (for IS NULL); a range never includes NULLs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeekRange {
    pub equal: Vec<Value>,
    /// The bound and whether it belongs to the range.
    pub lower: Option<(Value, bool)>,
    pub upper: Option<(Value, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    #[default]
    Forward,
    Backward,
}

/// A range of an index's keys.
pub(super) struct KeyRange {
    pub(super) low: Bound<Key>,
    pub(super) high: Bound<Key>,
    /// It is one whole key of a unique index.
    pub(super) is_whole_key: bool,
}

impl SeekRange {
    /// The keys of the range.
    pub(super) fn keys(&self, schema: &TableSchema, index_id: IndexId) -> SqlResult<KeyRange> {
        let all = KeyRange { low: Bound::Unbounded, high: Bound::Unbounded, is_whole_key: false };
        let Some(index) = schema.index(index_id) else {
            if index_id == schema.row_index() && *self == SeekRange::default() {
                return Ok(all);
            }
            return Err(index_is_gone(index_id, schema));
        };
        let prefix = Key::encode(|bytes| {
            for (key, value) in index.key.iter().zip(&self.equal) {
                encode_column(schema, *key, value, bytes);
            }
        });
        let columns_left = index.key.len().checked_sub(self.equal.len());
        let has_inequality = self.lower.is_some() || self.upper.is_some();
        match columns_left {
            Some(0) if has_inequality => return Err(range_too_long(index)),
            None => return Err(range_too_long(index)),
            _ => {}
        }
        if has_inequality {
            return Ok(self.keys_of_inequality(schema, index, prefix.as_bytes()));
        }
        let is_whole_key = index.is_unique() && columns_left == Some(0);
        if self.equal.is_empty() {
            return Ok(KeyRange { is_whole_key, ..all });
        }
        Ok(KeyRange { high: before_end_of(prefix.as_bytes()), low: Bound::Included(prefix), is_whole_key })
    }

    fn keys_of_inequality(&self, schema: &TableSchema, index: &Index, prefix: &[u8]) -> KeyRange {
        let key = index.key[self.equal.len()];
        let bytes_of = |value: &Value| {
            let mut bytes = prefix.to_vec();
            encode_column(schema, key, value, &mut bytes);
            bytes
        };
        let null = (Value::Null, false);
        // NULL is the lowest value, so that it ends a range without lower bound.
        let lower = self.lower.as_ref().unwrap_or(&null);
        let (first, last) =
            if key.descending { (self.upper.as_ref(), Some(lower)) } else { (Some(lower), self.upper.as_ref()) };
        let low = match first {
            Some((value, true)) => Bound::Included(Key::new(&bytes_of(value))),
            Some((value, false)) => after_end_of(&bytes_of(value)),
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Included(Key::new(prefix)),
        };
        let high = match last {
            Some((value, true)) => before_end_of(&bytes_of(value)),
            Some((value, false)) => Bound::Excluded(Key::new(&bytes_of(value))),
            None if prefix.is_empty() => Bound::Unbounded,
            None => before_end_of(prefix),
        };
        KeyRange { low, high, is_whole_key: false }
    }
}

fn range_too_long(index: &Index) -> SqlError {
    SqlError::not_supported(format!("a seek with more values than index '{}' has key columns", index.name))
}

/// The upper bound that includes every key beginning with `prefix`.
fn before_end_of(prefix: &[u8]) -> Bound<Key> {
    let mut has_end = false;
    let end = Key::encode(|bytes| {
        bytes.extend_from_slice(prefix);
        has_end = advance_past_prefix(bytes);
    });
    if has_end { Bound::Excluded(end) } else { Bound::Unbounded }
}

/// The lower bound that excludes every key beginning with `prefix`.
fn after_end_of(prefix: &[u8]) -> Bound<Key> {
    let mut bytes = prefix.to_vec();
    if advance_past_prefix(&mut bytes) {
        Bound::Included(Key::new(&bytes))
    } else {
        // Nothing can be behind a prefix of nothing but 0xFF except what begins with it.
        Bound::Excluded(Key::new(&[prefix, &[u8::MAX]].concat()))
    }
}

/// Whether no key can lie between the bounds.
pub(super) fn is_empty(low: &Bound<Key>, high: &Bound<Key>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
    }
}
