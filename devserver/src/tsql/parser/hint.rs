//! Table hints and query hints. A hint that the syntax tree does not have is refused, never dropped.

use crate::error::SqlResult;
use crate::tsql::ast::hint::{IndexRef, TableHint};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    /// `WITH (hints)`; nothing without WITH.
    pub(super) fn with_table_hints(&mut self) -> SqlResult<Vec<TableHint>> {
        let found = self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen);
        if !found {
            return Ok(Vec::new());
        }
        self.advance();
        self.table_hint_list()
    }

    /// The simple hint after an opening parenthesis, if one is there: `FROM t (NOLOCK)` is the old way to write it.
    pub(super) fn table_hint_without_with(&self) -> Option<TableHint> {
        let token = self.ahead(1);
        let closes = self.is_symbol_ahead(2, Symbol::RightParen) || self.is_symbol_ahead(2, Symbol::Comma);
        match token.kind {
            TokenKind::Word { .. } if closes => simple_table_hint(&self.source(token).to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Hints in parentheses, parted by commas or (as SQL Server still allows) by blanks.
    fn table_hint_list(&mut self) -> SqlResult<Vec<TableHint>> {
        self.expect_symbol(Symbol::LeftParen)?;
        let mut hints = vec![self.table_hint()?];
        while !self.accept_symbol(Symbol::RightParen) {
            self.accept_symbol(Symbol::Comma);
            hints.push(self.table_hint()?);
        }
        Ok(hints)
    }

    pub(super) fn table_hint(&mut self) -> SqlResult<TableHint> {
        let word = self.keyword();
        if word == "INDEX" {
            self.advance();
            self.expect_symbol(Symbol::LeftParen)?;
            let index = self.index_ref()?;
            if self.is_symbol(Symbol::Comma) {
                return Err(self.unsupported("an INDEX hint with several indexes"));
            }
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(TableHint::Index(index));
        }
        if word == "FORCESEEK" {
            self.advance();
            if !self.accept_symbol(Symbol::LeftParen) {
                return Ok(TableHint::ForceSeek(None));
            }
            let index = self.index_ref()?;
            let columns = self.identifier_list()?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok(TableHint::ForceSeek(Some((index, columns))));
        }
        if let Some(hint) = simple_table_hint(&word) {
            self.advance();
            return Ok(hint);
        }
        if !self.is_identifier() {
            return Err(self.unexpected());
        }
        Err(self.unsupported(format!("the table hint {word}")))
    }

    fn index_ref(&mut self) -> SqlResult<IndexRef> {
        if self.token().kind == TokenKind::Integer {
            return Ok(IndexRef::Number(self.unsigned()?));
        }
        Ok(IndexRef::Name(self.identifier()?))
    }

    /// `OPTION (…)`: whether it has LOOP JOIN.
    pub(super) fn query_hints(&mut self) -> SqlResult<bool> {
        if !self.accept("OPTION") {
            return Ok(false);
        }
        Ok(self.parenthesised_list(Self::query_hint)?.contains(&true))
    }

    /// Whether it is LOOP JOIN. The others bear on the cost of a plan, never on its result: the dev server's plans are what
    /// they are.
    fn query_hint(&mut self) -> SqlResult<bool> {
        let (first, second) = (self.keyword(), self.source(self.ahead(1)).to_ascii_uppercase());
        self.advance();
        match (first.as_str(), second.as_str()) {
            ("RECOMPILE", _) => {}
            ("MAXDOP", _) => {
                self.unsigned()?;
            }
            ("KEEPFIXED", "PLAN") | ("LOOP", "JOIN") => self.advance(),
            ("OPTIMIZE", "FOR") => {
                self.advance();
                self.optimize_for()?;
            }
            _ => return Err(self.unsupported(format!("the query hint {first} {second}"))),
        }
        Ok(first == "LOOP")
    }

    /// `(@v = literal, @w UNKNOWN)`.
    fn optimize_for(&mut self) -> SqlResult<()> {
        self.parenthesised_list(|p| {
            p.variable()?;
            if !p.accept("UNKNOWN") {
                p.expect_symbol(Symbol::Equal)?;
                p.constant()?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// A table hint of one word.
fn simple_table_hint(word: &str) -> Option<TableHint> {
    let hint = match word {
        "NOLOCK" => TableHint::NoLock,
        "READUNCOMMITTED" => TableHint::ReadUncommitted,
        "READCOMMITTED" => TableHint::ReadCommitted,
        "READCOMMITTEDLOCK" => TableHint::ReadCommittedLock,
        "REPEATABLEREAD" => TableHint::RepeatableRead,
        "SERIALIZABLE" => TableHint::Serializable,
        "HOLDLOCK" => TableHint::HoldLock,
        "READPAST" => TableHint::ReadPast,
        "ROWLOCK" => TableHint::RowLock,
        "TABLOCK" => TableHint::TabLock,
        "TABLOCKX" => TableHint::TabLockX,
        "UPDLOCK" => TableHint::UpdLock,
        "XLOCK" => TableHint::XLock,
        _ => return None,
    };
    Some(hint)
}
