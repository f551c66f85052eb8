//! COALESCE, NULLIF, IIF and CASE.

use crate::error::SqlResult;
use crate::tsql::ast::expression::Expr;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

/// SQL Server's limit for CASE in CASE; COALESCE and IIF are CASE too, but only IIF counts
/// (docs/t-sql/functions/logical-functions-iif-transact-sql.md).
const MAX_CASE_NESTING: u32 = 10;

impl Parser<'_> {
    pub(super) fn coalesce(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let mut values = vec![self.expression()?];
        self.expect_symbol(Symbol::Comma)?;
        values.extend(self.comma_list(Self::expression)?);
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Coalesce(values))
    }

    pub(super) fn nullif(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let value = Box::new(self.expression()?);
        self.expect_symbol(Symbol::Comma)?;
        let null = Box::new(self.expression()?);
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::NullIf(value, null))
    }

    pub(super) fn iif(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.within_case(|p| {
            p.expect_symbol(Symbol::LeftParen)?;
            let condition = Box::new(p.search_condition()?);
            p.expect_symbol(Symbol::Comma)?;
            let then = Box::new(p.expression()?);
            p.expect_symbol(Symbol::Comma)?;
            let otherwise = Box::new(p.expression()?);
            p.expect_symbol(Symbol::RightParen)?;
            Ok(Expr::Iif { condition, then, otherwise })
        })
    }

    pub(super) fn case(&mut self) -> SqlResult<Expr> {
        self.expect("CASE")?;
        self.within_case(|p| if p.is("WHEN") { p.searched_case() } else { p.simple_case() })
    }

    fn within_case(&mut self, parse: impl FnOnce(&mut Self) -> SqlResult<Expr>) -> SqlResult<Expr> {
        if self.open_cases == MAX_CASE_NESTING {
            let message = format!("Case expressions may only be nested to level {MAX_CASE_NESTING}.");
            return Err(self.error(125, message));
        }
        self.open_cases += 1;
        let result = parse(self);
        self.open_cases -= 1;
        result
    }

    fn searched_case(&mut self) -> SqlResult<Expr> {
        let mut branches = Vec::new();
        while self.accept("WHEN") {
            let condition = self.search_condition()?;
            self.expect("THEN")?;
            branches.push((condition, self.expression()?));
        }
        let otherwise = self.end_of_case()?;
        Ok(Expr::SearchedCase { branches, otherwise })
    }

    fn simple_case(&mut self) -> SqlResult<Expr> {
        let operand = Box::new(self.expression()?);
        let mut branches = Vec::new();
        if !self.is("WHEN") {
            return Err(self.unexpected());
        }
        while self.accept("WHEN") {
            let value = self.expression()?;
            self.expect("THEN")?;
            branches.push((value, self.expression()?));
        }
        let otherwise = self.end_of_case()?;
        Ok(Expr::SimpleCase { operand, branches, otherwise })
    }

    fn end_of_case(&mut self) -> SqlResult<Option<Box<Expr>>> {
        let otherwise = if self.accept("ELSE") { Some(Box::new(self.expression()?)) } else { None };
        self.expect("END")?;
        Ok(otherwise)
    }
}
