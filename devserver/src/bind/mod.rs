//! From the syntax tree and the catalog to plans.

pub mod binder;
pub mod compile;
pub mod expression;
pub mod function_call;
pub mod insert;
pub mod label;
pub mod merge;
pub mod modify;
pub mod next_value;
pub mod query;
pub mod source;
pub mod table_definition;
pub mod table_function;
pub mod window;
