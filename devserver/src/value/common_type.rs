//! The type in which two types meet: that of CASE, of a comparison, of UNION.
//!
//! Nothing here looks at a value; the binder asks before the first row is read.
//! Sources: "Data type precedence", "Precision, scale, and length" (MicrosoftDocs/sql-docs, docs/t-sql/data-types/).

use crate::error::{SqlError, SqlResult};
use crate::value::convert::chart::check_conversion;
use crate::value::types::{DecimalName, Length, MAX_BYTE_LENGTH, MAX_PRECISION, MAX_UNIT_LENGTH, SqlType};

impl SqlType {
    /// The type of CASE, COALESCE, IIF, UNION and IN over two types: the one of higher precedence, wide enough for
    /// both. A NULL constant has no type of its own there: leave it out.
    ///
    /// # Errors
    /// 206 or 257 where the lower type does not convert to the higher one by itself.
    pub fn combine(self, other: SqlType) -> SqlResult<SqlType> {
        let (high, low) = if self.precedence() >= other.precedence() { (self, other) } else { (other, self) };
        if self.is_text_or_image() || other.is_text_or_image() {
            return Err(SqlError::not_supported(format!("{self} together with {other}")));
        }
        check_conversion(low, high, false)?;
        let combined = match high {
            SqlType::Decimal { precision, scale, name } => match (low, low.exact_precision()) {
                (SqlType::Decimal { name: low_name, .. }, Some((low_precision, low_scale))) => {
                    let is_numeric = [name, low_name].iter().all(|name| matches!(name, DecimalName::Numeric));
                    let name = if is_numeric { DecimalName::Numeric } else { DecimalName::Decimal };
                    combine_decimals(precision, scale, low_precision, low_scale).named(name)
                }
                (_, Some((low_precision, low_scale))) => combine_decimals(precision, scale, low_precision, low_scale),
                (_, None) => high,
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
                Ok(SqlType::decimal(precision, scale_of(self).max(scale_of(other))))
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
    SqlType::decimal(precision, scale.min(precision - integral))
}
