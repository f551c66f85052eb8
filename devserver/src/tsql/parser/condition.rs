//! Search conditions, and the simpler ones of filtered indexes.
//!
//! An opening parenthesis in a search condition can begin a condition or a value; which of the two is known at its
//! end only, so that what is inside is read as either.

use crate::error::SqlResult;
use crate::tsql::ast::expression::{CompareOp, Expr, Literal, Predicate};
use crate::tsql::ast::name::{ColumnRef, ObjectName};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;

/// What stands between parentheses in a search condition. Boxed, for every level of nesting keeps several of them on
/// the stack.
enum Either {
    Value(Box<Expr>),
    Condition(Box<Predicate>),
}

impl Parser<'_> {
    pub(super) fn search_condition(&mut self) -> SqlResult<Predicate> {
        let found = self.disjunction(false)?;
        Ok(*self.condition_of(found)?)
    }

    /// A value where a condition is needed is an error at what follows the value.
    fn condition_of(&self, found: Either) -> SqlResult<Box<Predicate>> {
        match found {
            Either::Condition(condition) => Ok(condition),
            Either::Value(_) => Err(self.unexpected()),
        }
    }

    /// Conditions joined by OR; with `value_allowed` a mere value too.
    fn disjunction(&mut self, value_allowed: bool) -> SqlResult<Either> {
        self.within_expression(|p| {
            let first = p.conjunction(value_allowed)?;
            if !p.is("OR") {
                return Ok(first);
            }
            let mut terms = Vec::new();
            add_or_terms(&mut terms, *p.condition_of(first)?);
            while p.accept("OR") {
                let found = p.conjunction(false)?;
                add_or_terms(&mut terms, *p.condition_of(found)?);
            }
            Ok(Either::Condition(Box::new(Predicate::Or(terms))))
        })
    }

    fn conjunction(&mut self, value_allowed: bool) -> SqlResult<Either> {
        let first = self.negation(value_allowed)?;
        if !self.is("AND") {
            return Ok(first);
        }
        let mut terms = Vec::new();
        add_and_terms(&mut terms, *self.condition_of(first)?);
        while self.accept("AND") {
            let found = self.negation(false)?;
            add_and_terms(&mut terms, *self.condition_of(found)?);
        }
        Ok(Either::Condition(Box::new(Predicate::And(terms))))
    }

    fn negation(&mut self, value_allowed: bool) -> SqlResult<Either> {
        if !self.accept("NOT") {
            return self.predicate(value_allowed);
        }
        let found = self.deeper(|p| p.negation(false))?;
        let condition = self.condition_of(found)?;
        Ok(Either::Condition(Box::new(Predicate::Not(condition))))
    }

    fn predicate(&mut self, value_allowed: bool) -> SqlResult<Either> {
        if self.is("EXISTS") {
            return self.exists();
        }
        if self.is("UPDATE") && self.is_symbol_ahead(1, Symbol::LeftParen) {
            return Err(self.unsupported("UPDATE() in a trigger"));
        }
        if self.is_one_of(&["CONTAINS", "FREETEXT"]) {
            return Err(self.unsupported(format!("the predicate {}", self.keyword())));
        }
        let begins_either = self.is_symbol(Symbol::LeftParen) && !self.is_ahead(1, "SELECT");
        let found = if begins_either { self.parenthesised()? } else { self.boxed_expression()? };
        let found = match found {
            Either::Value(value) => self.rest_of_predicate(value)?,
            condition @ Either::Condition(_) => return Ok(condition),
        };
        match found {
            Either::Value(_) if !value_allowed => Err(self.unexpected()),
            found => Ok(found),
        }
    }

    fn exists(&mut self) -> SqlResult<Either> {
        self.expect("EXISTS")?;
        let query = Box::new(self.subquery()?);
        Ok(Either::Condition(Box::new(Predicate::Exists(query))))
    }

    fn boxed_expression(&mut self) -> SqlResult<Either> {
        Ok(Either::Value(Box::new(self.expression()?)))
    }

    /// A condition in parentheses, or a value that begins with a parenthesis.
    fn parenthesised(&mut self) -> SqlResult<Either> {
        self.expect_symbol(Symbol::LeftParen)?;
        match self.disjunction(true)? {
            Either::Condition(condition) => {
                self.expect_symbol(Symbol::RightParen)?;
                Ok(Either::Condition(condition))
            }
            Either::Value(value) => self.rest_of_parenthesised_value(*value),
        }
    }

    fn rest_of_parenthesised_value(&mut self, value: Expr) -> SqlResult<Either> {
        let value = self.rest_of_query_value(value)?;
        self.expect_symbol(Symbol::RightParen)?;
        let value = self.collated(value)?;
        let product = self.rest_of_product(value)?;
        let sum = self.rest_of_sum(product)?;
        Ok(Either::Value(Box::new(sum)))
    }

    /// The comparison after a value; without one the value alone.
    fn rest_of_predicate(&mut self, value: Box<Expr>) -> SqlResult<Either> {
        if let Some(op) = self.accept_comparison() {
            if self.is_one_of(&["ANY", "SOME", "ALL"]) {
                return Err(self.unsupported("ANY, SOME and ALL"));
            }
            let right = self.expression()?;
            return Ok(Either::Condition(Box::new(Predicate::Compare { op, left: *value, right })));
        }
        let negated = self.is("NOT");
        let keyword_distance = usize::from(negated);
        if !["BETWEEN", "IN", "LIKE"].iter().any(|keyword| self.is_ahead(keyword_distance, keyword)) {
            return self.rest_of_is_null(value);
        }
        if negated {
            self.advance();
        }
        let condition = match self.keyword().as_str() {
            "BETWEEN" => self.rest_of_between(negated, *value)?,
            "LIKE" => self.rest_of_like(negated, *value)?,
            _ => self.rest_of_in(negated, *value)?,
        };
        Ok(Either::Condition(condition))
    }

    fn rest_of_is_null(&mut self, value: Box<Expr>) -> SqlResult<Either> {
        if !self.accept("IS") {
            return Ok(Either::Value(value));
        }
        let negated = self.accept("NOT");
        if self.is("DISTINCT") {
            return Err(self.unsupported("IS DISTINCT FROM"));
        }
        self.expect("NULL")?;
        Ok(Either::Condition(Box::new(Predicate::IsNull { negated, value: *value })))
    }

    fn rest_of_between(&mut self, negated: bool, value: Expr) -> SqlResult<Box<Predicate>> {
        self.expect("BETWEEN")?;
        let low = self.expression()?;
        self.expect("AND")?;
        let high = self.expression()?;
        Ok(Box::new(Predicate::Between { negated, value, low, high }))
    }

    fn rest_of_like(&mut self, negated: bool, value: Expr) -> SqlResult<Box<Predicate>> {
        self.expect("LIKE")?;
        let pattern = self.expression()?;
        if self.is("ESCAPE") {
            return Err(self.unsupported("LIKE with ESCAPE"));
        }
        Ok(Box::new(Predicate::Like { negated, value, pattern }))
    }

    fn rest_of_in(&mut self, negated: bool, value: Expr) -> SqlResult<Box<Predicate>> {
        self.expect("IN")?;
        if self.is_symbol(Symbol::LeftParen) && self.is_ahead(1, "SELECT") {
            let query = Box::new(self.subquery()?);
            return Ok(Box::new(Predicate::InQuery { negated, value, query }));
        }
        // `IN ((SELECT …))`: a list of one scalar subquery, or a query in parentheses that may give many rows?
        if self.is_symbol_ahead(1, Symbol::LeftParen) && self.is_ahead(2, "SELECT") {
            return Err(self.unsupported("IN with a query in double parentheses"));
        }
        let list = self.parenthesised_list(Self::expression)?;
        Ok(Box::new(Predicate::InList { negated, value, list }))
    }

    pub(super) fn accept_comparison(&mut self) -> Option<CompareOp> {
        let op = match self.token().kind {
            TokenKind::Symbol(Symbol::Equal) => CompareOp::Equal,
            TokenKind::Symbol(Symbol::NotEqual) => CompareOp::NotEqual,
            TokenKind::Symbol(Symbol::Less) => CompareOp::Less,
            TokenKind::Symbol(Symbol::LessOrEqual) => CompareOp::LessOrEqual,
            TokenKind::Symbol(Symbol::Greater) => CompareOp::Greater,
            TokenKind::Symbol(Symbol::GreaterOrEqual) => CompareOp::GreaterOrEqual,
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    // Filters of indexes

    /// The WHERE of a filtered index: comparisons of a column with a constant, joined by AND ("CREATE INDEX",
    /// docs/t-sql/statements/create-index-transact-sql.md, `<filter_predicate>`).
    pub(super) fn filter_condition(&mut self) -> SqlResult<Predicate> {
        let first = self.filter_term()?;
        if !self.is("AND") {
            return Ok(first);
        }
        let mut terms = Vec::new();
        add_and_terms(&mut terms, first);
        while self.accept("AND") {
            add_and_terms(&mut terms, self.filter_term()?);
        }
        Ok(Predicate::And(terms))
    }

    fn filter_term(&mut self) -> SqlResult<Predicate> {
        if self.accept_symbol(Symbol::LeftParen) {
            let inner = self.deeper(Self::filter_condition)?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(inner);
        }
        let value = Expr::Column(self.filter_column()?);
        if self.accept("IS") {
            let negated = self.accept("NOT");
            self.expect("NULL")?;
            return Ok(Predicate::IsNull { negated, value });
        }
        if self.accept("IN") {
            let list = self.parenthesised_list(Self::filter_constant)?;
            return Ok(Predicate::InList { negated: false, value, list });
        }
        let Some(op) = self.accept_comparison() else {
            return Err(self.unexpected());
        };
        let right = self.filter_constant()?;
        Ok(Predicate::Compare { op, left: value, right })
    }

    /// A column, with its table's name before it or without. A schema before that is rejected.
    fn filter_column(&mut self) -> SqlResult<ColumnRef> {
        let name = self.identifier()?;
        if !self.accept_symbol(Symbol::Dot) {
            return Ok(ColumnRef { table: None, name });
        }
        let table = ObjectName { server: None, database: None, schema: None, name };
        Ok(ColumnRef { table: Some(table), name: self.identifier()? })
    }

    fn filter_constant(&mut self) -> SqlResult<Expr> {
        match self.expression()? {
            Expr::Literal(literal) if literal != Literal::Null => Ok(Expr::Literal(literal)),
            _ => Err(self.unsupported("the filter of an index with anything but plain constants")),
        }
    }
}

/// `(a AND b) AND c` is one conjunction of three.
fn add_and_terms(terms: &mut Vec<Predicate>, condition: Predicate) {
    match condition {
        Predicate::And(inner) => terms.extend(inner),
        other => terms.push(other),
    }
}

fn add_or_terms(terms: &mut Vec<Predicate>, condition: Predicate) {
    match condition {
        Predicate::Or(inner) => terms.extend(inner),
        other => terms.push(other),
    }
}
