//! The type of an incoming value: how its length is written, and in which code page its text is.

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
    /// Of `char` and `varchar`: whether bytes above 0x7F are understood.
    pub(super) code_page: CodePage,
}

impl WireType {
    /// NULLTYPE, by which drivers send a NULL they know no type of.
    pub fn is_untyped_null(&self) -> bool {
        self.type_byte == NULL_TYPE
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodePage {
    Windows1252,
    Utf8,
    /// Only the characters that all code pages share can be read.
    Other,
}

impl CodePage {
    /// From the five bytes of COLLATION: 20 bits of locale, 8 of flags (of which one is UTF-8), 4 of version, then the
    /// sort order's number.
    pub(super) fn of_collation(collation: [u8; 5]) -> CodePage {
        const UTF8_FLAG: u32 = 1 << 26;
        let [a, b, c, d, sort_id] = collation;
        let bits = u32::from_le_bytes([a, b, c, d]);
        let locale = bits & 0x000F_FFFF;
        if bits & UTF8_FLAG != 0 {
            return CodePage::Utf8;
        }
        // Locale 0x409 is English (United States). Zeros stand for the server's own collation.
        let is_default_sort = sort_id == 0 || sort_id == Collation::default().tds_bytes()[4];
        if is_default_sort && (locale == 0x409 || locale == 0) { CodePage::Windows1252 } else { CodePage::Other }
    }
}
