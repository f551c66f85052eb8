//! Checks a mapping against its table: looks up every name, compares every type, and rejects an unsuitable mapping with
//! the line and the remedy.

mod ends;
mod expressions;
mod families;
mod key_and_payload;
mod names;
mod plan;
mod table;
mod types;

pub(super) use plan::{KEPT, LONGEST_HEADERS, Plan};
