//! Statements about cursors, compiled.

use std::sync::Arc;

use crate::plan::cell::Cell;
use crate::plan::declarations::Declarations;
use crate::tsql::ast::{CursorDefinition, CursorName};
use crate::value::SqlType;

/// The query of a cursor as the batch was compiled.
#[derive(Debug)]
pub struct CursorSource {
    pub cell: Cell,
    pub declarations: Declarations,
    pub schema: Arc<str>,
    /// See `CompiledBatch::owner`.
    pub owner: Option<i32>,
    pub definition: CursorDefinition,
}

/// A statement about cursors.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each is made once, and most are FETCH")]
pub enum CursorStep {
    Declare {
        name: Arc<str>,
        source: Arc<CursorSource>,
    },
    /// `SET @c = CURSOR …`.
    Set {
        variable: Arc<str>,
        source: Arc<CursorSource>,
    },
    /// `SET @c = cursor`.
    Assign {
        variable: Arc<str>,
        from: CursorName,
    },
    Open(CursorName),
    Close(CursorName),
    Deallocate(CursorName),
    Fetch {
        motion: Motion,
        cursor: CursorName,
        into: Vec<(usize, SqlType)>,
    },
}

#[derive(Debug)]
pub enum Motion {
    Next,
    Prior,
    First,
    Last,
    Absolute(Cell),
    Relative(Cell),
}
