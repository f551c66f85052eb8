//! The variables that a batch or procedure declares: their names, types and places.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::parameter::VariableType;
use crate::error::{SqlError, SqlResult};
use crate::storage::fold;
use crate::value::SqlType;

#[derive(Debug, Clone)]
pub struct Variable {
    pub name: Arc<str>,
    pub ty: VariableType,
    /// Table-valued parameters are read-only.
    pub read_only: bool,
}

/// The variables of a batch or procedure in the order of their declaration.
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    list: Vec<Variable>,
    by_name: HashMap<String, usize>,
}

impl Declarations {
    /// Adds a variable; 134 if its name is taken.
    pub fn declare(&mut self, name: Arc<str>, ty: VariableType, read_only: bool) -> SqlResult<usize> {
        let place = self.list.len();
        if self.by_name.insert(fold(&name), place).is_some() {
            return Err(SqlError::new(
                134,
                format!(
                    "The variable name '{name}' has already been declared. Variable names must be unique within a \
                     query batch or stored procedure."
                ),
            )
            .severity(15));
        }
        self.list.push(Variable { name, ty, read_only });
        Ok(place)
    }

    pub fn find(&self, name: &str) -> Option<(usize, &Variable)> {
        // Most variables are written as they were declared, in lower case: no allocation for those.
        let place = match self.by_name.get(name) {
            Some(place) => *place,
            None => *self.by_name.get(&fold(name))?,
        };
        Some((place, &self.list[place]))
    }

    pub fn get(&self, place: usize) -> &Variable {
        &self.list[place]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// A scalar variable; 137 if there is none.
    pub fn scalar(&self, name: &str) -> SqlResult<(usize, SqlType)> {
        match self.find(name) {
            Some((place, Variable { ty: VariableType::Scalar(ty), .. })) => Ok((place, *ty)),
            _ => Err(SqlError::new(137, format!("Must declare the scalar variable \"{name}\".")).severity(15).state(2)),
        }
    }

    /// A table variable; 1087 if there is none.
    pub fn table(&self, name: &str) -> SqlResult<(usize, &Variable)> {
        match self.find(name) {
            Some((place, variable)) if variable.ty.template().is_some() => Ok((place, variable)),
            _ => Err(SqlError::new(1087, format!("Must declare the table variable \"{name}\".")).severity(15).state(2)),
        }
    }
}
