//! SELECT, INSERT, UPDATE, DELETE and MERGE, also INSERT … EXEC: bound, run with their triggers, told to the client.

use crate::error::{NOT_SUPPORTED, STALE_PLAN, SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::frame::Frame;
use crate::execute::statement_result::StatementResult;
use crate::execute::{delete, insert, merge, select_into, select_statement, update};
use crate::plan::batch::{CompiledBatch, ExecuteStep};
use crate::plan::cached_plan::{BoundPlan, CachedPlan, Plan};
use crate::plan::query::{Body, Operator, TableLocation};
use crate::plan::select_statement::SelectStatementPlan;
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Origin, SimpleFailure};
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;
use crate::value::Value;
use crate::value::values::TypedRows;

/// Whether it is a SELECT without FROM.
fn is_without_from(plan: &Plan) -> bool {
    let Plan::Select(select) = plan else { return false };
    matches!(&select.query.body, Body::Select(select) if matches!(select.input, Operator::Unit))
}

impl Session {
    pub(crate) fn run_query_step(
        &mut self,
        cached: &CachedPlan,
        executed: Option<TypedRows>,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        let is_repeatable = executed.is_none();
        let mut executed = executed;
        loop {
            let version = self.version();
            let bound = self.bound(cached, compiled).map_err(binding_failure)?;
            let result = self.run_bound(&bound, cached, executed.take(), line, activation, out);
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
        cached: &CachedPlan,
        executed: Option<TypedRows>,
        line: u32,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        self.check_permissions(&bound.needs)?;
        let kind = match &bound.plan {
            Plan::Select(_) => DoneKind::Select,
            Plan::Insert(_) => DoneKind::Insert,
            Plan::Update(_) => DoneKind::Update,
            Plan::Delete(_) => DoneKind::Delete,
            Plan::Merge(_) => DoneKind::Merge,
            Plan::Scalar(_) | Plan::Condition(_) => unreachable!("a query step holds a statement"),
        };
        self.check_set_options(&bound.plan)?;
        let is_change = !matches!(bound.plan, Plan::Select(_));
        if !is_without_from(&bound.plan) {
            self.begin_implicitly(out);
        }
        if let Some(cursor) = cached.current_of() {
            if bound.triggers.as_ref().is_some_and(|target| target.instead_of.is_some()) {
                return Err(SqlError::not_supported("WHERE CURRENT OF with an INSTEAD OF trigger").into());
            }
            let table = match &bound.plan {
                Plan::Update(plan) => &plan.table,
                Plan::Delete(plan) => &plan.table,
                _ => unreachable!("only UPDATE and DELETE have WHERE CURRENT OF"),
            };
            self.stand_on(cursor, table.schema.id, activation)?;
            let result = self.run_change(bound, kind, executed, line, activation, out);
            self.step_off(cursor, activation);
            return result.map_err(|failure| of_a_change(failure, is_change));
        }
        let result = self.run_change(bound, kind, executed, line, activation, out);
        result.map_err(|failure| of_a_change(failure, is_change))
    }

    /// Runs a query or change, with the triggers it fires.
    fn run_change(
        &mut self,
        bound: &BoundPlan,
        kind: DoneKind,
        executed: Option<TypedRows>,
        line: u32,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        let mut rows = Vec::new();
        if let (Some(target), Plan::Delete(plan)) = (&bound.triggers, &bound.plan)
            && let Some(trigger) = self.fires_instead(target)
        {
            let count = self.with_instead_of(&trigger, out, line, activation, |session, activation| {
                session
                    .with_run(bound.uses, activation, |run| delete::would_be_deleted(plan, run, &mut Frame::of(bound)))
            })?;
            self.state.row_count = count as i64;
            self.statement_done(out, kind, Some(count));
            return Ok(());
        }
        let Some(target) = bound.triggers.as_ref().filter(|target| !target.triggers.is_empty()) else {
            match self.run_query_plan(bound, executed, activation, &mut rows) {
                Ok(result) => self.finish_query(result, rows, kind, &bound.plan, out),
                Err(error) => {
                    self.send_what_was_before(&error, rows, kind, &bound.plan, out);
                    return Err(error.into());
                }
            }
            return Ok(());
        };
        let result = self.with_triggers(target, out, line, activation, |session, activation| {
            let result = session.run_query_plan(bound, executed, activation, &mut rows)?;
            let count = result.count;
            Ok((result, count))
        })?;
        self.finish_query(result, rows, kind, &bound.plan, out);
        Ok(())
    }

    /// A table with filtered indexes can be changed under certain settings only.
    ///
    /// Source: "CREATE INDEX", required SET options for filtered indexes (MicrosoftDocs/sql-docs,
    /// docs/t-sql/statements/create-index-transact-sql.md).
    fn check_set_options(&self, plan: &Plan) -> SqlResult<()> {
        if self.state.options.ansi_padding {
            return Ok(());
        }
        let schema = match plan {
            Plan::Insert(plan) => &plan.target.table.schema,
            Plan::Update(plan) => &plan.table.schema,
            Plan::Delete(plan) => &plan.table.schema,
            Plan::Merge(plan) => &plan.table.schema,
            Plan::Scalar(_) | Plan::Condition(_) | Plan::Select(_) => return Ok(()),
        };
        if schema.indexes.iter().all(|index| index.filter.is_none()) {
            return Ok(());
        }
        Err(SqlError::not_supported("changes of a table with filtered indexes under ANSI_PADDING OFF"))
    }

    fn run_query_plan(
        &mut self,
        bound: &BoundPlan,
        executed: Option<TypedRows>,
        activation: &mut Activation,
        sent: &mut Vec<Vec<Value>>,
    ) -> SqlResult<StatementResult> {
        let into = match &bound.plan {
            Plan::Select(SelectStatementPlan { into: Some(into), query, .. }) => {
                self.check_ddl_allowed(true)?;
                Some(self.store_table(&into.name, activation, |_, schema| into.schema(&query.columns, schema))?)
            }
            _ => None,
        };
        self.with_run(bound.uses, activation, |run| {
            let mut frame = Frame::of(bound);
            match &bound.plan {
                Plan::Select(plan) => match into {
                    Some(table) => select_into::fill(&plan.query, table, run, &mut frame),
                    None => select_statement::run_select(plan, run, &mut frame, sent),
                },
                Plan::Insert(plan) => insert::run_insert(plan, executed, run, &mut frame, sent),
                Plan::Update(plan) => update::run_update(plan, run, &mut frame, sent),
                Plan::Delete(plan) => delete::run_delete(plan, run, &mut frame, sent),
                Plan::Merge(plan) => merge::run_merge(plan, run, &mut frame, sent),
                Plan::Scalar(_) | Plan::Condition(_) => unreachable!("a query step holds a statement"),
            }
        })
    }

    /// A statement that has begun sends its columns first, and its rows as they are found: the error comes after them.
    /// What CATCH gets ends like a result set that is complete.
    ///
    /// Source: "OUTPUT clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/output-clause-transact-sql.md): "An UPDATE,
    /// INSERT, or DELETE statement that has an OUTPUT clause will return rows to the client even if the statement
    /// encounters errors and is rolled back."
    fn send_what_was_before(
        &mut self,
        error: &SqlError,
        rows: Vec<Vec<Value>>,
        kind: DoneKind,
        plan: &Plan,
        out: &mut ResultTarget<'_>,
    ) {
        // What is not supported was refused, and a stale plan has sent nothing.
        let Some(columns) = plan.client_columns().filter(|_| error.number < NOT_SUPPORTED) else { return };
        let count = rows.len() as u64;
        out.result_set(columns, plan.client_order(), rows);
        if self.is_caught(error, None) {
            out.done_statement(kind, Some(count).filter(|_| !self.state.options.no_count));
        }
    }

    fn finish_query(
        &mut self,
        result: StatementResult,
        rows: Vec<Vec<Value>>,
        kind: DoneKind,
        plan: &Plan,
        out: &mut ResultTarget<'_>,
    ) {
        let StatementResult { count, ignored_duplicates } = result;
        if ignored_duplicates {
            out.info(3604, 0, 1, "Duplicate key was ignored.", None, 0);
        }
        if let Some(columns) = plan.client_columns() {
            out.result_set(columns, plan.client_order(), rows);
        }
        self.state.row_count = count as i64;
        self.statement_done(out, kind, Some(count));
    }

    fn insert_what_it_gives(
        &mut self,
        cached: &CachedPlan,
        execute: &ExecuteStep,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), SimpleFailure> {
        self.state.in_insert_exec = true;
        out.begin_capture();
        let executed = self.run_execute(execute, line, compiled, activation, out);
        let rows = out.end_capture();
        self.state.in_insert_exec = false;
        match executed {
            Ok(_) => self.run_query_step(cached, Some(rows), line, compiled, activation, out),
            Err(failure) => Err(SimpleFailure::Passed(failure)),
        }
    }

    pub(crate) fn run_insert_execute(
        &mut self,
        cached: &CachedPlan,
        execute: &ExecuteStep,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<Control, SimpleFailure> {
        if self.state.in_insert_exec {
            let error = SqlError::new(8164, "An INSERT EXEC statement cannot be nested.");
            return Err(SimpleFailure::Error(error, Origin::Statement));
        }
        // Bound before the procedure runs: a wrong target must not be noticed only afterwards.
        let bound = self.bound(cached, compiled).map_err(binding_failure)?;
        if !matches!(&bound.plan, Plan::Insert(plan) if matches!(plan.target.table.place, TableLocation::Variable(_))) {
            return Err(SqlError::not_supported("INSERT … EXEC into anything but a table variable").into());
        }
        // Everything the procedure does belongs to the INSERT: it runs in a transaction, and can commit only its own.
        let began = self.tx.is_none();
        if began {
            self.tx = Some(self.new_transaction());
            self.state.transaction_count = 1;
        }
        let result = self.insert_what_it_gives(cached, execute, line, compiled, activation, out);
        if began && self.tx.is_some() {
            let keep = result.is_ok() && !self.state.doomed;
            self.end_inner_transaction(keep);
        }
        result.map(|()| Control::Next)
    }
}

fn of_a_change(failure: SimpleFailure, is_change: bool) -> SimpleFailure {
    match failure {
        SimpleFailure::Error(error, Origin::Statement) if is_change => SimpleFailure::Error(error, Origin::Change),
        other => other,
    }
}

fn binding_failure(error: SqlError) -> SimpleFailure {
    // These depend on a SET option, not on names, or on who has locked a table: SQL Server finds them while the
    // statement runs.
    let origin = if matches!(error.number, 544 | 545 | 1205 | 1222) { Origin::Statement } else { Origin::Binding };
    SimpleFailure::Error(error, origin)
}
