//! The type of an incoming value: how its length is written, and whether its text can be read.

use crate::tds::wire_type::number::NULL_TYPE;
use crate::value::{Collation, SqlType};

/// How a value's length is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// No bytes at all; always NULL.
    Nothing,
    /// One byte of length, 0 is NULL.
    ShortLength,
    /// Two bytes of length, 0xFFFF is NULL.
    LongLength,
    /// Four bytes of length, 0xFFFFFFFF is NULL: `text`, `ntext` and `image`.
    VeryLongLength,
    /// Chunks: `(max)` types.
    Partial,
}

/// The type of an incoming value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireType {
    /// What the values are.
    pub sql_type: SqlType,
    pub(super) type_byte: u8,
    pub(super) form: Form,
    /// Whether `char` and `varchar` are in code page 1252. Of other code pages only ASCII can be read.
    pub(super) is_1252: bool,
}

impl WireType {
    /// NULLTYPE, by which drivers send a NULL they know no type of.
    pub fn is_untyped_null(&self) -> bool {
        self.type_byte == NULL_TYPE
    }
}

/// From the five bytes of COLLATION: 20 bits of locale, 8 of flags (of which one is UTF-8), 4 of version, then the sort
/// order's number.
pub(super) fn is_code_page_1252(collation: [u8; 5]) -> bool {
    const UTF8_FLAG: u32 = 1 << 26;
    let [a, b, c, d, sort_id] = collation;
    let bits = u32::from_le_bytes([a, b, c, d]);
    // Locale 0x409 is English (United States). Zeros stand for the server's own collation.
    let is_english = matches!(bits & 0x000F_FFFF, 0x409 | 0);
    let is_default_sort = sort_id == 0 || sort_id == Collation::default().tds_bytes()[4];
    bits & UTF8_FLAG == 0 && is_english && is_default_sort
}
