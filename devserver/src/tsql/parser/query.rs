//! SELECT: common table expressions, set operations, the clauses of one SELECT, and where assignments and INTO can
//! stand.

use crate::error::SqlResult;
use crate::tsql::ast::expression::Expr;
use crate::tsql::ast::name::ObjectName;
use crate::tsql::ast::query::{
    AssignOp, Cte, Offset, Query, QueryBody, Select, SelectItem, SelectStatement, SetOperator,
};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::{MAX_NESTED_QUERIES, Parser};
use crate::value::BinaryOp;

impl Parser<'_> {
    // The statement

    /// A SELECT whose CTEs have been read; it begins with SELECT or a parenthesis.
    pub(super) fn select_statement(&mut self, ctes: Vec<Cte>) -> SqlResult<SelectStatement> {
        let body = self.query_body()?;
        let query = self.ordered(body)?;
        self.check_outermost(&query)?;
        let loop_joins = self.query_hints()?;
        Ok(SelectStatement { ctes, query, loop_joins })
    }

    /// The query of an INSERT: it can be ordered freely, but neither assigns nor creates a table.
    pub(super) fn insert_query(&mut self) -> SqlResult<Query> {
        let body = self.query_body()?;
        self.check_nested_selects(&body)?;
        self.ordered(body)
    }

    /// `WITH name [(columns)] AS (query), …`; nothing if there is no WITH.
    pub(super) fn common_table_expressions(&mut self) -> SqlResult<Vec<Cte>> {
        if !self.accept("WITH") {
            return Ok(Vec::new());
        }
        if self.is_one_of(&["XMLNAMESPACES", "CHANGE_TRACKING_CONTEXT"]) && self.is_symbol_ahead(1, Symbol::LeftParen) {
            return Err(self.unsupported(format!("WITH {}", self.keyword())));
        }
        let mut names: Vec<String> = Vec::new();
        self.comma_list(|p| {
            let name = p.identifier()?;
            if names.contains(&name.to_lowercase()) {
                let message = format!("Duplicate common table expression name '{name}' was specified.");
                return Err(p.error(239, message).severity(16));
            }
            names.push(name.to_lowercase());
            let columns = if p.is_symbol(Symbol::LeftParen) { p.identifier_list()? } else { Vec::new() };
            p.expect("AS")?;
            let query = p.subquery()?;
            Ok(Cte { name, columns, query })
        })
    }

    /// A query in parentheses: a subquery, derived table or CTE.
    pub(super) fn subquery(&mut self) -> SqlResult<Query> {
        self.expect_symbol(Symbol::LeftParen)?;
        if self.open_queries == MAX_NESTED_QUERIES {
            return Err(self.too_complex());
        }
        self.open_queries += 1;
        let query = self.deeper(Self::nested_query)?;
        self.open_queries -= 1;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(query)
    }

    /// The query of a subquery without its parentheses; that of a view too.
    pub(super) fn nested_query(&mut self) -> SqlResult<Query> {
        let body = self.query_body()?;
        self.check_nested_selects(&body)?;
        let line = self.line();
        let query = self.ordered(body)?;
        let has_top = matches!(&query.body, QueryBody::Select(select) if select.top.is_some());
        if !query.order_by.is_empty() && query.offset.is_none() && !has_top {
            let message = "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common \
                           table expressions, unless TOP, OFFSET or FOR XML is also specified.";
            return Err(self.error(1033, message).at_line(line));
        }
        Ok(query)
    }

    // Set operations

    fn query_body(&mut self) -> SqlResult<QueryBody> {
        let mut left = self.query_term()?;
        loop {
            if self.is_one_of(&["EXCEPT", "INTERSECT"]) {
                return Err(self.unsupported(self.keyword()));
            }
            if !self.accept("UNION") {
                return Ok(left);
            }
            let op = if self.accept("ALL") { SetOperator::UnionAll } else { SetOperator::Union };
            self.count_combined()?;
            let right = self.query_term()?;
            left = QueryBody::SetOperation { op, left: Box::new(left), right: Box::new(right) };
        }
    }

    fn query_term(&mut self) -> SqlResult<QueryBody> {
        if self.accept_symbol(Symbol::LeftParen) {
            let body = self.deeper(Self::query_body)?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(body);
        }
        Ok(QueryBody::Select(Box::new(self.select()?)))
    }

    fn ordered(&mut self, body: QueryBody) -> SqlResult<Query> {
        let mut query = Query { body, order_by: Vec::new(), offset: None };
        if self.is("ORDER") {
            query.order_by = self.order_by()?;
            if self.accept("OFFSET") {
                query.offset = Some(self.rest_of_offset()?);
            }
        }
        if self.is("FOR") && ["XML", "JSON", "BROWSE"].iter().any(|format| self.is_ahead(1, format)) {
            return Err(self.unsupported("FOR XML, FOR JSON and FOR BROWSE"));
        }
        let has_top = matches!(&query.body, QueryBody::Select(select) if select.top.is_some());
        if has_top && query.offset.is_some() {
            let message = "A TOP can not be used in the same query or sub-query as a OFFSET.";
            return Err(self.error(10741, message));
        }
        Ok(query)
    }

    fn rest_of_offset(&mut self) -> SqlResult<Offset> {
        let skip = self.expression()?;
        self.row_or_rows()?;
        let mut fetch = None;
        if self.accept("FETCH") {
            if !self.accept("NEXT") {
                self.expect("FIRST")?;
            }
            fetch = Some(self.expression()?);
            self.row_or_rows()?;
            self.expect("ONLY")?;
        }
        Ok(Offset { skip, fetch })
    }

    fn row_or_rows(&mut self) -> SqlResult<()> {
        if self.accept("ROW") { Ok(()) } else { self.expect("ROWS") }
    }

    // Where assignments and INTO can stand

    fn check_outermost(&self, query: &Query) -> SqlResult<()> {
        let QueryBody::Select(select) = &query.body else {
            let selects = selects_of(&query.body);
            let has_into = selects.iter().skip(1).any(|select| select.into.is_some());
            if has_into || selects.iter().any(|select| assigns(select)) {
                return Err(self.unsupported("assignments, and INTO but at the first SELECT, in a set operation"));
            }
            return Ok(());
        };
        let assignments = select.items.iter().filter(|item| matches!(item, SelectItem::Assign { .. })).count();
        if assignments > 0 && assignments < select.items.len() {
            let message = "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval \
                           operations.";
            return Err(self.error(141, message));
        }
        if assignments > 0 && select.into.is_some() {
            return Err(self.error(156, "Incorrect syntax near the keyword 'INTO'."));
        }
        Ok(())
    }

    fn check_nested_selects(&self, body: &QueryBody) -> SqlResult<()> {
        for select in selects_of(body) {
            if assigns(select) {
                return Err(self.error(102, "Incorrect syntax near '='."));
            }
            if select.into.is_some() {
                return Err(self.error(156, "Incorrect syntax near the keyword 'INTO'."));
            }
        }
        Ok(())
    }

    // One SELECT

    fn select(&mut self) -> SqlResult<Select> {
        self.expect("SELECT")?;
        let distinct = self.accept("DISTINCT");
        if !distinct {
            self.accept("ALL");
        }
        let top = self.select_top()?;
        let items = self.comma_list(Self::select_item)?;
        let into = if self.accept("INTO") { Some(self.object_name()?) } else { None };
        if into.as_ref().is_some_and(|into| !into.name.starts_with('#')) {
            return Err(self.unsupported("SELECT … INTO a table that is no #temp table"));
        }
        let from = self.optional_from()?;
        let condition = if self.accept("WHERE") { Some(self.search_condition()?) } else { None };
        let group_by = if self.is("GROUP") { self.group_by()? } else { Vec::new() };
        let having = if self.accept("HAVING") { Some(self.search_condition()?) } else { None };
        Ok(Select { distinct, top, items, into, from, condition, group_by, having })
    }

    /// `TOP (expression)`, or the old `TOP n`.
    fn select_top(&mut self) -> SqlResult<Option<Expr>> {
        if !self.is("TOP") {
            return Ok(None);
        }
        if self.is_symbol_ahead(1, Symbol::LeftParen) {
            self.advance();
            let count = self.count_in_parentheses()?;
            return self.plain_top(count);
        }
        self.advance();
        if self.is_ahead(1, "PERCENT") {
            return Err(self.unsupported("TOP … PERCENT"));
        }
        let is_number = self.token().kind == TokenKind::Integer;
        match self.accept_literal()? {
            Some(literal) if is_number => self.plain_top(Expr::Literal(literal)),
            _ => Err(self.unexpected()),
        }
    }

    fn plain_top(&self, count: Expr) -> SqlResult<Option<Expr>> {
        if self.is("PERCENT") {
            return Err(self.unsupported("TOP … PERCENT"));
        }
        if self.is("WITH") && self.is_ahead(1, "TIES") {
            return Err(self.unsupported("TOP … WITH TIES"));
        }
        Ok(Some(count))
    }

    fn count_in_parentheses(&mut self) -> SqlResult<Expr> {
        self.expect_symbol(Symbol::LeftParen)?;
        let count = self.expression()?;
        self.expect_symbol(Symbol::RightParen)?;
        Ok(count)
    }

    /// `TOP (expression)` as INSERT, UPDATE, DELETE and MERGE have it.
    pub(super) fn parenthesised_top(&mut self) -> SqlResult<Option<Expr>> {
        if !self.accept("TOP") {
            return Ok(None);
        }
        let count = self.count_in_parentheses()?;
        self.plain_top(count)
    }

    fn select_item(&mut self) -> SqlResult<SelectItem> {
        if self.is_variable()
            && let Some(op) = self.assignment_op_ahead(1)
        {
            let variable = self.variable()?;
            self.advance();
            let value = self.expression()?;
            return Ok(SelectItem::Assign { variable, op, value });
        }
        let names_alias = self.is_identifier() || self.is_string();
        if names_alias && self.is_symbol_ahead(1, Symbol::Equal) {
            let alias = if self.is_string() { self.string()? } else { self.identifier()? };
            self.advance();
            let expr = self.expression()?;
            return Ok(SelectItem::Expr { expr, alias: Some(alias) });
        }
        self.output_item()
    }

    /// An element of an OUTPUT clause: as of a select list, but neither `alias = expr` nor an assignment.
    pub(super) fn output_item(&mut self) -> SqlResult<SelectItem> {
        if self.accept_symbol(Symbol::Star) {
            return Ok(SelectItem::Wildcard { table: None });
        }
        if let Some(table) = self.accept_qualified_wildcard()? {
            return Ok(SelectItem::Wildcard { table: Some(table) });
        }
        let expr = self.expression()?;
        let explicit = self.accept("AS");
        let alias = if self.is_string() {
            Some(self.string()?)
        } else if explicit || self.is_identifier() {
            Some(self.identifier()?)
        } else {
            None
        };
        Ok(SelectItem::Expr { expr, alias })
    }

    /// `t.*`: names and dots up to a star.
    fn accept_qualified_wildcard(&mut self) -> SqlResult<Option<ObjectName>> {
        let mut distance = 0;
        while self.is_identifier_ahead(distance) && self.is_symbol_ahead(distance + 1, Symbol::Dot) {
            distance += 2;
        }
        if distance == 0 || !self.is_symbol_ahead(distance, Symbol::Star) {
            return Ok(None);
        }
        let mut parts = Vec::new();
        while !self.accept_symbol(Symbol::Star) {
            parts.push(Some(self.identifier()?));
            self.expect_symbol(Symbol::Dot)?;
        }
        self.name_of_parts(parts).map(Some)
    }

    /// Which assignment stands `distance` tokens ahead, if any.
    pub(super) fn assignment_op_ahead(&self, distance: usize) -> Option<AssignOp> {
        let TokenKind::Symbol(symbol) = self.ahead(distance).kind else {
            return None;
        };
        let op = match symbol {
            Symbol::Equal => return Some(AssignOp::Set),
            Symbol::PlusEqual => BinaryOp::Add,
            Symbol::MinusEqual => BinaryOp::Subtract,
            _ => return None,
        };
        Some(AssignOp::Compound(op))
    }

    fn group_by(&mut self) -> SqlResult<Vec<Expr>> {
        self.expect_all(&["GROUP", "BY"])?;
        let advanced = ["ROLLUP", "CUBE", "GROUPING"].iter().any(|word| self.is(word))
            || (self.is_symbol(Symbol::LeftParen) && self.is_symbol_ahead(1, Symbol::RightParen))
            || self.is("ALL");
        if advanced {
            return Err(self.unsupported("grouping sets"));
        }
        let items = self.comma_list(Self::expression)?;
        if self.is("WITH") && (self.is_ahead(1, "ROLLUP") || self.is_ahead(1, "CUBE")) {
            return Err(self.unsupported("grouping sets"));
        }
        Ok(items)
    }
}

pub(super) fn assigns(select: &Select) -> bool {
    select.items.iter().any(|item| matches!(item, SelectItem::Assign { .. }))
}

/// Every SELECT of a set operation, in the order written.
pub(super) fn selects_of(body: &QueryBody) -> Vec<&Select> {
    let mut selects = Vec::new();
    let mut pending = vec![body];
    while let Some(body) = pending.pop() {
        match body {
            QueryBody::Select(select) => selects.push(select.as_ref()),
            QueryBody::SetOperation { left, right, .. } => {
                pending.push(right);
                pending.push(left);
            }
        }
    }
    selects
}
