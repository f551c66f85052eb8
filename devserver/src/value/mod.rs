//! SQL Server's data types and values, and what can be done with them without a table: conversion, comparison,
//! arithmetic and the built-in scalar functions.

pub mod arithmetic;
pub mod codepage;
pub mod collation;
pub mod compare;
pub mod convert;
pub mod datetime;
pub mod datetime_text;
pub mod decimal;
pub mod functions;
pub mod like;
pub mod literal;
pub mod message;
pub mod types;

use std::sync::Arc;
use uuid::Uuid;

pub use arithmetic::{BinaryOp, UnaryOp, binary, binary_type, unary, unary_type};
pub use collation::Collation;
pub use compare::{compare, compare_nulls_first, encode_key};
pub use convert::{AssignError, assign, check_conversion, convert};
pub use datetime::{DatePart, now_utc, now_utc_shifted};
pub use functions::{Argument, Call, Function, lookup};
pub use like::Pattern;
pub use message::format_for_message;

/// A declared length of a character or binary type, in bytes (`char`, `varchar`, `binary`, `varbinary`) or in
/// UTF-16 units (`nchar`, `nvarchar`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Length {
    /// `(n)`: 1 to 8,000 (4,000 for the Unicode types).
    Limit(u16),
    /// `(max)`.
    Max,
}

/// A SQL Server data type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SqlType {
    Bit,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    /// `decimal(precision, scale)`, precision 1 to 38.
    Decimal {
        precision: u8,
        scale: u8,
    },
    Real,
    Float,
    Char(u16),
    VarChar(Length),
    NChar(u16),
    NVarChar(Length),
    Binary(u16),
    VarBinary(Length),
    Date,
    /// `time(scale)`, scale 0 to 7.
    Time(u8),
    DateTime,
    DateTime2(u8),
    DateTimeOffset(u8),
    UniqueIdentifier,
    RowVersion,
    /// `sql_variant`, the type of what SERVERPROPERTY and its like return: a value tells what it is. No column,
    /// variable or parameter has it here.
    Variant,
}

/// A day of the proleptic Gregorian calendar, counted from 0001-01-01 = 0.
pub type Day = u32;

/// A time of day in units of 100 ns, 0 to 863,999,999,999.
pub type Ticks = u64;

/// One value. It does not know its declared length or scale: the column or the expression does.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bit(bool),
    TinyInt(u8),
    SmallInt(i16),
    Int(i32),
    BigInt(i64),
    Decimal(Box<Decimal>),
    Real(f32),
    Float(f64),
    /// Every character type. SQL Server's strings are UTF-16; lone surrogates cannot be held here and are refused.
    String(Arc<str>),
    /// `binary`, `varbinary`, `rowversion`.
    Bytes(Arc<[u8]>),
    Date(Day),
    Time(Ticks),
    /// `datetime` and `datetime2`.
    DateTime(Day, Ticks),
    /// `datetimeoffset`: the UTC day and time, and the offset in minutes.
    DateTimeOffset(Day, Ticks, i16),
    Uuid(Uuid),
}

/// An exact number: `mantissa / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    pub mantissa: i128,
    pub precision: u8,
    pub scale: u8,
}
