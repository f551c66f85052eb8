//! The parameters of procedures and functions, and the types that parameters and variables can have.

use std::sync::Arc;

use crate::catalog::user_type::UserType;
use crate::storage::TableSchema;
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
