//! Tables: their columns, constraints and indexes, and CREATE and ALTER TABLE.

use crate::tsql::ast::expression::{Expr, Predicate};
use crate::tsql::ast::index::IndexOption;
use crate::tsql::ast::name::{Ident, ObjectName, TypeName};
use std::sync::Arc;

/// What stands in the parentheses of CREATE TABLE, CREATE TYPE … AS TABLE and DECLARE @t TABLE.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableDefinition {
    pub columns: Vec<ColumnDefinition>,
    /// Table constraints, and the columns' own PRIMARY KEY, UNIQUE, CHECK and REFERENCES, in the order written.
    pub constraints: Vec<TableConstraint>,
    /// Inline indexes, those of columns included.
    pub indexes: Vec<InlineIndex>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    pub name: Ident,
    pub kind: ColumnKind,
    pub is_sparse: bool,
    /// `Some(true)` for NULL, `Some(false)` for NOT NULL, `None` when neither was written.
    pub nullable: Option<bool>,
    pub collation: Option<Ident>,
    pub identity: Option<Identity>,
    pub default: Option<DefaultDefinition>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ColumnKind {
    Typed(TypeName),
    /// `AS expr`.
    Computed {
        expr: Expr,
        text: Arc<str>,
    },
}

/// `IDENTITY (seed, increment)`, (1, 1) if not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub seed: i64,
    pub increment: i64,
}

/// `[CONSTRAINT name] DEFAULT expr`.
#[derive(Debug, Clone, PartialEq)]
pub struct DefaultDefinition {
    pub constraint: Option<Ident>,
    pub expr: Expr,
    /// The expression as written.
    pub text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TableConstraint {
    pub name: Option<Ident>,
    pub kind: ConstraintKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ConstraintKind {
    /// PRIMARY KEY if `primary`, UNIQUE if not.
    Key {
        primary: bool,
        /// `None`: neither CLUSTERED nor NONCLUSTERED was written.
        clustered: Option<bool>,
        columns: Vec<IndexColumn>,
        options: Vec<IndexOption>,
    },
    Check {
        condition: Box<Predicate>,
        /// The condition as written.
        text: Arc<str>,
        /// Of a column's own constraint: it may name no other column.
        column: Option<Ident>,
    },
    ForeignKey {
        columns: Vec<Ident>,
        table: ObjectName,
        /// Empty: the primary key.
        referenced: Vec<Ident>,
        /// ON DELETE CASCADE.
        cascades: bool,
        /// ON UPDATE CASCADE.
        cascades_updates: bool,
    },
    /// `ALTER TABLE … ADD [CONSTRAINT name] DEFAULT expr FOR column`.
    Default { expr: Expr, text: Arc<str>, column: Ident },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexColumn {
    pub name: Ident,
    pub descending: bool,
}

/// `INDEX name [UNIQUE] [CLUSTERED | NONCLUSTERED] (columns) …` inside a table definition.
#[derive(Debug, Clone, PartialEq)]
pub struct InlineIndex {
    pub name: Ident,
    pub unique: bool,
    pub clustered: bool,
    pub columns: Vec<IndexColumn>,
    pub include: Vec<Ident>,
    pub filter: Option<Filter>,
    pub options: Vec<IndexOption>,
}

/// The WHERE of a filtered index.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    pub condition: Predicate,
    /// The condition as written.
    pub text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    pub name: ObjectName,
    pub definition: TableDefinition,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateType {
    pub name: ObjectName,
    pub definition: TableDefinition,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    pub table: ObjectName,
    pub action: AlterTableAction,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AlterTableAction {
    /// `[WITH CHECK | WITH NOCHECK] ADD …`: the columns, constraints and indexes.
    Add {
        definition: TableDefinition,
        check: Option<bool>,
    },
    /// `DROP …`, in the order written.
    Drop(Vec<AlterTableDrop>),
    AlterColumn {
        name: Ident,
        data_type: TypeName,
        collation: Option<Ident>,
        nullable: Option<bool>,
    },
    SetLockEscalation(LockEscalation),
    /// `CHECK CONSTRAINT names`; an empty list is ALL. No constraint is ever off: it changes nothing.
    CheckConstraint(Vec<Ident>),
    Rebuild(Vec<IndexOption>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterTableDrop {
    Column { name: Ident, if_exists: bool },
    Constraint { name: Ident, if_exists: bool },
}

/// AUTO and TABLE are the same on a table without partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockEscalation {
    Auto,
    Table,
    Disable,
}
