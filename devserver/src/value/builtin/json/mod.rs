//! JSON texts: paths, the scanner that follows them, and the functions JSON_VALUE, JSON_QUERY and ISJSON.

pub mod path;
pub(super) mod read;
pub mod scanner;
