//! Statements that need no plan: SET options, transactions, USE, and the way to DDL.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::output::Output;
use crate::session::session::Session;
use crate::tds::token::StatementKind as DoneKind;
use crate::tsql::ast::{SessionOption, StatementKind, TransactionName};

impl Session {
    pub(crate) fn run_other(
        &mut self,
        statement: &StatementKind,
        activation: &mut Activation,
        out: &mut Output<'_>,
    ) -> SqlResult<()> {
        match statement {
            StatementKind::SetOptions { options, on } => {
                for option in options {
                    self.set_option(*option, *on)?;
                }
            }
            StatementKind::SetIsolationLevel(level) => {
                self.state.options.isolation = *level;
            }
            StatementKind::BeginTransaction(name) => {
                let name = transaction_name(name.as_ref())?;
                self.begin_transaction(name.as_deref(), out);
            }
            StatementKind::CommitTransaction(_) => self.commit_transaction(out)?,
            StatementKind::RollbackTransaction(name) => {
                let name = transaction_name(name.as_ref())?;
                self.rollback_transaction(name.as_deref(), out)?;
            }
            StatementKind::SaveTransaction(name) => {
                let name = transaction_name(Some(name))?;
                self.save_transaction(name.as_deref().unwrap_or_default())?;
            }
            StatementKind::Kill(spid) => self.kill(*spid)?,
            StatementKind::Use(name) => self.use_database(name, out)?,
            ddl => self.run_ddl(ddl, activation)?,
        }
        self.statement_done(out, DoneKind::Other, None);
        Ok(())
    }

    /// Filtered indexes and most of what is newer demand the settings that clients make at login; the dev server knows
    /// T-SQL under these settings only.
    fn set_option(&mut self, option: SessionOption, on: bool) -> SqlResult<()> {
        let refused =
            |what: &str| Err(SqlError::not_supported(format!("SET {what} {}", if on { "ON" } else { "OFF" })));
        let options = &mut self.state.options;
        match (option, on) {
            (SessionOption::NoCount, _) => options.no_count = on,
            (SessionOption::NoExec, _) => options.no_exec = on,
            (SessionOption::XactAbort, _) => options.xact_abort = on,
            // With ANSI_WARNINGS ON, which it always is, ARITHABORT changes no result.
            (SessionOption::ArithAbort, _) => options.arith_abort = on,
            (SessionOption::AnsiNulls, false) => return refused("ANSI_NULLS"),
            // It bears on the columns that are made while it is OFF, which are refused, and on filtered indexes.
            (SessionOption::AnsiPadding, _) => options.ansi_padding = on,
            (SessionOption::AnsiWarnings, false) => return refused("ANSI_WARNINGS"),
            (SessionOption::ConcatNullYieldsNull, false) => return refused("CONCAT_NULL_YIELDS_NULL"),
            (SessionOption::QuotedIdentifier, false) => return refused("QUOTED_IDENTIFIER"),
            (SessionOption::AnsiNullDfltOn, false) => return refused("ANSI_NULL_DFLT_ON"),
            (SessionOption::AnsiDefaults, _) => return refused("ANSI_DEFAULTS"),
            (SessionOption::AnsiNullDfltOff, true) => return refused("ANSI_NULL_DFLT_OFF"),
            (SessionOption::ArithIgnore, true) => return refused("ARITHIGNORE"),
            (SessionOption::FmtOnly, true) => return refused("FMTONLY"),
            (SessionOption::ForcePlan, true) => return refused("FORCEPLAN"),
            (SessionOption::ImplicitTransactions, true) => return refused("IMPLICIT_TRANSACTIONS"),
            (SessionOption::NumericRoundAbort, true) => return refused("NUMERIC_ROUNDABORT"),
            (SessionOption::ParseOnly, true) => return refused("PARSEONLY"),
            (SessionOption::StatisticsIo, true) => return refused("STATISTICS IO"),
            (SessionOption::StatisticsTime, true) => return refused("STATISTICS TIME"),
            // Some clients switch it on at login: refused are only the cursors.
            (SessionOption::CursorCloseOnCommit, _) => options.cursor_close_on_commit = on,
            // They are as they always are here.
            _ => {}
        }
        Ok(())
    }
}

fn transaction_name(name: Option<&TransactionName>) -> SqlResult<Option<Arc<str>>> {
    match name {
        None => Ok(None),
        Some(TransactionName::Name(name)) => Ok(Some(Arc::clone(name))),
        Some(TransactionName::Variable(_)) => Err(SqlError::not_supported("a transaction name in a variable")),
    }
}
