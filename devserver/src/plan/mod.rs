//! Plans as plain data, and the access paths in them.

pub mod access_path;
pub mod index_activity;
pub mod options;
pub mod planner;
pub mod query;
pub mod relation;
pub mod scalar;
pub mod system_function;
pub mod table_function;
pub mod table_hints;
