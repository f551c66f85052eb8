//! Compiled batches: a batch, procedure body or dynamic text as steps.

use std::sync::Arc;

use crate::catalog::parameter::VariableType;
use crate::catalog::user_type::UserType;
use crate::plan::cached_plan::CachedPlan;
use crate::plan::cursor::CursorStep;
use crate::plan::declarations::Declarations;
use crate::storage::TableSchema;
use crate::tsql::ast::{Ident, ObjectName, SessionOption, StatementKind};
use crate::value::SqlType;

/// A batch, procedure body or dynamic text, ready to run.
#[derive(Debug)]
pub struct CompiledBatch {
    pub steps: Vec<Step>,
    pub declarations: Declarations,
    /// The table variables to be made before the first step.
    pub table_variables: Vec<(usize, Arc<TableSchema>)>,
    /// The user-defined types of table variables that need a permission.
    pub table_types: Vec<Arc<UserType>>,
    /// Where names without schema are looked for first.
    pub schema: Arc<str>,
    /// Who owns the module whose body this is. `None`: it is none, or a temporary one.
    pub owner: Option<i32>,
}

#[derive(Debug)]
pub struct Step {
    pub line: u32,
    pub kind: StepKind,
}

#[derive(Debug)]
pub enum StepKind {
    Query(CachedPlan),
    InsertExecute(CachedPlan, Box<ExecuteStep>),
    Set(usize, CachedPlan),
    Declare(Vec<(usize, Option<CachedPlan>)>),
    Block(Vec<Step>),
    If {
        condition: CachedPlan,
        then: Box<Step>,
        otherwise: Option<Box<Step>>,
    },
    While {
        condition: CachedPlan,
        body: Box<Step>,
    },
    Break,
    Continue,
    Return(Option<CachedPlan>),
    TryCatch {
        body: Vec<Step>,
        handler: Vec<Step>,
    },
    Throw {
        number: CachedPlan,
        message: CachedPlan,
        state: CachedPlan,
    },
    Rethrow,
    RaiseError {
        message: CachedPlan,
        severity: CachedPlan,
        state: CachedPlan,
        arguments: Vec<CachedPlan>,
    },
    Print(CachedPlan),
    SetLockTimeout(CachedPlan),
    SetDeadlockPriority(CachedPlan),
    WaitForDelay(CachedPlan),
    /// To the language that there is.
    SetLanguage,
    CheckIdentity {
        table: CachedPlan,
        value: CachedPlan,
    },
    Cursor(Box<CursorStep>),
    Execute(Box<ExecuteStep>),
    /// DDL, SET, transactions, permissions: nothing in them has to be bound before.
    Other(Arc<StatementKind>),
    Nothing,
}

#[derive(Debug)]
pub struct ExecuteStep {
    pub return_place: Option<usize>,
    pub target: ExecuteTarget,
    pub arguments: Vec<Argument>,
}

#[derive(Debug)]
pub enum ExecuteTarget {
    Procedure(ObjectName),
    Variable(usize),
    Text(Box<CachedPlan>),
}

#[derive(Debug)]
pub struct Argument {
    pub name: Option<Ident>,
    pub value: ArgumentSource,
}

#[derive(Debug)]
pub enum ArgumentSource {
    Value(Box<CachedPlan>),
    Variable { place: usize, ty: SqlType, output: bool },
    Table { place: usize, ty: VariableType },
    Default,
}

impl Step {
    /// `SET NOEXEC OFF`, the one statement that is done while NOEXEC is ON; inside of no other statement.
    pub fn ends_no_exec(&self) -> bool {
        let StepKind::Other(statement) = &self.kind else { return false };
        matches!(&**statement, StatementKind::SetOptions { options, on: false } if options.contains(&SessionOption::NoExec))
    }
}

/// A function's body with its plans, all made under one version of the catalog.
#[derive(Debug)]
pub struct FunctionPlan {
    pub compiled: CompiledBatch,
    pub version: u64,
}

/// The functions that a plan calls, if any; a call has its place in the list.
pub type CalledFunctions = Option<Arc<[Arc<FunctionPlan>]>>;
