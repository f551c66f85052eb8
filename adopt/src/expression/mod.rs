//! Parses the expressions of a mapping, and writes them as T-SQL.
//!
//! A mapping's text is never copied into a script. The script contains only what the parser has understood.

mod known;
mod model;
mod read;
mod shape;

pub(super) use known::Known;
pub(super) use model::{CLOCKS, CastTo, Predicate, Terms, Value, WORDS, Word};
pub(crate) use read::{read_predicate, read_value};
