//! What a database has besides tables and modules, its options, and DROP.

use crate::tsql::ast::name::{Ident, ObjectName, TypeName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterDatabase {
    /// `None` for CURRENT.
    pub name: Option<Ident>,
    pub option: DatabaseOption,
    /// `WITH ROLLBACK IMMEDIATE`.
    pub rolls_back_others: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseOption {
    /// `READ_ONLY` and `READ_WRITE`.
    ReadOnly(bool),
    ReadCommittedSnapshot(bool),
    AllowSnapshotIsolation(bool),
    CompatibilityLevel(u32),
}

/// `DROP kind [IF EXISTS] names`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drop {
    pub kind: DropKind,
    pub if_exists: bool,
    pub names: Vec<ObjectName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropKind {
    Table,
    Procedure,
    View,
    Type,
    Schema,
    Sequence,
    Role,
    User,
    Login,
    Database,
    Function,
    Trigger,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CreateSequence {
    pub name: ObjectName,
    pub data_type: Option<TypeName>,
    pub start: Option<i64>,
    pub increment: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSchema {
    pub name: Ident,
    pub owner: Option<Ident>,
}
