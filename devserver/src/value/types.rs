//! Facts about the data types: names, precedence, sizes, and the type in which two types meet.
//!
//! Nothing here looks at a value; the executor asks before the first row is read.
//! Sources: "Data type precedence", "Precision, scale, and length" (MicrosoftDocs/sql-docs, docs/t-sql/data-types/).

use super::convert::check_conversion;
use super::{Length, SqlType, Value};
use crate::error::{SqlError, SqlResult};
use std::fmt;

/// The longest `varchar(n)` or `varbinary(n)`, in bytes.
pub const MAX_BYTE_LENGTH: u16 = 8_000;
/// The longest `nvarchar(n)`, in UTF-16 units.
pub const MAX_UNIT_LENGTH: u16 = 4_000;
/// The largest precision of `decimal`.
pub const MAX_PRECISION: u8 = 38;

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
            SqlType::Decimal { precision, scale } => write!(f, "({precision},{scale})"),
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

    /// The name without lengths, as in `sys.types`.
    pub fn name(self) -> &'static str {
        match self {
            SqlType::Bit => "bit",
            SqlType::TinyInt => "tinyint",
            SqlType::SmallInt => "smallint",
            SqlType::Int => "int",
            SqlType::BigInt => "bigint",
            SqlType::Decimal { .. } => "decimal",
            SqlType::Real => "real",
            SqlType::Float => "float",
            SqlType::Char(_) => "char",
            SqlType::VarChar(_) => "varchar",
            SqlType::NChar(_) => "nchar",
            SqlType::NVarChar(_) => "nvarchar",
            SqlType::Binary(_) => "binary",
            SqlType::VarBinary(_) => "varbinary",
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

    /// The name in conversion and arithmetic errors, which call `decimal` by its synonym.
    pub fn message_name(self) -> &'static str {
        match self {
            SqlType::Decimal { .. } => "numeric",
            _ => self.name(),
        }
    }

    /// The place in the order of precedence: where two types meet, the one with the higher number wins.
    pub fn precedence(self) -> u8 {
        match self {
            SqlType::Variant => 22,
            SqlType::DateTimeOffset(_) => 21,
            SqlType::DateTime2(_) => 20,
            SqlType::DateTime => 19,
            SqlType::Date => 18,
            SqlType::Time(_) => 17,
            SqlType::Float => 16,
            SqlType::Real => 15,
            SqlType::Decimal { .. } => 14,
            SqlType::BigInt => 13,
            SqlType::Int => 12,
            SqlType::SmallInt => 11,
            SqlType::TinyInt => 10,
            SqlType::Bit => 9,
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

    /// `nchar`, `nvarchar`.
    pub fn is_unicode(self) -> bool {
        matches!(self, SqlType::NChar(_) | SqlType::NVarChar(_))
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
            SqlType::Variant => 8_016,
        };
        Some(bytes)
    }

    /// Precision and scale of a number where it meets a `decimal`; none for what is not an exact number.
    pub fn exact_precision(self) -> Option<(u8, u8)> {
        match self {
            SqlType::Bit => Some((1, 0)),
            SqlType::TinyInt => Some((3, 0)),
            SqlType::SmallInt => Some((5, 0)),
            SqlType::Int => Some((10, 0)),
            SqlType::BigInt => Some((19, 0)),
            SqlType::Decimal { precision, scale } => Some((precision, scale)),
            _ => None,
        }
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

    /// The type of CASE, COALESCE, IIF, UNION and IN over two types: the one of higher precedence, wide enough for
    /// both. A NULL constant has no type of its own there: leave it out.
    ///
    /// # Errors
    /// 206 or 257 where the lower type does not convert to the higher one by itself.
    pub fn combine(self, other: SqlType) -> SqlResult<SqlType> {
        let (high, low) = if self.precedence() >= other.precedence() { (self, other) } else { (other, self) };
        check_conversion(low, high, false)?;
        let combined = match high {
            SqlType::Decimal { precision, scale } => match low.exact_precision() {
                Some((low_precision, low_scale)) => combine_decimals(precision, scale, low_precision, low_scale),
                None => high,
            },
            SqlType::Time(scale) | SqlType::DateTime2(scale) | SqlType::DateTimeOffset(scale) => {
                with_time_scale(high, scale.max(low.time_scale().unwrap_or(0)))
            }
            SqlType::Char(n) => match low {
                SqlType::Char(m) => SqlType::Char(n.max(m)),
                _ => SqlType::VarChar(Length::Limit(n).longer(low.text_length(), MAX_BYTE_LENGTH)),
            },
            SqlType::NChar(n) => match low {
                SqlType::NChar(m) => SqlType::NChar(n.max(m)),
                SqlType::Char(m) => SqlType::NChar(n.max(m.min(MAX_UNIT_LENGTH))),
                _ => SqlType::NVarChar(Length::Limit(n).longer(low.text_length(), MAX_UNIT_LENGTH)),
            },
            SqlType::VarChar(length) => SqlType::VarChar(length.longer(low.text_length(), MAX_BYTE_LENGTH)),
            SqlType::NVarChar(length) => SqlType::NVarChar(length.longer(low.text_length(), MAX_UNIT_LENGTH)),
            SqlType::Binary(n) => match low {
                SqlType::Binary(m) => SqlType::Binary(n.max(m)),
                _ => high,
            },
            SqlType::VarBinary(length) => SqlType::VarBinary(length.longer(low.text_length(), MAX_BYTE_LENGTH)),
            _ => high,
        };
        Ok(combined)
    }

    /// The type to which both sides of `=`, `<`, BETWEEN and IN are converted before [`super::compare()`].
    ///
    /// # Errors
    /// 206 or 257 where the sides cannot meet.
    pub fn comparison_type(self, other: SqlType) -> SqlResult<SqlType> {
        let combined = self.combine(other)?;
        match combined {
            // Rounding would make unequal numbers equal. Without it a number of very many digits may overflow instead.
            SqlType::Decimal { precision, .. } => {
                let scale_of = |ty: SqlType| ty.exact_precision().map_or(0, |(_, scale)| scale);
                Ok(SqlType::Decimal { precision, scale: scale_of(self).max(scale_of(other)) })
            }
            // A thousandth of a `datetime` is compared with its third: ".003" equals no `datetime` ("Converting other
            // date and time types", docs/t-sql/data-types/datetime2-transact-sql.md).
            SqlType::DateTime2(_) | SqlType::DateTimeOffset(_)
                if self == SqlType::DateTime || other == SqlType::DateTime =>
            {
                Ok(with_time_scale(combined, 7))
            }
            // 8,000 bytes of `varchar` do not fit `nvarchar(4000)`.
            SqlType::NChar(_) | SqlType::NVarChar(_) => {
                let is_long = |ty: SqlType| ty.text_length().limit().is_none_or(|n| n > usize::from(MAX_UNIT_LENGTH));
                if is_long(self) || is_long(other) { Ok(SqlType::NVarChar(Length::Max)) } else { Ok(combined) }
            }
            _ => Ok(combined),
        }
    }
}

/// Storage bytes of a time of day with `scale` fractional digits.
fn time_bytes(scale: u8) -> usize {
    match scale {
        0..=2 => 3,
        3..=4 => 4,
        _ => 5,
    }
}

fn with_time_scale(ty: SqlType, scale: u8) -> SqlType {
    match ty {
        SqlType::Time(_) => SqlType::Time(scale),
        SqlType::DateTime2(_) => SqlType::DateTime2(scale),
        SqlType::DateTimeOffset(_) => SqlType::DateTimeOffset(scale),
        _ => ty,
    }
}

/// The row "UNION, EXCEPT, INTERSECT" of the precision table, which CASE and COALESCE follow too.
fn combine_decimals(p1: u8, s1: u8, p2: u8, s2: u8) -> SqlType {
    let integral = (p1 - s1).max(p2 - s2);
    let scale = s1.max(s2);
    let precision = (integral + scale).min(MAX_PRECISION);
    SqlType::Decimal { precision, scale: scale.min(precision - integral) }
}

impl Value {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// An integer or bit as `i64`; none for everything else.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::Bit(v) => Some(i64::from(v)),
            Value::TinyInt(v) => Some(i64::from(v)),
            Value::SmallInt(v) => Some(i64::from(v)),
            Value::Int(v) => Some(i64::from(v)),
            Value::BigInt(v) => Some(v),
            _ => None,
        }
    }

    /// The text of a character value; none for everything else.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a binary value; none for everything else.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// 206: two types that cannot meet.
