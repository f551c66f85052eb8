//! Triggers.
//!
//! A statement changes its rows first. What it changed is read back from the transaction's own record of changes
//! ([`crate::storage::Latch::changed_rows`]), so that INSERT, UPDATE and DELETE need to know nothing of
//! triggers. Then each trigger of the statement's kind runs as a procedure whose `inserted` and `deleted` are table
//! variables with those rows. Statement and triggers are one transaction; without one of the caller's it is begun for
//! them. An INSTEAD OF trigger gets the rows that the statement would have deleted, and
//! the statement changes nothing.
//!
//! Source: "CREATE TRIGGER" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-trigger-transact-sql.md).

use std::sync::Arc;

use crate::catalog::object::Trigger;
use crate::catalog::parameter::VariableType;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::batch::CompiledBatch;
use crate::plan::cached_plan::Uses;
use crate::plan::declarations::Declarations;
use crate::plan::trigger::{DELETED, INSERTED, TriggerTarget};
use crate::session::client_session::{RunningTrigger, Session};
use crate::session::outcome::{Failure, Origin, SimpleFailure, StepResult};
use crate::session::result_target::ResultTarget;
use crate::storage::{ChangedRow, Lifetime, Mark, ObjectId, TableSchema};
use crate::value::Value;

/// What `inserted` and `deleted` look like: the table's columns and nothing that it does to new rows. Computed columns
/// are computed when they are read.
fn template(schema: &TableSchema) -> Arc<TableSchema> {
    let mut template = schema.clone();
    template.lifetime = Lifetime::Variable;
    template.indexes.clear();
    template.statistics.clear();
    template.checks.clear();
    for column in &mut template.columns {
        column.identity = None;
        column.default = None;
    }
    Arc::new(template)
}

pub(crate) fn declarations(schema: &TableSchema) -> SqlResult<Declarations> {
    let mut declarations = Declarations::default();
    let template = template(schema);
    for name in [INSERTED, DELETED] {
        declarations.declare(name.into(), VariableType::Table(Arc::clone(&template)), true)?;
    }
    Ok(declarations)
}

impl Session {
    /// "The following … statements aren't allowed inside the body of a DML trigger when it's used against the table …
    /// that's the target of the triggering action."
    pub(crate) fn check_not_within_trigger(&self, table: ObjectId) -> SqlResult<()> {
        if self.running_triggers.iter().any(|running| running.table == table) {
            return Err(SqlError::not_supported("changing the definition of a table within its own trigger"));
        }
        Ok(())
    }

    /// 287: the statements that no trigger may have.
    ///
    /// Source: "CREATE TRIGGER", remarks (MicrosoftDocs/sql-docs,
    /// docs/t-sql/statements/create-trigger-transact-sql.md).
    pub(crate) fn check_not_in_trigger(&self, command: &str) -> SqlResult<()> {
        if self.running_triggers.is_empty() {
            return Ok(());
        }
        Err(SqlError::new(287, format!("The {command} statement is not allowed within a trigger.")).state(2))
    }

    /// Runs a statement and its triggers, all in one transaction.
    pub(crate) fn with_triggers<T>(
        &mut self,
        target: &TriggerTarget,
        out: &mut ResultTarget<'_>,
        line: u32,
        activation: &mut Activation,
        statement: impl FnOnce(&mut Session, &mut Activation) -> SqlResult<(T, u64)>,
    ) -> Result<T, SimpleFailure> {
        self.in_statement_transaction(|session| {
            session.statement_and_triggers(target, out, line, activation, statement)
        })
    }

    /// Runs a statement and what it fires in the transaction that there is, or in one of their own.
    fn in_statement_transaction<T>(
        &mut self,
        f: impl FnOnce(&mut Session) -> Result<T, SimpleFailure>,
    ) -> Result<T, SimpleFailure> {
        let began = self.tx.is_none();
        if began {
            self.tx = Some(self.new_transaction());
            self.state.transaction_count = 1;
        }
        let result = f(self);
        if began && self.tx.is_some() {
            self.end_inner_transaction(result.is_ok());
        }
        result
    }

    fn statement_and_triggers<T>(
        &mut self,
        target: &TriggerTarget,
        out: &mut ResultTarget<'_>,
        line: u32,
        activation: &mut Activation,
        statement: impl FnOnce(&mut Session, &mut Activation) -> SqlResult<(T, u64)>,
    ) -> Result<T, SimpleFailure> {
        let mark = self.tx.as_ref().map(|tx| tx.mark()).expect("a transaction was begun");
        let (result, count) = statement(self, activation)?;
        let changes = self.rows_changed_since(mark, target.table);
        for trigger in &target.triggers {
            // A trigger does not fire itself: RECURSIVE_TRIGGERS is OFF.
            if self.running_triggers.last().is_some_and(|running| running.trigger == trigger.procedure.id) {
                continue;
            }
            self.state.row_count = count as i64;
            self.fire(trigger, &changes, out, line, activation)?;
        }
        Ok(result)
    }

    /// The trigger that runs in the place of a DELETE. "If an INSTEAD OF trigger defined on a table executes a statement
    /// against the table that would ordinarily fire the INSTEAD OF trigger again, the trigger is not called
    /// recursively." "An AFTER trigger will not recursively fire an INSTEAD OF trigger on the same table."
    pub(crate) fn fires_instead(&self, target: &TriggerTarget) -> Option<Arc<Trigger>> {
        let is_recursion = self.running_triggers.last().is_some_and(|running| running.table == target.table);
        target.instead_of.as_ref().filter(|_| !is_recursion).map(Arc::clone)
    }

