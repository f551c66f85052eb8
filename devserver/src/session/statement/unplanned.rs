//! Statements that need no plan: SET options, transactions, USE, and the way to DDL.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;
use crate::tsql::ast::{StatementKind, TransactionName};

impl Session {
    pub(crate) fn run_other(
        &mut self,
        statement: &StatementKind,
        activation: &mut Activation,
        out: &mut ResultTarget<'_>,
    ) -> SqlResult<()> {
        match statement {
            StatementKind::SetOptions { options, on } => {
                for option in options {
                    self.set_option(*option, *on);
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
            StatementKind::InsertBulk(insert) => self.insert_bulk(insert)?,
            StatementKind::Use(name) => self.use_database(name, out)?,
            ddl => self.run_ddl(ddl, activation)?,
        }
        self.statement_done(out, DoneKind::Other, None);
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
