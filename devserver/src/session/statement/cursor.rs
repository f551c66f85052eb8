//! Cursors: DECLARE, OPEN, FETCH, CLOSE, DEALLOCATE, and the row that WHERE CURRENT OF means.
//!
//! A static cursor keeps its rows, a keyset cursor the keys of its rows in a unique index, a dynamic cursor only the
//! place in the index where it is: each FETCH opens the scan anew and goes on from there, with the locks of a SELECT.
//! Which of the three it is follows from the options and from the query.
//!
//! Source: "DECLARE CURSOR" and "FETCH" (MicrosoftDocs/sql-docs, docs/t-sql/language-elements/), "Using implicit cursor
//! conversions" (SQL Server 2005 Books Online), and for the errors docs/relational-databases/errors-events/
//! database-engine-events-and-errors-16000-to-17999.md. SCROLL_LOCKS is refused, and so are dynamic cursors over
//! several tables with an order, TOP or outer joins.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::cursor::{
    Cursor, CursorOptions, Model, OpenCursor, Rows, SharedCursor, display, find, joined_tables, keyset_index,
    select_of, single_table,
};
use crate::execute::cursor_join::next_of_join;
use crate::execute::cursor_rows::{Fetched, keyset, next_dynamic, read_by_key, static_rows};
use crate::plan::batch::CompiledBatch;
use crate::plan::cell::{BoundPlan, Uses};
use crate::plan::cursor::{CursorSource, CursorStep, Motion};
use crate::plan::query::{Body, Operator, OutputColumn};
use crate::session::client_session::Session;
use crate::session::outcome::SimpleFailure;
use crate::session::output::Output;
use crate::storage::{Index, ObjectId, fold};
use crate::tds::token::DoneKind;
use crate::tsql::ast::{CursorDefinition, CursorName};
use crate::value::{self, SqlType};

fn conflict(a: &str, b: &str) -> SqlError {
    SqlError::new(1048, format!("Conflicting cursor options {a} and {b}.")).severity(15)
}

fn options(definition: &CursorDefinition) -> SqlResult<CursorOptions> {
    let has = |word: &str| definition.options.iter().any(|option| &**option == word);
    const CONFLICTS: &[&[&str]] = &[
        &["LOCAL", "GLOBAL"],
        &["FORWARD_ONLY", "SCROLL"],
        &["STATIC", "KEYSET", "DYNAMIC", "FAST_FORWARD"],
        &["FAST_FORWARD", "SCROLL"],
        &["READ_ONLY", "SCROLL_LOCKS", "OPTIMISTIC"],
        &["FAST_FORWARD", "SCROLL_LOCKS"],
        &["FAST_FORWARD", "OPTIMISTIC"],
        &["STATIC", "SCROLL_LOCKS"],
    ];
    for group in CONFLICTS {
        let found: Vec<&&str> = group.iter().filter(|word| has(word)).collect();
        if let [a, b, ..] = found[..] {
            return Err(conflict(a, b));
        }
    }
    if has("SCROLL_LOCKS") {
        return Err(SqlError::not_supported("SCROLL_LOCKS"));
    }
    let model = if has("STATIC") || has("INSENSITIVE") {
        Model::Static
    } else if has("FAST_FORWARD") {
        Model::FastForward
    } else if has("KEYSET") || (has("SCROLL") && !has("DYNAMIC")) {
        Model::Keyset
    } else {
        Model::Dynamic
    };
    let scrolls = has("SCROLL") || has("STATIC") || has("KEYSET") || has("DYNAMIC");
    let read_only = has("READ_ONLY") || matches!(model, Model::Static | Model::FastForward);
    if read_only && definition.for_update.is_some() {
        return Err(SqlError::new(16957, "FOR UPDATE cannot be specified on a READ ONLY cursor."));
    }
    Ok(CursorOptions { local: has("LOCAL"), model, forward_only: !scrolls || has("FORWARD_ONLY"), read_only })
}

