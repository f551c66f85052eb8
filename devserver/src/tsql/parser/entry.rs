//! The ways into the parser.

use crate::error::SqlResult;
use crate::tsql::ast::expression::{Expr, Predicate};
use crate::tsql::ast::module::ParameterDef;
use crate::tsql::ast::statement::Statement;
use crate::tsql::parser::tokens::Parser;

/// Parses a batch as a client sends it, or a string that is executed: no procedure, so that RETURN takes no value
/// (178). `GO` is the client's word, not T-SQL's.
///
/// # Errors
/// SQL Server's syntax errors with their line, or the refusal of T-SQL that the dev server does not know.
pub fn parse_request(text: &str) -> SqlResult<Vec<Statement>> {
    let mut parser = Parser::new(text)?;
    parser.may_return_value = false;
    parser.batch()
}

/// Parses a list of parameters as `sp_executesql` takes it: `@a int, @b nvarchar(10) OUTPUT`. It may be empty.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_parameter_list(text: &str) -> SqlResult<Vec<ParameterDef>> {
    let mut parser = Parser::new(text)?;
    if parser.at_end() {
        return Ok(Vec::new());
    }
    let parameters = parser.parameters()?;
    parser.expect_end()?;
    Ok(parameters)
}

/// Parses a scalar expression that stands alone, such as a column's default.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_expression(text: &str) -> SqlResult<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expression()?;
    parser.expect_end()?;
    Ok(expr)
}

/// Parses a search condition that stands alone, such as that of a CHECK constraint.
///
/// # Errors
/// As [`parse_request`].
pub fn parse_predicate(text: &str) -> SqlResult<Predicate> {
    let mut parser = Parser::new(text)?;
    let condition = parser.search_condition()?;
    parser.expect_end()?;
    Ok(condition)
}
