//! Table types.

use std::sync::Arc;

use crate::storage::{ObjectId, TableSchema};

/// A table type.
#[derive(Debug)]
pub struct UserType {
    pub id: i32,
    pub schema: Arc<str>,
    pub name: Arc<str>,
    /// What the tables declared with it are made of.
    pub template: Arc<TableSchema>,
    pub object: ObjectId,
}
