//! Windows-1252, the code page of `char` and `varchar` under the default collation.
//!
//! A `varchar` value is held as text like any other; it passes through here where its bytes are asked for
//! (DATALENGTH, conversion to binary, the wire) or where Unicode text becomes `varchar`.
//!
//! Not as SQL Server: it maps some characters to a similar one ("Ā" to "A"); here all that the code page lacks
//! becomes `?`.

use crate::value::units::unit_count;

/// The characters of the bytes 0x80 to 0x9F. The five bytes without a character map to the control character of the
/// same number, as Windows does it, so that any byte survives a round trip.
const HIGH_CONTROLS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8D}', 'Ž', '\u{8F}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9D}', 'ž', 'Ÿ',
];

/// The byte of a character, if the code page has it.
pub fn encode_char(character: char) -> Option<u8> {
    match u32::from(character) {
        code @ (0..=0x7F | 0xA0..=0xFF) => u8::try_from(code).ok(),
        _ => HIGH_CONTROLS.iter().position(|&c| c == character).and_then(|at| u8::try_from(0x80 + at).ok()),
    }
}

/// The character of a byte.
pub fn decode_byte(byte: u8) -> char {
    match byte {
        0x80..=0x9F => HIGH_CONTROLS[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// The bytes of a text; what the code page lacks becomes `?`, one for each UTF-16 unit.
pub fn encode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match encode_char(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(std::iter::repeat_n(b'?', unit_count(character))),
        }
    }
    bytes
}

/// The text of the bytes.
pub fn decode(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| decode_byte(byte)).collect()
}

/// The text as `varchar` holds it: unchanged, or with `?` for what the code page lacks.
pub fn to_varchar(text: &str) -> Option<String> {
    let fits = text.is_ascii() || text.chars().all(|character| encode_char(character).is_some());
    if fits { None } else { Some(decode(&encode(text))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_a_round_trip() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(encode(&decode(&bytes)), bytes);
    }

    #[test]
    fn what_the_code_page_lacks_becomes_question_marks() {
        assert_eq!(to_varchar("naïve €"), None);
        assert_eq!(to_varchar("日本 😀!").as_deref(), Some("?? ??!"));
    }
}
