//! Statements about cursors, compiled.

use std::sync::Arc;

use crate::plan::cached_plan::CachedPlan;
use crate::plan::declarations::Declarations;
use crate::value::SqlType;

/// The query of a cursor as the batch was compiled.
#[derive(Debug)]
pub struct CursorSource {
    pub cached: CachedPlan,
    pub declarations: Declarations,
    pub schema: Arc<str>,
    /// See `CompiledBatch::owner`.
    pub owner: Option<i32>,
    pub is_local: bool,
}

/// A statement about cursors.
#[derive(Debug)]
pub enum CursorStep {
    Declare { name: Arc<str>, source: Arc<CursorSource> },
    Open(Arc<str>),
    Close(Arc<str>),
    Deallocate(Arc<str>),
    Fetch { cursor: Arc<str>, into: Vec<(usize, SqlType)> },
}
