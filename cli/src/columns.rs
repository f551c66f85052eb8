//! Text in columns: cut or padded to a width, without control characters.

use std::time::Duration;

use unicode_width::UnicodeWidthChar;

use crate::payload_text::steers;
use crate::texts;

/// Cuts a text to this many columns, with an ellipsis. Control characters become spaces, so no text of a producer
/// reaches the terminal as a command.
pub fn cut(text: &str, width: usize) -> String {
    let mut kept = String::new();
    let mut used = 0;
    // The text before the place for an ellipsis.
    let mut room_for_ellipsis = 0;
    for character in text.chars() {
        let character = if steers(character) { ' ' } else { character };
        let wide = character.width().unwrap_or(0);
        if used + wide > width {
            kept.truncate(room_for_ellipsis);
            if width > 0 {
                kept.push('…');
            }
            return kept;
        }
        kept.push(character);
        used += wide;
        if used < width {
            room_for_ellipsis = kept.len();
        }
    }
    kept
}

/// A text padded to this many columns.
pub fn left(text: &str, width: usize) -> String {
    let mut text = cut(text, width);
    let missing = width.saturating_sub(width_of(&text));
    text.extend(std::iter::repeat_n(' ', missing));
    text
}

/// A right-aligned text of this many columns.
pub fn right(text: &str, width: usize) -> String {
    let text = cut(text, width);
    format!("{}{text}", " ".repeat(width.saturating_sub(width_of(&text))))
}

/// The columns that a text takes.
pub fn width_of(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// Breaks a text at newlines and at the width, into at least one line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for line in text.lines() {
        let (mut part, mut used) = (String::new(), 0);
        for character in line.chars() {
            let character = if steers(character) { ' ' } else { character };
            let wide = character.width().unwrap_or(0);
            if used + wide > width {
                lines.push(std::mem::take(&mut part));
                used = 0;
            }
            part.push(character);
            used += wide;
        }
        lines.push(part);
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// A number in five columns: `9,999`, `12.3k`, `123k`, `1.2M`. It is never rounded up.
pub fn count(number: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", number / unit, number % unit * 10 / unit);
    match number {
        0..10_000 => texts::number(number),
        10_000..100_000 => format!("{}k", tenths(1_000)),
        100_000..1_000_000 => format!("{}k", number / 1_000),
        1_000_000..100_000_000 => format!("{}M", tenths(1_000_000)),
        100_000_000..1_000_000_000 => format!("{}M", number / 1_000_000),
        _ => format!("{}G", tenths(1_000_000_000)),
    }
}

/// A rate per second in five columns, or a dash.
pub fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 0.05 => "<0.1".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => count(rate.round() as u64),
    }
}

/// An age, or a dash.
pub fn age(age: Option<Duration>) -> String {
    texts::or_dash(age.map(texts::age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_the_columns_that_it_is_given() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("日本語日本", 6), "日本…");
        assert_eq!(cut("ab", 0), "");
        assert_eq!(left("ab", 4), "ab  ");
        assert_eq!(right("ab", 4), "  ab");
        assert_eq!(left("日本語", 4), "日… ");
        assert_eq!(cut("a\x1b[2Jb\r\n", 20), "a [2Jb  ");
        assert_eq!(wrapped("abcdef\n\nxy", 4), ["abcd", "ef", "", "xy"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn numbers_fit_into_five_columns() {
        let counts = [0, 9_999, 99_999, 999_999, 1_250_000, 99_990_000, 123_000_000, 1_500_000_000].map(count);
        assert_eq!(counts, ["0", "9,999", "99.9k", "999k", "1.2M", "99.9M", "123M", "1.5G"]);
        let rates = [None, Some(0.0), Some(0.04), Some(9.94), Some(123.4), Some(123_456.0)].map(rate);
        assert_eq!(rates, ["-", "0", "<0.1", "9.9", "123", "123k"]);
    }
}
