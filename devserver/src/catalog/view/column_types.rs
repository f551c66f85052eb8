//! What views are described and filled with: the types of columns, and values.

use crate::value::{Length, SqlType, Value};

/// A column's name and type.
pub type ColumnDescription = (&'static str, SqlType);

pub const NAME: SqlType = SqlType::NVarChar(Length::Limit(128));
pub const TEXT: SqlType = SqlType::NVarChar(Length::Max);
pub const WORD: SqlType = SqlType::NVarChar(Length::Limit(60));
pub const CODE: SqlType = SqlType::Char(2);
pub const INT: SqlType = SqlType::Int;
pub const BIT: SqlType = SqlType::Bit;
pub const TINY: SqlType = SqlType::TinyInt;
pub const BIG: SqlType = SqlType::BigInt;
pub const WHEN: SqlType = SqlType::DateTime;

pub const fn varchar(length: u16) -> SqlType {
    SqlType::VarChar(Length::Limit(length))
}

pub const fn nvarchar(length: u16) -> SqlType {
    SqlType::NVarChar(Length::Limit(length))
}

/// The columns of sys.objects, which many views begin with.
macro_rules! object_columns {
    ($($more:expr),* $(,)?) => {
        &[
            ("name", NAME), ("object_id", INT), ("principal_id", INT), ("schema_id", INT), ("parent_object_id", INT),
            ("type", CODE), ("type_desc", WORD), ("create_date", WHEN), ("modify_date", WHEN), ("is_ms_shipped", BIT),
            ("is_published", BIT), ("is_schema_published", BIT), $($more),*
        ]
    };
}

pub(crate) use object_columns;

pub fn text(value: impl AsRef<str>) -> Value {
    Value::String(value.as_ref().into())
}

pub fn bit(value: bool) -> Value {
    Value::Bit(value)
}

pub fn date(value: (u32, u64)) -> Value {
    Value::DateTime(value.0, value.1)
}
