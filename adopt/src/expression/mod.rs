//! The expressions of a mapping: parsed, and written anew.
//!
//! A mapping's text is never copied into a script: the script contains only what was understood here.

mod known;
mod model;
mod read;
mod shape;

pub(super) use known::Known;
pub(super) use model::{CLOCKS, CastTo, Predicate, Terms, Value, WORDS, Word};
pub(crate) use read::{read_predicate, read_value};
