//! The expressions of a mapping: read, and written anew.
//!
//! Nothing of a mapping's text goes into a script: what is written is made from what was understood here.

mod known;
mod model;
mod read;
mod shape;

pub(super) use known::Known;
pub(super) use model::{CLOCKS, CastTo, Predicate, Terms, Value, WORDS, Word};
pub(crate) use read::{read_predicate, read_value};
