//! SQL types and values as TDS carries them: TYPE_INFO and the bytes of a value, in both directions.
//!
//! Results go out by [`put_type_info`] and [`put_value`]; parameters come in by [`read::read_type_info`] and
//! [`read::read_value`]. Outgoing columns always use the nullable form of their type (INTN instead of INT4 and so on),
//! so that a NULL can never be unsendable. Source: MS-TDS, "2.2.5.4 Data Type Definitions" and "2.2.5.5 Data Type
//! Dependent Data Streams".

#[cfg(test)]
pub mod client_values;
pub mod form;
pub mod number;
pub mod read;
#[cfg(test)]
mod tests;
mod variant;
pub mod write;

pub use number::TABLE_TYPE;
pub use write::{put_type_info, put_value};
