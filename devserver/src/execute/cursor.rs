//! A cursor as data: how it was declared, and what it holds while it is open.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::plan::cell::{BoundPlan, Plan};
use crate::plan::cursor::CursorSource;
use crate::plan::query::{Body, LoopKind, Operator, SelectPlan, TableScan};
use crate::plan::select_statement::SelectStatementPlan;
use crate::storage::{Index, Key, ObjectId, ScanPlace, SeekRange, TableSchema, fold};
use crate::tsql::ast::CursorName;
use crate::value::Value;

/// A cursor that names and variables can share.
pub type SharedCursor = Arc<Mutex<Cursor>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    Static,
    Keyset,
    Dynamic,
    FastForward,
}

/// What the options of a declaration come to.
#[derive(Debug, Clone, Copy)]
pub struct CursorOptions {
    pub local: bool,
    pub model: Model,
    pub forward_only: bool,
    pub read_only: bool,
}

#[derive(Debug)]
pub struct Cursor {
    pub source: Arc<CursorSource>,
    pub options: CursorOptions,
    /// The variables of the query as they were when the cursor was declared.
    pub values: Vec<Value>,
    pub tables: Vec<Option<ObjectId>>,
    pub open: Option<OpenCursor>,
}

#[derive(Debug)]
pub struct OpenCursor {
    pub bound: Arc<BoundPlan>,
    pub rows: Rows,
    /// 0 is before the first row.
    pub position: usize,
    /// The row that was fetched last, where a table can be changed through the cursor.
    pub current: Option<CurrentRow>,
    /// `cursor_closing_transactions` when it was opened: one more of them, and it is closed.
    pub transactions_before: u64,
}

/// Where the scan of each slot of a join has found its row, and which range it went through.
pub type Places = Vec<Option<(SeekRange, ScanPlace)>>;

#[derive(Debug)]
pub enum Rows {
    Static(Vec<Vec<Value>>),
    /// The values of the keys of `keyset_index`, table by table.
    Keyset(Vec<Vec<Value>>),
    Dynamic(Option<ScanPlace>),
    /// Of joins.
    DynamicJoin(Places),
}

/// The row under a cursor.
#[derive(Debug, Clone)]
pub struct CurrentRow {
    pub table: ObjectId,
    pub key: Key,
    pub values: Vec<Value>,
}

impl Cursor {
    /// CURSOR_STATUS: 1 open with rows, 0 open and empty, -1 closed. `transactions`: the session's
    /// `cursor_closing_transactions`.
    pub fn status(&self, transactions: u64) -> i16 {
        match self.open.as_ref().filter(|open| open.transactions_before == transactions) {
            None => -1,
            Some(OpenCursor { rows: Rows::Static(rows) | Rows::Keyset(rows), .. }) if rows.is_empty() => 0,
            Some(_) => 1,
        }
    }

    pub fn is_local(&self) -> bool {
        self.options.local
    }
}

/// The cursor of a name; local ones come first.
pub fn find(
    name: &CursorName,
    locals: &[(String, SharedCursor)],
    globals: &[(String, SharedCursor)],
) -> Option<SharedCursor> {
    let folded = fold(display(name));
    let of = |list: &[(String, SharedCursor)]| {
        list.iter().find(|(name, _)| *name == folded).map(|(_, cursor)| Arc::clone(cursor))
    };
    match name {
        CursorName::Name { global: true, .. } => of(globals),
        CursorName::Name { .. } => of(locals).or_else(|| of(globals)),
        CursorName::Variable(_) => of(locals),
    }
}

/// The name as it is written.
pub fn display(name: &CursorName) -> &str {
    match name {
        CursorName::Name { name, .. } | CursorName::Variable(name) => name,
    }
}

pub fn select_of(bound: &BoundPlan) -> &SelectStatementPlan {
    match &bound.plan {
        Plan::Select(plan) => plan,
        _ => unreachable!("a cursor's cell holds a SELECT"),
    }
}

/// The unique index by whose keys a keyset cursor knows the rows of a table.
pub fn keyset_index(schema: &TableSchema) -> Option<&Index> {
    let is_meant = |index: &&Index| index.is_unique() && index.filter.is_none();
    schema.clustered().filter(is_meant).or_else(|| schema.indexes.iter().find(is_meant))
}

/// The SELECT over one table that a keyset or dynamic cursor goes through.
pub fn single_table(bound: &BoundPlan) -> Option<(&SelectPlan, &TableScan)> {
    match &select_of(bound).query.body {
        Body::Select(select) => match &select.input {
            Operator::Table(scan) => Some((select, scan)),
            _ => None,
        },
        Body::Set(_) | Body::Recursive(_) => None,
    }
}

/// The tables of a SELECT over joins, for a cursor.
pub struct JoinedTables<'a> {
    pub select: &'a SelectPlan,
    /// By slot.
    pub scans: Vec<&'a TableScan>,
    /// The slots, those of outer loops first.
    pub order: Vec<usize>,
    /// No outer join: each row of the result has a row of every table.
    pub inner: bool,
    /// No table of hashes.
    pub loops: bool,
}

/// `None` where something else than joins of tables is read.
pub fn joined_tables(bound: &BoundPlan) -> Option<JoinedTables<'_>> {
    let Body::Select(select) = &select_of(bound).query.body else { return None };
    let mut joined = JoinedTables { select, scans: Vec::new(), order: Vec::new(), inner: true, loops: true };
    if !joined.collect(&select.input) {
        return None;
    }
    joined.order = joined.scans.iter().map(|scan| scan.slot).collect();
    joined.scans.sort_by_key(|scan| scan.slot);
    Some(joined)
}

impl<'a> JoinedTables<'a> {
    fn collect(&mut self, operator: &'a Operator) -> bool {
        match operator {
            Operator::Table(scan) => {
                self.scans.push(scan);
                true
            }
            Operator::Filter { input, .. } => self.collect(input),
            Operator::Loop { kind, left, right, .. } => {
                self.inner &= *kind == LoopKind::Inner;
                self.collect(left) && self.collect(right)
            }
            Operator::Hash(join) => {
                self.loops = false;
                self.inner &= join.kind == LoopKind::Inner;
                self.collect(&join.left) && self.collect(&join.right)
            }
            Operator::Full { left, right, .. } => {
                self.inner = false;
                self.collect(left) && self.collect(right)
            }
            _ => false,
        }
    }

    /// Whether a dynamic cursor can go on where it stands: in loops, with no order to keep and no count of rows.
    pub fn can_go_on(&self) -> bool {
        let in_index_order = self.scans.iter().all(|scan| scan.any_of.is_none());
        self.loops && self.inner && in_index_order && self.select.sort.is_empty() && self.select.limit.is_none()
    }

    /// Whether an index may give the rows in the order asked for, or nearly so: it begins with the first column of it.
    pub fn may_come_sorted(&self) -> bool {
        let Some(first) = self.select.sort.first() else { return true };
        let Some((slot, ordinal)) = first.scalar.column_place() else { return false };
        let table = self.scans.iter().find(|scan| scan.slot == slot).map(|scan| &scan.table.schema);
        table.is_some_and(|table| {
            table.indexes.iter().any(|index| index.key.first().is_some_and(|key| key.column == ordinal))
        })
    }
}
