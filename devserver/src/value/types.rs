//! The data types, and facts about them: names, precedence, sizes. The type in which two types meet stands in
//! `common_type.rs`.
//!
//! Nothing here looks at a value; the executor asks before the first row is read.
//! Sources: "Data type precedence", "Precision, scale, and length" (MicrosoftDocs/sql-docs, docs/t-sql/data-types/).

use crate::error::SqlError;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest `varchar(n)` or `varbinary(n)`, in bytes.
pub const MAX_BYTE_LENGTH: u16 = 8_000;
/// The longest `nvarchar(n)`, in UTF-16 units.
pub const MAX_UNIT_LENGTH: u16 = 4_000;
/// The largest precision of `decimal`.
pub const MAX_PRECISION: u8 = 38;

/// A declared length of a character or binary type, in bytes (`char`, `varchar`, `binary`, `varbinary`) or in
/// UTF-16 units (`nchar`, `nvarchar`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Length {
    /// `(n)`: 1 to 8,000 (4,000 for the Unicode types).
    Limit(u16),
    /// `(max)`.
    Max,
}

/// By which of its two names a `decimal` is shown. They are synonyms: types that differ in nothing else are equal.
///
/// Source: "decimal and numeric" (MicrosoftDocs/sql-docs, docs/t-sql/data-types/decimal-and-numeric-transact-sql.md):
/// "decimal and numeric are synonyms and can be used interchangeably"; sys.types has both.
#[derive(Debug, Clone, Copy)]
pub enum DecimalName {
    Decimal,
    Numeric,
}

impl PartialEq for DecimalName {
    fn eq(&self, _: &DecimalName) -> bool {
        true
    }
}

impl Eq for DecimalName {}

impl Hash for DecimalName {
    fn hash<H: Hasher>(&self, _: &mut H) {}
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
        name: DecimalName,
    },
    Real,
    Float,
    Char(u16),
    VarChar(Length),
    NChar(u16),
    NVarChar(Length),
    Binary(u16),
    VarBinary(Length),
    /// The deprecated `text`, whose successor is `varchar(max)`.
    Text,
    /// The deprecated `ntext`, whose successor is `nvarchar(max)`.
    NText,
    /// The deprecated `image`, whose successor is `varbinary(max)`.
    Image,
    Date,
    /// `time(scale)`, scale 0 to 7.
    Time(u8),
    DateTime,
    DateTime2(u8),
    DateTimeOffset(u8),
    UniqueIdentifier,
    RowVersion,
    /// `sql_variant`: a value tells what it is of.
    Variant,
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Limit(n) => write!(f, "{n}"),
            Length::Max => f.write_str("max"),
        }
    }
}

impl Length {
    /// The sum of two lengths, not above `cap`; `(max)` if either is.
    pub fn plus(self, other: Length, cap: u16) -> Length {
        match (self, other) {
            (Length::Limit(a), Length::Limit(b)) => Length::Limit(a.saturating_add(b).min(cap)),
            _ => Length::Max,
        }
    }

    /// The longer of two lengths, not above `cap`; `(max)` if either is.
    pub fn longer(self, other: Length, cap: u16) -> Length {
        match (self, other) {
            (Length::Limit(a), Length::Limit(b)) => Length::Limit(a.max(b).min(cap)),
            _ => Length::Max,
        }
    }

    /// The declared number of bytes or units; none for `(max)`.
    pub fn limit(self) -> Option<usize> {
        match self {
            Length::Limit(n) => Some(usize::from(n)),
            Length::Max => None,
        }
    }
}

/// The type as T-SQL writes it: `nvarchar(128)`, `varbinary(max)`, `decimal(10,2)`, `datetime2(7)`.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            SqlType::Decimal { precision, scale, .. } => write!(f, "({precision},{scale})"),
            SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => write!(f, "({n})"),
            SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => {
                write!(f, "({length})")
            }
            SqlType::Time(scale) | SqlType::DateTime2(scale) | SqlType::DateTimeOffset(scale) => write!(f, "({scale})"),
            _ => Ok(()),
        }
    }
}

impl SqlType {
    /// `sysname`: `nvarchar(128)`.
    pub const SYSNAME: SqlType = SqlType::NVarChar(Length::Limit(128));

    /// The `decimal` of a computed value, whose name is not documented.
    pub const fn decimal(precision: u8, scale: u8) -> SqlType {
        SqlType::Decimal { precision, scale, name: DecimalName::Decimal }
    }

    /// The type with another name, if it is a `decimal`.
    pub fn named(self, name: DecimalName) -> SqlType {
        match self {
            SqlType::Decimal { precision, scale, .. } => SqlType::Decimal { precision, scale, name },
            other => other,
        }
    }

    /// The type of a computed value: a `decimal` loses its name.
    pub fn computed(self) -> SqlType {
        self.named(DecimalName::Decimal)
    }

