//! Cursors: DECLARE, OPEN, FETCH NEXT, CLOSE, DEALLOCATE, and the row that WHERE CURRENT OF means.
//!
//! All are dynamic: an open cursor keeps only the place where it is; each FETCH opens the scans anew and goes on from
//! there, with the locks of a SELECT. A query that would make another kind of cursor is refused.
//!
//! Source: "DECLARE CURSOR" and "FETCH" (MicrosoftDocs/sql-docs, docs/t-sql/language-elements/), "Using implicit cursor
//! conversions" (SQL Server 2005 Books Online), and for the errors docs/relational-databases/errors-events/
//! database-engine-events-and-errors-16000-to-17999.md.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::cursor::{columns_of, fetch_next, tables_of};
use crate::execute::open_cursor::{Cursor, OpenCursor, SharedCursor, find};
use crate::plan::cached_plan::{BoundPlan, Uses};
use crate::plan::cursor::{CursorSource, CursorStep};
use crate::plan::query::OutputColumn;
use crate::session::client_session::Session;
use crate::session::outcome::SimpleFailure;
use crate::session::result_target::ResultTarget;
use crate::storage::{ObjectId, fold};
use crate::tds::token::DoneKind;
use crate::value::{self, SqlType};

fn not_open() -> SqlError {
    SqlError::new(16917, "Cursor is not open.")
}

impl Session {
    fn cursor(&self, name: &str, activation: &Activation) -> SqlResult<SharedCursor> {
        if self.state.options.cursor_close_on_commit {
            return Err(SqlError::not_supported("cursors under SET CURSOR_CLOSE_ON_COMMIT ON"));
        }
        find(name, &activation.cursors, &self.state.cursors)
            .ok_or_else(|| SqlError::new(16916, format!("A cursor with the name '{name}' does not exist.")))
    }

    pub(crate) fn run_cursor_step(
        &mut self,
        step: &CursorStep,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        match step {
            CursorStep::Declare { name, source } => {
                let cursor = Cursor {
                    source: Arc::clone(source),
                    values: activation.values.clone(),
                    tables: activation.tables.clone(),
                    open: None,
                };
                let list = if source.is_local { &mut activation.cursors } else { &mut self.state.cursors };
                let folded = fold(name);
                if list.iter().any(|(other, _)| *other == folded) {
                    return Err(SqlError::new(16915, format!("A cursor with the name '{name}' already exists.")).into());
                }
                list.push((folded, Arc::new(Mutex::new(cursor))));
            }
            CursorStep::Open(name) => {
                self.begin_implicitly(out);
                let cursor = self.cursor(name, activation)?;
                self.open_cursor(&mut cursor.lock())?;
            }
            CursorStep::Close(name) => {
                let cursor = self.cursor(name, activation)?;
                cursor.lock().open.take().ok_or_else(not_open)?;
            }
            CursorStep::Deallocate(name) => {
                self.cursor(name, activation)?;
                let folded = fold(name);
                let is_local = activation.cursors.iter().any(|(other, _)| *other == folded);
                let list = if is_local { &mut activation.cursors } else { &mut self.state.cursors };
                list.retain(|(other, _)| *other != folded);
            }
            CursorStep::Fetch { cursor, into } => {
                self.begin_implicitly(out);
                return self.fetch(cursor, into, activation, out);
            }
        }
        self.statement_done(out, DoneKind::Other, None);
        Ok(())
    }

    fn bind_cursor(&mut self, source: &CursorSource) -> SqlResult<Arc<BoundPlan>> {
        self.bound_in(&source.cached, &source.declarations, &source.schema, source.owner)
    }

    /// Something was created, changed or dropped since the cursor was opened: 16943 if it was a table of the cursor.
    fn check_schema(&mut self, before: &BoundPlan, source: &CursorSource) -> SqlResult<()> {
        let after = self.bind_cursor(source).ok();
        let is_same = match (tables_of(before), after.as_deref().and_then(tables_of)) {
            (Some((_, a)), Some((_, b))) => {
                a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| Arc::ptr_eq(&a.table.schema, &b.table.schema))
            }
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        Err(SqlError::not_supported("a cursor over a table that has changed since its declaration"))
    }

