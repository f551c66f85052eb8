//! Text as the UTF-16 code units that `nchar` and `nvarchar` hold: half a surrogate pair is text like any other there.
//!
//! "Collation and Unicode support", docs/relational-databases/collations/collation-and-unicode-support.md: without a
//! supplementary-character collation, a surrogate pair counts as two characters, which can be cut apart.
//!
//! A `str` holds no half pair. Each of the 2,048 halves stands here as one of the last 2,048 characters of Unicode's
//! last private-use plane; text that has one of those itself is refused.

use crate::error::{SqlError, SqlResult};

const FIRST_HALF: u32 = 0xD800;
const FIRST_STAND_IN: u32 = 0x10_F800;

/// The refusal of text that has one of the characters that stand for halves.
pub const RESERVED: &str = "text with characters from U+10F800 on";

fn half(character: char) -> Option<u16> {
    let half = u32::from(character).checked_sub(FIRST_STAND_IN)? + FIRST_HALF;
    u16::try_from(half).ok()
}

/// The code units of a text.
pub fn units(text: &str) -> impl Iterator<Item = u16> {
    text.chars().flat_map(|character| {
        let mut units = [0; 2];
        match half(character) {
            Some(half) => units[0] = half,
            None => {
                character.encode_utf16(&mut units);
            }
        }
        units.into_iter().take(unit_count(character))
    })
}

/// How many code units a character of a text has.
pub fn unit_count(character: char) -> usize {
    if half(character).is_some() { 1 } else { character.len_utf16() }
}

/// The text of code units; `None` where it is [`RESERVED`].
pub fn from_units(units: impl IntoIterator<Item = u16>) -> Option<String> {
    let character = |decoded: Result<char, std::char::DecodeUtf16Error>| match decoded {
        Ok(character) => half(character).is_none().then_some(character),
        Err(error) => char::from_u32(FIRST_STAND_IN + (u32::from(error.unpaired_surrogate()) - FIRST_HALF)),
    };
    char::decode_utf16(units).map(character).collect()
}

/// Text that was put together: halves that met are a pair.
pub(in crate::value) fn joined(text: String) -> SqlResult<String> {
    if !text.chars().any(|character| half(character).is_some()) {
        return Ok(text);
    }
    from_units(units(&text)).ok_or_else(|| SqlError::not_supported(RESERVED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_kept_and_become_a_pair_when_they_meet() {
        let (high, low) = (from_units([0x61, 0xD83D]).unwrap(), from_units([0xDE00]).unwrap());
        assert_eq!(units(&high).collect::<Vec<_>>(), [0x61, 0xD83D]);
        assert_eq!(joined(format!("{high}{low}")).unwrap(), "a😀");
        assert_eq!(joined(format!("{low}{high}")).unwrap(), format!("{low}{high}"));
        for unit in [0xD800, 0xDBFF, 0xDC00, 0xDFFF] {
            assert_eq!(units(&from_units([unit]).unwrap()).collect::<Vec<_>>(), [unit]);
        }
        assert_eq!(from_units("\u{10F800}".encode_utf16()), None);
        assert_eq!(from_units("\u{10F7FF}".encode_utf16()).unwrap(), "\u{10F7FF}");
    }
}
