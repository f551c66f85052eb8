//! Calls of functions, CAST and CONVERT among them, and windows.

use crate::error::SqlResult;
use crate::tsql::ast::expression::{Expr, FunctionCall, Window};
use crate::tsql::ast::name::ObjectName;
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;
use crate::value::datetime::DatePart;

/// Functions that mean nothing without OVER.
const WINDOW_ONLY: &[&str] = &["ROW_NUMBER", "FIRST_VALUE"];

/// Functions that have words and colons among their arguments, in this version or a later one: FROM, LEADING,
/// RETURNING, NULL ON NULL, ORDER BY (docs/t-sql/functions/).
const WITH_CLAUSES: &[&str] =
    &["JSON_ARRAY", "JSON_ARRAYAGG", "JSON_OBJECT", "JSON_OBJECTAGG", "JSON_QUERY", "JSON_VALUE", "TRIM"];

impl Parser<'_> {
    /// The parentheses of a function call and what may follow them.
    pub(super) fn call(&mut self, name: ObjectName) -> SqlResult<Expr> {
        let line = self.line();
        self.expect_symbol(Symbol::LeftParen)?;
        let mut call = FunctionCall { name, distinct: false, star: false, arguments: Vec::new(), over: None };
        if self.is_symbol(Symbol::Star) {
            self.check_star_allowed(&call.name)?;
            self.advance();
            call.star = true;
        } else if self.accept("DISTINCT") {
            call.distinct = true;
            call.arguments.push(self.expression()?);
        } else if self.accept("ALL") {
            call.arguments.push(self.expression()?);
        } else if !self.is_symbol(Symbol::RightParen) {
            let has_schema = call.name.schema.is_some();
            call.arguments = self.comma_list(if has_schema { Self::function_argument } else { Self::expression })?;
        }
        let function = call.name.name.to_ascii_uppercase();
        let is_built_in = call.name.schema.is_none();
        if is_built_in && !self.is_symbol(Symbol::RightParen) && WITH_CLAUSES.contains(&function.as_str()) {
            return Err(self.unsupported(format!("clauses among the arguments of {function}")));
        }
        self.expect_symbol(Symbol::RightParen)?;
        if self.is_one_of(&["IGNORE", "RESPECT"]) && self.is_ahead(1, "NULLS") {
            return Err(self.unsupported(format!("{} NULLS", self.keyword())));
        }
        if is_built_in && function == "REGEXP_LIKE" {
            return Err(self.unsupported("the function REGEXP_LIKE"));
        }
        if self.is("WITHIN") && self.is_ahead(1, "GROUP") {
            return Err(self.unsupported("WITHIN GROUP"));
        }
        if self.is("OVER") {
            call.over = Some(self.over()?);
        }
        if call.over.is_none() && is_built_in && WINDOW_ONLY.contains(&function.as_str()) {
            let message = format!("The function '{}' must have an OVER clause.", call.name.name);
            return Err(self.error(10753, message).at_line(line));
        }
        if self.is_symbol(Symbol::Dot) {
            return Err(self.unsupported("methods of a value"));
        }
        Ok(Expr::Function(Box::new(call)))
    }

    /// DEFAULT or a value, for a function of a schema.
    pub(super) fn function_argument(&mut self) -> SqlResult<Expr> {
        if self.accept("DEFAULT") { Ok(Expr::Default) } else { self.expression() }
    }

    /// Only `COUNT(*)` and `COUNT_BIG(*)` count rows; `CHECKSUM(*)` means all columns.
    fn check_star_allowed(&self, name: &ObjectName) -> SqlResult<()> {
        let is_plain = name.schema.is_none() && self.is_bare_name_before_parenthesis();
        match name.name.to_ascii_uppercase().as_str() {
            "COUNT" | "COUNT_BIG" if is_plain => Ok(()),
            "CHECKSUM" | "BINARY_CHECKSUM" if is_plain => Err(self.unsupported("CHECKSUM(*)")),
            _ => Err(self.unexpected()),
        }
    }

    /// `[COUNT](*)` is no aggregate.
    fn is_bare_name_before_parenthesis(&self) -> bool {
        self.next >= 2 && matches!(self.tokens[self.next - 2].kind, TokenKind::Word { .. })
    }

    pub(super) fn over(&mut self) -> SqlResult<Window> {
        self.expect("OVER")?;
        if !self.is_symbol(Symbol::LeftParen) && self.is_identifier() {
            return Err(self.unsupported("named windows"));
        }
        self.expect_symbol(Symbol::LeftParen)?;
        let mut partition_by = Vec::new();
        if self.accept("PARTITION") {
            self.expect("BY")?;
            partition_by = self.comma_list(Self::expression)?;
        }
        let order_by = if self.is("ORDER") { self.order_by()? } else { Vec::new() };
        if self.is_one_of(&["ROWS", "RANGE"]) {
            return Err(self.unsupported("ROWS and RANGE in OVER"));
        }
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Window { partition_by, order_by })
    }

    pub(super) fn cast(&mut self, attempt: bool) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let expr = Box::new(self.expression()?);
        self.expect("AS")?;
        let to = self.type_name()?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Cast { attempt, expr, to })
    }

    pub(super) fn convert(&mut self, attempt: bool) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let to = self.type_name()?;
        self.expect_symbol(Symbol::Comma)?;
        let expr = Box::new(self.expression()?);
        let style = if self.accept_symbol(Symbol::Comma) { Some(Box::new(self.expression()?)) } else { None };
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Convert { attempt, to, expr, style })
    }

    /// `DATEADD(part, …)` and its like: the first argument is a word, never a value.
    pub(super) fn date_function(&mut self) -> SqlResult<Expr> {
        let function = self.keyword();
        let name = self.object_name()?;
        self.expect_symbol(Symbol::LeftParen)?;
        let part = self.date_part(&function)?;
        let mut arguments = vec![Expr::DatePart(part)];
        while self.accept_symbol(Symbol::Comma) {
            arguments.push(self.expression()?);
        }
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Function(Box::new(FunctionCall { name, distinct: false, star: false, arguments, over: None })))
    }

    /// A date part or one of its abbreviations ("DATEADD", docs/t-sql/functions/dateadd-transact-sql.md).
    fn date_part(&mut self, function: &str) -> SqlResult<DatePart> {
        let function = function.to_ascii_lowercase();
        if !matches!(self.token().kind, TokenKind::Word { .. }) {
            let message = format!("Invalid parameter 1 specified for {function}.");
            return Err(self.error(1023, message));
        }
        let written = self.source(self.token());
        const OTHERS: &str = "quarter qq q dayofyear dy y weekday dw w microsecond mcs nanosecond ns";
        if OTHERS.split(' ').any(|other| written.eq_ignore_ascii_case(other)) {
            return Err(self.unsupported(format!("the date part {written}")));
        }
        let Some(part) = DatePart::parse(written) else {
            return Err(self.error(155, format!("'{written}' is not a recognized {function} option.")));
        };
        self.advance();
        Ok(part)
    }
}
