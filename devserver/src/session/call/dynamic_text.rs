//! EXEC(text) and sp_executesql: text that is compiled and run with variables of its own.

use std::sync::Arc;

use crate::catalog::parameter::Parameter;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::plan::declarations::Declarations;
use crate::session::call::argument::{Called, PassedArgument, Returned, outputs};
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Failure, Origin, StepResult};
use crate::session::result_target::ResultTarget;
use crate::tsql::parse_parameter_list;

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
        let (parameters, declarations, callee) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                return self.fail(error, Origin::Statement, activation, line, out).map(|_| None);
            }
        };
        let (control, callee) = match self.run_text(text, declared, declarations, callee, line, activation, out) {
            Ok(done) => done,
            Err(Failure::EndScope) => return Ok(Some(Returned { status: self.state.error, ..Returned::default() })),
            Err(failure) => return Err(failure),
        };
        let status = match control {
            Control::Return(Some(status)) => status,
            _ => 0,
        };
        Ok(Some(Returned { status, outputs: outputs(&parameters, arguments, &callee, first) }))
    }

    /// The parameters of a list, and the values of their variables.
    fn bind_declared(
        &mut self,
        declared: &str,
        arguments: &[PassedArgument],
    ) -> SqlResult<(Vec<Parameter>, Declarations, Activation)> {
        let definitions = parse_parameter_list(declared)?;
        if definitions.iter().any(|definition| definition.default.is_some()) {
            return Err(SqlError::not_supported("a parameter with a default in the list of sp_executesql"));
        }
        let (parameters, declarations) = self.bind_parameters(&definitions, None)?;
        let callee = self.bind_arguments(&Called::Text(declared), &parameters, arguments)?;
        Ok((parameters, declarations, callee))
    }
}

fn ended(result: StepResult) -> Failure {
    match result {
        Ok(_) => Failure::EndScope,
        Err(failure) => failure,
    }
}
