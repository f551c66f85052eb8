//! Reads mappings: TOML, key by key, with line numbers.

mod mapping;
mod model;
mod section;
mod text;

pub use mapping::Mapping;
pub(crate) use model::{At, Claim, End, Set};
