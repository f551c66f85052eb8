//! Procedures, views, triggers and functions.

use crate::tsql::ast::expression::Expr;
use crate::tsql::ast::name::{Ident, ObjectName, TypeName};
use crate::tsql::ast::query::SelectStatement;
use crate::tsql::ast::statement::Statement;
use std::sync::Arc;

/// CREATE, ALTER or CREATE OR ALTER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    Create,
    Alter,
    CreateOrAlter,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateProcedure {
    pub creation: Creation,
    pub name: ObjectName,
    pub parameters: Vec<ParameterDef>,
    /// The lines of its statements count from the start of the batch, as `ERROR_LINE()` does.
    pub body: Arc<[Statement]>,
    /// The text of the whole batch: `OBJECT_DEFINITION`.
    pub text: Arc<str>,
}

/// A parameter of a procedure or of `sp_executesql`.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterDef {
    /// With its `@`.
    pub name: Ident,
    pub data_type: TypeName,
    /// A constant.
    pub default: Option<Expr>,
    pub output: bool,
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    pub creation: Creation,
    pub name: ObjectName,
    /// Its `options` are empty.
    pub select: SelectStatement,
    /// The text of the whole batch.
    pub text: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TriggerEvent {
    Insert,
    Update,
    Delete,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateTrigger {
    pub name: ObjectName,
    pub table: ObjectName,
    /// FOR and AFTER mean the same.
    pub instead_of: bool,
    pub events: Vec<TriggerEvent>,
    /// As in [`CreateProcedure`].
    pub body: Arc<[Statement]>,
    pub text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateFunction {
    pub creation: Creation,
    pub name: ObjectName,
    pub parameters: Vec<ParameterDef>,
    pub returns: TypeName,
    pub body: Arc<[Statement]>,
    pub text: Arc<str>,
}

/// `ENABLE TRIGGER names ON table` and its like; an empty list is ALL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchTriggers {
    pub enable: bool,
    pub names: Vec<Ident>,
    pub table: ObjectName,
}
