//! The calls of the T-SQL procedures by name: which parameters they take and what they return.
//!
//! This crate contains no SQL except these calls and the embedded installation scripts.

pub(crate) mod operator;
pub(crate) mod producer;
mod schema_info;
pub(crate) mod worker;

pub use schema_info::{Held, Role};
pub(crate) use schema_info::{SCHEMA_VERSION, SchemaInfo, check_compatible};
