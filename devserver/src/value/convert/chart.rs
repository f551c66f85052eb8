//! The chart of conversions: whether one type converts to another, and whether it does so by itself.
//! Nothing here looks at a value.

use crate::error::{SqlError, SqlResult};
use crate::value::types::{SqlType, operand_clash};
use crate::value::variant::cannot_hold;

/// How a conversion can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Implicit,
    Explicit,
    Never,
    Unknown,
}

/// The types that share a row and a column in the chart of conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Binary,
    Text,
    UnicodeText,
    DateTime,
    /// `datetime2` and `datetimeoffset`.
    LongDateTime,
    Date,
    Time,
    Decimal,
    Float,
    /// Integers and `bit`.
    Integer,
    RowVersion,
    Uuid,
    Variant,
    /// `text`
    LargeText,
    /// `ntext`
    LargeUnicodeText,
    /// `image`
    LargeBinary,
}

pub(super) fn group(ty: SqlType) -> Group {
    match ty {
        SqlType::Binary(_) | SqlType::VarBinary(_) => Group::Binary,
        SqlType::Char(_) | SqlType::VarChar(_) => Group::Text,
        SqlType::NChar(_) | SqlType::NVarChar(_) => Group::UnicodeText,
        SqlType::DateTime => Group::DateTime,
        SqlType::DateTime2(_) | SqlType::DateTimeOffset(_) => Group::LongDateTime,
        SqlType::Date => Group::Date,
        SqlType::Time(_) => Group::Time,
        SqlType::Decimal { .. } => Group::Decimal,
        SqlType::Real | SqlType::Float => Group::Float,
        SqlType::Bit | SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => Group::Integer,
        SqlType::RowVersion => Group::RowVersion,
        SqlType::UniqueIdentifier => Group::Uuid,
        SqlType::Variant => Group::Variant,
        SqlType::Text => Group::LargeText,
        SqlType::NText => Group::LargeUnicodeText,
        SqlType::Image => Group::LargeBinary,
    }
}

/// The chart of conversions.
fn rule(from: SqlType, to: SqlType) -> Rule {
    use Group::*;
    let (from, to) = (group(from), group(to));
    if from == to {
        return Rule::Implicit;
    }
    match (from, to) {
        (LargeText, Text) | (LargeUnicodeText, UnicodeText) | (LargeBinary, Binary) => Rule::Implicit,
        (Text | UnicodeText, LargeText | LargeUnicodeText) | (Binary, LargeBinary) => Rule::Implicit,
        (LargeText | LargeUnicodeText | LargeBinary, _) | (_, LargeText | LargeUnicodeText | LargeBinary) => {
            Rule::Unknown
        }

        (RowVersion, _) | (_, RowVersion) => Rule::Unknown,
        (Variant, _) => Rule::Explicit,
        (_, Variant) => Rule::Implicit,

        (Binary, Date | Time | DateTime | LongDateTime | Float | Uuid) => Rule::Unknown,
        (Binary, _) => Rule::Implicit,

        (Text | UnicodeText, Binary) => Rule::Explicit,
        (Text | UnicodeText, Decimal | Float) => Rule::Unknown,
        (Text | UnicodeText, _) => Rule::Implicit,

        (Date, Time) | (Time, Date) => Rule::Never,
        (DateTime | LongDateTime | Date | Time, Text | UnicodeText) => Rule::Implicit,
        (DateTime | LongDateTime | Date | Time, DateTime | LongDateTime | Date | Time) => Rule::Implicit,
        (DateTime, _) | (LongDateTime | Date | Time, Binary) => Rule::Unknown,
        (LongDateTime | Date | Time, _) => Rule::Never,

        (Float, Decimal | DateTime) => Rule::Unknown,
        (Decimal | Float | Integer, Date | Time | LongDateTime | Uuid) => Rule::Never,
        (Decimal | Float | Integer, _) => Rule::Implicit,

        (Uuid, Binary | Text | UnicodeText) => Rule::Implicit,
        (Uuid, _) => Rule::Never,
    }
}

/// Whether there is a conversion between two types, asked when a statement is bound.
///
/// # Errors
/// 529 where there is none for CAST and CONVERT, 206 where there is none at all, 257 where CONVERT is needed.
pub fn check_conversion(from: SqlType, to: SqlType, explicit: bool) -> SqlResult<()> {
    if to == SqlType::Variant
        && let Some(error) = cannot_hold(from)
    {
        return Err(error);
    }
    match (rule(from, to), explicit) {
        (Rule::Implicit, _) | (Rule::Explicit, true) => Ok(()),
        (Rule::Unknown, _) => {
            let (from, to) = (from.message_name(), to.message_name());
            let how = if explicit { "conversion" } else { "implicit conversion" };
            Err(SqlError::not_supported(format!("the {how} from {from} to {to}")))
        }
        (Rule::Explicit, false) => Err(SqlError::new(
            257,
            format!(
                "Implicit conversion from data type {} to {} is not allowed. Use the CONVERT function to run this query.",
                from.message_name(),
                to.message_name()
            ),
        )
        .state(3)),
        (Rule::Never, true) => Err(SqlError::new(
            529,
            format!(
                "Explicit conversion from data type {} to {} is not allowed.",
                from.message_name(),
                to.message_name()
            ),
        )),
        (Rule::Never, false) => Err(operand_clash(from, to)),
    }
}
