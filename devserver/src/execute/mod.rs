//! From plans to rows.

pub mod aggregate;
pub mod cursor;
pub mod cursor_rows;
pub mod evaluate;
pub mod foreign_key;
pub mod frame;
pub mod index_activity;
pub mod join;
pub mod limit;
pub mod merge;
pub mod modify;
pub mod open_json;
pub mod operator;
pub mod query;
pub mod recursion;
pub mod select_into;
pub mod sequence;
pub mod session_state;
pub mod sort;
pub mod subquery;
pub mod system_function;
pub mod table_function;
pub mod table_scan;
pub mod variables;
pub mod window;
