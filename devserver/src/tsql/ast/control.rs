//! Variables, transactions, EXECUTE, errors, and DBCC CHECKIDENT.

use crate::tsql::ast::expression::Expr;
use crate::tsql::ast::name::{Ident, ObjectName, TypeName};

#[derive(Debug, Clone, PartialEq)]
pub struct VariableDeclaration {
    /// With its `@`.
    pub name: Ident,
    pub data_type: TypeName,
    pub value: Option<Expr>,
}

/// `[EXEC[UTE]] [@r =] target arguments`.
#[derive(Debug, Clone, PartialEq)]
pub struct Execute {
    pub return_variable: Option<Ident>,
    pub target: ExecuteTarget,
    pub arguments: Vec<Argument>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExecuteTarget {
    Procedure(ObjectName),
    /// `EXEC @name`: the procedure's name is in the variable.
    Variable(Ident),
    /// `EXEC ('text' + @v)`: there are no arguments then.
    Text(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// With its `@`, if passed by name.
    pub name: Option<Ident>,
    pub value: ArgumentValue,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ArgumentValue {
    /// A constant (a bare word is a string constant), a signed number, or a global variable.
    Constant(Expr),
    Variable {
        name: Ident,
        output: bool,
    },
    Default,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RaiseError {
    /// A string, a message number or a variable.
    pub message: Expr,
    pub severity: Expr,
    pub state: Expr,
    pub arguments: Vec<Expr>,
}

/// `DBCC CHECKIDENT (table, RESEED, value)`.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckIdentity {
    /// The table's name as text.
    pub table: Expr,
    pub value: Expr,
}
