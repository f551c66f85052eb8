//! The syntax tree of T-SQL: what the parser hands to the executor. It is purely syntactic: no name is resolved, no
//! type is known, and every name stands as it was written (without its brackets or quotes).
//!
//! Search conditions ([`Predicate`]) and scalar expressions ([`Expr`]) are different types, as in T-SQL, where
//! a condition is no value.

pub mod change;
pub mod control;
pub mod database;
pub mod expression;
pub mod hint;
pub mod index;
pub mod module;
pub mod name;
pub mod query;
pub mod security;
pub mod setting;
pub mod statement;
pub mod table;

pub use change::{
    Assignment, Delete, DmlCondition, Insert, InsertSource, Merge, MergeAction, MergeClause, NewValue, Output,
    OutputInto, Target, TargetName, Update,
};
pub use control::{Argument, ArgumentValue, CheckIdentity, Execute, ExecuteTarget, RaiseError, VariableDeclaration};
pub use database::{AlterDatabase, CreateSchema, CreateSequence, DatabaseOption, Drop, DropKind};
pub use expression::{CompareOp, Expr, FunctionCall, Literal, Predicate, Window};
pub use hint::{IndexRef, TableHint};
pub use index::{AlterIndex, CreateIndex, CreateStatistics, DropIndex, IndexOption};
pub use module::{
    CreateFunction, CreateProcedure, CreateTrigger, CreateView, Creation, ParameterDef, SwitchTriggers, TriggerEvent,
};
pub use name::{ColumnRef, Ident, ObjectName, TypeArguments, TypeName};
pub use query::{
    AssignOp, Cte, JoinKind, Offset, OrderItem, Query, QueryBody, Select, SelectItem, SelectStatement, SetOperator,
    TableSource,
};
pub use security::{CreateUser, Permission, PermissionAction, Securable, SecurableClass, UserSource};
pub use setting::{IsolationLevel, SessionOption};
pub use statement::{Statement, StatementKind};
pub use table::{
    AlterTable, AlterTableAction, AlterTableDrop, ColumnDefinition, ColumnKind, ConstraintKind, CreateTable,
    CreateType, DefaultDefinition, Filter, Identity, IndexColumn, InlineIndex, LockEscalation, TableConstraint,
    TableDefinition,
};
