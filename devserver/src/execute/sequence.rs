//! The values of sequences.

use std::sync::Arc;

use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::execute::frame::Run;

/// The next value of a sequence, by its number.
pub fn next_value(sequence: i32, run: &Run<'_>) -> SqlResult<i64> {
    let catalog = run.database.catalog.read();
    let Some(Object::Sequence(sequence)) = catalog.object_by_id(sequence) else {
        return Err(SqlError::new(208, "Invalid object name of a sequence."));
    };
    let sequence = Arc::clone(sequence);
    drop(catalog);
    sequence.next_value()
}
