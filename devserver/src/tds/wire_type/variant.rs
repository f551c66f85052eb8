//! `sql_variant` values: four bytes of length, the base type with its properties, and the value without any length.
//!
//! Source: MS-TDS, "2.2.5.5.4 sql_variant Values".

use crate::tds::wire_type::number::{BIG_CHAR, BIG_VARCHAR, BIT, INT1, INT2, INT4, INT8, NCHAR, NVARCHAR};
use crate::tds::wire_type::write::put_value;
use crate::value::{Collation, SqlType, Variant};

pub(super) fn put_variant(out: &mut Vec<u8>, variant: &Variant) {
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let type_byte = match variant.base {
        SqlType::Bit => BIT,
        SqlType::TinyInt => INT1,
        SqlType::SmallInt => INT2,
        SqlType::Int => INT4,
        SqlType::BigInt => INT8,
        SqlType::Char(_) => BIG_CHAR,
        SqlType::VarChar(_) => BIG_VARCHAR,
        SqlType::NChar(_) => NCHAR,
        SqlType::NVarChar(_) => NVARCHAR,
        _ => unreachable!("no sql_variant has that base"),
    };
    // A column's value has its length before it: two bytes of text, else one.
    let prefix = if variant.base.is_character() {
        let bytes = variant.base.max_bytes().and_then(|bytes| u16::try_from(bytes).ok());
        out.extend_from_slice(&[type_byte, 7]);
        out.extend_from_slice(&Collation::default().tds_bytes());
        out.extend_from_slice(&bytes.expect("no long type is the base of a sql_variant").to_le_bytes());
        2
    } else {
        out.extend_from_slice(&[type_byte, 0]);
        1
    };
    let value_at = out.len();
    put_value(out, variant.base, &variant.value);
    out.drain(value_at..value_at + prefix);
    let start = length_at + 4;
    let length = u32::try_from(out.len() - start).expect("it has at most 8,016 bytes");
    out[length_at..start].copy_from_slice(&length.to_le_bytes());
}
