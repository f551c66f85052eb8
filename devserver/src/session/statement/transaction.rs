//! BEGIN, COMMIT, ROLLBACK and SAVE TRANSACTION, by T-SQL and by request; the changes of the catalog go with them.

use crate::catalog::catalog::Undo;
use crate::error::{SqlError, SqlResult};
use crate::execute::writable::doomed;
use crate::session::client_session::Session;
use crate::session::result_target::ResultTarget;
use crate::storage::{Transaction, fold};
use crate::tds::request::{BeginTransaction, TransactionRequest};

/// The longest name that counts; the rest is cut.
const MAX_TRANSACTION_NAME: usize = 32;

fn shortened(name: &str) -> String {
    fold(&name.chars().take(MAX_TRANSACTION_NAME).collect::<String>())
}

impl Session {
    pub(crate) fn begin_transaction(&mut self, out: &mut ResultTarget<'_>) {
        if self.tx.is_none() {
            let tx = self.new_transaction();
            out.writer().transaction_begun(tx.id());
            self.transaction_announced = true;
            self.tx = Some(tx);
        }
        self.state.transaction_count += 1;
    }

    /// Under IMPLICIT_TRANSACTIONS ON, most statements begin a transaction if none is open. A SELECT without FROM does not,
    /// here even if it has a subquery.
    ///
    /// Source: "SET IMPLICIT_TRANSACTIONS" (MicrosoftDocs/sql-docs,
    /// docs/t-sql/statements/set-implicit-transactions-transact-sql.md).
    pub(crate) fn begin_implicitly(&mut self, out: &mut ResultTarget<'_>) {
        if self.state.options.implicit_transactions && self.tx.is_none() {
            self.begin_transaction(out);
        }
    }

