//! Binds the bodies of scalar functions of several statements.
//!
//! Source: "CREATE FUNCTION" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-function-transact-sql.md).

use std::cell::RefCell;
use std::sync::Arc;

use crate::bind::batch::Compiler;
use crate::bind::binder::{Binder, CallChain};
use crate::bind::cell::Surroundings;
use crate::catalog::object::Function;
use crate::error::{SqlError, SqlResult};
use crate::plan::batch::{CalledFunction, FunctionCell, FunctionPlan};
use crate::plan::batch::{CompiledBatch, Step, StepKind};
use crate::plan::cell::Plan;
use crate::plan::declarations::Declarations;
use crate::tsql::ast::{Statement, StatementKind};
use crate::value::SqlType;

/// So many functions may call each other before the text alone is too deep.
const MAX_DEPTH: usize = 32;

/// 443.
fn side_effect(operator: &str) -> SqlError {
    SqlError::new(443, format!("Invalid use of a side-effecting operator '{operator}' within a function.")).state(15)
}

/// Refuses what a function must not do, and what is not known here.
pub fn check_statements(statements: &[Statement]) -> SqlResult<()> {
    statements
        .iter()
        .try_for_each(|statement| check_statement(&statement.kind).map_err(|error| error.at_line(statement.line)))
}

fn check_statement(statement: &StatementKind) -> SqlResult<()> {
    match statement {
        StatementKind::Block(statements) => check_statements(statements),
        StatementKind::If { then, otherwise, .. } => {
            check_statement(&then.kind)?;
            otherwise.as_ref().map_or(Ok(()), |otherwise| check_statement(&otherwise.kind))
        }
        StatementKind::While { body, .. } => check_statement(&body.kind),
        StatementKind::Declare(_)
        | StatementKind::SetVariable { .. }
        | StatementKind::Select(_)
        | StatementKind::Break
        | StatementKind::Continue
        | StatementKind::Return(Some(_)) => Ok(()),
        StatementKind::Insert(_) => Err(changes("INSERT")),
        StatementKind::Update(_) => Err(changes("UPDATE")),
        StatementKind::Delete(_) => Err(changes("DELETE")),
        StatementKind::Print(_) => Err(side_effect("PRINT")),
        StatementKind::TryCatch { .. } => Err(side_effect("BEGIN TRY")),
        StatementKind::RaiseError(_) => Err(side_effect("RAISERROR")),
        _ => Err(SqlError::not_supported("this statement in a function")),
    }
}

/// A change of a table variable would be none.
fn changes(verb: &str) -> SqlError {
    SqlError::not_supported(format!("{verb} in a function"))
}

/// 444, and what needs more than the variables' values.
fn check_compiled(compiled: &CompiledBatch, version: u64) -> SqlResult<()> {
    if !compiled.table_variables.is_empty() {
        return Err(SqlError::not_supported("table variables in a function"));
    }
    compiled.steps.iter().try_for_each(|step| check_step(step, version))
}

fn check_step(step: &Step, version: u64) -> SqlResult<()> {
    match &step.kind {
        StepKind::Block(steps) => steps.iter().try_for_each(|step| check_step(step, version)),
        StepKind::If { then, otherwise, .. } => {
            check_step(then, version)?;
            otherwise.as_ref().map_or(Ok(()), |otherwise| check_step(otherwise, version))
        }
        StepKind::While { body, .. } => check_step(body, version),
        StepKind::Query(cell) => match cell.kept(version).as_ref().map(|bound| &bound.plan) {
            Some(Plan::Select(select)) if select.into.is_some() => Err(SqlError::not_supported("INTO in a function")),
            Some(Plan::Select(select)) if select.variables.is_none() => {
                let message = "Select statements included within a function cannot return data to a client.";
                Err(SqlError::new(444, message).state(2).at_line(step.line))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The function for a call. `is_final`: the call is about to run; otherwise it is only seen whether it could.
pub fn bind_statements(
    binder: &Binder<'_>,
    function: &Function,
    returns: SqlType,
    body: &[Statement],
    is_final: bool,
) -> SqlResult<CalledFunction> {
    let mut depth = 0;
    let mut around = binder.calls;
    while let Some(call) = around {
        if call.function == function.id {
            return Ok(CalledFunction::Around(Arc::downgrade(call.cell)));
        }
        depth += 1;
        around = call.outer;
    }
    if depth == MAX_DEPTH {
        return Err(SqlError::not_supported(format!("functions that call each other more than {MAX_DEPTH} deep")));
    }
    let outermost = RefCell::default();
    let known = binder.calls.map_or(&outermost, |call| call.known);
    let bound_before = known.borrow().iter().find(|(id, _)| *id == function.id).map(|(_, cell)| Arc::clone(cell));
    if let Some(cell) = bound_before {
        return Ok(CalledFunction::Other(cell));
    }
    let cell = Arc::new(FunctionCell::new());
    let chain =
        CallChain { function: function.id, cell: &cell, outer: binder.calls, in_check: binder.is_in_check(), known };
    let mut declarations = Declarations::default();
    for parameter in &function.parameters {
        declarations.declare(Arc::clone(&parameter.name), parameter.ty.clone(), false)?;
    }
    let Binder { database, latch, state, .. } = *binder;
    let owner = database.catalog.read().owner_in(&function.schema);
    let surroundings = Surroundings { database, latch, state, schema: &function.schema, owner, calls: Some(&chain) };
    let version = database.version();
    let compiled = Compiler::new(surroundings, declarations, version).for_function(returns, is_final).compile(body)?;
    check_compiled(&compiled, version)?;
    cell.set(FunctionPlan { compiled, version }).expect("nobody else fills it in");
    known.borrow_mut().push((function.id, Arc::clone(&cell)));
    Ok(CalledFunction::Other(cell))
}
