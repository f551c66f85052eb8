//! The errors of lexer and parser, and what they show of the text.

use crate::error::SqlError;

/// How much of a too long or unclosed token is shown in the message.
const SHOWN_IN_MESSAGE: usize = 128;

/// An error of the lexer or parser: severity 15, "can be corrected by the user".
pub fn syntax_error(number: i32, message: String, line: u32) -> SqlError {
    SqlError::new(number, message).severity(15).at_line(line)
}

/// The beginning of a text that may be long, for a message.
pub fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_IN_MESSAGE).collect()
}
