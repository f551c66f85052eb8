//! Variables: their declarations, which the binder knows, and their values, which one run of a batch or procedure has.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::catalog::{Procedure, UserType};
use crate::error::{SqlError, SqlResult};
use crate::session::cursor::{CurrentRow, SharedCursor};
use crate::storage::{ObjectId, TableSchema, fold};
use crate::value::{SqlType, Value};

/// The type of a variable or parameter.
#[derive(Debug, Clone)]
pub enum VariableType {
    Scalar(SqlType),
    /// A table variable or table-valued parameter: what its table looks like.
    Table(Arc<TableSchema>),
    /// A table variable or parameter of a user-defined table type.
    TableType {
        user_type: Arc<UserType>,
        template: Arc<TableSchema>,
    },
}

impl VariableType {
    pub fn template(&self) -> Option<&Arc<TableSchema>> {
        match self {
            VariableType::Scalar(_) => None,
            VariableType::Table(template) | VariableType::TableType { template, .. } => Some(template),
        }
    }
}

/// A parameter of a procedure.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// With its `@`.
    pub name: Arc<str>,
    pub ty: VariableType,
    /// Already of the parameter's type.
    pub default: Option<Value>,
    pub output: bool,
}

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

    pub fn len(&self) -> usize {
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

/// One run of a batch, procedure or dynamic text: the values of its variables and what else is its own.
#[derive(Debug, Default)]
pub struct Activation {
    pub values: Vec<Value>,
    /// The tables of table variables, at the variables' places.
    pub tables: Vec<Option<ObjectId>>,
    /// Those of `tables` that end with this run (a table-valued parameter belongs to the caller).
    pub owned_tables: Vec<ObjectId>,
    /// SCOPE_IDENTITY().
    pub scope_identity: Option<i64>,
    /// The procedure that runs; `None` for a batch and for dynamic text.
    pub procedure: Option<Arc<Procedure>>,
    /// The local cursors by folded name, and those of cursor variables with their `@`.
    pub cursors: Vec<(String, SharedCursor)>,
    /// The row that WHERE CURRENT OF means.
    pub current_row: Option<CurrentRow>,
    /// In a trigger: the columns that the statement sets, for UPDATE().
    pub updated_columns: Option<Arc<[bool]>>,
    /// The statements of a procedure run under its owner's permissions (ownership chaining), those of a batch and of
    /// dynamic text under the user's.
    pub check_permissions: bool,
}

impl Activation {
    /// Makes a cursor variable mean a cursor.
    pub fn set_cursor(&mut self, variable: &str, cursor: SharedCursor) {
        let folded = fold(variable);
        self.cursors.retain(|(name, _)| *name != folded);
        self.cursors.push((folded, cursor));
    }

    /// Makes room for the variables declared since.
    pub fn grow(&mut self, declarations: usize) {
        if self.values.len() < declarations {
            self.values.resize(declarations, Value::Null);
            self.tables.resize(declarations, None);
        }
    }

    /// The table of a table variable.
    pub fn table(&self, place: usize) -> ObjectId {
        self.tables[place].expect("the tables of table variables are made before the first statement runs")
    }
}
