//! From the syntax tree and the catalog to plans.

pub mod binder;
pub mod compile;
pub mod expression;
pub mod foreign_key;
pub mod foreign_key_definition;
pub mod function_call;
pub mod index_activity;
pub mod insert;
pub mod label;
pub mod merge;
pub mod modify;
pub mod next_value_forbidden;
pub mod open_json;
pub mod query;
pub mod recursion;
pub mod select_into;
pub mod source;
pub mod table_definition;
pub mod table_function;
pub mod trigger;
pub mod user_function;
pub mod window;
