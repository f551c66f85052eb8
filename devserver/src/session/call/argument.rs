//! What a call passes and what comes back, and how parameters get their values.

use std::cell::RefCell;
use std::sync::Arc;

use crate::catalog::object::Procedure;
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

impl Session {
    /// Gives the parameters their values: 201, 8144, 8145, 8146, 119, 8162.
    pub(crate) fn bind_arguments(
        &mut self,
        procedure: &Procedure,
        arguments: &[PassedArgument],
    ) -> SqlResult<Activation> {
        self.bind_arguments_of(&procedure.name, &procedure.parameters, arguments)
    }

    /// The same for a procedure or function of this name.
    pub(crate) fn bind_arguments_of(
        &mut self,
        called: &str,
        parameters: &[Parameter],
        arguments: &[PassedArgument],
    ) -> SqlResult<Activation> {
        if parameters.is_empty() && !arguments.is_empty() {
            let message = format!("Procedure {} has no parameters and arguments were supplied.", called);
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
        called: &str,
        parameters: &[Parameter],
        arguments: &[PassedArgument],
        callee: &mut Activation,
    ) -> SqlResult<()> {
        let mut given = vec![false; parameters.len()];
        let mut by_name = false;
        for (position, argument) in arguments.iter().enumerate() {
            let place = match &argument.name {
                Some(name) => {
                    by_name = true;
                    parameter_named(parameters, name).ok_or_else(|| {
                        SqlError::new(8145, format!("{name} is not a parameter for procedure {}.", called)).state(1)
                    })?
                }
                None => {
                    if by_name {
                        return Err(SqlError::new(
                            119,
                            format!(
                                "Must pass parameter number {} and subsequent parameters as '@name = value'. After the \
                                 form '@name = value' has been used, all subsequent parameters must be passed in the \
                                 form '@name = value'.",
                                position + 1
                            ),
                        )
                        .severity(15));
                    }
                    if position >= parameters.len() {
                        return Err(SqlError::new(
                            8144,
                            format!("Procedure or function {} has too many arguments specified.", called),
                        )
                        .state(2));
                    }
                    position
                }
            };
            let parameter = &parameters[place];
            if given[place] {
                return Err(SqlError::new(
                    8143,
                    format!("Parameter '{}' was supplied multiple times.", parameter.name),
                ));
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
                (VariableType::Scalar(_), None) => {
                    return Err(SqlError::new(
                        201,
                        format!(
                            "Procedure or function '{}' expects parameter '{}', which was not supplied.",
                            called, parameter.name
                        ),
                    )
                    .state(4));
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
            (_, Passed::Default) => Ok(false),
            (VariableType::Scalar(ty), Passed::Value { value, ty: from }) => {
                callee.values[place] = convert_parameter(value.clone(), *from, *ty)?;
                Ok(true)
            }
            (VariableType::Scalar(ty), Passed::Table { ty: from, .. }) => Err(SqlError::new(
                206,
                format!("Operand type clash: {} is incompatible with {}", type_name(from), ty.name()),
            )
            .state(2)),
            (VariableType::Table(_) | VariableType::TableType { .. }, Passed::Value { ty, .. }) => Err(SqlError::new(
                206,
                format!("Operand type clash: {} is incompatible with {}", ty.name(), type_name(&parameter.ty)),
            )
            .state(2)),
            (wanted, Passed::UntypedTable { columns, rows }) => {
                self.take_untyped_table(wanted, columns, rows.take(), place, callee).map(|()| true)
            }
            (wanted, Passed::Table { table, ty }) => {
                let same = match (wanted.template(), ty.template()) {
                    (Some(a), Some(b)) => {
                        Arc::ptr_eq(a, b) || a.columns == b.columns && type_name(wanted) == type_name(ty)
                    }
                    _ => false,
                };
                if !same {
                    return Err(SqlError::new(
                        206,
                        format!("Operand type clash: {} is incompatible with {}", type_name(ty), type_name(wanted)),
                    )
                    .state(2));
                }
                callee.tables[place] = Some(*table);
                Ok(true)
            }
        }
    }
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

fn type_name(ty: &VariableType) -> String {
    match ty {
        VariableType::Scalar(ty) => ty.name().to_string(),
        VariableType::TableType { user_type, .. } => user_type.name.to_string(),
        VariableType::Table(_) => "table".to_string(),
    }
}

pub fn parameter_named(parameters: &[Parameter], name: &str) -> Option<usize> {
    let name = fold(name);
    parameters.iter().position(|parameter| fold(&parameter.name) == name)
}
