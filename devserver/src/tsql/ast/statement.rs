//! A statement of any kind.

use crate::tsql::ast::change::{Delete, Insert, Merge, Update};
use crate::tsql::ast::control::{CheckIdentity, Execute, RaiseError, VariableDeclaration};
use crate::tsql::ast::database::{AlterDatabase, CreateSchema, CreateSequence, Drop};
use crate::tsql::ast::expression::{Expr, Predicate};
use crate::tsql::ast::index::{AlterIndex, CreateIndex, CreateStatistics, DropIndex};
use crate::tsql::ast::module::{CreateFunction, CreateProcedure, CreateTrigger, CreateView, SwitchTriggers};
use crate::tsql::ast::name::{Ident, ObjectName};
use crate::tsql::ast::query::{AssignOp, SelectStatement};
use crate::tsql::ast::security::{CreateUser, Permission};
use crate::tsql::ast::setting::{IsolationLevel, SessionOption};
use crate::tsql::ast::table::{AlterTable, CreateTable, CreateType, TableDefinition};
use std::sync::Arc;

/// A statement and the line of its first word, counted from 1 in its batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    pub line: u32,
    pub kind: StatementKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StatementKind {
    Select(Box<SelectStatement>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    /// `DBCC CHECKIDENT`.
    CheckIdentity(Box<CheckIdentity>),

    CreateTable(Box<CreateTable>),
    CreateIndex(Box<CreateIndex>),
    CreateStatistics(CreateStatistics),
    CreateType(Box<CreateType>),
    CreateProcedure(Box<CreateProcedure>),
    CreateView(Box<CreateView>),
    CreateTrigger(Box<CreateTrigger>),
    CreateFunction(Box<CreateFunction>),
    SwitchTriggers(SwitchTriggers),
    CreateSchema(CreateSchema),
    CreateSequence(Box<CreateSequence>),
    /// `CREATE ROLE name [AUTHORIZATION owner]`.
    CreateRole {
        name: Ident,
        owner: Option<Ident>,
    },
    CreateUser(CreateUser),
    /// `CREATE LOGIN name WITH PASSWORD = '…'`. Without a password: `FROM WINDOWS`, `FROM EXTERNAL PROVIDER`.
    CreateLogin {
        name: Ident,
        password: Option<Arc<str>>,
    },
    /// `ALTER LOGIN name WITH PASSWORD = '…'`.
    AlterLogin {
        name: Ident,
        password: Arc<str>,
    },
    CreateDatabase {
        name: Ident,
        collation: Option<Ident>,
    },
    AlterTable(Box<AlterTable>),
    AlterIndex(AlterIndex),
    AlterDatabase(AlterDatabase),
    /// `ALTER ROLE role ADD MEMBER member`, or DROP MEMBER if not `add`.
    AlterRole {
        role: Ident,
        add: bool,
        member: Ident,
    },
    /// `ALTER AUTHORIZATION ON SCHEMA::schema TO principal`.
    AlterAuthorization {
        schema: Ident,
        to: Ident,
    },
    Drop(Drop),
    DropIndex(DropIndex),
    Permission(Permission),
    Use(Ident),

    /// `BEGIN … END`.
    Block(Vec<Statement>),
    If {
        condition: Predicate,
        then: Box<Statement>,
        otherwise: Option<Box<Statement>>,
    },
    While {
        condition: Predicate,
        body: Box<Statement>,
    },
    Break,
    Continue,
    Return(Option<Expr>),
    TryCatch {
        body: Vec<Statement>,
        handler: Vec<Statement>,
    },
    /// `THROW` alone, or with number, message and state (constants or variables).
    Throw(Option<Box<(Expr, Expr, Expr)>>),
    RaiseError(Box<RaiseError>),
    Print(Expr),
    Declare(Vec<VariableDeclaration>),
    /// `DECLARE @t TABLE (…)`.
    DeclareTable {
        name: Ident,
        definition: Box<TableDefinition>,
    },
    /// `DECLARE name CURSOR …`.
    DeclareCursor {
        name: Ident,
        local: bool,
        select: Box<SelectStatement>,
    },
    /// `SET @v = expr`, `SET @v += expr`.
    SetVariable {
        name: Ident,
        op: AssignOp,
        value: Expr,
    },
    /// `SET a, b ON`.
    SetOptions {
        options: Vec<SessionOption>,
        on: bool,
    },
    SetIsolationLevel(IsolationLevel),
    /// Milliseconds; -1 waits without end. A constant (maybe signed) or a variable.
    SetLockTimeout(Expr),
    /// LOW, NORMAL and HIGH are -5, 0 and 5. A constant (maybe signed) or a variable.
    SetDeadlockPriority(Expr),
    SetIdentityInsert {
        table: ObjectName,
        on: bool,
    },
    /// `ROWCOUNT 0` and `DATEFIRST 7`: what holds anyway.
    SetToDefault,
    /// A constant (maybe signed).
    SetTextSize(Expr),
    /// A string: `us_english`, `mdy`.
    SetLanguage(Expr),
    SetDateFormat(Expr),
    /// BEGIN and COMMIT TRANSACTION: their names change nothing.
    BeginTransaction,
    CommitTransaction,
    RollbackTransaction(Option<Ident>),
    SaveTransaction(Ident),
    Execute(Box<Execute>),
    /// A string constant or a variable.
    WaitForDelay(Expr),
    OpenCursor(Ident),
    Fetch {
        cursor: Ident,
        into: Vec<Ident>,
    },
    CloseCursor(Ident),
    DeallocateCursor(Ident),
}
