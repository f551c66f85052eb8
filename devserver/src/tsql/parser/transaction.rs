//! Transactions; BEGIN TRANSACTION stands with the other statements that begin with BEGIN, in `control`.

use crate::error::SqlResult;
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn transaction_name(&mut self) -> SqlResult<Option<Ident>> {
        if self.is_variable() {
            return Err(self.unsupported("a transaction name in a variable"));
        }
        if self.is_identifier() { self.identifier().map(Some) } else { Ok(None) }
    }

    /// COMMIT, ROLLBACK and SAVE. A name can stand only after TRAN or TRANSACTION.
    pub(super) fn end_or_save_transaction(&mut self) -> SqlResult<StatementKind> {
        let verb = self.keyword();
        self.advance();
        let mut name = None;
        if self.accept("TRAN") || self.accept("TRANSACTION") {
            name = self.transaction_name()?;
        } else if verb == "SAVE" || (!self.accept("WORK") && self.is_identifier()) {
            return Err(self.unexpected());
        }
        if verb == "COMMIT" && self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen) {
            // When the log is written changes nothing here: there is none.
            self.advance();
            self.parenthesised_list(|p| {
                p.expect("DELAYED_DURABILITY")?;
                p.expect_symbol(Symbol::Equal)?;
                p.on_or_off()
            })?;
        }
        match (verb.as_str(), name) {
            ("COMMIT", _) => Ok(StatementKind::CommitTransaction),
            ("ROLLBACK", name) => Ok(StatementKind::RollbackTransaction(name)),
            (_, Some(name)) => Ok(StatementKind::SaveTransaction(name)),
            (_, None) => Err(self.unexpected()),
        }
    }
}
