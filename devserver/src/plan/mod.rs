//! Plans as plain data, and the access paths in them.

pub mod access_path;
pub mod planner;
pub mod query;
pub mod scalar;
pub mod table_hints;
