//! Binds the bodies of scalar functions.
//!
//! Source: "CREATE FUNCTION" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-function-transact-sql.md).

use std::sync::Arc;

use crate::bind::batch::Compiler;
use crate::bind::binder::{Binder, CallChain};
use crate::bind::cached_plan::Surroundings;
use crate::catalog::object::Function;
use crate::error::{SqlError, SqlResult};
use crate::plan::batch::{CompiledBatch, FunctionPlan, Step, StepKind};
use crate::plan::cached_plan::Plan;
use crate::plan::declarations::Declarations;
use crate::tsql::ast::{Statement, StatementKind};

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
        StatementKind::Declare(_)
        | StatementKind::SetVariable { .. }
        | StatementKind::Select(_)
        | StatementKind::Return(Some(_)) => Ok(()),
        _ => Err(SqlError::not_supported("this statement in a function")),
    }
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
        StepKind::Query(cached) => match cached.kept(version).as_ref().map(|bound| &bound.plan) {
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
pub fn bind_function_body(binder: &Binder<'_>, function: &Function, is_final: bool) -> SqlResult<FunctionPlan> {
    let mut around = binder.calls;
    while let Some(call) = around {
        if call.function == function.id {
            return Err(SqlError::not_supported("a function that calls itself"));
        }
        around = call.outer;
    }
    let chain = CallChain { function: function.id, outer: binder.calls };
    let mut declarations = Declarations::default();
    for parameter in &function.parameters {
        declarations.declare(Arc::clone(&parameter.name), parameter.ty.clone(), false)?;
    }
    let Binder { database, latch, state, .. } = *binder;
    let owner = database.catalog.read().owner_in(&function.schema);
    let surroundings = Surroundings { database, latch, state, schema: &function.schema, owner, calls: Some(&chain) };
    let version = database.version();
    let compiler = Compiler::new(surroundings, declarations, version).for_function(function.returns, is_final);
    let compiled = compiler.compile(&function.body)?;
    check_compiled(&compiled, version)?;
    Ok(FunctionPlan { compiled, version })
}
