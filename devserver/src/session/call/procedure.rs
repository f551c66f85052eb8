//! EXEC: how a procedure is found and called, and what a call restores when it ends.

use std::sync::Arc;

use crate::bind::name::{display_name, in_another_database};
use crate::catalog::catalog::{Catalog, DBO};
use crate::catalog::object::{Object, Procedure};
use crate::catalog::object_name::ParsedName;
use crate::catalog::parameter::VariableType;
use crate::catalog::server::TEMPDB_NAME;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::user_function::{MAX_NESTING, nested_too_deep};
use crate::plan::batch::{Argument, ArgumentSource, CompiledBatch, ExecuteStep, ExecuteTarget};
use crate::plan::declarations::Declarations;
use crate::session::call::argument::{Called, Passed, PassedArgument, Returned, outputs};
use crate::session::call::procedure_not_found::not_found;
use crate::session::call::system_procedure;
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Failure, Origin, StepResult};
use crate::session::result_target::ResultTarget;
use crate::storage::fold;
use crate::tsql::ast::ObjectName;
use crate::value::{self, SqlType, Value};

impl Session {
    pub(crate) fn run_execute(
        &mut self,
        execute: &ExecuteStep,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> StepResult {
        match &execute.target {
            ExecuteTarget::Text(cached) => {
                let text = match self.eval_cached(cached, compiled, activation) {
                    Ok(text) => text,
                    Err((error, origin)) => return self.fail(error, origin, activation, line, out),
                };
                let Some(text) = text.as_str() else { return Ok(Control::Next) };
                let text = text.to_string();
                out.enter_procedure();
                let result =
                    self.run_text(&text, "", Declarations::default(), Activation::default(), line, activation, out);
                out.leave_procedure();
                match result {
                    Ok(_) => Ok(Control::Next),
                    Err(Failure::EndScope) => Ok(Control::Next),
                    Err(failure) => Err(failure),
                }
            }
            ExecuteTarget::Variable(place) => {
                let name = activation.values[*place].as_str().and_then(ParsedName::parse);
                match name {
                    Some(name) => {
                        let name = name.to_object_name();
                        self.run_call(&name, execute, line, compiled, activation, out)
                    }
                    None => self.fail(not_found(""), Origin::Statement, activation, line, out),
                }
            }
            ExecuteTarget::Procedure(name) => self.run_call(name, execute, line, compiled, activation, out),
        }
    }

    fn run_call(
        &mut self,
        name: &ObjectName,
        execute: &ExecuteStep,
        line: u32,
        compiled: &CompiledBatch,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> StepResult {
        let mut arguments = Vec::with_capacity(execute.arguments.len());
        for argument in &execute.arguments {
            match self.pass(argument, compiled, activation) {
                Ok(argument) => arguments.push(argument),
                Err((error, origin)) => return self.fail(error, origin, activation, line, out),
            }
        }
        out.enter_procedure();
        let result = self.call_procedure(name, arguments, &compiled.schema.clone(), activation, line, out);
        let returned = match result {
            Ok(returned) => {
                if let Some(returned) = &returned {
                    out.return_status(returned.status);
                }
                out.leave_procedure();
                returned
            }
            Err(failure) => {
                out.leave_procedure();
                return Err(failure);
            }
        };
        let Some(returned) = returned else { return Ok(Control::Next) };
        for (position, value, from) in returned.outputs {
            let ArgumentSource::Variable { place, ty, .. } = &execute.arguments[position].value else { continue };
            match value::convert(value, from, *ty, None, false) {
                Ok(value) => activation.values[*place] = value,
                Err(error) => return self.fail(error, Origin::Statement, activation, line, out),
            }
        }
        if let Some(place) = execute.return_place {
            let ty = match &compiled.declarations.get(place).ty {
                VariableType::Scalar(ty) => *ty,
                _ => SqlType::Int,
            };
            match value::convert(Value::Int(returned.status), SqlType::Int, ty, None, false) {
                Ok(value) => activation.values[place] = value,
                Err(error) => return self.fail(error, Origin::Statement, activation, line, out),
            }
        }
        Ok(Control::Next)
    }

    fn pass(
        &mut self,
        argument: &Argument,
        compiled: &CompiledBatch,
        activation: &mut Activation,
    ) -> Result<PassedArgument, (SqlError, Origin)> {
        let mut output = false;
        let value = match &argument.value {
            ArgumentSource::Value(cached) => {
                let (value, ty) = self.eval_typed(cached, compiled, activation)?;
                Passed::Value { value, ty }
            }
            ArgumentSource::Variable { place, ty, output: is_output } => {
                output = *is_output;
                Passed::Value { value: activation.values[*place].clone(), ty: *ty }
            }
            ArgumentSource::Table { place, ty } => Passed::Table { table: activation.table(*place), ty: ty.clone() },
            ArgumentSource::Default => Passed::Default,
        };
        Ok(PassedArgument { name: argument.name.clone(), value, output })
    }

    /// What a name means in this database: in its schema or else in `schema`, and in dbo.
    pub(super) fn object_in<'c>(&self, catalog: &'c Catalog, name: &ObjectName, schema: &str) -> Option<&'c Object> {
        if name.server.is_some() || name.database.as_ref().is_some_and(|name| fold(name) != fold(&self.database.name)) {
            return None;
        }
        match &name.schema {
            Some(schema) => catalog.object(schema, &name.name),
            None => catalog.object(schema, &name.name).or_else(|| catalog.object(DBO, &name.name)),
        }
    }

