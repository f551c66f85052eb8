//! Text, measured as SQL Server measures it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Decodes UTF-8, or UTF-16 (little endian) from a producer that enqueued `nvarchar`. The error says why it failed.
pub(crate) fn decode_text(bytes: &[u8], utf16: bool) -> Result<Cow<'_, str>, String> {
    if !utf16 {
        return match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(error) => Err(format!("not UTF-8: {error}")),
        };
    }
    let (pairs, odd_byte) = bytes.as_chunks::<2>();
    if !odd_byte.is_empty() {
        return Err("not UTF-16: its length is odd".to_string());
    }
    let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    match char::decode_utf16(units).collect::<Result<String, _>>() {
        Ok(text) => Ok(Cow::Owned(text)),
        Err(error) => Err(format!("not UTF-16: {error}")),
    }
}

/// Checks that `text` has 1 to `max_units` UTF-16 units, with no leading or trailing spaces, because SQL Server ignores
/// trailing spaces when it compares texts, and with no control characters, whose long escapes would not fit into the
/// details of a claim (sql/020_jobs.sql).
///
/// The error names `name` and says what is allowed.
pub(crate) fn check_name(name: &str, text: &str, max_units: usize) -> Result<(), String> {
    let units = text.encode_utf16().count();
    if units == 0 || units > max_units {
        return Err(format!("{name} has {units} UTF-16 units; it must have 1 to {max_units}"));
    }
    if let Some(control) = text.chars().find(|character| *character < ' ') {
        let code = u32::from(control);
        return Err(format!("{name} has the control character U+{code:04X}; it must have none (U+0000 to U+001F)"));
    }
    if text.trim() != text {
        return Err(format!("{name} is '{text}'; it must have no leading or trailing spaces"));
    }
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 + 2 * bytes.len());
    hex.push_str("0x");
    for byte in bytes {
        let _ = write!(hex, "{byte:02X}"); // a String takes everything
    }
    hex
}

/// The longest name of a queue, a worker or a schedule, in UTF-16 units: `nvarchar(128)`.
pub(crate) const MAX_NAME_UNITS: usize = 128;

/// The width of the column `error`, in UTF-16 units.
const MAX_ERROR_UNITS: usize = 4_000;

pub(crate) fn cut(error: &str) -> &str {
    cut_to(error, MAX_ERROR_UNITS)
}

/// Cuts a text to `max_units` UTF-16 units, without splitting a character.
pub(crate) fn cut_to(text: &str, max_units: usize) -> &str {
    let mut units = 0;
    for (position, character) in text.char_indices() {
        units += character.len_utf16();
        if units > max_units {
            return &text[..position];
        }
    }
    text
}

/// Returns the word of `words` for `meaning`, the inverse of [`Columns::one_of`].
pub(crate) fn word<T: PartialEq>(words: &[(&'static str, T)], meaning: T) -> &'static str {
    let (word, _) = words.iter().find(|(_, listed)| *listed == meaning).expect("each meaning has its word");
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_sql_server_shows_them() {
        assert_eq!(hex(b""), "0x");
        assert_eq!(hex(&[0x7B, 0x7D, 0x0A]), "0x7B7D0A");
    }
}

#[cfg(test)]
mod outcome_tests {
    use super::*;

    #[test]
    fn an_error_is_cut_to_the_column_at_a_character() {
        assert_eq!(cut("short"), "short");
        let exact = "🦀".repeat(2_000);
        assert_eq!(cut(&exact), exact);
        let long = format!("x{exact}");
        let kept = cut(&long);
        assert_eq!(kept.encode_utf16().count(), 3_999);
        assert!(long.starts_with(kept));
    }
}
