//! Shows payloads and outputs to people.

use clap::ValueEnum;
use readpast_web::payload_view::{dump, laid_out};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// indented JSON, other text as it is, otherwise hexadecimal digits
    Auto,
    /// text, even if it is not valid UTF-8
    Text,
    /// hexadecimal digits
    Hex,
}

/// The bytes in this form. `text` is the same as text, if valid.
pub fn shown(bytes: &[u8], text: Option<&str>, form: Form) -> String {
    match (form, text) {
        (Form::Auto, Some(text)) => printable(&laid_out(text).unwrap_or_else(|| text.to_owned())),
        (Form::Text, Some(text)) => printable(text),
        (Form::Text, None) => printable(&String::from_utf8_lossy(bytes)),
        (Form::Hex, _) | (Form::Auto, None) => dump(bytes),
    }
}

/// Escapes control characters: the text comes from producers.
pub fn printable(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if steers(c) => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    text.chars().map(plain).collect()
}

/// The same in one line: a newline or tab would look like another row or column.
pub fn in_line(text: &str) -> String {
    printable(&text.replace("\r\n", " ").replace(['\r', '\n', '\t'], " "))
}

/// Escapes control characters that JSON allows. They occur only within strings.
pub fn printable_json(json: &str) -> String {
    let plain = |c: char| if steers(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(plain).collect()
}

/// Whether a terminal may take the character as a command, or reorder the text after it.
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_and_bytes_are_dumped_and_nothing_steers_the_terminal() {
        let auto = |text: &str| shown(text.as_bytes(), Some(text), Form::Auto);
        assert_eq!(auto(r#"{"b":1,"a":[]}"#), "{\n  \"b\": 1,\n  \"a\": []\n}");
        assert_eq!(auto("{} and more"), "{} and more");
        assert_eq!(auto("17"), "17");
        assert_eq!(auto("a\u{1b}[2Jb\tc\n"), "a\\u{1b}[2Jb\tc\n");
        assert_eq!(auto("a\u{202e}b\u{2066}c\u{9b}"), "a\\u{202e}b\\u{2066}c\\u{9b}");
        assert_eq!(in_line("a\r\nb\tc\u{7}"), "a b c\\u{7}");
        let json = serde_json::to_string("a\u{9b}2J\u{202e}\u{1b}").unwrap();
        assert_eq!(printable_json(&json), r#""a\u009b2J\u202e\u001b""#);
        assert_eq!(serde_json::from_str::<String>(&printable_json(&json)).unwrap(), "a\u{9b}2J\u{202e}\u{1b}");
        assert_eq!(shown(&[0, 0x41, 0xff], None, Form::Auto), format!("00000000  {:47}  .A.", "00 41 ff"));
    }
}
