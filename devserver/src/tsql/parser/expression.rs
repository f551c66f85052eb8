//! Scalar expressions.
//!
//! Precedence ("Operator precedence", docs/t-sql/language-elements/operator-precedence-transact-sql.md): `~` binds
//! tightest, then `* / %`, then the signs and `+ - & ^ |`, then comparisons, NOT, AND, OR (see `condition`). That a
//! sign binds looser than `*` is T-SQL's own: `-a * b` is `-(a * b)`, and `100 / -b * c` is `100 / -(b * c)`.

use super::Parser;
use crate::error::SqlResult;
use crate::tsql::ast::{
    BinaryOp, ColumnRef, Expr, FrameBound, FunctionCall, Ident, ObjectName, OrderItem, UnaryOp, Window, WindowFrame,
};
use crate::tsql::lexer::{Symbol, TokenKind};
use crate::value::DatePart;

/// SQL Server's limit for CASE in CASE; COALESCE and IIF are CASE too, but only IIF counts
/// (docs/t-sql/functions/logical-functions-iif-transact-sql.md).
const MAX_CASE_NESTING: u32 = 10;

/// Functions that mean nothing without OVER.
const WINDOW_ONLY: &[&str] = &[
    "ROW_NUMBER",
    "RANK",
    "DENSE_RANK",
    "NTILE",
    "LAG",
    "LEAD",
    "FIRST_VALUE",
    "LAST_VALUE",
    "CUME_DIST",
    "PERCENT_RANK",
];

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
                TokenKind::Symbol(Symbol::Caret) => BinaryOp::BitXor,
                TokenKind::Symbol(Symbol::Pipe) => BinaryOp::BitOr,
                _ => return Ok(left),
            };
            self.count_operator()?;
            self.advance();
            let right = self.product()?;
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
                _ => return Ok(left),
            };
            self.count_operator()?;
            self.advance();
            let right = self.operand()?;
            left = Expr::Binary { op, left: Box::new(left), right: Box::new(right) };
        }
    }

    fn operand(&mut self) -> SqlResult<Expr> {
        let op = match self.token().kind {
            TokenKind::Symbol(Symbol::Minus) => UnaryOp::Minus,
            TokenKind::Symbol(Symbol::Plus) => UnaryOp::Plus,
            TokenKind::Symbol(Symbol::Tilde) => UnaryOp::BitNot,
            _ => {
                let primary = self.primary()?;
                return self.collated(primary);
            }
        };
        self.advance();
        let operand = match op {
            UnaryOp::BitNot => self.deeper(Self::operand)?,
            UnaryOp::Minus | UnaryOp::Plus => self.deeper(Self::product)?,
        };
        Ok(Expr::Unary { op, operand: Box::new(operand) })
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
            TokenKind::PseudoColumn => self.pseudo_column(),
            TokenKind::Symbol(Symbol::LeftParen) => self.parenthesised_value(),
            TokenKind::QuotedName(_) => self.name_or_call(),
            TokenKind::Word { reserved: false } => self.word_expression(),
            TokenKind::Word { reserved: true } => self.reserved_expression(),
            _ => Err(self.unexpected()),
        }
    }

    fn pseudo_column(&mut self) -> SqlResult<Expr> {
        let name = self.source(self.token());
        if !name.eq_ignore_ascii_case("$action") {
            return Err(self.unsupported(format!("the pseudo-column {name}")));
        }
        self.advance();
        Ok(Expr::MergeAction)
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
        match inner {
            Expr::Subquery(query) if query.order_by.is_empty() => {
                let query = self.rest_of_nested_query(query.body)?;
                Ok(Expr::Subquery(Box::new(query)))
            }
            _ => Err(self.unexpected()),
        }
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
            "DATEADD" | "DATEDIFF" | "DATEDIFF_BIG" | "DATEPART" | "DATENAME" => self.date_function(),
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
                    within_group: Vec::new(),
                    over: None,
                })))
            }
            "IDENTITY" if self.is_symbol_ahead(1, Symbol::LeftParen) => Err(self.unsupported("the function IDENTITY")),
            "IDENTITYCOL" | "ROWGUIDCOL" => Err(self.unsupported(keyword)),
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

    /// The parentheses of a function call and what may follow them.
    fn call(&mut self, name: ObjectName) -> SqlResult<Expr> {
        let line = self.line();
        self.expect_symbol(Symbol::LeftParen)?;
        let mut call = FunctionCall {
            name,
            distinct: false,
            star: false,
            arguments: Vec::new(),
            within_group: Vec::new(),
            over: None,
        };
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
            call.arguments = self.comma_list(Self::expression)?;
        }
        self.expect_symbol(Symbol::RightParen)?;
        if self.is("WITHIN") && self.is_ahead(1, "GROUP") {
            self.expect_all(&["WITHIN", "GROUP"])?;
            self.expect_symbol(Symbol::LeftParen)?;
            call.within_group = self.order_by()?;
            self.expect_symbol(Symbol::RightParen)?;
        }
        if self.is("OVER") {
            call.over = Some(self.over()?);
        }
        let function = call.name.name.to_ascii_uppercase();
        if call.over.is_none() && call.name.schema.is_none() && WINDOW_ONLY.contains(&function.as_str()) {
            let message = format!("The function '{}' must have an OVER clause.", call.name.name);
            return Err(self.error(10753, message).at_line(line));
        }
        if self.is_symbol(Symbol::Dot) {
            return Err(self.unsupported("methods of a value"));
        }
        Ok(Expr::Function(Box::new(call)))
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

    fn over(&mut self) -> SqlResult<Window> {
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
        let frame = if self.is_one_of(&["ROWS", "RANGE"]) { Some(self.window_frame()?) } else { None };
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Window { partition_by, order_by, frame })
    }

    fn window_frame(&mut self) -> SqlResult<WindowFrame> {
        let rows = self.accept("ROWS");
        if !rows {
            self.expect("RANGE")?;
        }
        if !self.accept("BETWEEN") {
            return Ok(WindowFrame { rows, start: self.frame_bound()?, end: FrameBound::CurrentRow });
        }
        let start = self.frame_bound()?;
        self.expect("AND")?;
        Ok(WindowFrame { rows, start, end: self.frame_bound()? })
    }

    fn frame_bound(&mut self) -> SqlResult<FrameBound> {
        if self.accept("CURRENT") {
            self.expect("ROW")?;
            return Ok(FrameBound::CurrentRow);
        }
        let count = if self.accept("UNBOUNDED") { None } else { Some(self.unsigned()?) };
        let follows = self.accept("FOLLOWING");
        if !follows {
            self.expect("PRECEDING")?;
        }
        Ok(match (count, follows) {
            (None, false) => FrameBound::UnboundedPreceding,
            (None, true) => FrameBound::UnboundedFollowing,
            (Some(rows), false) => FrameBound::Preceding(rows),
            (Some(rows), true) => FrameBound::Following(rows),
        })
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

    fn cast(&mut self, attempt: bool) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let expr = Box::new(self.expression()?);
        self.expect("AS")?;
        let to = self.type_name()?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Cast { attempt, expr, to })
    }

    fn convert(&mut self, attempt: bool) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let to = self.type_name()?;
        self.expect_symbol(Symbol::Comma)?;
        let expr = Box::new(self.expression()?);
        let style = if self.accept_symbol(Symbol::Comma) { Some(Box::new(self.expression()?)) } else { None };
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Convert { attempt, to, expr, style })
    }

    fn coalesce(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let mut values = vec![self.expression()?];
        self.expect_symbol(Symbol::Comma)?;
        values.extend(self.comma_list(Self::expression)?);
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Coalesce(values))
    }

    fn nullif(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect_symbol(Symbol::LeftParen)?;
        let value = Box::new(self.expression()?);
        self.expect_symbol(Symbol::Comma)?;
        let null = Box::new(self.expression()?);
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::NullIf(value, null))
    }

    fn iif(&mut self) -> SqlResult<Expr> {
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

    fn case(&mut self) -> SqlResult<Expr> {
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

    /// `DATEADD(part, …)` and its like: the first argument is a word, never a value.
    fn date_function(&mut self) -> SqlResult<Expr> {
        let function = self.keyword();
        let name = self.object_name()?;
        self.expect_symbol(Symbol::LeftParen)?;
        let part = self.date_part(&function)?;
        let mut arguments = vec![Expr::DatePart(part)];
        while self.accept_symbol(Symbol::Comma) {
            arguments.push(self.expression()?);
        }
        self.expect_symbol(Symbol::RightParen)?;
        Ok(Expr::Function(Box::new(FunctionCall {
            name,
            distinct: false,
            star: false,
            arguments,
            within_group: Vec::new(),
            over: None,
        })))
    }

    /// A date part or one of its abbreviations ("DATEPART", docs/t-sql/functions/datepart-transact-sql.md).
    fn date_part(&mut self, function: &str) -> SqlResult<DatePart> {
        let function = function.to_ascii_lowercase();
        if !matches!(self.token().kind, TokenKind::Word { .. }) {
            let message = format!("Invalid parameter 1 specified for {function}.");
            return Err(self.error(1023, message));
        }
        let written = self.source(self.token());
        let names_a_part = matches!(function.as_str(), "datepart" | "datename");
        let part = DatePart::parse(written, &function)
            .ok()
            .filter(|part| names_a_part || !matches!(part, DatePart::TzOffset | DatePart::IsoWeek));
        let Some(part) = part else {
            return Err(self.error(155, format!("'{written}' is not a recognized {function} option.")));
        };
        self.advance();
        Ok(part)
    }
}
