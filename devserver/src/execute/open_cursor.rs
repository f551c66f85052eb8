//! What a cursor holds while it is open.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::plan::cached_plan::BoundPlan;
use crate::plan::cursor::CursorSource;
use crate::storage::{Key, ObjectId, ScanPlace, SeekRange, fold};
use crate::value::Value;

/// A session keeps it while a FETCH has it too.
pub type SharedCursor = Arc<Mutex<Cursor>>;

#[derive(Debug)]
pub struct Cursor {
    pub source: Arc<CursorSource>,
    /// The variables of the query as they were when the cursor was declared.
    pub values: Vec<Value>,
    pub tables: Vec<Option<ObjectId>>,
    pub open: Option<OpenCursor>,
}

#[derive(Debug)]
pub struct OpenCursor {
    pub bound: Arc<BoundPlan>,
    pub places: Places,
    /// The row that was fetched last, where a table can be changed through the cursor.
    pub current: Option<CurrentRow>,
}

/// Where the scan of each slot has found its row, and which range it went through; empty before the first row.
pub type Places = Vec<Option<(SeekRange, ScanPlace)>>;

/// The row under a cursor.
#[derive(Debug, Clone)]
pub struct CurrentRow {
    pub table: ObjectId,
    pub key: Key,
    pub values: Vec<Value>,
}

/// The cursor of a name; local ones come first.
pub fn find(name: &str, locals: &[(String, SharedCursor)], globals: &[(String, SharedCursor)]) -> Option<SharedCursor> {
    let folded = fold(name);
    locals.iter().chain(globals).find(|(name, _)| *name == folded).map(|(_, cursor)| Arc::clone(cursor))
}
