//! The requests of a client, each from its start to what must be true after it.

use crate::error::SqlError;
use crate::execute::activation::Activation;
use crate::execute::session_state::Options;
use crate::plan::declarations::Declarations;
use crate::session::client_session::Session;
use crate::session::outcome::Failure;
use crate::session::result_target::ResultTarget;
use crate::tds::request::{RpcCall, TransactionRequest};
use crate::tds::token::{DoneKind, ResponseWriter};

impl Session {
    /// Runs a SQL batch.
    pub fn run_batch(&mut self, sql: &str, writer: &mut ResponseWriter) {
        self.storage().handle().clear_cancel();
        self.note_activity(true);
        let mut out = ResultTarget::new(writer);
        // All batches of a session are one scope.
        let scope_identity = self.state.scope_identity;
        let mut activation = Activation { scope_identity, ..Activation::default() };
        let compiled = match self.compiled_batch(sql, Declarations::default()) {
            Ok(compiled) => compiled,
            Err(error) => {
                self.refuse_batch(error, &mut out);
                return;
            }
        };
        let result = self.run_compiled(&compiled, &mut activation, &mut out);
        self.state.scope_identity = activation.scope_identity;
        if result.is_err() {
            // The statement that ended everything has not written its own DONE.
            out.writer().done_statement(DoneKind::Other, None);
        }
        self.end_of_request(result.map(|_| ()), &mut out);
    }

    /// An error before anything ran.
    fn refuse_batch(&mut self, error: SqlError, out: &mut ResultTarget<'_>) {
        self.state.error = error.number;
        out.error(&error.at_line(1));
        out.writer().done_statement(DoneKind::Other, None);
        self.end_of_request(Ok(()), out);
    }

    pub fn run_rpc(&mut self, call: RpcCall, writer: &mut ResponseWriter) {
        self.storage().handle().clear_cancel();
        self.note_activity(true);
        let mut out = ResultTarget::new(writer);
        let result = self.call(call, &mut out);
        self.end_of_request(result, &mut out);
    }

    pub fn run_transaction_request(&mut self, request: TransactionRequest, writer: &mut ResponseWriter) {
        self.storage().handle().clear_cancel();
        let mut out = ResultTarget::new(writer);
        if let Err(error) = self.transaction_request(request, &mut out) {
            self.state.error = error.number;
            out.error(&error.at_line(1));
        }
        out.writer().done_statement(DoneKind::Other, None);
        self.note_activity(false);
    }

    /// What must be true between two requests.
    fn end_of_request(&mut self, result: Result<(), Failure>, out: &mut ResultTarget<'_>) {
        debug_assert!(
            !matches!(result, Err(Failure::Raised { .. })),
            "an error on its way to a CATCH that is not there"
        );
        self.try_levels.clear();
        self.running_triggers.clear();
        self.state.caught.clear();
        self.state.nest_level = 0;
        if self.state.doomed {
            let error = SqlError::new(
                3998,
                "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
            );
            out.error(&error.at_line(1));
            self.rollback_everything(out);
            out.writer().done_statement(DoneKind::Other, None);
        }
        self.note_activity(false);
    }

    /// sp_reset_connection: as if newly logged in.
    pub fn reset(&mut self, keep_transaction: bool) {
        if !keep_transaction {
            self.abandon_transaction();
        }
        self.drop_temporary_tables(0);
        // A new place in the storage: application locks of the session go with the old one.
        if self.tx.is_none() {
            self.take_new_place();
        }
        self.prepared.clear();
        self.state.options = Options::default();
        self.state.context.clear();
        self.state.row_count = 0;
        self.state.error = 0;
        self.state.identity = None;
        self.state.scope_identity = None;
        self.state.identity_insert = None;
        self.state.cursors.clear();
        self.state.fetch_status = 0;
    }
}