    /// Runs a trigger in the place of a DELETE, which says what it would have deleted; gives the number of rows.
    pub(crate) fn with_instead_of(
        &mut self,
        trigger: &Trigger,
        out: &mut ResultTarget<'_>,
        line: u32,
        activation: &mut Activation,
        statement: impl FnOnce(&mut Session, &mut Activation) -> SqlResult<Vec<ChangedRow>>,
    ) -> Result<u64, SimpleFailure> {
        self.in_statement_transaction(|session| {
            let changes = statement(session, activation)?;
            session.state.row_count = changes.len() as i64;
            session.fire(trigger, &changes, out, line, activation)?;
            Ok(changes.len() as u64)
        })
    }

    fn rows_changed_since(&mut self, mark: Mark, table: ObjectId) -> Vec<ChangedRow> {
        let database = Arc::clone(&self.database);
        let latch = database.storage.latch();
        self.tx.as_ref().map(|tx| latch.changed_rows(tx, mark, table)).unwrap_or_default()
    }

    fn fire(
        &mut self,
        trigger: &Trigger,
        changes: &[ChangedRow],
        out: &mut ResultTarget<'_>,
        line: u32,
        activation: &mut Activation,
    ) -> Result<(), SimpleFailure> {
        self.check_nesting()?;
        let compiled = self.compiled_trigger(trigger)?;
        let procedure = Some(Arc::clone(&trigger.procedure));
        let mut callee = Activation { procedure, owner: compiled.owner, ..Activation::default() };
        callee.grow(compiled.declarations.len());
        self.fill_logical_tables(&compiled, changes, &mut callee)?;
        let options = self.state.options;
        // "SET XACT_ABORT … ON is the default setting in a trigger"
        // (docs/t-sql/statements/set-xact-abort-transact-sql.md).
        self.state.options.xact_abort = true;
        let was_doomed = self.state.doomed;
        let transaction = self.tx.as_ref().map(|tx| tx.id());
        self.state.nest_level += 1;
        self.running_triggers.push(RunningTrigger { trigger: trigger.procedure.id, table: trigger.table });
        out.enter_procedure();
        let result: StepResult = self.run_compiled(&compiled, &mut callee, out);
        out.leave_procedure();
        self.running_triggers.pop();
        self.drop_temporary_tables(self.state.nest_level);
        self.state.nest_level -= 1;
        self.state.options = options;
        match result {
            // A name was missing: the trigger ends there, and with it, under XACT_ABORT, everything.
            Ok(_) | Err(Failure::EndScope) => {}
            Err(failure) => return Err(SimpleFailure::Passed(failure)),
        }
        let error = if self.tx.as_ref().map(|tx| tx.id()) != transaction {
            Some(SqlError::new(3609, "The transaction ended in the trigger. The batch has been aborted."))
        } else if self.state.doomed && !was_doomed {
            let message = "An error was raised during trigger execution. The batch has been aborted and the user \
                           transaction, if any, has been rolled back.";
            Some(SqlError::new(3616, message))
        } else {
            None
        };
        if let Some(error) = error {
            if error.number == 3616 && self.try_levels.is_empty() {
                self.rollback_everything(out);
            }
            return match self.fail(error, Origin::Throw, activation, line, out) {
                Ok(_) => Err(SimpleFailure::Passed(Failure::EndBatch)),
                Err(failure) => Err(SimpleFailure::Passed(failure)),
            };
        }
        Ok(())
    }

    fn fill_logical_tables(
        &mut self,
        compiled: &CompiledBatch,
        changes: &[ChangedRow],
        callee: &mut Activation,
    ) -> SqlResult<()> {
        for (name, is_inserted) in [(INSERTED, true), (DELETED, false)] {
            let (place, variable) = compiled.declarations.table(name)?;
            let template = Arc::clone(variable.ty.template().expect("it was declared as a table"));
            let table = self.create_table_variable(&template)?;
            callee.tables[place] = Some(table);
            callee.owned_tables.push(table);
            let side = |change: &ChangedRow| if is_inserted { change.after.clone() } else { change.before.clone() };
            let rows: Vec<Vec<Value>> = changes.iter().filter_map(side).collect();
            self.with_run(Uses::OwnTables, &mut Activation::default(), |run| {
                let storage = run.own_storage()?;
                for row in &rows {
                    storage.latch.insert(&mut storage.tx, table, row)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn compiled_trigger(&mut self, trigger: &Trigger) -> SqlResult<Arc<CompiledBatch>> {
        let version = self.version();
        let procedure = &trigger.procedure;
        if let Some(compiled) = self.engine.plans.body(self.database.id, procedure, version) {
            return Ok(compiled);
        }
        let schema = self.stored_schema(trigger.table)?;
        let owner = self.owner_in(&schema.schema);
        let (compiled, is_common) =
            self.compile(&procedure.body, declarations(&schema)?, &procedure.schema, owner).map_err(|mut error| {
                error.procedure.get_or_insert_with(|| Arc::clone(&procedure.full_name));
                error
            })?;
        let compiled = Arc::new(compiled);
        if is_common {
            self.engine.plans.keep_body(self.database.id, procedure, version, &compiled);
        }
        Ok(compiled)
    }
}
