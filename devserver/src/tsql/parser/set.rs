//! SET: variables and session options.

use crate::error::SqlResult;
use crate::tsql::ast::expression::{Expr, Literal};
use crate::tsql::ast::setting::{IsolationLevel, SessionOption};
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn set(&mut self) -> SqlResult<StatementKind> {
        self.expect("SET")?;
        if self.is_variable() {
            return self.set_variable();
        }
        let option = self.keyword();
        match option.as_str() {
            "TRANSACTION" | "TRAN" => self.set_isolation_level(),
            "IDENTITY_INSERT" => {
                self.advance();
                let table = self.object_name()?;
                let on = self.on_or_off()?;
                Ok(StatementKind::SetIdentityInsert { table, on })
            }
            "LOCK_TIMEOUT" => self.set_value().map(StatementKind::SetLockTimeout),
            "ROWCOUNT" => match self.set_value()? {
                Expr::Literal(Literal::Int(0)) => Ok(StatementKind::SetToDefault),
                _ => Err(self.unsupported("SET ROWCOUNT with a number of rows")),
            },
            "TEXTSIZE" => {
                self.advance();
                if self.is_variable() {
                    return Err(self.unexpected());
                }
                self.constant().map(StatementKind::SetTextSize)
            }
            // Nothing here depends on it but DATEDIFF, which goes by Sunday always.
            "DATEFIRST" => match self.set_value()? {
                Expr::Literal(Literal::Int(7)) => Ok(StatementKind::SetToDefault),
                _ => Err(self.unsupported("SET DATEFIRST with another day than 7")),
            },
            "LANGUAGE" => self.set_word().map(StatementKind::SetLanguage),
            "DATEFORMAT" => self.set_word().map(StatementKind::SetDateFormat),
            "DEADLOCK_PRIORITY" => self.set_deadlock_priority(),
            _ => self.set_options(),
        }
    }

    fn set_variable(&mut self) -> SqlResult<StatementKind> {
        let name = self.variable()?;
        if self.is_symbol(Symbol::Dot) {
            return Err(self.unsupported("methods of a variable"));
        }
        let Some(op) = self.assignment_op_ahead(0) else {
            return Err(self.unexpected());
        };
        self.advance();
        let value = self.expression()?;
        Ok(StatementKind::SetVariable { name, op, value })
    }

    fn set_isolation_level(&mut self) -> SqlResult<StatementKind> {
        self.advance();
        self.expect_all(&["ISOLATION", "LEVEL"])?;
        let level = if self.accept("READ") {
            if self.accept("UNCOMMITTED") {
                IsolationLevel::ReadUncommitted
            } else {
                self.expect("COMMITTED")?;
                IsolationLevel::ReadCommitted
            }
        } else if self.accept("REPEATABLE") {
            self.expect("READ")?;
            IsolationLevel::RepeatableRead
        } else if self.accept("SNAPSHOT") {
            IsolationLevel::Snapshot
        } else {
            self.expect("SERIALIZABLE")?;
            IsolationLevel::Serializable
        };
        Ok(StatementKind::SetIsolationLevel(level))
    }

    /// The constant or variable after an option's name.
    fn set_value(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.constant_or_variable()
    }

    /// The word, string or variable after an option's name.
    fn set_word(&mut self) -> SqlResult<Expr> {
        self.advance();
        if !self.is_identifier() {
            return self.string_or_variable();
        }
        let value = self.identifier()?;
        Ok(Expr::Literal(Literal::String { value, national: true }))
    }

    fn set_deadlock_priority(&mut self) -> SqlResult<StatementKind> {
        self.advance();
        let level = |magnitude| Expr::Literal(Literal::Int(magnitude));
        let priority = match self.keyword().as_str() {
            "LOW" => Expr::Negative(Box::new(level(5))),
            "NORMAL" => level(0),
            "HIGH" => level(5),
            _ => return Ok(StatementKind::SetDeadlockPriority(self.constant_or_variable()?)),
        };
        self.advance();
        Ok(StatementKind::SetDeadlockPriority(priority))
    }

    /// `SET a, b ON`.
    fn set_options(&mut self) -> SqlResult<StatementKind> {
        let options = self.comma_list(Self::session_option)?;
        let on = self.on_or_off()?;
        for option in &options {
            if let SessionOption::Fixed(name, only) = option
                && *only != on
            {
                return Err(self.unsupported(format!("SET {name} {}", if on { "ON" } else { "OFF" })));
            }
        }
        Ok(StatementKind::SetOptions { options, on })
    }

    fn session_option(&mut self) -> SqlResult<SessionOption> {
        let option = match self.keyword().as_str() {
            "NOCOUNT" => SessionOption::NoCount,
            "XACT_ABORT" => SessionOption::XactAbort,
            "ANSI_NULLS" => SessionOption::Fixed("ANSI_NULLS", true),
            "ANSI_NULL_DFLT_OFF" => SessionOption::Fixed("ANSI_NULL_DFLT_OFF", false),
            "ANSI_NULL_DFLT_ON" => SessionOption::Fixed("ANSI_NULL_DFLT_ON", true),
            "ANSI_PADDING" => SessionOption::AnsiPadding,
            "ANSI_WARNINGS" => SessionOption::Fixed("ANSI_WARNINGS", true),
            "ARITHABORT" => SessionOption::ArithAbort,
            "ARITHIGNORE" => SessionOption::Fixed("ARITHIGNORE", false),
            "CONCAT_NULL_YIELDS_NULL" => SessionOption::Fixed("CONCAT_NULL_YIELDS_NULL", true),
            "CURSOR_CLOSE_ON_COMMIT" => SessionOption::CursorCloseOnCommit,
            "FMTONLY" => SessionOption::Fixed("FMTONLY", false),
            "FORCEPLAN" => SessionOption::Fixed("FORCEPLAN", false),
            "IMPLICIT_TRANSACTIONS" => SessionOption::ImplicitTransactions,
            "NOEXEC" => SessionOption::NoExec,
            "NUMERIC_ROUNDABORT" => SessionOption::Fixed("NUMERIC_ROUNDABORT", false),
            "PARSEONLY" => SessionOption::Fixed("PARSEONLY", false),
            "QUOTED_IDENTIFIER" => SessionOption::Fixed("QUOTED_IDENTIFIER", true),
            option => return Err(self.unsupported(format!("SET {option}"))),
        };
        self.advance();
        Ok(option)
    }
}
