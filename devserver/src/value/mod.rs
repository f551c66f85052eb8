//! SQL Server's data types and values, and what can be done with them without a table: conversion, comparison,
//! arithmetic and the built-in scalar functions.

pub mod arithmetic;
pub mod builtin;
pub mod codepage;
pub mod collation;
pub mod common_type;
pub mod compare;
pub mod convert;
pub mod datetime;
pub mod datetime_text;
pub mod decimal;
pub mod like;
pub mod literal;
pub mod shown_value;
pub mod types;
pub mod units;
pub mod values;
pub mod variant;

pub use arithmetic::{BinaryOp, binary, binary_type, negative, negative_type};
pub use builtin::definition::{Argument, Builtin, Call};
pub use builtin::lookup::lookup;
pub use collation::Collation;
pub use compare::{compare, compare_nulls_first, encode_key};
pub use convert::{assign, check_conversion, convert};
pub use datetime::{DatePart, Day, Ticks, now_utc, now_utc_shifted};
pub use decimal::Decimal;
pub use like::Pattern;
pub use shown_value::format_for_message;
pub use types::{DecimalName, Length, SqlType};
pub use values::{Value, Variant};
