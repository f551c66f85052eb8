//! JSON texts: paths, the scanner that follows them, and the functions JSON_VALUE, JSON_QUERY, ISJSON and JSON_MODIFY.

pub(super) mod modify;
pub mod path;
pub(super) mod read;
pub mod scanner;

pub use modify::WITH_FRAGMENT;
