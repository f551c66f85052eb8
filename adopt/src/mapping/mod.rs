//! What a mapping says: the TOML text, read key by key, each with its line.

mod mapping;
mod model;
mod section;
mod text;

pub use mapping::Mapping;
pub(crate) use model::{At, Claim, End, Set};
