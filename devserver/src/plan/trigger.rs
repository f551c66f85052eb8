//! The triggers that a statement fires.

use std::sync::Arc;

use crate::catalog::object::Trigger;
use crate::storage::ObjectId;

/// The names of the tables that a trigger sees; no variable of the user's can be called so, for they begin with `@`.
pub const INSERTED: &str = "inserted";

pub const DELETED: &str = "deleted";

/// What the statement that fired a trigger was about.
#[derive(Debug, Clone)]
pub struct TriggerTarget {
    pub table: ObjectId,
    /// Those that run after it.
    pub triggers: Vec<Arc<Trigger>>,
    /// The one that runs in its place.
    pub instead_of: Option<Arc<Trigger>>,
}
