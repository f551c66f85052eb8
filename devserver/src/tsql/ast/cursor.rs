//! Cursors.

use crate::tsql::ast::expression::Expr;
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::query::SelectStatement;

/// A cursor by name or in a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CursorName {
    Name { name: Ident, global: bool },
    Variable(Ident),
}

#[derive(Debug, Clone, PartialEq)]
pub struct CursorDefinition {
    /// In capitals, in the order written: `LOCAL`, `FAST_FORWARD`, `STATIC`, …
    pub options: Vec<Ident>,
    pub select: SelectStatement,
    /// `FOR UPDATE [OF columns]`; an empty list is all columns.
    pub for_update: Option<Vec<Ident>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fetch {
    pub direction: FetchDirection,
    pub cursor: CursorName,
    pub into: Vec<Ident>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FetchDirection {
    Next,
    Prior,
    First,
    Last,
    Absolute(Expr),
    Relative(Expr),
}
