//! The way of a statement to the file that runs it.

use std::sync::Arc;
use std::time::Duration;

use crate::error::SqlError;
use crate::execute::activation::Activation;
use crate::plan::batch::{CompiledBatch, Step, StepKind};
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Origin, SimpleFailure};
use crate::session::result_target::ResultTarget;
use crate::session::statement::evaluate::cell_type;
use crate::tds::token::DoneKind;
use crate::tsql::ast::StatementKind;

impl Session {
    /// Runs what is a single statement.
    pub(crate) fn run_simple(
        &mut self,
        step: &Step,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<Control, SimpleFailure> {
        match &step.kind {
            StepKind::Query(cached) => self.run_query_step(cached, None, step.line, compiled, activation, out)?,
            StepKind::InsertExecute(cached, execute) => {
                self.begin_implicitly(out);
                return self.run_insert_execute(cached, execute, step.line, compiled, activation, out);
            }
            StepKind::Set(place, cached) => {
                let value = self.eval_cached(cached, compiled, activation)?;
                activation.values[*place] = value;
                self.state.row_count = 1;
                // It counts as a SELECT of one row, which clients do not take for a changed one.
                self.statement_done(out, DoneKind::Select, Some(1));
            }
            StepKind::Declare(values) => {
                for (place, cached) in values {
                    if let Some(cached) = cached {
                        activation.values[*place] = self.eval_cached(cached, compiled, activation)?;
                        self.state.row_count = 1;
                    }
                }
            }
            StepKind::Throw { number, message, state } => {
                let number = self.eval_cached(number, compiled, activation)?.as_i64().unwrap_or(0);
                let message = self.eval_cached(message, compiled, activation)?;
                let state = self.eval_cached(state, compiled, activation)?.as_i64().unwrap_or(0);
                if !(50_000..=i64::from(i32::MAX)).contains(&number) {
                    return Err(SimpleFailure::Error(
                        SqlError::not_supported(format!("THROW of the number {number}")),
                        Origin::Statement,
                    ));
                }
                let text = message.as_str().unwrap_or_default();
                if text.replace("%%", "").contains('%') {
                    let what = format!("a % in a message of THROW that is not doubled: '{text}'");
                    return Err(SimpleFailure::Error(SqlError::not_supported(what), Origin::Statement));
                }
                let error = SqlError::new(number as i32, text.replace("%%", "%")).state(state as u8);
                return Err(SimpleFailure::Error(error, Origin::Throw));
            }
            StepKind::RaiseError { message, severity, state, arguments } => {
                self.raise_error(message, severity, state, arguments, step.line, compiled, activation, out)?;
            }
            StepKind::Print(cached) => {
                let message = self.eval_cached(cached, compiled, activation)?;
                let procedure = activation.procedure.as_ref().map(|procedure| Arc::clone(&procedure.full_name));
                out.info(0, 0, 1, message.as_str().unwrap_or(" "), procedure.as_deref(), step.line);
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::SetLockTimeout(cached) => {
                let value = self.eval_cached(cached, compiled, activation)?.as_i64().unwrap_or(-1);
                self.state.options.lock_timeout = u64::try_from(value).ok().map(Duration::from_millis);
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::SetDeadlockPriority(cached) => {
                let value = self.eval_cached(cached, compiled, activation)?.as_i64().unwrap_or(0);
                if !(-10..=10).contains(&value) {
                    let error = SqlError::new(155, format!("'{value}' is not a recognized DEADLOCK_PRIORITY option."));
                    return Err(SimpleFailure::Error(error.severity(15), Origin::Statement));
                }
                self.state.options.deadlock_priority = value as i8;
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::WaitForDelay(cached) => {
                let delay = self.eval_cached(cached, compiled, activation)?;
                self.wait_for(&delay, cell_type(cached, self.version()))?;
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::Cursor(step) => self.run_cursor_step(step, activation, out)?,
            StepKind::CheckIdentity { table, value } => {
                let table = self.eval_cached(table, compiled, activation)?;
                let value = self.eval_cached(value, compiled, activation)?;
                self.check_identity(table.as_str().unwrap_or_default(), &value, step.line, activation, out)?;
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::SetLanguage => {
                out.writer().language_set();
                self.statement_done(out, DoneKind::Other, None);
            }
            StepKind::Execute(execute) => {
                return self.run_execute(execute, step.line, compiled, activation, out).map_err(SimpleFailure::Passed);
            }
            StepKind::Other(statement) => self
                .run_other(statement, activation, out)
                .map_err(|error| SimpleFailure::Error(error, origin_in(statement)))?,
            StepKind::Nothing => self.statement_done(out, DoneKind::Other, None),
            StepKind::Block(_)
            | StepKind::If { .. }
            | StepKind::While { .. }
            | StepKind::Break
            | StepKind::Continue
            | StepKind::Return(_)
            | StepKind::TryCatch { .. }
            | StepKind::Rethrow => unreachable!("run_step has seen to it"),
        }
        Ok(Control::Next)
    }

    /// The end of a successful statement. What is no query sets @@ROWCOUNT to 0.
    ///
    /// Source: "@@ROWCOUNT" (MicrosoftDocs/sql-docs, docs/t-sql/functions/rowcount-transact-sql.md).
    pub fn statement_done(&mut self, out: &mut ResultTarget<'_>, kind: DoneKind, count: Option<u64>) {
        self.state.error = 0;
        if kind == DoneKind::Other {
            self.state.row_count = 0;
        }
        let counted = count.filter(|_| !self.state.options.no_count);
        out.done_statement(kind, counted);
    }
}

fn origin_in(statement: &StatementKind) -> Origin {
    match statement {
        StatementKind::CreateTable(_) => Origin::CreateTable,
        StatementKind::AlterTable(_) => Origin::AlterTable,
        _ => Origin::Statement,
    }
}
