//! Conversion between the data types: CAST and CONVERT, the implicit conversions, and storing into a column.
//!
//! [`check_conversion`] answers from the types alone whether a conversion exists; [`convert()`] checks again and does
//! it; [`assign`] does it for a column, where text that does not fit is an error instead of being cut.
//! Source: docs/t-sql/functions/cast-and-convert-transact-sql.md (chart of conversions, truncating and rounding,
//! styles) of MicrosoftDocs/sql-docs.

pub(crate) mod bytes;
pub(in crate::value) mod cast;
pub(in crate::value) mod chart;
mod column;
mod date_time;
pub(in crate::value) mod error;
pub(in crate::value) mod number;
pub(in crate::value) mod text;
mod uuid;

pub use cast::convert;
pub use chart::check_conversion;
pub use column::assign;
