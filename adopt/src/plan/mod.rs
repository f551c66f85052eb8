//! A mapping and its table brought together: every name looked up, every type compared, and what cannot work refused
//! with the line that asks for it and with what to do about it.

mod ends;
mod expressions;
mod families;
mod key_and_payload;
mod names;
mod plan;
mod table;
mod types;

pub(super) use plan::{KEPT, LONGEST_HEADERS, Plan};
