//! EXEC(text) and sp_executesql: text that is compiled and run with variables of its own.

use std::sync::Arc;

use crate::bind::type_name::variable_type;
use crate::catalog::parameter::VariableType;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::declarations::Declarations;
use crate::session::call::argument::{Passed, PassedArgument, Returned, convert_parameter};
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Failure, Origin, StepResult};
use crate::session::result_target::ResultTarget;
use crate::tsql::ast::ParameterDef;
use crate::tsql::parse_parameter_list;
use crate::value::SqlType;

impl Session {
    /// Runs dynamic text (EXEC and sp_executesql) with its own variables.
    #[allow(clippy::too_many_arguments)] // A text, its parameters, its caller and its answer.
    pub(crate) fn run_text(
        &mut self,
        text: &str,
        declared: &str,
        parameters: Declarations,
        mut callee: Activation,
        line: u32,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(Control, Activation), Failure> {
        if let Err(error) = self.check_nesting() {
            self.drop_table_variables(&mut callee);
            return Err(ended(self.fail(error, Origin::Statement, activation, line, out)));
        }
        // Ownership chaining ends at dynamic text: it runs with the user's own permissions.
        callee.owner = None;
        let schema = Arc::clone(&self.state.default_schema);
        let compiled = match self.compiled_text(text, declared, parameters, &schema, None) {
            Ok(compiled) => compiled,
            Err(error) => {
                self.drop_table_variables(&mut callee);
                return Err(ended(self.fail(error, Origin::Statement, activation, line, out)));
            }
        };
        let options = self.state.options;
        self.state.nest_level += 1;
        let result = self.run_compiled(&compiled, &mut callee, out);
        self.drop_temporary_tables(self.state.nest_level);
        self.state.nest_level -= 1;
        self.state.options = options;
        result.map(|control| (control, callee))
    }

    /// sp_executesql: text with parameters. Output values are put back by position among the given arguments.
    #[allow(clippy::too_many_arguments)] // A text, its parameters, its caller and its answer.
    pub(crate) fn execute_text(
        &mut self,
        text: &str,
        declared: &str,
        arguments: &[PassedArgument],
        first: usize,
        activation: &mut Activation,
        line: u32,
        out: &mut ResultTarget<'_>,
    ) -> Result<Option<Returned>, Failure> {
        let bound = self.bind_declared(declared, arguments);
        let (declarations, callee, places) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                return self.fail(error, Origin::Statement, activation, line, out).map(|_| None);
            }
        };
        let types: Vec<Option<SqlType>> = (0..declarations.len())
            .map(|place| match declarations.get(place).ty {
                VariableType::Scalar(ty) => Some(ty),
                _ => None,
            })
            .collect();
        let (control, callee) = match self.run_text(text, declared, declarations, callee, line, activation, out) {
            Ok(done) => done,
            Err(Failure::EndScope) => return Ok(Some(Returned { status: self.state.error, ..Returned::default() })),
            Err(failure) => return Err(failure),
        };
        let mut outputs = Vec::new();
        for (position, argument) in arguments.iter().enumerate() {
            let place = places[position];
            if let (true, Some(ty)) = (argument.output, types[place]) {
                outputs.push((first + position, callee.values[place].clone(), ty));
            }
        }
        let status = match control {
            Control::Return(Some(status)) => status,
            _ => 0,
        };
        Ok(Some(Returned { status, outputs }))
    }

    /// The variables of a parameter list with their values, and for each argument the place of its parameter.
    fn bind_declared(
        &mut self,
        declared: &str,
        arguments: &[PassedArgument],
    ) -> SqlResult<(Declarations, Activation, Vec<usize>)> {
        let parameters = parse_parameter_list(declared)?;
        if parameters.iter().any(|parameter| parameter.default.is_some()) {
            return Err(SqlError::not_supported("a parameter with a default in the list of sp_executesql"));
        }
        let declarations = self.with_binder(|binder| {
            let mut declarations = Declarations::default();
            for parameter in &parameters {
                let ty = variable_type(binder, &parameter.data_type)?;
                let is_table = ty.template().is_some();
                declarations.declare(Arc::clone(&parameter.name), ty, is_table)?;
            }
            Ok(declarations)
        })?;
        let mut callee = Activation::default();
        callee.grow(declarations.len());
        match self.take_declared(declared, &parameters, &declarations, arguments, &mut callee) {
            Ok(places) => Ok((declarations, callee, places)),
            Err(error) => {
                self.drop_table_variables(&mut callee);
                Err(error)
            }
        }
    }

    /// Gives the parameters their values; the place of each argument's.
    fn take_declared(
        &mut self,
        declared: &str,
        parameters: &[ParameterDef],
        declarations: &Declarations,
        arguments: &[PassedArgument],
        callee: &mut Activation,
    ) -> SqlResult<Vec<usize>> {
        let mut given = vec![false; declarations.len()];
        let mut places = Vec::with_capacity(arguments.len());
        for (position, argument) in arguments.iter().enumerate() {
            let place = match &argument.name {
                Some(name) => declarations.find(name).map(|(place, _)| place),
                None => Some(position).filter(|position| *position < declarations.len()),
            };
            let Some(place) = place else {
                return Err(match &argument.name {
                    Some(name) => SqlError::new(8145, format!("{name} is not a parameter for procedure .")).state(2),
                    None => SqlError::new(8144, "Procedure or function  has too many arguments specified.").state(2),
                });
            };
            if argument.output && !parameters[place].output {
                return Err(SqlError::new(
                    8162,
                    format!(
                        "The formal parameter \"{}\" was not declared as an OUTPUT parameter, but the actual parameter \
                         passed in requested output.",
                        parameters[place].name
                    ),
                )
                .state(2));
            }
            places.push(place);
            match (&declarations.get(place).ty, &argument.value) {
                (_, Passed::Default) => continue,
                (VariableType::Scalar(ty), Passed::Value { value, ty: from }) => {
                    callee.values[place] = convert_parameter(value.clone(), *from, *ty)?;
                }
                (wanted, Passed::UntypedTable { columns, rows }) => {
                    self.take_untyped_table(wanted, columns, rows.take(), place, callee)?;
                }
                (wanted, Passed::Table { table, .. }) if wanted.template().is_some() => {
                    callee.tables[place] = Some(*table);
                }
                _ => {
                    return Err(
                        SqlError::new(206, "Operand type clash between a table and a scalar parameter.").state(2)
                    );
                }
            }
            given[place] = true;
        }
        if let Some(place) = given.iter().position(|is_given| !is_given) {
            if declarations.get(place).ty.template().is_some() {
                return Err(SqlError::not_supported("a table parameter of sp_executesql without a value"));
            }
            return Err(SqlError::new(
                8178,
                format!(
                    "The parameterized query '({declared})' expects the parameter '{}', which was not supplied.",
                    declarations.get(place).name
                ),
            ));
        }
        Ok(places)
    }
}

fn ended(result: StepResult) -> Failure {
    match result {
        Ok(_) => Failure::EndScope,
        Err(failure) => failure,
    }
}
