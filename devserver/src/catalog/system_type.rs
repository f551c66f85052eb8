//! The system types: their numbers in sys.types, and what the views tell of a type.

use crate::value::SqlType;

/// The system types with their numbers in sys.types.
pub const SYSTEM_TYPES: &[(&str, u8)] = &[
    ("image", 34),
    ("text", 35),
    ("uniqueidentifier", 36),
    ("date", 40),
    ("time", 41),
    ("datetime2", 42),
    ("datetimeoffset", 43),
    ("tinyint", 48),
    ("smallint", 52),
    ("int", 56),
    ("smalldatetime", 58),
    ("real", 59),
    ("money", 60),
    ("datetime", 61),
    ("float", 62),
    ("sql_variant", 98),
    ("ntext", 99),
    ("bit", 104),
    ("decimal", 106),
    ("numeric", 108),
    ("smallmoney", 122),
    ("bigint", 127),
    ("varbinary", 165),
    ("varchar", 167),
    ("binary", 173),
    ("char", 175),
    ("timestamp", 189),
    ("nvarchar", 231),
    ("nchar", 239),
];

/// `user_type_id` of `sysname`, the one alias among the system's types here.
pub const SYSNAME: i32 = 256;

pub fn system_type_id(folded: &str) -> Option<i32> {
    if folded == "sysname" {
        return Some(SYSNAME);
    }
    SYSTEM_TYPES.iter().find(|(name, _)| *name == folded).map(|(_, id)| i32::from(*id))
}

pub fn type_number(ty: SqlType) -> u8 {
    match ty {
        SqlType::RowVersion => 189,
        other => system_type_id(other.name()).and_then(|id| u8::try_from(id).ok()).unwrap_or(0),
    }
}

/// How many characters a value of `text`, `ntext` and `image` has at most.
pub fn large_length(ty: SqlType) -> Option<i32> {
    match ty {
        SqlType::Text | SqlType::Image => Some(i32::MAX),
        SqlType::NText => Some(i32::MAX / 2),
        _ => None,
    }
}