fn not_open() -> SqlError {
    SqlError::new(16917, "Cursor is not open.")
}

/// What the cursor becomes with this query.
fn effective(wanted: Model, bound: &BoundPlan) -> SqlResult<Model> {
    let Body::Select(select) = &select_of(bound).query.body else { return Ok(Model::Static) };
    let needs_all = select.distinct || matches!(select.input, Operator::Unit | Operator::Aggregate(_));
    if wanted == Model::Static || needs_all {
        return Ok(Model::Static);
    }
    let Some((select, scan)) = single_table(bound) else {
        return of_several(wanted, bound);
    };
    let in_index_order = select.sort.is_empty() && select.limit.is_none() && scan.any_of.is_none();
    match wanted {
        Model::FastForward if !in_index_order => Ok(Model::Static),
        Model::Dynamic | Model::FastForward if in_index_order => Ok(Model::Dynamic),
        _ if keyset_index(&scan.table.schema).is_some() => Ok(Model::Keyset),
        _ if scan.table.schema.indexes.iter().any(Index::is_unique) => {
            Err(SqlError::not_supported("a KEYSET cursor over a table whose only unique indexes are filtered"))
        }
        _ => Ok(Model::Static),
    }
}

/// What a cursor over several tables becomes: a dynamic one goes through their loops; any other one is a static cursor
/// if a table has no unique index, or else a keyset cursor.
fn of_several(wanted: Model, bound: &BoundPlan) -> SqlResult<Model> {
    if wanted == Model::FastForward {
        return Ok(Model::Static);
    }
    let Some(joined) = joined_tables(bound) else {
        return Err(SqlError::not_supported(
            "a cursor over views or derived tables that is neither STATIC nor FAST_FORWARD",
        ));
    };
    // "Query generates an internal work table, for example the columns of an ORDER BY are not covered by an index."
    if wanted == Model::Dynamic && joined.can_go_on() {
        return Ok(Model::Dynamic);
    }
    if wanted == Model::Dynamic && joined.may_come_sorted() {
        return Err(SqlError::not_supported(
            "a DYNAMIC cursor, which is the default, over several tables with TOP, an outer join, IN, a hash join, or an \
             ORDER BY that indexes may serve in part",
        ));
    }
    let schemas = || joined.scans.iter().map(|scan| &scan.table.schema);
    if schemas().any(|schema| !schema.indexes.iter().any(Index::is_unique)) {
        return Ok(Model::Static);
    }
    if !joined.inner {
        return Err(SqlError::not_supported("a KEYSET cursor over an outer join"));
    }
    match schemas().all(|schema| keyset_index(schema).is_some()) {
        true => Ok(Model::Keyset),
        false => Err(SqlError::not_supported("a KEYSET cursor over a table whose only unique indexes are filtered")),
    }
}

/// The variables of a cursor's query, for running it.
fn own_activation(cursor: &Cursor) -> Activation {
    Activation { values: cursor.values.clone(), tables: cursor.tables.clone(), ..Activation::default() }
}

impl Session {
    /// The cursor of a name, closed if a transaction's end has closed it meanwhile.
    fn cursor(&self, name: &CursorName, activation: &Activation) -> SqlResult<SharedCursor> {
        let cursor = find(name, &activation.cursors, &self.state.cursors).ok_or_else(|| match name {
            CursorName::Variable(name) => {
                SqlError::new(16950, format!("The variable '{name}' does not currently have a cursor allocated to it."))
                    .state(2)
            }
            CursorName::Name { name, .. } => {
                SqlError::new(16916, format!("A cursor with the name '{name}' does not exist."))
            }
        })?;
        let transactions = self.state.cursor_closing_transactions;
        cursor.lock().open.take_if(|open| open.transactions_before != transactions);
        Ok(cursor)
    }

    fn new_cursor(source: &Arc<CursorSource>, activation: &Activation) -> SqlResult<Cursor> {
        Ok(Cursor {
            source: Arc::clone(source),
            options: options(&source.definition)?,
            values: activation.values.clone(),
            tables: activation.tables.clone(),
            open: None,
        })
    }

