//! Plans as plain data, and the choice of access paths: see README.md.

pub mod access_path;
pub mod batch;
pub mod cached_plan;
pub mod change;
pub mod collation_label;
pub mod cursor;
pub mod declarations;
pub mod filtered_index;
pub mod planner;
pub mod query;
pub mod relation;
pub mod scalar;
pub mod select_statement;
pub mod system_function;
pub mod table_function;
pub mod table_hints;
pub mod table_rules;
pub mod trigger;
