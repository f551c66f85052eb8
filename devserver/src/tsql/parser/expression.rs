//! Scalar expressions.
//!
//! Precedence ("Operator precedence", docs/t-sql/language-elements/operator-precedence-transact-sql.md): `~` binds
//! tightest, then `* / %`, then the signs and `+ - & ^ |`, then comparisons, NOT, AND, OR (see `condition`). That a
//! sign binds looser than `*` is T-SQL's own: `-a * b` is `-(a * b)`, and `100 / -b * c` is `100 / -(b * c)`.

use crate::error::SqlResult;
use crate::tsql::ast::expression::{Expr, FunctionCall};
use crate::tsql::ast::name::{ColumnRef, Ident, ObjectName};
use crate::tsql::ast::query::OrderItem;
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;
use crate::value::BinaryOp;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> SqlResult<Expr> {
        self.within_expression(|p| {
            let first = p.product()?;
            p.rest_of_sum(first)
        })
    }

    pub(super) fn within_expression<T>(&mut self, parse: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.open_expressions == 0 {
            self.operators = 0;
        }
        self.open_expressions += 1;
        let result = self.deeper(parse);
        self.open_expressions -= 1;
        result
    }

    pub(super) fn rest_of_sum(&mut self, mut left: Expr) -> SqlResult<Expr> {
        loop {
            let op = match self.token().kind {
                TokenKind::Symbol(Symbol::Plus) => BinaryOp::Add,
                TokenKind::Symbol(Symbol::Minus) => BinaryOp::Subtract,
                TokenKind::Symbol(Symbol::Ampersand) => BinaryOp::BitAnd,
                _ => return Ok(left),
            };
            self.count_operator()?;
            self.advance();
            let first = self.operand()?;
            let right = self.rest_of_product(first)?;
            left = Expr::Binary { op, left: Box::new(left), right: Box::new(right) };
        }
    }

    fn product(&mut self) -> SqlResult<Expr> {
        let first = self.operand()?;
        self.rest_of_product(first)
    }

    pub(super) fn rest_of_product(&mut self, mut left: Expr) -> SqlResult<Expr> {
        loop {
            let op = match self.token().kind {
                TokenKind::Symbol(Symbol::Star) => BinaryOp::Multiply,
                TokenKind::Symbol(Symbol::Slash) => BinaryOp::Divide,
                TokenKind::Symbol(Symbol::Percent) => BinaryOp::Modulo,
                TokenKind::Symbol(same @ (Symbol::Less | Symbol::Greater)) if self.is_symbol_ahead(1, same) => {
                    return Err(self.unsupported("<< and >>"));
                }
                _ => return Ok(left),
            };
            self.count_operator()?;
            self.advance();
            let right = self.operand()?;
            left = Expr::Binary { op, left: Box::new(left), right: Box::new(right) };
        }
    }

    /// What a sign stands before.
    fn signed_product(&mut self) -> SqlResult<Expr> {
        let first = self.operand()?;
        self.rest_of_product(first)
    }

    pub(super) fn operand(&mut self) -> SqlResult<Expr> {
        if self.is_symbol(Symbol::Plus) {
            return Err(self.unsupported("a sign +"));
        }
        if self.accept_symbol(Symbol::Minus) {
            return Ok(Expr::Negative(Box::new(self.deeper(Self::signed_product)?)));
        }
        let primary = self.primary()?;
        self.collated(primary)
    }

    pub(super) fn collated(&mut self, mut expr: Expr) -> SqlResult<Expr> {
        while self.accept("COLLATE") {
            self.count_operator()?;
            let collation = self.identifier()?;
            expr = Expr::Collate { expr: Box::new(expr), collation };
        }
        if self.is("AT") && self.is_ahead(1, "TIME") && self.is_ahead(2, "ZONE") {
            return Err(self.unsupported("AT TIME ZONE"));
        }
        Ok(expr)
    }

    fn primary(&mut self) -> SqlResult<Expr> {
        if let Some(literal) = self.accept_literal()? {
            return Ok(Expr::Literal(literal));
        }
        match self.token().kind {
            TokenKind::Variable => {
                let name = self.variable()?;
                if self.is_symbol(Symbol::Dot) {
                    return Err(self.unsupported("methods of a variable"));
                }
                Ok(Expr::Variable(name))
            }
            TokenKind::GlobalVariable => {
                let name = Ident::from(self.source(self.token()));
                self.advance();
                Ok(Expr::GlobalVariable(name))
            }
            TokenKind::Symbol(Symbol::LeftParen) => self.parenthesised_value(),
            TokenKind::QuotedName(_) => self.name_or_call(),
            TokenKind::Word { reserved: false } => self.word_expression(),
            TokenKind::Word { reserved: true } => self.reserved_expression(),
            _ => Err(self.unexpected()),
        }
    }

    /// `(query)`, or `(expression)`. `((SELECT 1) UNION …)` begins like an expression.
    fn parenthesised_value(&mut self) -> SqlResult<Expr> {
        if self.is_ahead(1, "SELECT") {
            return Ok(Expr::Subquery(Box::new(self.subquery()?)));
        }
        self.expect_symbol(Symbol::LeftParen)?;
        let inner = self.expression()?;
        let inner = self.rest_of_query_value(inner)?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(inner)
    }

    /// A parenthesised query can go on as a set operation.
    pub(super) fn rest_of_query_value(&mut self, inner: Expr) -> SqlResult<Expr> {
        if !self.is_one_of(&["UNION", "EXCEPT", "INTERSECT"]) {
            return Ok(inner);
        }
        Err(self.unsupported("a value that begins with a query in parentheses"))
    }

    /// An expression that begins with a word which is no reserved one.
    fn word_expression(&mut self) -> SqlResult<Expr> {
        if !self.is_symbol_ahead(1, Symbol::LeftParen) {
            if self.is("NEXT") && self.is_ahead(1, "VALUE") && self.is_ahead(2, "FOR") {
                return self.next_value_for();
            }
            return self.name_or_call();
        }
        match self.keyword().as_str() {
            "CAST" => self.cast(false),
            "TRY_CAST" => self.cast(true),
            "IIF" => self.iif(),
            "PARSE" | "TRY_PARSE" => Err(self.unsupported(self.keyword())),
            "DATEADD" | "DATEDIFF" | "DATEDIFF_BIG" => self.date_function(),
            _ => self.name_or_call(),
        }
    }

    /// An expression that begins with a reserved word.
    fn reserved_expression(&mut self) -> SqlResult<Expr> {
        let keyword = self.keyword();
        match keyword.as_str() {
            "CASE" => self.case(),
            "CONVERT" => self.convert(false),
            "TRY_CONVERT" => self.convert(true),
            "COALESCE" => self.coalesce(),
            "NULLIF" => self.nullif(),
            "LEFT" | "RIGHT" if self.is_symbol_ahead(1, Symbol::LeftParen) => {
                let name = Ident::from(self.source(self.token()));
                self.advance();
                self.call(ObjectName { server: None, database: None, schema: None, name })
            }
            "CURRENT_TIMESTAMP" | "CURRENT_USER" | "SESSION_USER" | "SYSTEM_USER" | "USER" => {
                self.advance();
                let name = ObjectName { server: None, database: None, schema: None, name: Ident::from(keyword) };
                Ok(Expr::Function(Box::new(FunctionCall {
                    name,
                    distinct: false,
                    star: false,
                    arguments: Vec::new(),
                    over: None,
                })))
            }
            "IDENTITY" if self.is_symbol_ahead(1, Symbol::LeftParen) => Err(self.unsupported("the function IDENTITY")),
            "CURRENT_DATE" | "IDENTITYCOL" | "ROWGUIDCOL" => Err(self.unsupported(keyword)),
            _ => Err(self.unexpected()),
        }
    }

    /// A column, or a function if a parenthesis follows.
    fn name_or_call(&mut self) -> SqlResult<Expr> {
        let name = self.object_name()?;
        if self.is_symbol(Symbol::LeftParen) {
            return self.call(name);
        }
        if self.is_symbol(Symbol::DoubleColon) {
            return Err(self.unsupported("static methods (::)"));
        }
        Ok(Expr::Column(self.column_of(name)?))
    }

    /// The last part of a name as a column, the others as its table.
    fn column_of(&self, name: ObjectName) -> SqlResult<ColumnRef> {
        let is_qualified = name.database.is_some() || name.server.is_some();
        let table = match name.schema {
            Some(table) => Some(ObjectName { server: None, database: name.server, schema: name.database, name: table }),
            // `a..b`: a schema, but no table.
            None if is_qualified => return Err(self.error(102, "Incorrect syntax near '.'.")),
            None => None,
        };
        Ok(ColumnRef { table, name: name.name })
    }

    pub(super) fn column(&mut self) -> SqlResult<ColumnRef> {
        let name = self.object_name()?;
        self.column_of(name)
    }

    /// `ORDER BY …`.
    pub(super) fn order_by(&mut self) -> SqlResult<Vec<OrderItem>> {
        self.expect_all(&["ORDER", "BY"])?;
        self.comma_list(|p| {
            let expr = p.expression()?;
            let descending = p.accept("DESC");
            if !descending {
                p.accept("ASC");
            }
            Ok(OrderItem { expr, descending })
        })
    }

    fn next_value_for(&mut self) -> SqlResult<Expr> {
        self.expect_all(&["NEXT", "VALUE", "FOR"])?;
        let sequence = self.object_name()?;
        let over = if self.is("OVER") { Some(Box::new(self.over()?)) } else { None };
        Ok(Expr::NextValueFor { sequence, over })
    }
}