pub(super) fn operand_clash(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.message_name(), to.message_name());
    SqlError::new(206, format!("Operand type clash: {from} is incompatible with {to}")).state(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(precision: u8, scale: u8) -> SqlType {
        SqlType::Decimal { precision, scale }
    }

    #[test]
    fn types_print_as_in_t_sql() {
        let cases = [
            (SqlType::NVarChar(Length::Limit(128)), "nvarchar(128)"),
            (SqlType::VarBinary(Length::Max), "varbinary(max)"),
            (decimal(10, 2), "decimal(10,2)"),
            (SqlType::DateTime2(7), "datetime2(7)"),
            (SqlType::DateTime, "datetime"),
            (SqlType::RowVersion, "timestamp"),
        ];
        for (ty, text) in cases {
            assert_eq!(ty.to_string(), text);
        }
    }

    // docs/t-sql/data-types/data-type-precedence-transact-sql.md
    #[test]
    fn types_meet_in_the_one_of_higher_precedence() {
        let cases = [
            (SqlType::Int, SqlType::BigInt, SqlType::BigInt),
            (SqlType::Int, decimal(5, 2), decimal(12, 2)),
            (decimal(38, 10), decimal(38, 0), decimal(38, 0)),
            (SqlType::Int, SqlType::NVarChar(Length::Max), SqlType::Int),
            (
                SqlType::VarChar(Length::Limit(8000)),
                SqlType::NVarChar(Length::Limit(5)),
                SqlType::NVarChar(Length::Limit(4000)),
            ),
            (SqlType::Char(3), SqlType::VarChar(Length::Limit(2)), SqlType::VarChar(Length::Limit(3))),
            (SqlType::DateTime, SqlType::DateTime2(0), SqlType::DateTime2(3)),
            (SqlType::Date, SqlType::VarChar(Length::Limit(10)), SqlType::Date),
            (SqlType::UniqueIdentifier, SqlType::NChar(36), SqlType::UniqueIdentifier),
            (SqlType::VarBinary(Length::Limit(8)), SqlType::BigInt, SqlType::BigInt),
        ];
        for (a, b, expected) in cases {
            assert_eq!(a.combine(b), Ok(expected), "{a} with {b}");
            assert_eq!(b.combine(a), Ok(expected), "{b} with {a}");
        }
    }

    #[test]
    fn comparing_loses_nothing() {
        let cases = [
            (decimal(38, 10), decimal(38, 0), decimal(38, 10)),
            (SqlType::DateTime, SqlType::DateTime2(3), SqlType::DateTime2(7)),
            (
                SqlType::VarChar(Length::Limit(8000)),
                SqlType::NVarChar(Length::Limit(5)),
                SqlType::NVarChar(Length::Max),
            ),
        ];
        for (a, b, expected) in cases {
            assert_eq!(a.comparison_type(b), Ok(expected), "{a} with {b}");
        }
    }

    #[test]
    fn types_that_cannot_meet_clash() {
        let clash = SqlType::Int.combine(SqlType::UniqueIdentifier).unwrap_err();
        assert_eq!(clash.number, 206);
        assert_eq!(clash.message, "Operand type clash: uniqueidentifier is incompatible with int");
        assert_eq!(SqlType::Date.combine(SqlType::Int).unwrap_err().number, 206);
    }
}