    pub(crate) fn run_cursor_step(
        &mut self,
        step: &CursorStep,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<(), SimpleFailure> {
        match step {
            CursorStep::Declare { name, source } => {
                let cursor = Session::new_cursor(source, activation)?;
                let list = if cursor.is_local() { &mut activation.cursors } else { &mut self.state.cursors };
                let folded = fold(name);
                if list.iter().any(|(other, _)| *other == folded) {
                    return Err(SqlError::new(16915, format!("A cursor with the name '{name}' already exists.")).into());
                }
                list.push((folded, Arc::new(Mutex::new(cursor))));
            }
            CursorStep::Set { variable, source } => {
                let cursor = Session::new_cursor(source, activation)?;
                activation.set_cursor(variable, Arc::new(Mutex::new(cursor)));
            }
            CursorStep::Assign { variable, from } => {
                let cursor = self.cursor(from, activation)?;
                activation.set_cursor(variable, cursor);
            }
            CursorStep::Open(name) => {
                let cursor = self.cursor(name, activation)?;
                self.open_cursor(&mut cursor.lock())?;
            }
            CursorStep::Close(name) => {
                let cursor = self.cursor(name, activation)?;
                cursor.lock().open.take().ok_or_else(not_open)?;
            }
            CursorStep::Deallocate(name) => {
                self.cursor(name, activation)?;
                let folded = fold(display(name));
                let is_local = !matches!(name, CursorName::Name { global: true, .. })
                    && activation.cursors.iter().any(|(other, _)| *other == folded);
                let list = if is_local { &mut activation.cursors } else { &mut self.state.cursors };
                list.retain(|(other, _)| *other != folded);
            }
            CursorStep::Fetch { motion, cursor, into } => {
                return self.fetch(motion, cursor, into, compiled, activation, out);
            }
        }
        self.statement_done(out, DoneKind::Other, None);
        Ok(())
    }

    fn bind_cursor(&mut self, source: &CursorSource) -> SqlResult<Arc<BoundPlan>> {
        self.bound_in(&source.cell, &source.declarations, &source.schema, source.owner)
    }

    /// Something was created, changed or dropped since the cursor was opened: 16943 if it was the cursor's table.
    fn bind_again(&mut self, before: &Arc<BoundPlan>, source: &CursorSource) -> SqlResult<Arc<BoundPlan>> {
        let after = self.bind_cursor(source).map_err(|_| schema_changed())?;
        let (Some(a), Some(b)) = (joined_tables(before), joined_tables(&after)) else { return Err(schema_changed()) };
        let is_same = a.scans.len() == b.scans.len()
            && a.scans
                .iter()
                .zip(&b.scans)
                .all(|(a, b)| a.slot == b.slot && Arc::ptr_eq(&a.table.schema, &b.table.schema) && a.index == b.index);
        // Tables that have grown may change places in a join; the plan from before has the place of the cursor.
        let keeps_order = a.order == b.order;
        match (is_same, keeps_order) {
            (true, true) => Ok(after),
            (true, false) => Ok(Arc::clone(before)),
            (false, _) => Err(schema_changed()),
        }
    }

    fn open_cursor(&mut self, cursor: &mut Cursor) -> SqlResult<()> {
        if cursor.open.is_some() {
            return Err(SqlError::new(16905, "The cursor is already open."));
        }
        let bound = self.bind_cursor(&cursor.source)?;
        self.check_permissions(&bound.needs)?;
        let model = effective(cursor.options.model, &bound)?;
        let mut own = own_activation(cursor);
        let rows = match model {
            Model::Dynamic | Model::FastForward if single_table(&bound).is_some() => Rows::Dynamic(None),
            Model::Dynamic | Model::FastForward => Rows::DynamicJoin(Vec::new()),
            Model::Static => Rows::Static(self.with_run(Uses::Database, &mut own, |run| static_rows(&bound, run))?),
            Model::Keyset => Rows::Keyset(self.with_run(Uses::Database, &mut own, |run| keyset(&bound, run))?),
        };
        self.state.cursor_rows = match &rows {
            Rows::Static(rows) | Rows::Keyset(rows) => rows.len() as i32,
            Rows::Dynamic(_) | Rows::DynamicJoin(_) => -1,
        };
        let transactions_before = self.state.cursor_closing_transactions;
        cursor.open = Some(OpenCursor { bound, rows, position: 0, current: None, transactions_before });
        Ok(())
    }

    fn fetch(
        &mut self,
        motion: &Motion,
        name: &CursorName,
        into: &[(usize, SqlType)],
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<(), SimpleFailure> {
        let amount = match motion {
            Motion::Absolute(cell) | Motion::Relative(cell) => {
                self.eval_cell(cell, compiled, activation)?.as_i64().unwrap_or(0)
            }
            _ => 0,
        };
        self.state.fetch_status = -1;
        let shared = self.cursor(name, activation)?;
        let mut cursor = shared.lock();
        let cursor = &mut *cursor;
        let mut own = own_activation(cursor);
        let forward_only = cursor.options.forward_only;
        let open = cursor.open.as_mut().ok_or_else(not_open)?;
        let columns = select_of(&open.bound).query.columns.clone();
        check_into(&columns, into)?;
        let fetched = self.fetch_row(open, &cursor.source, motion, amount, forward_only, &mut own)?;
        let (row, status) = match fetched {
            Fetched::Row(row) => (Some(row), 0),
            Fetched::End => (None, -1),
            Fetched::Gone => (None, -2),
        };
        let count = u64::from(row.is_some());
        if into.is_empty() {
            out.result_set(&columns, &[], row.into_iter().collect(), self.state.options.text_size);
        } else if let Some(row) = row {
            for ((value, column), (place, ty)) in row.into_iter().zip(&columns).zip(into) {
                activation.values[*place] = value::convert(value, column.ty, *ty, None, false)?;
            }
        }
        self.state.fetch_status = status;
        self.state.row_count = count as i64;
        self.statement_done(out, DoneKind::Select, into.is_empty().then_some(count));
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // A FETCH, its cursor and the variables of its query.
    fn fetch_row(
        &mut self,
        open: &mut OpenCursor,
        source: &CursorSource,
        motion: &Motion,
        amount: i64,
        forward_only: bool,
        own: &mut Activation,
    ) -> SqlResult<Fetched> {
        let word = match motion {
            Motion::Next => "next",
            Motion::Prior => "prior",
            Motion::First => "first",
            Motion::Last => "last",
            Motion::Absolute(_) => "absolute",
            Motion::Relative(_) => "relative",
        };
        if forward_only && word != "next" {
            return Err(SqlError::new(
                16911,
                format!("fetch: The fetch type {word} cannot be used with forward only cursors."),
            ));
        }
        open.current = None;
        if open.bound.version != self.version() && !matches!(open.rows, Rows::Static(_)) {
            open.bound = self.bind_again(&open.bound, source)?;
        }
        let bound = Arc::clone(&open.bound);
        if matches!(open.rows, Rows::Dynamic(_) | Rows::DynamicJoin(_)) {
            match motion {
                Motion::Next | Motion::First => {}
                Motion::Absolute(_) => {
                    return Err(SqlError::new(16925, "The fetch type absolute cannot be used with dynamic cursors."));
                }
                _ => return Err(SqlError::not_supported(format!("FETCH {word} of a DYNAMIC cursor"))),
            }
        }
        let from_start = matches!(motion, Motion::First);
        let count = match &mut open.rows {
            Rows::DynamicJoin(places) => {
                if from_start {
                    places.clear();
                }
                return self.with_run(Uses::Database, own, |run| next_of_join(&bound, places, run));
            }
            Rows::Dynamic(place) => {
                if from_start {
                    *place = None;
                }
                let (fetched, current) = self.with_run(Uses::Database, own, |run| next_dynamic(&bound, place, run))?;
                open.current = current;
                return Ok(fetched);
            }
            Rows::Static(rows) | Rows::Keyset(rows) => rows.len(),
        };
        let (last, at) = (count as i64, open.position as i64);
        let wanted = match motion {
            Motion::Next => at + 1,
            Motion::Prior => at - 1,
            Motion::First => 1,
            Motion::Last => last,
            Motion::Absolute(_) if amount < 0 => last + 1 + amount,
            Motion::Absolute(_) => amount,
            Motion::Relative(_) => at.saturating_add(amount),
        };
        open.position = usize::try_from(wanted.clamp(0, last + 1)).unwrap_or(0);
        let Some(row) = open.position.checked_sub(1).filter(|row| *row < count) else { return Ok(Fetched::End) };
        match &open.rows {
            Rows::Static(rows) => Ok(Fetched::Row(rows[row].clone())),
            Rows::Keyset(keys) => {
                let key = keys[row].clone();
                let (fetched, current) = self.with_run(Uses::Database, own, |run| read_by_key(&bound, key, run))?;
                open.current = current;
                Ok(fetched)
            }
            Rows::Dynamic(_) | Rows::DynamicJoin(_) => unreachable!("it was seen to above"),
        }
    }

    /// WHERE CURRENT OF: puts the row under the cursor where the plan finds it.
    pub(crate) fn stand_on(
        &mut self,
        name: &CursorName,
        table: ObjectId,
        updated: &[Arc<str>],
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let shared = self.cursor(name, activation)?;
        let cursor = shared.lock();
        let open = cursor.open.as_ref().ok_or_else(not_open)?;
        if cursor.options.read_only || matches!(open.rows, Rows::Static(_)) {
            return Err(SqlError::new(16929, "The cursor is READ ONLY."));
        }
        if let Some(list) = cursor.source.definition.for_update.as_ref().filter(|list| !list.is_empty())
            && updated.iter().any(|column| !list.iter().any(|listed| fold(listed) == fold(column)))
        {
            return Err(SqlError::new(
                16932,
                "The cursor has a FOR UPDATE list and the requested column to be updated is not in this list.",
            ));
        }
        if joined_tables(&open.bound).is_some_and(|joined| joined.scans.len() > 1) {
            return Err(SqlError::not_supported("WHERE CURRENT OF a cursor over several tables"));
        }
        let scanned = single_table(&open.bound).map(|(_, scan)| scan.table.schema.id);
        if scanned != Some(table) {
            return Err(SqlError::new(
                16933,
                "The cursor does not include the table being modified or the table is not updatable through the cursor.",
            ));
        }
        let current = open.current.clone();
        activation.current_row =
            Some(current.ok_or_else(|| SqlError::new(16931, "There are no rows in the current fetch buffer."))?);
        Ok(())
    }

    /// After a change through the cursor: what the row holds now is what the next change expects.
    pub(crate) fn step_off(&mut self, name: &CursorName, activation: &mut Activation) {
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

fn schema_changed() -> SqlError {
    SqlError::new(
        16943,
        "Could not complete cursor operation because the table schema changed after the cursor was declared.",
    )
}

fn check_into(columns: &[OutputColumn], into: &[(usize, SqlType)]) -> SqlResult<()> {
    if into.is_empty() {
        return Ok(());
    }
    if into.len() != columns.len() {
        return Err(SqlError::new(
            16924,
            "Cursorfetch: The number of variables declared in the INTO list must match that of selected columns.",
        ));
    }
    for (column, (_, ty)) in columns.iter().zip(into) {
        value::check_conversion(column.ty, *ty, false).map_err(|_| {
            SqlError::new(
                16922,
                format!(
                    "Cursor Fetch: Implicit conversion from data type {} to {} is not allowed.",
                    column.ty.name(),
                    ty.name()
                ),
            )
        })?;
    }
    Ok(())
}
