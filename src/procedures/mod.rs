//! The calls of the T-SQL procedures by name: which parameters they take and what they return.
//!
//! There is no SQL in this crate but these calls and the embedded scripts of the installation.

pub(crate) mod operator;
pub(crate) mod producer;
mod schema_info;
pub(crate) mod worker;

pub use schema_info::Role;
pub(crate) use schema_info::{SCHEMA_VERSION, SchemaInfo, check_compatible};
