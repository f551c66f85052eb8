//! EXEC of a scalar function.
//!
//! Source: "CREATE FUNCTION" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-function-transact-sql.md): "the
//! DEFAULT keyword is not required when invoking a scalar function by using the EXECUTE statement".

use std::fmt::Write;
use std::sync::Arc;

use crate::catalog::catalog::DBO;
use crate::catalog::object::{Function, Object};
use crate::catalog::parameter::VariableType;
use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::plan::batch::StepKind;
use crate::plan::declarations::Declarations;
use crate::session::call::argument::{PassedArgument, Returned};
use crate::session::client_session::Session;
use crate::session::outcome::{Failure, Origin};
use crate::session::output::Output;
use crate::tsql::ast::ObjectName;
use crate::value::{SqlType, Value};

impl Session {
    /// The scalar function that a name means.
    pub(crate) fn scalar_function(&self, name: &ObjectName, schema: &str) -> Option<Arc<Function>> {
        match self.object_in(&self.database.catalog.read(), name, schema)? {
            Object::Function(function) if function.returns.is_some() => Some(Arc::clone(function)),
            _ => None,
        }
    }

    /// Calls a scalar function as a statement. `None`: it failed, which the client was told, and the caller goes on.
    pub(crate) fn call_function(
        &mut self,
        function: &Arc<Function>,
        arguments: &[PassedArgument],
        activation: &mut Activation,
        line: u32,
        out: &mut Output<'_>,
    ) -> Result<Option<Returned>, Failure> {
        let value = self
            .check_execute(&function.schema, &function.name, function.id, activation)
            .and_then(|()| self.check_nesting())
            .and_then(|()| self.bind_arguments_of(&function.name, &function.parameters, arguments))
            .map_err(|error| (error, Origin::Statement))
            .and_then(|mut callee| {
                let value = self.value_of(function, &mut callee);
                self.drop_table_variables(&mut callee);
                value
            });
        match value {
            Ok(value) => Ok(Some(Returned { value: Some(value), ..Returned::default() })),
            Err((error, origin)) => self.fail(error, origin, activation, line, out).map(|_| None),
        }
    }

    /// The value of an assignment that calls the function with its parameters' values.
    fn value_of(
        &mut self,
        function: &Function,
        callee: &mut Activation,
    ) -> Result<(Value, SqlType), (crate::error::SqlError, Origin)> {
        let (text, declarations) = assignment(function).map_err(|error| (error, Origin::Statement))?;
        callee.grow(declarations.len());
        // No declaration of sp_executesql begins so.
        let owner = self.owner_in(&function.schema);
        let compiled = self
            .compiled_text(&text, "\u{0}EXEC", declarations, &Arc::from(DBO), owner)
            .map_err(|error| (error, Origin::Statement))?;
        let [step] = &compiled.steps[..] else { unreachable!("it is one assignment") };
        let StepKind::Set(_, cell) = &step.kind else { unreachable!("it is an assignment") };
        let value = self.eval_cell(cell, &compiled, callee)?;
        Ok((value, function.returns.expect("it is scalar")))
    }
}

/// `SET @result = [schema].[function](@1, @2 …)`, and the variables in it: the parameters, then the result.
fn assignment(function: &Function) -> SqlResult<(String, Declarations)> {
    let mut declarations = Declarations::default();
    let bracketed = |name: &str| format!("[{}]", name.replace(']', "]]"));
    let mut text = format!("SET @result = {}.{}(", bracketed(&function.schema), bracketed(&function.name));
    for (index, parameter) in function.parameters.iter().enumerate() {
        declarations.declare(format!("@p{index}").into(), parameter.ty.clone(), false)?;
        write!(text, "{}@p{index}", if index == 0 { "" } else { ", " }).expect("a string takes it");
    }
    text.push(')');
    let returns = function.returns.expect("it is scalar");
    declarations.declare("@result".into(), VariableType::Scalar(returns), false)?;
    Ok((text, declarations))
}
