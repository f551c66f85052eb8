//! What a call passes and what comes back, and how parameters get their values.

use std::cell::RefCell;
use std::sync::Arc;

use crate::catalog::parameter::{Parameter, VariableType};
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::storage::{ObjectId, fold};
use crate::value::{self, SqlType, Value};

/// What a call passes for one parameter.
#[derive(Debug)]
pub enum Passed {
    Value {
        value: Value,
        ty: SqlType,
    },
    /// A table with its type, for messages.
    Table {
        table: ObjectId,
        ty: VariableType,
    },
    /// A client's table that names no type: it is made when the parameter is known. Its rows are taken then.
    UntypedTable {
        columns: Vec<SqlType>,
        rows: RefCell<Vec<Vec<Value>>>,
    },
    Default,
}

/// An argument, evaluated.
#[derive(Debug)]
pub struct PassedArgument {
    /// With its `@`, if passed by name.
    pub name: Option<Arc<str>>,
    pub value: Passed,
    pub output: bool,
}

/// What comes back from a call.
#[derive(Debug, Default)]
pub struct Returned {
    pub status: i32,
    /// For each argument passed with OUTPUT: its position and the value with its type.
    pub outputs: Vec<(usize, Value, SqlType)>,
}

/// What the arguments are for.
pub(crate) enum Called<'a> {
    /// A procedure of this name.
    Procedure(&'a str),
    /// The text of sp_executesql and its like, with this list of parameters.
    Text(&'a str),
}

impl Called<'_> {
    fn name(&self) -> &str {
        match self {
            Called::Procedure(name) => name,
            Called::Text(_) => "",
        }
    }

    /// 201 or 8178.
    fn lacks(&self, parameter: &Parameter) -> SqlError {
        let parameter = &parameter.name;
        match self {
            Called::Procedure(name) => {
                let message =
                    format!("Procedure or function '{name}' expects parameter '{parameter}', which was not supplied.");
                SqlError::new(201, message).state(4)
            }
            Called::Text(declared) => SqlError::new(
                8178,
                format!(
                    "The parameterized query '({declared})' expects the parameter '{parameter}', which was not supplied."
                ),
            ),
        }
    }
}

impl Session {
    /// Gives the parameters their values: 201, 8144, 8145, 8146, 8162.
    pub(crate) fn bind_arguments(
        &mut self,
        called: &Called<'_>,
        parameters: &[Parameter],
        arguments: &[PassedArgument],
    ) -> SqlResult<Activation> {
        if parameters.is_empty() && !arguments.is_empty() {
            let Called::Procedure(name) = called else {
                return Err(SqlError::not_supported("arguments of a text without parameters"));
            };
            let message = format!("Procedure {name} has no parameters and arguments were supplied.");
            return Err(SqlError::new(8146, message).state(2));
        }
        let mut callee = Activation::default();
        callee.grow(parameters.len());
        match self.take_arguments(called, parameters, arguments, &mut callee) {
            Ok(()) => Ok(callee),
            Err(error) => {
                self.drop_table_variables(&mut callee);
                Err(error)
            }
        }
    }