    /// The name without lengths, as in `sys.types`.
    pub fn name(self) -> &'static str {
        match self {
            SqlType::Bit => "bit",
            SqlType::TinyInt => "tinyint",
            SqlType::SmallInt => "smallint",
            SqlType::Int => "int",
            SqlType::BigInt => "bigint",
            SqlType::Decimal { name: DecimalName::Numeric, .. } => "numeric",
            SqlType::Decimal { .. } => "decimal",
            SqlType::Real => "real",
            SqlType::Float => "float",
            SqlType::Char(_) => "char",
            SqlType::VarChar(_) => "varchar",
            SqlType::NChar(_) => "nchar",
            SqlType::NVarChar(_) => "nvarchar",
            SqlType::Binary(_) => "binary",
            SqlType::VarBinary(_) => "varbinary",
            SqlType::Text => "text",
            SqlType::NText => "ntext",
            SqlType::Image => "image",
            SqlType::Date => "date",
            SqlType::Time(_) => "time",
            SqlType::DateTime => "datetime",
            SqlType::DateTime2(_) => "datetime2",
            SqlType::DateTimeOffset(_) => "datetimeoffset",
            SqlType::UniqueIdentifier => "uniqueidentifier",
            // The documentation calls `timestamp` a deprecated synonym, yet it is what the server prints.
            SqlType::RowVersion => "timestamp",
            SqlType::Variant => "sql_variant",
        }
    }

    /// The name in conversion and arithmetic errors, which call every `decimal` by its synonym.
    pub fn message_name(self) -> &'static str {
        match self {
            SqlType::Decimal { .. } => "numeric",
            _ => self.name(),
        }
    }

    /// The place in the order of precedence: where two types meet, the one with the higher number wins.
    pub fn precedence(self) -> u8 {
        match self {
            SqlType::Variant => 28,
            SqlType::DateTimeOffset(_) => 27,
            SqlType::DateTime2(_) => 26,
            SqlType::DateTime => 25,
            SqlType::Date => 23,
            SqlType::Time(_) => 22,
            SqlType::Float => 21,
            SqlType::Real => 20,
            SqlType::Decimal { .. } => 19,
            SqlType::BigInt => 16,
            SqlType::Int => 15,
            SqlType::SmallInt => 14,
            SqlType::TinyInt => 13,
            SqlType::Bit => 12,
            SqlType::NText => 11,
            SqlType::Text => 10,
            SqlType::Image => 9,
            SqlType::RowVersion => 8,
            SqlType::UniqueIdentifier => 7,
            SqlType::NVarChar(_) => 6,
            SqlType::NChar(_) => 5,
            SqlType::VarChar(_) => 4,
            SqlType::Char(_) => 3,
            SqlType::VarBinary(_) => 2,
            SqlType::Binary(_) => 1,
        }
    }

    /// `char`, `varchar`, `nchar`, `nvarchar`.
    pub fn is_character(self) -> bool {
        matches!(self, SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_))
    }

    /// `nchar`, `nvarchar`, `ntext`.
    pub fn is_unicode(self) -> bool {
        matches!(self, SqlType::NChar(_) | SqlType::NVarChar(_) | SqlType::NText)
    }

    /// The deprecated types `text`, `ntext` and `image`, which little can be done with.
    pub fn is_text_or_image(self) -> bool {
        matches!(self, SqlType::Text | SqlType::NText | SqlType::Image)
    }

    /// The `(max)` type that took the place of `text`, `ntext` or `image`; any other type is its own.
    pub fn successor(self) -> SqlType {
        match self {
            SqlType::Text => SqlType::VarChar(Length::Max),
            SqlType::NText => SqlType::NVarChar(Length::Max),
            SqlType::Image => SqlType::VarBinary(Length::Max),
            other => other,
        }
    }

    /// The character types, `text` and `ntext`.
    pub fn has_collation(self) -> bool {
        self.is_character() || matches!(self, SqlType::Text | SqlType::NText)
    }

    /// `binary`, `varbinary`; not `rowversion`, which has conversion rules of its own.
    pub fn is_binary(self) -> bool {
        matches!(self, SqlType::Binary(_) | SqlType::VarBinary(_))
    }

    /// `tinyint`, `smallint`, `int`, `bigint`; not `bit`, which has no arithmetic.
    pub fn is_integer(self) -> bool {
        matches!(self, SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt)
    }

    /// Integers, `decimal`, `real`, `float`; not `bit`.
    pub fn is_number(self) -> bool {
        self.is_integer() || matches!(self, SqlType::Decimal { .. } | SqlType::Real | SqlType::Float)
    }

    /// `date`, `time`, `datetime`, `datetime2`, `datetimeoffset`.
    pub fn is_date_or_time(self) -> bool {
        matches!(
            self,
            SqlType::Date | SqlType::Time(_) | SqlType::DateTime | SqlType::DateTime2(_) | SqlType::DateTimeOffset(_)
        )
    }

    /// Whether the type is `varchar(max)`, `nvarchar(max)` or `varbinary(max)`.
    pub fn is_max(self) -> bool {
        matches!(self, SqlType::VarChar(Length::Max) | SqlType::NVarChar(Length::Max) | SqlType::VarBinary(Length::Max))
    }

    /// The most bytes that a value takes in a row or on the wire; none for `(max)`.
    pub fn max_bytes(self) -> Option<usize> {
        let bytes = match self {
            SqlType::Bit | SqlType::TinyInt => 1,
            SqlType::SmallInt => 2,
            SqlType::Int | SqlType::Real => 4,
            SqlType::BigInt | SqlType::Float | SqlType::DateTime | SqlType::RowVersion => 8,
            SqlType::Decimal { precision: 0..=9, .. } => 5,
            SqlType::Decimal { precision: 10..=19, .. } => 9,
            SqlType::Decimal { precision: 20..=28, .. } => 13,
            SqlType::Decimal { .. } => 17,
            SqlType::Char(n) | SqlType::Binary(n) => usize::from(n),
            SqlType::NChar(n) => 2 * usize::from(n),
            SqlType::VarChar(length) | SqlType::VarBinary(length) => return length.limit(),
            SqlType::NVarChar(length) => return length.limit().map(|units| 2 * units),
            SqlType::Date => 3,
            SqlType::Time(scale) => time_bytes(scale),
            SqlType::DateTime2(scale) => time_bytes(scale) + 3,
            SqlType::DateTimeOffset(scale) => time_bytes(scale) + 5,
            SqlType::UniqueIdentifier => 16,
            // The row has a pointer to the value.
            SqlType::Text | SqlType::NText | SqlType::Image => 16,
            SqlType::Variant => 8_016,
        };
        Some(bytes)
    }

    /// Length in bytes (-1 for `(max)`), precision and scale, as sys.columns shows them.
    pub fn facts(self) -> (i16, u8, u8) {
        let length = self.max_bytes().map_or(-1, |bytes| bytes as i16);
        let (precision, scale) = match self {
            SqlType::Decimal { precision, scale, .. } => (precision, scale),
            SqlType::Bit => (1, 0),
            SqlType::TinyInt => (3, 0),
            SqlType::SmallInt => (5, 0),
            SqlType::Int => (10, 0),
            SqlType::BigInt => (19, 0),
            SqlType::Real => (24, 0),
            SqlType::Float => (53, 0),
            SqlType::Date => (10, 0),
            SqlType::DateTime => (23, 3),
            SqlType::Time(scale) => (if scale == 0 { 8 } else { 9 + scale }, scale),
            SqlType::DateTime2(scale) => (if scale == 0 { 19 } else { 20 + scale }, scale),
            SqlType::DateTimeOffset(scale) => (if scale == 0 { 26 } else { 27 + scale }, scale),
            _ => (0, 0),
        };
        (length, precision, scale)
    }

    /// Precision and scale of a number where it meets a `decimal`; none for what is not an exact number.
    pub fn exact_precision(self) -> Option<(u8, u8)> {
        let is_exact = self.is_integer() || matches!(self, SqlType::Bit | SqlType::Decimal { .. });
        let (_, precision, scale) = self.facts();
        is_exact.then_some((precision, scale))
    }

    /// The declared length of a character or binary type.
    pub fn length(self) -> Option<Length> {
        match self {
            SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => Some(Length::Limit(n)),
            SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => Some(length),
            _ => None,
        }
    }

    /// How long the text of a value can be once it is converted to a character type, in characters.
    pub fn text_length(self) -> Length {
        match self {
            SqlType::Bit => Length::Limit(1),
            SqlType::TinyInt => Length::Limit(3),
            SqlType::SmallInt => Length::Limit(6),
            SqlType::Int => Length::Limit(12),
            SqlType::BigInt => Length::Limit(20),
            SqlType::Decimal { .. } => Length::Limit(41),
            SqlType::Real | SqlType::Float => Length::Limit(23),
            SqlType::Date => Length::Limit(10),
            SqlType::Time(_) => Length::Limit(16),
            SqlType::DateTime | SqlType::DateTime2(_) => Length::Limit(27),
            SqlType::DateTimeOffset(_) => Length::Limit(34),
            SqlType::UniqueIdentifier => Length::Limit(36),
            SqlType::RowVersion => Length::Limit(8),
            SqlType::Variant => Length::Limit(MAX_UNIT_LENGTH),
            SqlType::Text | SqlType::NText | SqlType::Image => Length::Max,
            _ => self.length().expect("every other type has a declared length"),
        }
    }

    /// The fractional digits of a type that has a time of day.
    pub fn time_scale(self) -> Option<u8> {
        match self {
            SqlType::Time(scale) | SqlType::DateTime2(scale) | SqlType::DateTimeOffset(scale) => Some(scale),
            SqlType::DateTime => Some(3),
            _ => None,
        }
    }
}

/// Storage bytes of a time of day with `scale` fractional digits.
pub(crate) fn time_bytes(scale: u8) -> usize {
    match scale {
        0..=2 => 3,
        3..=4 => 4,
        _ => 5,
    }
}

/// 206: two types that cannot meet.
pub(super) fn operand_clash(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.message_name(), to.message_name());
    SqlError::new(206, format!("Operand type clash: {from} is incompatible with {to}")).state(2)
}