    pub(crate) fn commit_transaction(&mut self, out: &mut ResultTarget<'_>) -> SqlResult<()> {
        if self.state.transaction_count == 0 {
            return Err(SqlError::new(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."));
        }
        if self.state.doomed {
            return Err(doomed());
        }
        // The transaction of INSERT … EXEC is the INSERT's to commit.
        if self.state.transaction_count == 1 && self.state.in_insert_exec && !self.transaction_announced {
            return Err(SqlError::new(
                3916,
                "Cannot use the COMMIT statement within an INSERT-EXEC statement unless BEGIN TRANSACTION is used first.",
            ));
        }
        self.state.transaction_count -= 1;
        if self.state.transaction_count > 0 {
            return Ok(());
        }
        if let Some(tx) = self.tx.take() {
            let id = tx.id();
            self.commit(tx);
            if self.transaction_announced {
                out.writer().transaction_committed(id);
            }
        }
        self.forget_transaction();
        Ok(())
    }

    fn forget_transaction(&mut self) {
        self.catalog_undo.clear();
        self.dropped_temporary.clear();
        self.ended_temporary.clear();
        self.has_changed_schema = false;
        self.savepoints.clear();
        self.transaction_announced = false;
        self.state.transaction_count = 0;
        self.state.doomed = false;
    }

    pub(crate) fn rollback_transaction(&mut self, name: Option<&str>, out: &mut ResultTarget<'_>) -> SqlResult<()> {
        if self.state.transaction_count == 0 {
            return Err(SqlError::new(
                3903,
                "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.",
            ));
        }
        if self.state.in_insert_exec {
            return Err(SqlError::new(3915, "Cannot use the ROLLBACK statement within an INSERT-EXEC statement."));
        }
        if let Some(name) = name {
            let folded = shortened(name);
            if let Some(position) = self.savepoints.iter().rposition(|(savepoint, ..)| *savepoint == folded) {
                if self.state.doomed {
                    return Err(SqlError::new(
                        3931,
                        "The current transaction cannot be committed and cannot be rolled back to a savepoint. Roll \
                         back the entire transaction.",
                    ));
                }
                let (_, mark, catalog_changes) = self.savepoints[position];
                self.savepoints.truncate(position + 1);
                if let Some(tx) = &mut self.tx {
                    self.database.storage.latch().rollback_to(tx, mark);
                }
                self.undo_catalog_to(catalog_changes);
                return Ok(());
            }
            return Err(SqlError::not_supported(format!("ROLLBACK to {name}, which is no savepoint")));
        }
        self.rollback_everything(out);
        Ok(())
    }

    /// Rolls the open transaction back, if there is one.
    pub(crate) fn rollback_everything(&mut self, out: &mut ResultTarget<'_>) {
        let Some(tx) = self.tx.take() else {
            self.state.doomed = false;
            return;
        };
        let id = tx.id();
        self.roll_back(tx);
        if self.transaction_announced {
            out.writer().transaction_rolled_back(id);
        }
        self.forget_transaction();
    }

    /// Rolls back without telling anybody: the client is gone or starts anew.
    pub(crate) fn abandon_transaction(&mut self) {
        if let Some(tx) = self.tx.take() {
            self.roll_back(tx);
        }
        self.forget_transaction();
    }

    /// Ends the transaction that INSERT … EXEC began for itself.
    pub(crate) fn end_inner_transaction(&mut self, keep: bool) {
        if !keep {
            self.abandon_transaction();
            return;
        }
        if let Some(tx) = self.tx.take() {
            self.commit(tx);
        }
        self.forget_transaction();
    }

    /// Whoever finds the new state of a table compiles anew: others may have read it without its new index.
    fn commit(&self, tx: Transaction) {
        let mut latch = self.database.storage.latch();
        latch.commit(tx);
        if self.has_changed_schema {
            self.database.changed();
        }
    }

    /// Runs a statement of several steps as one: what was done is taken back if a step fails.
    pub(crate) fn atomically<T>(&mut self, f: impl FnOnce(&mut Session) -> SqlResult<T>) -> SqlResult<T> {
        let Some(tx) = &self.tx else {
            self.tx = Some(self.new_transaction());
            let result = f(self);
            self.end_inner_transaction(result.is_ok());
            return result;
        };
        let mark = tx.mark();
        let catalog_changes = self.catalog_undo.len();
        let result = f(self);
        if result.is_err()
            && let Some(tx) = &mut self.tx
        {
            self.database.storage.latch().rollback_to(tx, mark);
            self.undo_catalog_to(catalog_changes);
        }
        result
    }

    pub(crate) fn save_transaction(&mut self, name: &str) -> SqlResult<()> {
        let Some(tx) = self.tx.as_ref().filter(|_| self.state.transaction_count > 0) else {
            return Err(SqlError::new(628, "Cannot issue SAVE TRANSACTION when there is no active transaction."));
        };
        if self.state.doomed {
            return Err(doomed());
        }
        self.savepoints.push((shortened(name), tx.mark(), self.catalog_undo.len()));
        Ok(())
    }

    /// Notes how to take a change of the catalog back. Outside of a transaction the change is final at once.
    pub(crate) fn keep_undo(&mut self, undo: Undo) {
        if self.tx.is_some() {
            self.catalog_undo.push(undo);
        }
        self.schema_changed();
    }

    /// A table or the catalog has changed: plans are stale, and will be once more if the transaction is rolled back.
    pub(crate) fn schema_changed(&mut self) {
        self.has_changed_schema = self.tx.is_some();
        self.database.changed();
    }

    /// Takes the latest changes of the catalog back, until there are `keep` left.
    fn undo_catalog_to(&mut self, keep: usize) {
        if !self.has_changed_schema {
            return;
        }
        self.undo_catalog(keep);
        self.undo_temporary_names();
        self.database.changed();
    }

    fn undo_catalog(&mut self, keep: usize) {
        if self.catalog_undo.len() <= keep {
            return;
        }
        let mut catalog = self.database.catalog.write();
        for undo in self.catalog_undo.drain(keep..).rev() {
            undo(&mut catalog);
        }
    }

    /// Takes everything back. The catalog comes first: with the locks on names others would see what is taken back.
    fn roll_back(&mut self, tx: Transaction) {
        self.undo_catalog(0);
        let mut latch = self.database.storage.latch();
        latch.rollback(tx);
        if !self.has_changed_schema {
            return;
        }
        // Under the same latch: whoever finds an index gone finds its plan stale.
        self.database.changed();
        drop(latch);
        self.undo_temporary_names();
    }

    /// BEGIN, COMMIT, ROLLBACK and SAVE as clients send them outside of T-SQL.
    pub(crate) fn transaction_request(
        &mut self,
        request: TransactionRequest,
        out: &mut ResultTarget<'_>,
    ) -> SqlResult<()> {
        let then_begin = match request {
            TransactionRequest::Begin(begin) => Some(begin),
            TransactionRequest::Commit { then_begin, .. } => {
                self.commit_transaction(out)?;
                then_begin
            }
            TransactionRequest::Rollback { name, then_begin } => {
                self.rollback_transaction((!name.is_empty()).then_some(name.as_str()), out)?;
                then_begin
            }
            TransactionRequest::Save { name } => {
                self.save_transaction(&name)?;
                None
            }
        };
        if let Some(BeginTransaction { isolation, .. }) = then_begin {
            if let Some(isolation) = isolation {
                self.state.options.isolation = isolation;
            }
            self.begin_transaction(out);
        }
        Ok(())
    }
}
