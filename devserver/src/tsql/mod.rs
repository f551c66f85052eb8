//! The T-SQL front end: text goes through the lexer into words and symbols, and through the parser into the
//! syntax tree of [`ast`], which the engine executes.
//!
//! The parser is our own, not the `sqlparser` crate's: that one accepts much which SQL Server refuses, so that a
//! statement would pass here and fail in production. And of what a queue is built from (table-valued parameters,
//! `CREATE TYPE … AS TABLE`, hints, `OUTPUT`, TRY/CATCH, `OPTION`, `GRANT … ON TYPE::`) it knows about half.
//!
//! What SQL Server's parser refuses is refused with SQL Server's error number; what it accepts and the syntax tree
//! has no place for is refused as not supported.

pub mod ast;
mod lexer;
mod parser;

pub use lexer::scan::{check_name, has_group_behind, mentions, sequences};
pub use parser::{parse_expression, parse_parameter_list, parse_predicate, parse_request};
