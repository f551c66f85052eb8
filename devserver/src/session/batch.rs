//! Runs compiled batches, procedures and dynamic text: control of flow, TRY and CATCH, and what an error ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{STALE_PLAN, SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::frame::{Frame, Run, Storage};
use crate::execute::insert::CapturedRows;
use crate::execute::statement_result::StatementResult;
use crate::execute::{delete, insert, merge, select_into, select_statement, update};
use crate::plan::batch::{CompiledBatch, ExecuteStep, Step, StepKind};
use crate::plan::cell::{BoundPlan, Cell, Plan, Uses};
use crate::plan::select_statement::SelectStatementPlan;
use crate::session::outcome::{Control, Failure, Origin, SimpleFailure, StepResult, cancelled};
use crate::session::output::Output;
use crate::session::session::Session;
use crate::tds::token::StatementKind as DoneKind;
use crate::tsql::ast::{CursorName, IdentityCheck, IsolationLevel};
use crate::value::{self, Length, SqlType, Value};

impl Session {
    /// Runs a compiled batch with its variables; the table variables are made and dropped here.
    pub fn run_compiled(
        &mut self,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> StepResult {
        activation.grow(compiled.declarations.len());
        if let Err(error) = self.make_table_variables(compiled, activation) {
            return self.fail(error, Origin::Statement, activation, 0, out);
        }
        let result = self.run_steps(&compiled.steps, compiled, activation, out);
        self.drop_table_variables(activation);
        result
    }

    fn make_table_variables(&mut self, compiled: &CompiledBatch, activation: &mut Activation) -> SqlResult<()> {
        for user_type in &compiled.table_types {
            self.check_type(user_type, activation)?;
        }
        for (place, template) in &compiled.table_variables {
            let id = self.create_table_variable(template)?;
            activation.tables[*place] = Some(id);
            activation.owned_tables.push(id);
        }
        Ok(())
    }

    pub fn run_steps(
        &mut self,
        steps: &[Step],
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> StepResult {
        // A jump into a block begins at the step that holds the label.
        let mut next = match self.jump {
            Some(label) => steps.iter().position(|step| step.holds(label)).unwrap_or(0),
            None => 0,
        };
        while let Some(step) = steps.get(next) {
            match self.run_step(step, compiled, activation, out)? {
                Control::Next => next += 1,
                control @ Control::Goto(label) => match steps.iter().position(|step| step.holds(label)) {
                    Some(place) => {
                        self.jump = Some(label);
                        next = place;
                    }
                    None => return Ok(control),
                },
                control => return Ok(control),
            }
        }
        Ok(Control::Next)
    }

    fn run_step(
        &mut self,
        step: &Step,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> StepResult {
        let line = step.line;
        self.engine.faults.gate().pass();
        // Between statements is the moment to notice that nobody waits for the answer any more.
        if self.is_cancelled() {
            return self.fail(cancelled(), Origin::Statement, activation, line, out);
        }
        if self.state.options.no_exec && !step.ends_no_exec() {
            return Ok(Control::Next);
        }
        match &step.kind {
            StepKind::Block(steps) => self.run_steps(steps, compiled, activation, out),
            StepKind::If { then, otherwise, .. } if self.jump.is_some() => match otherwise {
                Some(otherwise) if self.jump.is_some_and(|label| otherwise.holds(label)) => {
                    self.run_step(otherwise, compiled, activation, out)
                }
                _ => self.run_step(then, compiled, activation, out),
            },
            StepKind::If { condition, then, otherwise } => {
                let holds = match self.eval_condition(condition, compiled, activation) {
                    Ok(holds) => holds,
                    Err((error, origin)) => return self.fail(error, origin, activation, line, out),
                };
                // IF is a statement of its own to @@ROWCOUNT and @@ERROR.
                self.state.row_count = 0;
                self.state.error = 0;
                match (holds, otherwise) {
                    (true, _) => self.run_step(then, compiled, activation, out),
                    (false, Some(otherwise)) => self.run_step(otherwise, compiled, activation, out),
                    (false, None) => Ok(Control::Next),
                }
            }
            StepKind::While { condition, body } => loop {
                // Who jumps into the body has not asked for the condition.
                let holds =
                    if self.jump.is_some() { Ok(true) } else { self.eval_condition(condition, compiled, activation) };
                match holds {
                    Ok(true) => {}
                    Ok(false) => return Ok(Control::Next),
                    Err((error, origin)) => return self.fail(error, origin, activation, line, out),
                }
                match self.run_step(body, compiled, activation, out)? {
                    Control::Next | Control::Continue => {}
                    Control::Break => return Ok(Control::Next),
                    control @ (Control::Return(_) | Control::Goto(_)) => return Ok(control),
                }
                if self.is_cancelled() {
                    return self.fail(cancelled(), Origin::Statement, activation, line, out);
                }
            },
            StepKind::Label(label) => {
                if self.jump == Some(*label) {
                    self.jump = None;
                }
                Ok(Control::Next)
            }
            StepKind::Goto(label) => Ok(Control::Goto(*label)),
            StepKind::Break => Ok(Control::Break),
            StepKind::Continue => Ok(Control::Continue),
            StepKind::Return(None) => Ok(Control::Return(None)),
            StepKind::Return(Some(cell)) => match self.eval_cell(cell, compiled, activation) {
                Ok(value) => Ok(Control::Return(Some(value.as_i64().unwrap_or(0) as i32))),
                Err((error, origin)) => self.fail(error, origin, activation, line, out),
            },
            StepKind::TryCatch { body, handler } => self.run_try(body, handler, compiled, activation, out),
            StepKind::Rethrow => {
                let error = self.state.caught.last().cloned().expect("THROW without arguments stands in CATCH only");
                self.fail(error, Origin::Throw, activation, line, out)
            }
            _ => {
                let result = self.run_simple(step, compiled, activation, out);
                match result {
                    Ok(control) => Ok(control),
                    Err(SimpleFailure::Error(error, origin)) => self.fail(error, origin, activation, line, out),
                    Err(SimpleFailure::Passed(failure)) => Err(failure),
                }
            }
        }
    }

    fn run_try(
        &mut self,
        body: &[Step],
        handler: &[Step],
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> StepResult {
        let level = self.state.nest_level;
        self.try_levels.push(level);
        let result = self.run_steps(body, compiled, activation, out);
        self.try_levels.pop();
        let error = match result {
            Err(Failure::Raised { error, binding_level }) if binding_level != Some(level) => error,
            other => return other,
        };
        self.state.error = error.number;
        self.state.caught.push(error);
        let result = self.run_steps(handler, compiled, activation, out);
        self.state.caught.pop();
        result
    }

    /// Runs what is a single statement.
    fn run_simple(
        &mut self,
        step: &Step,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<Control, SimpleFailure> {
        match &step.kind {
            StepKind::Query(cell) => self.run_query_step(cell, None, step.line, compiled, activation, out)?,
            StepKind::InsertExecute(cell, execute) => {
                return self.run_insert_execute(cell, execute, step.line, compiled, activation, out);
            }
            StepKind::Set(place, cell) => {
                let value = self.eval_cell(cell, compiled, activation)?;
                activation.values[*place] = value;
                self.statement_done(out, DoneKind::Other, None);
                self.state.row_count = 1;
            }
            StepKind::Declare(values) => {
                for (place, cell) in values {
                    if let Some(cell) = cell {
                        activation.values[*place] = self.eval_cell(cell, compiled, activation)?;
                        self.state.row_count = 1;
                    }
                }
            }
            StepKind::Throw { number, message, state } => {
                let number = self.eval_cell(number, compiled, activation)?.as_i64().unwrap_or(0);
                let message = self.eval_cell(message, compiled, activation)?;
                let state = self.eval_cell(state, compiled, activation)?.as_i64().unwrap_or(0);
                if !(50_000..=i64::from(i32::MAX)).contains(&number) {
                    return Err(SimpleFailure::Error(
                        SqlError::new(
                            35100,
                            format!(
                                "Error number {number} in the THROW statement is outside the valid range. Specify an \
                                 error number in the valid range of 50000 to 2147483647."
                            ),
                        )
                        .state(10),
                        Origin::Statement,
                    ));
                }
                let text = message.as_str().unwrap_or_default().to_string();
                let error = SqlError::new(number as i32, text).state(state as u8);
                return Err(SimpleFailure::Error(error, Origin::Throw));
            }
            StepKind::RaiseError { message, severity, state, arguments, set_error } => {
                self.raise_error(
                    message, severity, state, arguments, *set_error, step.line, compiled, activation, out,
                )?;
            }
            StepKind::Print(cell) => {
                let message = self.eval_cell(cell, compiled, activation)?;
                let procedure = activation.procedure.as_ref().map(|procedure| Arc::clone(&procedure.full_name));
                out.info(0, 0, 1, message.as_str().unwrap_or(" "), procedure.as_deref(), step.line);
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::SetLockTimeout(cell) => {
                let value = self.eval_cell(cell, compiled, activation)?.as_i64().unwrap_or(-1);
                self.state.options.lock_timeout = u64::try_from(value).ok().map(Duration::from_millis);
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::SetDeadlockPriority(cell) => {
                let value = self.eval_cell(cell, compiled, activation)?.as_i64().unwrap_or(0);
                if !(-10..=10).contains(&value) {
                    let error = SqlError::new(155, format!("'{value}' is not a recognized DEADLOCK_PRIORITY option."));
                    return Err(SimpleFailure::Error(error.severity(15), Origin::Statement));
                }
                self.state.options.deadlock_priority = value as i8;
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::SetContextInfo(cell) => {
                self.state.context_info = match self.eval_cell(cell, compiled, activation)? {
                    Value::Bytes(bytes) => Some(bytes),
                    _ => None,
                };
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::WaitForDelay(cell) => {
                let delay = self.eval_cell(cell, compiled, activation)?;
                self.wait_for(&delay, cell_type(cell, self.version()))?;
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::Cursor(step) => self.run_cursor_step(step, compiled, activation, out)?,
            StepKind::WaitForTime(cell) => {
                let time = self.eval_cell(cell, compiled, activation)?;
                self.wait_until_time(&time, cell_type(cell, self.version()))?;
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::CheckIdentity { table, check, silent } => {
                let table = self.eval_cell(table, compiled, activation)?;
                let check = match check {
                    IdentityCheck::Report => IdentityCheck::Report,
                    IdentityCheck::Correct => IdentityCheck::Correct,
                    IdentityCheck::Reseed(cell) => IdentityCheck::Reseed(self.eval_cell(cell, compiled, activation)?),
                };
                self.check_identity(table.as_str().unwrap_or_default(), check, *silent, step.line, activation, out)?;
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::SetRowCount(cell) => {
                let limit = self.eval_cell(cell, compiled, activation)?.as_i64().unwrap_or(0);
                self.state.options.row_limit = u64::try_from(limit).unwrap_or(0);
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::Execute(execute) => {
                return self.run_execute(execute, step.line, compiled, activation, out).map_err(SimpleFailure::Passed);
            }
            StepKind::Other(statement) => self.run_other(statement, activation, out)?,
            StepKind::Nothing => self.statement_done(out, DoneKind::Other, None),
            StepKind::Block(_)
            | StepKind::If { .. }
            | StepKind::While { .. }
            | StepKind::Break
            | StepKind::Continue
            | StepKind::Goto(_)
            | StepKind::Label(_)
            | StepKind::Return(_)
            | StepKind::TryCatch { .. }
            | StepKind::Rethrow => unreachable!("run_step has seen to it"),
        }
        Ok(Control::Next)
    }

    /// The end of a successful statement. What is no query sets @@ROWCOUNT to 0.
    ///
    /// Source: "@@ROWCOUNT" (MicrosoftDocs/sql-docs, docs/t-sql/functions/rowcount-transact-sql.md).
    pub fn statement_done(&mut self, out: &mut Output<'_>, kind: DoneKind, count: Option<u64>) {
        self.state.error = 0;
        if kind == DoneKind::Other {
            self.state.row_count = 0;
        }
        let counted = count.filter(|_| !self.state.options.no_count);
        out.done_statement(kind, counted);
    }

    fn run_query_step(
        &mut self,
        cell: &Cell,
        executed: Option<CapturedRows>,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<(), SimpleFailure> {
        let is_repeatable = executed.is_none();
        let mut executed = executed;
        loop {
            let version = self.version();
            let bound = self.bound(cell, compiled).map_err(binding_failure)?;
            let result = self.run_bound(&bound, cell, executed.take(), line, activation, out);
            match result {
                // Another session has changed a table between the binding and the table's lock: SQL Server compiles
                // such a statement again. It has been taken back as a whole.
                Err(SimpleFailure::Error(error, _))
                    if error.number == STALE_PLAN && is_repeatable && self.version() != version => {}
                result => return result,
            }
        }
    }

    fn run_bound(
        &mut self,
        bound: &BoundPlan,
        cell: &Cell,
        executed: Option<CapturedRows>,
        line: u32,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<(), SimpleFailure> {
        self.check_permissions(&bound.needs, activation)?;
        let kind = match &bound.plan {
            Plan::Select(_) => DoneKind::Select,
            Plan::Insert(_) => DoneKind::Insert,
            Plan::Update(_) => DoneKind::Update,
            Plan::Delete(_) => DoneKind::Delete,
            Plan::Merge(_) => DoneKind::Merge,
            Plan::Scalar(_) | Plan::Condition(_) => unreachable!("a query step holds a statement"),
        };
        self.check_set_options(&bound.plan)?;
        if let Some(cursor) = cell.current_of() {
            self.stand_on_cursor(cursor, &bound.plan, activation)?;
            let result = self.run_change(bound, kind, executed, line, activation, out);
            self.step_off(cursor, activation);
            return result;
        }
        self.run_change(bound, kind, executed, line, activation, out)
    }

    fn stand_on_cursor(&mut self, cursor: &CursorName, plan: &Plan, activation: &mut Activation) -> SqlResult<()> {
        let (schema, updated) = match plan {
            Plan::Update(plan) => {
                let columns = plan.assignments.iter().filter_map(|assignment| assignment.column);
                let names = columns.map(|column| Arc::clone(&plan.table.schema.columns[column].name));
                (&plan.table.schema, names.collect())
            }
            Plan::Delete(plan) => (&plan.table.schema, Vec::new()),
            _ => unreachable!("only UPDATE and DELETE have WHERE CURRENT OF"),
        };
        self.stand_on(cursor, schema.id, &updated, activation)
    }

    /// Runs a query or change, with the triggers it fires.
    fn run_change(
        &mut self,
        bound: &BoundPlan,
        kind: DoneKind,
        executed: Option<CapturedRows>,
        line: u32,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<(), SimpleFailure> {
        let Some(target) = &bound.triggers else {
            let result = self.run_query_plan(bound, executed, activation)?;
            self.finish_query(result, kind, &bound.plan, out);
            return Ok(());
        };
        let result = self.with_triggers(target, out, line, activation, |session, activation| {
            let result = session.run_query_plan(bound, executed, activation)?;
            let count = result.count;
            Ok((result, count))
        })?;
        self.finish_query(result, kind, &bound.plan, out);
        Ok(())
    }

    /// 1934: a table with filtered indexes can be changed under certain settings only.
    ///
    /// Source: "CREATE INDEX", required SET options for filtered indexes (MicrosoftDocs/sql-docs,
    /// docs/t-sql/statements/create-index-transact-sql.md).
    fn check_set_options(&self, plan: &Plan) -> SqlResult<()> {
        if self.state.options.ansi_padding {
            return Ok(());
        }
        let (verb, schema) = match plan {
            Plan::Insert(plan) => ("INSERT", &plan.target.table.schema),
            Plan::Update(plan) => ("UPDATE", &plan.table.schema),
            Plan::Delete(plan) => ("DELETE", &plan.table.schema),
            Plan::Merge(plan) => ("MERGE", &plan.table.schema),
            Plan::Scalar(_) | Plan::Condition(_) | Plan::Select(_) => return Ok(()),
        };
        if schema.indexes.iter().all(|index| index.filter.is_none()) {
            return Ok(());
        }
        Err(wrong_set_options(verb, "ANSI_PADDING"))
    }

    fn run_query_plan(
        &mut self,
        bound: &BoundPlan,
        executed: Option<CapturedRows>,
        activation: &mut Activation,
    ) -> SqlResult<StatementResult> {
        let into = match &bound.plan {
            Plan::Select(SelectStatementPlan { into: Some(into), query, .. }) => {
                self.check_ddl_allowed(into.is_temporary())?;
                Some(self.make_into(into, &query.columns, activation)?)
            }
            _ => None,
        };
        self.with_run(bound.uses, activation, |run| {
            let mut frame = Frame::new(bound.slots);
            match &bound.plan {
                Plan::Select(plan) => match into {
                    Some(table) => select_into::fill(&plan.query, table, run, &mut frame),
                    None => select_statement::run_select(plan, run, &mut frame),
                },
                Plan::Insert(plan) => insert::run_insert(plan, executed, run, &mut frame),
                Plan::Update(plan) => update::run_update(plan, run, &mut frame),
                Plan::Delete(plan) => delete::run_delete(plan, run, &mut frame),
                Plan::Merge(plan) => merge::run_merge(plan, run, &mut frame),
                Plan::Scalar(_) | Plan::Condition(_) => unreachable!("a query step holds a statement"),
            }
        })
    }

    fn finish_query(&mut self, result: StatementResult, kind: DoneKind, plan: &Plan, out: &mut Output<'_>) {
        let StatementResult { rows, count, ignored_duplicates } = result;
        if ignored_duplicates {
            out.info(3604, 0, 1, "Duplicate key was ignored.", None, 0);
        }
        if let Some((columns, rows)) = rows {
            out.result_set(&columns, rows);
        }
        self.state.row_count = count as i64;
        let assigns = matches!(plan, Plan::Select(SelectStatementPlan { variables: Some(_), .. }));
        self.statement_done(out, kind, if assigns { None } else { Some(count) });
    }

    /// Runs `f` with what it needs. With tables it is a statement: with a transaction of its own if none is open, and
    /// taken back if it fails.
    pub fn with_run<T>(
        &mut self,
        uses: Uses,
        activation: &mut Activation,
        f: impl FnOnce(&mut Run<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let database = Arc::clone(&self.database);
        let now = self.engine.faults.now();
        if uses == Uses::Nothing {
            let mut run = Run { storage: None, database: &database, state: &mut self.state, activation, now };
            return f(&mut run);
        }
        let is_autocommit = self.tx.is_none();
        let mut tx = match self.tx.take() {
            Some(tx) => tx,
            None => self.new_transaction(),
        };
        tx.lock_timeout = self.state.options.lock_timeout;
        tx.deadlock_priority = self.state.options.deadlock_priority;
        tx.under_snapshot = self.state.options.isolation == IsolationLevel::Snapshot;
        let mut latch = database.storage.statement_latch(&mut self.own_tables);
        if uses == Uses::Database {
            latch.take();
        }
        let mark = latch.begin_statement(&mut tx);
        let storage = Storage { latch, tx };
        let mut run = Run { storage: Some(storage), database: &database, state: &mut self.state, activation, now };
        let result = f(&mut run);
        let storage = run.storage.take().expect("it was put in above");
        drop(run);
        let Storage { mut latch, mut tx } = storage;
        match &result {
            Ok(_) => latch.end_statement(&mut tx, mark),
            Err(_) => latch.rollback_statement(&mut tx, mark),
        }
        if !is_autocommit {
            self.tx = Some(tx);
        } else if !latch.was_taken() {
            // It has left nothing that could be committed.
        } else if result.is_ok() {
            latch.commit(tx);
        } else {
            latch.rollback(tx);
        }
        result
    }

    pub fn eval_cell(
        &mut self,
        cell: &Cell,
        compiled: &CompiledBatch,
        activation: &mut Activation,
    ) -> Result<Value, (SqlError, Origin)> {
        let bound = self.bound(cell, compiled).map_err(|error| (error, Origin::Binding))?;
        self.check_permissions(&bound.needs, activation).map_err(|error| (error, Origin::Statement))?;
        let Plan::Scalar(scalar) = &bound.plan else { unreachable!("the cell was made for an expression") };
        self.with_run(bound.uses, activation, |run| scalar.eval(run, &mut Frame::new(bound.slots)))
            .map_err(|error| (error, Origin::Statement))
    }

    fn eval_condition(
        &mut self,
        cell: &Cell,
        compiled: &CompiledBatch,
        activation: &mut Activation,
    ) -> Result<bool, (SqlError, Origin)> {
        let bound = self.bound(cell, compiled).map_err(|error| (error, Origin::Binding))?;
        self.check_permissions(&bound.needs, activation).map_err(|error| (error, Origin::Statement))?;
        let Plan::Condition(condition) = &bound.plan else { unreachable!("the cell was made for a condition") };
        self.with_run(bound.uses, activation, |run| condition.holds(run, &mut Frame::new(bound.slots)))
            .map_err(|error| (error, Origin::Statement))
    }

    /// The value of an EXEC argument with its type.
    pub fn eval_typed(
        &mut self,
        cell: &Cell,
        compiled: &CompiledBatch,
        activation: &mut Activation,
    ) -> Result<(Value, SqlType), (SqlError, Origin)> {
        let value = self.eval_cell(cell, compiled, activation)?;
        let ty = cell_type(cell, self.version()).unwrap_or(SqlType::Int);
        Ok((value, ty))
    }

    #[allow(clippy::too_many_arguments)] // The parts of RAISERROR.
    fn raise_error(
        &mut self,
        message: &Cell,
        severity: &Cell,
        state: &Cell,
        arguments: &[Cell],
        set_error: bool,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<(), SimpleFailure> {
        let text = self.eval_cell(message, compiled, activation)?;
        let severity = self.eval_cell(severity, compiled, activation)?.as_i64().unwrap_or(0).clamp(0, 25) as u8;
        let state = self.eval_cell(state, compiled, activation)?.as_i64().unwrap_or(0);
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.eval_cell(argument, compiled, activation)?);
        }
        let Some(text) = text.as_str() else {
            return Err(SimpleFailure::Error(
                SqlError::not_supported("RAISERROR with a message number or NULL"),
                Origin::Statement,
            ));
        };
        if severity > 18 {
            return Err(SimpleFailure::Error(
                SqlError::new(
                    2754,
                    "Error severity levels greater than 18 can only be specified by members of the sysadmin role, using \
                     the WITH LOG option.",
                ),
                Origin::Statement,
            ));
        }
        let text = value::builtin::format_message::format_message(text, &values)?;
        // "Values … negative … or larger than 255 … default to 1": see RAISERROR, *state*.
        let state = u8::try_from(state).unwrap_or(1);
        if severity <= 10 {
            let procedure = activation.procedure.as_ref().map(|procedure| Arc::clone(&procedure.full_name));
            out.info(50000, severity, state, &text, procedure.as_deref(), line);
            self.statement_done(out, DoneKind::Other, None);
            if set_error {
                self.state.error = 50000;
            }
            return Ok(());
        }
        let error = SqlError::new(50000, text).severity(severity).state(state);
        Err(SimpleFailure::Error(error, Origin::RaiseError))
    }

    /// WAITFOR TIME: until the clock of the server says so, which may be tomorrow. A date is not allowed.
    fn wait_until_time(&mut self, time: &Value, ty: Option<SqlType>) -> SqlResult<()> {
        let target = time_of_day(time, ty)?;
        let (_, now) = self.engine.faults.now();
        self.sleep(Duration::from_nanos(ticks_until(target, now) * 100))
    }

    /// WAITFOR DELAY: the session waits without the latch, and can be cancelled.
    fn wait_for(&mut self, delay: &Value, ty: Option<SqlType>) -> SqlResult<()> {
        let ticks = time_of_day(delay, ty)?;
        self.sleep(Duration::from_nanos(ticks * 100))
    }

    fn sleep(&mut self, duration: Duration) -> SqlResult<()> {
        let now = Instant::now();
        let mut nothing = Activation::default();
        self.note_waitfor(Some(now));
        let slept = self.with_run(Uses::Database, &mut nothing, |run| {
            let storage = run.storage()?;
            storage.latch.wait_until(&storage.tx, now + duration)
        });
        self.note_waitfor(None);
        slept
    }

    fn run_insert_execute(
        &mut self,
        cell: &Cell,
        execute: &ExecuteStep,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> Result<Control, SimpleFailure> {
        if self.state.in_insert_exec {
            let error = SqlError::new(8164, "An INSERT EXEC statement cannot be nested.");
            return Err(SimpleFailure::Error(error, Origin::Statement));
        }
        // Bound before the procedure runs: a wrong target must not be noticed only afterwards.
        self.bound(cell, compiled).map_err(binding_failure)?;
        // Everything the procedure does belongs to the INSERT: it runs in a transaction, and can commit only its own.
        let began = self.tx.is_none();
        if began {
            self.tx = Some(self.new_transaction());
            self.state.transaction_count = 1;
        }
        self.state.in_insert_exec = true;
        out.begin_capture();
        let executed = self.run_execute(execute, line, compiled, activation, out);
        let rows = out.end_capture();
        self.state.in_insert_exec = false;
        let result = match executed {
            Ok(_) => self.run_query_step(cell, Some(rows), line, compiled, activation, out),
            Err(failure) => Err(SimpleFailure::Passed(failure)),
        };
        if began && self.tx.is_some() {
            let keep = result.is_ok() && !self.state.doomed;
            self.end_inner_transaction(keep);
        }
        result.map(|()| Control::Next)
    }
}

fn binding_failure(error: SqlError) -> SimpleFailure {
    // These depend on a SET option, not on names: SQL Server finds them while the statement runs.
    let origin = if matches!(error.number, 544 | 545) { Origin::Statement } else { Origin::Binding };
    SimpleFailure::Error(error, origin)
}

pub fn wrong_set_options(verb: &str, option: &str) -> SqlError {
    SqlError::new(
        1934,
        format!(
            "{verb} failed because the following SET options have incorrect settings: '{option}'. Verify that SET options \
             are correct for use with indexed views and/or indexes on computed columns and/or filtered indexes and/or query \
             notifications and/or XML data type methods and/or spatial index operations."
        ),
    )
}

/// From one time of the day to the next moment at which it is another.
fn ticks_until(target: u64, now: u64) -> u64 {
    const DAY: u64 = 24 * 60 * 60 * 10_000_000;
    if target >= now { target - now } else { DAY - now + target }
}

/// The time that WAITFOR was given, in ticks since midnight; 148 if it is none.
fn time_of_day(time: &Value, ty: Option<SqlType>) -> SqlResult<u64> {
    let invalid = || SqlError::new(148, "Incorrect time syntax in time string used with WAITFOR.").severity(15);
    let from = ty.unwrap_or(SqlType::VarChar(Length::Max));
    match value::convert(time.clone(), from, SqlType::Time(7), None, true).map_err(|_| invalid())? {
        Value::Time(ticks) => Ok(ticks),
        _ => Err(invalid()),
    }
}

fn cell_type(cell: &Cell, version: u64) -> Option<SqlType> {
    match &cell.kept(version)?.plan {
        Plan::Scalar(scalar) => Some(scalar.ty),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::ticks_until;

    #[test]
    fn a_time_of_the_day_that_is_over_is_tomorrows() {
        let hour = 60 * 60 * 10_000_000;
        assert_eq!(ticks_until(13 * hour, 12 * hour), hour);
        assert_eq!(ticks_until(11 * hour, 12 * hour), 23 * hour);
        assert_eq!(ticks_until(12 * hour, 12 * hour), 0);
    }
}