    fn take_arguments(
        &mut self,
        called: &Called<'_>,
        parameters: &[Parameter],
        arguments: &[PassedArgument],
        callee: &mut Activation,
    ) -> SqlResult<()> {
        let name = called.name();
        let mut given = vec![false; parameters.len()];
        let mut by_name = false;
        for (position, argument) in arguments.iter().enumerate() {
            let place = match &argument.name {
                Some(given) => {
                    by_name = true;
                    parameter_named(parameters, given).ok_or_else(|| {
                        SqlError::new(8145, format!("{given} is not a parameter for procedure {name}."))
                    })?
                }
                None => {
                    if by_name {
                        return Err(SqlError::not_supported("an argument without a name after one with a name"));
                    }
                    if position >= parameters.len() {
                        return Err(SqlError::new(
                            8144,
                            format!("Procedure or function {name} has too many arguments specified."),
                        )
                        .state(2));
                    }
                    position
                }
            };
            let parameter = &parameters[place];
            if given[place] {
                return Err(SqlError::not_supported("a parameter that is passed twice"));
            }
            if argument.output && !parameter.output {
                return Err(SqlError::new(
                    8162,
                    format!(
                        "The formal parameter \"{}\" was not declared as an OUTPUT parameter, but the actual parameter \
                         passed in requested output.",
                        parameter.name
                    ),
                )
                .state(2));
            }
            given[place] = self.take_argument(parameter, &argument.value, place, callee)?;
        }
        for (place, parameter) in parameters.iter().enumerate() {
            if given[place] {
                continue;
            }
            match (&parameter.ty, &parameter.default) {
                (VariableType::Scalar(_), Some(default)) => callee.values[place] = default.clone(),
                (VariableType::Scalar(_), None) => return Err(called.lacks(parameter)),
                _ if matches!(called, Called::Text(_)) => {
                    return Err(SqlError::not_supported("a table parameter of sp_executesql without a value"));
                }
                (VariableType::Table(template) | VariableType::TableType { template, .. }, _) => {
                    // A table-valued parameter that is not passed is empty.
                    let table = self.create_table_variable(&Arc::clone(template))?;
                    callee.tables[place] = Some(table);
                    callee.owned_tables.push(table);
                }
            }
        }
        Ok(())
    }

    /// False for DEFAULT: the declared default is taken then.
    fn take_argument(
        &mut self,
        parameter: &Parameter,
        passed: &Passed,
        place: usize,
        callee: &mut Activation,
    ) -> SqlResult<bool> {
        match (&parameter.ty, passed) {
            (_, Passed::Default) => return Ok(false),
            (VariableType::Scalar(ty), Passed::Value { value, ty: from }) => {
                callee.values[place] = convert_parameter(value.clone(), *from, *ty)?;
            }
            (wanted, Passed::UntypedTable { columns, rows }) => {
                self.take_untyped_table(wanted, columns, rows.take(), place, callee)?;
            }
            (wanted, Passed::Table { table, ty }) if is_same_table(wanted, ty) => callee.tables[place] = Some(*table),
            (_, Passed::Table { .. } | Passed::Value { .. }) => {
                return Err(SqlError::not_supported(
                    "a table that is not of the parameter's type, or a value for a table",
                ));
            }
        }
        Ok(true)
    }
}

fn is_same_table(wanted: &VariableType, given: &VariableType) -> bool {
    match (wanted.template(), given.template()) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// What the arguments that were passed with OUTPUT have become, with their places counted from `first`.
pub(crate) fn outputs(
    parameters: &[Parameter],
    arguments: &[PassedArgument],
    callee: &Activation,
    first: usize,
) -> Vec<(usize, Value, SqlType)> {
    let mut outputs = Vec::new();
    for (position, argument) in arguments.iter().enumerate().filter(|(_, argument)| argument.output) {
        let place = match &argument.name {
            Some(name) => parameter_named(parameters, name),
            None => Some(position),
        };
        let Some(place) = place else { continue };
        if let VariableType::Scalar(ty) = parameters[place].ty {
            outputs.push((first + position, callee.values[place].clone(), ty));
        }
    }
    outputs
}

/// The value of a parameter; text that is too long is cut, as SQL Server does.
pub fn convert_parameter(value: Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    if value.is_null() || from == to {
        return Ok(value);
    }
    value::convert(value, from, to, None, false).map_err(|error| match error.number {
        245 | 241 | 8114 => {
            SqlError::new(8114, format!("Error converting data type {} to {}.", from.name(), to.name())).state(5)
        }
        _ => error,
    })
}

pub fn parameter_named(parameters: &[Parameter], name: &str) -> Option<usize> {
    let name = fold(name);
    parameters.iter().position(|parameter| fold(&parameter.name) == name)
}
