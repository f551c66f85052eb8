//! What the tests of the parser share.

use crate::error::SqlResult;
use crate::tsql::ast::Statement;
use crate::tsql::parser::tokens::Parser;

pub fn batches(script: &str) -> impl Iterator<Item = &str> {
    script.split("\nGO\n")
}

/// Statements wherever they stand: RETURN may have a value.
pub fn parse_batch(text: &str) -> SqlResult<Vec<Statement>> {
    Parser::new(text)?.batch()
}

pub fn error_number(text: &str) -> i32 {
    match parse_batch(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.number,
    }
}