    fn open_cursor(&mut self, cursor: &mut Cursor) -> SqlResult<()> {
        if cursor.open.is_some() {
            return Err(SqlError::new(16905, "The cursor is already open."));
        }
        let bound = self.bind_cursor(&cursor.source)?;
        self.check_permissions(&bound.needs)?;
        if tables_of(&bound).is_none() {
            return Err(SqlError::not_supported(
                "a cursor whose query makes it another than a DYNAMIC one (TOP, DISTINCT, GROUP BY, IN, ORDER BY without \
                 an index, outer and hash joins, views)",
            ));
        }
        cursor.open = Some(OpenCursor { bound, places: Vec::new(), current: None });
        Ok(())
    }

    fn fetch(
        &mut self,
        name: &str,
        into: &[(usize, SqlType)],
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        self.state.fetch_status = -1;
        let shared = self.cursor(name, activation)?;
        let mut cursor = shared.lock();
        let Cursor { source, values, tables, open } = &mut *cursor;
        let open = open.as_mut().ok_or_else(not_open)?;
        let bound = Arc::clone(&open.bound);
        let columns = columns_of(&bound);
        check_into(columns, into)?;
        open.current = None;
        if bound.version != self.version() {
            self.check_schema(&bound, source)?;
        }
        let mut own = Activation { values: values.clone(), tables: tables.clone(), ..Activation::default() };
        let row = self.with_run(Uses::Database, &mut own, |run| fetch_next(open, run))?;
        let count = u64::from(row.is_some());
        if into.is_empty() {
            out.result_set(columns, &[], row.into_iter().collect());
        } else if let Some(row) = row {
            for ((value, column), (place, ty)) in row.into_iter().zip(columns).zip(into) {
                activation.values[*place] = value::convert(value, column.ty, *ty, None, false)?;
            }
        }
        self.state.fetch_status = if count == 0 { -1 } else { 0 };
        self.state.row_count = count as i64;
        self.statement_done(out, DoneKind::Select, into.is_empty().then_some(count));
        Ok(())
    }

    /// WHERE CURRENT OF: puts the row under the cursor where the plan finds it.
    pub(crate) fn stand_on(&mut self, name: &str, table: ObjectId, activation: &mut Activation) -> SqlResult<()> {
        let shared = self.cursor(name, activation)?;
        let cursor = shared.lock();
        let open = cursor.open.as_ref().ok_or_else(not_open)?;
        match tables_of(&open.bound) {
            Some((_, scans)) if scans.len() == 1 && scans[0].table.schema.id == table => {}
            _ => {
                let what = "WHERE CURRENT OF a cursor over several tables or over another table";
                return Err(SqlError::not_supported(what));
            }
        }
        let current = open.current.clone();
        activation.current_row =
            Some(current.ok_or_else(|| SqlError::new(16931, "There are no rows in the current fetch buffer."))?);
        Ok(())
    }

    /// After a change through the cursor: what the row holds now is what the next change expects.
    pub(crate) fn step_off(&mut self, name: &str, activation: &mut Activation) {
        activation.current_row = None;
        let Ok(shared) = self.cursor(name, activation) else { return };
        let database = Arc::clone(&self.database);
        let mut cursor = shared.lock();
        let Some(open) = cursor.open.as_mut() else { return };
        if let Some(current) = &mut open.current {
            let latch = database.storage.latch();
            let row = latch
                .schema(current.table)
                .and_then(|schema| latch.read(current.table, &current.key).map(|row| row.values(schema)));
            match row {
                Some(values) => current.values = values,
                None => open.current = None,
            }
        }
    }
}

fn check_into(columns: &[OutputColumn], into: &[(usize, SqlType)]) -> SqlResult<()> {
    if into.is_empty() {
        return Ok(());
    }
    if into.len() != columns.len() {
        return Err(SqlError::not_supported("FETCH into fewer or more variables than the cursor has columns"));
    }
    for (column, (_, ty)) in columns.iter().zip(into) {
        value::check_conversion(column.ty, *ty, false)?;
    }
    Ok(())
}
