//! The parser: tokens in, syntax tree out, by recursive descent with one token of look-ahead (a few more where T-SQL
//! needs them).
//!
//! What all parts share stands in `tokens` (looking at tokens, and SQL Server's syntax errors), `name` and `constant`;
//! `entry` has the ways in. The grammar is spread by topic: `statement` decides what a statement is and hands it to
//! `query`, `dml`, `create`, `alter`, `drop`, `module`, `security`, `set`, `control` and their like; these use
//! `source`, `hint`, `table`, `index`, `expression`, `condition` and `type_name`.

mod alter;
mod alter_database;
mod alter_table;
mod call;
mod condition;
mod conditional;
mod constant;
mod control;
mod create;
mod cursor;
mod dbcc;
mod dml;
mod drop;
mod entry;
mod execute;
mod expression;
mod hint;
mod index;
mod module;
mod name;
mod query;
mod raise;
mod security;
mod set;
mod source;
mod statement;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod transaction;
mod type_name;

pub use entry::{parse_expression, parse_parameter_list, parse_predicate, parse_request};
