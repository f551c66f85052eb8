//! The built-in scalar functions, as a table from names to [`crate::value::Builtin`]s.
//!
//! Binding a call asks the table for the function, checks the number of arguments and gets the type of the result;
//! then every row evaluates it over values. What is syntax is not here: CASE, COALESCE, NULLIF, IIF, CAST, CONVERT,
//! and CURRENT_TIMESTAMP, which is GETDATE without parentheses. Nor are functions whose results cannot be matched or
//! are not needed: RAND, CHECKSUM, BINARY_CHECKSUM, COMPRESS, DECOMPRESS, FORMAT.
//! Each function behaves as its page in docs/t-sql/functions/ of MicrosoftDocs/sql-docs says.

mod date;
pub(crate) mod definition;
mod digest;
pub mod format_message;
mod is_null;
pub mod json;
pub(crate) mod lookup;
pub mod new_id;
mod number;
pub(crate) mod result;
mod search;
mod text;