    /// The procedure that a name means.
    fn find_procedure(&self, name: &ObjectName, schema: &Arc<str>) -> Option<SqlResult<Arc<Procedure>>> {
        let catalog = self.database.catalog.read();
        match self.object_in(&catalog, name, schema)? {
            Object::Procedure(procedure) => Some(Ok(Arc::clone(procedure))),
            Object::Function(function) => {
                Some(Err(SqlError::not_supported(format!("EXEC of the function {}", function.name))))
            }
            _ => None,
        }
    }

    /// Calls a procedure of the user or of the system. `None`: it failed, which the client was told, and the caller
    /// goes on.
    pub(crate) fn call_procedure(
        &mut self,
        name: &ObjectName,
        arguments: Vec<PassedArgument>,
        schema: &Arc<str>,
        activation: &mut Activation,
        line: u32,
        out: &mut ResultTarget<'_>,
    ) -> Result<Option<Returned>, Failure> {
        let is_elsewhere = name.server.is_some()
            || name
                .database
                .as_deref()
                .map(fold)
                .is_some_and(|database| database != TEMPDB_NAME && database != fold(&self.database.name));
        if is_elsewhere && self.engine.product().is_azure() {
            let error = in_another_database(name, self.engine.product());
            return none(self.fail(error, Origin::Statement, activation, line, out));
        }
        if let Some(system) = system_procedure::find(name) {
            return self.call_system_procedure(system, arguments, activation, line, out);
        }
        let found =
            self.settled(name, schema, |session| session.find_procedure(name, schema)).and_then(Option::transpose);
        let found = found.and_then(|found| found.ok_or_else(|| not_found(&display_name(name))));
        let procedure = match found {
            Ok(procedure) => procedure,
            Err(error) => return none(self.fail(error, Origin::Statement, activation, line, out)),
        };
        if let Some(mut error) = self.engine.faults.at_call(&self.database.name, &procedure.full_name) {
            error.procedure.get_or_insert_with(|| Arc::clone(&procedure.full_name));
            return none(self.fail(error, Origin::Statement, activation, line, out));
        }
        let kept = self.engine.plans.body(self.database.id, &procedure, self.version());
        let is_chained = activation.owner.is_some() && kept.as_ref().is_some_and(|body| body.owner == activation.owner);
        let may_execute = match is_chained {
            true => Ok(()),
            false => self.check_execute(&procedure.schema, &procedure.name, procedure.id, activation),
        };
        let prepared = may_execute
            .and_then(|()| self.check_nesting())
            .and_then(|()| kept.map_or_else(|| self.compile_procedure(&procedure), Ok))
            .and_then(|compiled| {
                let callee =
                    self.bind_arguments(&Called::Procedure(&procedure.name), &procedure.parameters, &arguments)?;
                Ok((compiled, callee))
            });
        let (compiled, callee) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return none(self.fail(error, Origin::Statement, activation, line, out)),
        };
        self.run_procedure(&procedure, &compiled, callee, &arguments, activation, line, out)
    }

    pub(crate) fn check_nesting(&self) -> SqlResult<()> {
        if self.state.nest_level < MAX_NESTING {
            return Ok(());
        }
        Err(nested_too_deep())
    }

    #[allow(clippy::too_many_arguments)] // A call, its caller and its answer.
    fn run_procedure(
        &mut self,
        procedure: &Arc<Procedure>,
        compiled: &CompiledBatch,
        mut callee: Activation,
        arguments: &[PassedArgument],
        activation: &mut Activation,
        line: u32,
        out: &mut ResultTarget<'_>,
    ) -> Result<Option<Returned>, Failure> {
        callee.procedure = Some(Arc::clone(procedure));
        callee.owner = compiled.owner;
        let options = self.state.options;
        let transactions = self.state.transaction_count;
        let outer_worst = self.worst_severity.replace(0);
        self.state.nest_level += 1;
        let result = self.run_compiled(compiled, &mut callee, out);
        self.drop_temporary_tables(self.state.nest_level);
        self.state.nest_level -= 1;
        let worst = std::mem::replace(&mut self.worst_severity, outer_worst).unwrap_or(0);
        if let Some(outer) = &mut self.worst_severity {
            *outer = (*outer).max(worst);
        }
        let status = match result {
            Ok(Control::Return(Some(status))) => status,
            Ok(_) | Err(Failure::EndScope) => status_of_errors(worst),
            Err(failure) => {
                self.state.options = options;
                return Err(failure);
            }
        };
        let has_begun_implicitly =
            options.implicit_transactions && (transactions, self.state.transaction_count) == (0, 1);
        if self.state.transaction_count != transactions && !has_begun_implicitly {
            let error = SqlError::new(
                266,
                format!(
                    "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. \
                     Previous count = {transactions}, current count = {}.",
                    self.state.transaction_count
                ),
            )
            .state(2);
            let mut error = error;
            error.procedure = Some(Arc::clone(&procedure.full_name));
            // It never ends the batch by itself: the caller's XACT_ABORT does not apply to it.
            if let Err(failure) = self.fail(error, Origin::RaiseError, activation, line, out) {
                self.state.options = options;
                return Err(failure);
            }
        }
        self.state.options = options;
        let outputs = outputs(&procedure.parameters, arguments, &callee, 0);
        Ok(Some(Returned { status, outputs }))
    }

    /// Compiles the body, which is kept until the catalog changes.
    fn compile_procedure(&mut self, procedure: &Arc<Procedure>) -> SqlResult<Arc<CompiledBatch>> {
        let version = self.version();
        let mut declarations = Declarations::default();
        for parameter in &procedure.parameters {
            let is_table = parameter.ty.template().is_some();
            declarations.declare(Arc::clone(&parameter.name), parameter.ty.clone(), is_table)?;
        }
        let owner = self.owner_in(&procedure.schema);
        let (compiled, is_common) =
            self.compile(&procedure.body, declarations, &procedure.schema, owner).map_err(|mut error| {
                error.procedure.get_or_insert_with(|| Arc::clone(&procedure.full_name));
                error
            })?;
        let compiled = Arc::new(compiled);
        // A #temp table of this session must not be found in another's plan; such cached plans are not kept anyway.
        if is_common {
            self.engine.plans.keep_body(self.database.id, procedure, version, &compiled);
        }
        Ok(compiled)
    }
}

/// A failure that was already decided: the callee has nothing to return, and the caller goes on if it may.
fn none(result: StepResult) -> Result<Option<Returned>, Failure> {
    result.map(|_| None)
}

/// The status of a procedure without RETURN: 0, or 10 less the severity of its worst error.
fn status_of_errors(worst: u8) -> i32 {
    if worst > 10 { 10 - i32::from(worst) } else { 0 }
}
