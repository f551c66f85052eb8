//! Table hints and query hints. A hint that the syntax tree does not have is refused, never dropped.

use crate::error::SqlResult;
use crate::tsql::ast::hint::{IndexRef, QueryHint, TableHint};
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
            if self.accept_symbol(Symbol::Equal) {
                return Ok(TableHint::Index(vec![self.index_ref()?]));
            }
            return Ok(TableHint::Index(self.parenthesised_list(Self::index_ref)?));
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
        if [
            "FORCESCAN",
            "KEEPIDENTITY",
            "KEEPDEFAULTS",
            "IGNORE_CONSTRAINTS",
            "IGNORE_TRIGGERS",
            "NOEXPAND",
            "NOWAIT",
            "PAGLOCK",
            "SNAPSHOT",
            "SPATIAL_WINDOW_MAX_CELLS",
        ]
        .contains(&word.as_str())
        {
            return Err(self.unsupported(format!("the table hint {word}")));
        }
        if !self.is_identifier() {
            return Err(self.unexpected());
        }
        let message = format!(
            "\"{}\" is not a recognized table hints option. If it is intended as a parameter to a table-valued function \
             or to the CHANGETABLE function, ensure that your database compatibility mode is set to 90.",
            self.shown(self.token())
        );
        Err(self.error(321, message))
    }

    fn index_ref(&mut self) -> SqlResult<IndexRef> {
        if self.token().kind == TokenKind::Integer {
            return Ok(IndexRef::Number(self.unsigned()?));
        }
        Ok(IndexRef::Name(self.identifier()?))
    }

    /// `OPTION (…)`; nothing without OPTION.
    pub(super) fn query_hints(&mut self) -> SqlResult<Vec<QueryHint>> {
        if !self.accept("OPTION") {
            return Ok(Vec::new());
        }
        self.parenthesised_list(Self::query_hint)
    }

    fn query_hint(&mut self) -> SqlResult<QueryHint> {
        let start = self.next;
        let first = self.keyword();
        if [
            "MAXRECURSION",
            "USE",
            "QUERYTRACEON",
            "TABLE",
            "LABEL",
            "EXPAND",
            "PARAMETERIZATION",
            "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX",
        ]
        .contains(&first.as_str())
            || first.starts_with("MIN_GRANT")
            || first.starts_with("MAX_GRANT")
        {
            return Err(self.unsupported(format!("the query hint {first}")));
        }
        self.advance();
        let number = match first.as_str() {
            "RECOMPILE" => return Ok(QueryHint::Recompile),
            "MAXDOP" => QueryHint::MaxDop,
            "FAST" => QueryHint::Fast,
            "OPTIMIZE" => return self.rest_of_optimize_for(),
            _ => return self.two_word_hint(start, &first),
        };
        Ok(number(self.unsigned()?))
    }

    fn two_word_hint(&mut self, start: usize, first: &str) -> SqlResult<QueryHint> {
        let second = self.keyword();
        let hint = match (first, second.as_str()) {
            ("FORCE", "ORDER") => QueryHint::ForceOrder,
            ("KEEP", "PLAN") => QueryHint::KeepPlan,
            ("KEEPFIXED", "PLAN") => QueryHint::KeepFixedPlan,
            ("LOOP", "JOIN") => QueryHint::LoopJoin,
            ("ROBUST", "PLAN")
            | ("HASH" | "MERGE", "JOIN" | "UNION")
            | ("HASH" | "ORDER", "GROUP")
            | ("CONCAT", "UNION") => {
                return Err(self.unsupported(format!("the query hint {first} {second}")));
            }
            _ => return Err(self.unexpected_at(start)),
        };
        self.advance();
        Ok(hint)
    }

    fn rest_of_optimize_for(&mut self) -> SqlResult<QueryHint> {
        self.expect("FOR")?;
        if self.accept("UNKNOWN") {
            return Ok(QueryHint::OptimizeForUnknown);
        }
        let variables = self.parenthesised_list(|p| {
            let variable = p.variable()?;
            if p.accept("UNKNOWN") {
                return Ok((variable, None));
            }
            p.expect_symbol(Symbol::Equal)?;
            Ok((variable, Some(p.constant()?)))
        })?;
        Ok(QueryHint::OptimizeFor(variables))
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
