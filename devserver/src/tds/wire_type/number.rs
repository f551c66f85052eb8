//! The numbers of types, and the limits of lengths and dates on the wire.

use crate::value::DecimalName;

pub(super) const NULL_TYPE: u8 = 0x1F;
pub(in crate::tds) const IMAGE: u8 = 0x22;
pub(in crate::tds) const TEXT: u8 = 0x23;
pub(in crate::tds) const NTEXT: u8 = 0x63;
pub(super) const INT1: u8 = 0x30;
pub(super) const BIT: u8 = 0x32;
pub(super) const INT2: u8 = 0x34;
pub(super) const INT4: u8 = 0x38;
pub(super) const INT8: u8 = 0x7F;
pub(super) const GUID: u8 = 0x24;
pub(super) const INT_N: u8 = 0x26;
pub(super) const DATE_N: u8 = 0x28;
pub(super) const TIME_N: u8 = 0x29;
pub(super) const DATETIME2_N: u8 = 0x2A;
pub(super) const DATETIMEOFFSET_N: u8 = 0x2B;
pub(super) const BIT_N: u8 = 0x68;
pub(super) const DECIMAL_N: u8 = 0x6A;
pub(super) const NUMERIC_N: u8 = 0x6C;
pub(super) const FLOAT_N: u8 = 0x6D;
pub(super) const VARIANT: u8 = 0x62;
pub(super) const DATETIME_N: u8 = 0x6F;
pub(super) const BIG_VARBINARY: u8 = 0xA5;
pub(super) const BIG_VARCHAR: u8 = 0xA7;
pub(super) const BIG_BINARY: u8 = 0xAD;
pub(super) const BIG_CHAR: u8 = 0xAF;
pub(super) const NVARCHAR: u8 = 0xE7;
pub(super) const NCHAR: u8 = 0xEF;

/// The type byte of a table-valued parameter.
pub const TABLE_TYPE: u8 = 0xF3;

/// The declared length that means `(max)`.
pub(super) const MAX_LENGTH: u16 = 0xFFFF;

/// The longest value of a type that is not `(max)`, in bytes.
pub(super) const LONGEST_LIMITED: u16 = 8000;

/// The longest `sql_variant`: 8,000 bytes, and what they are.
pub(super) const VARIANT_LENGTH: u32 = 8_009;

/// The length of a NULL among values with two bytes of length.
pub(super) const NULL_LENGTH: u16 = 0xFFFF;

/// The total length of a partially length-prefixed value: NULL, and unknown until its last chunk.
pub(super) const PLP_NULL: u64 = u64::MAX;
pub(super) const PLP_UNKNOWN_LENGTH: u64 = u64::MAX - 1;

/// What stands before a value of `text`, `ntext` or `image`: nobody can read or write by this pointer.
pub(super) const TEXT_POINTER: &[u8; 16] = b"dummy textptr\0\0\0";
pub(super) const TEXT_TIMESTAMP: &[u8; 8] = b"dummyTS\0";

/// 9999-12-31.
pub(super) const LAST_DAY: u32 = 3_652_058;

/// 1753-01-01, the first day of `datetime`.
pub(super) const FIRST_DATETIME_DAY: u32 = 639_905;

/// `datetime` counts three-hundredths of a second.
pub(super) const THIRD_CENTISECONDS_PER_DAY: u32 = 25_920_000;

/// The user type (alias) of `rowversion` among the 8-byte binaries: 80, as sys.types lists it.
pub(super) const ROWVERSION_USER_TYPE: u32 = 80;

pub(super) fn decimal_type_byte(name: DecimalName) -> u8 {
    match name {
        DecimalName::Numeric => NUMERIC_N,
        DecimalName::Decimal => DECIMAL_N,
    }
}

pub(super) fn decimal_name(type_byte: u8) -> DecimalName {
    if type_byte == NUMERIC_N { DecimalName::Numeric } else { DecimalName::Decimal }
}
