//! Statements that need no plan: SET options, transactions, USE, and the way to DDL.

use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;
use crate::tsql::ast::StatementKind;

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
            StatementKind::BeginTransaction => {
                self.begin_implicitly(out);
                self.begin_transaction(out);
            }
            StatementKind::CommitTransaction => self.commit_transaction(out)?,
            StatementKind::RollbackTransaction(name) => {
                self.rollback_transaction(name.as_deref(), out)?;
            }
            StatementKind::SaveTransaction(name) => {
                self.save_transaction(name)?;
            }
            StatementKind::Use(name) => self.use_database(name, out)?,
            ddl => {
                self.begin_implicitly(out);
                self.run_ddl(ddl, activation)?;
            }
        }
        self.statement_done(out, DoneKind::Other, None);
        Ok(())
    }
}
