//! The lexer: T-SQL text in, tokens out. Comments and white space are dropped here; whether a word is a keyword or
//! a name is decided by the parser, except that the reserved words are marked.
//!
//! `QUOTED_IDENTIFIER` is taken to be ON: `"x"` is a name. (The parser refuses to switch it off.)

mod reserved_word;
pub mod scan;
pub mod syntax_error;
#[cfg(test)]
mod tests;
pub mod token;
