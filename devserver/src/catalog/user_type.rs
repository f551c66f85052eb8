//! User-defined types: table types and aliases.

use std::sync::Arc;

use crate::storage::{ObjectId, TableSchema};
use crate::value::SqlType;

/// A user-defined type.
#[derive(Debug)]
pub struct UserType {
    pub id: i32,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub kind: UserTypeKind,
}

#[derive(Debug)]
pub enum UserTypeKind {
    /// The template of the tables declared with it.
    Table {
        template: Arc<TableSchema>,
        object: ObjectId,
    },
    Alias {
        base: SqlType,
        nullable: bool,
    },
}
