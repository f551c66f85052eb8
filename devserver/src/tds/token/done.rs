//! DONE tokens: how a statement, a procedure and an answer end.

use crate::tds::token::number::{
    COMMAND_ATTENTION, DONE_ATTENTION, DONE_COUNT, DONE_ERROR, DONE_MORE, DONE_RPC_IN_BATCH, TOKEN_DONE,
    TOKEN_DONE_IN_PROCEDURE, TOKEN_DONE_PROCEDURE,
};
use crate::tds::token::response::ResponseWriter;

/// Which kind of statement a DONE token ends (its CurCmd).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneKind {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    Execute,
    Other,
}

impl DoneKind {
    /// As SQL Server numbers its commands; MS-TDS leaves the numbers to the application.
    fn command(self) -> u16 {
        match self {
            DoneKind::Select => 0xC1,
            DoneKind::Insert => 0xC3,
            DoneKind::Delete => 0xC4,
            DoneKind::Update => 0xC5,
            DoneKind::Merge => 0x117,
            DoneKind::Execute => 0xE0,
            DoneKind::Other => 0,
        }
    }
}

/// A DONE token that waits for its MORE bit.
pub(super) struct HeldDone {
    pub(super) token: u8,
    pub(super) status: u16,
    pub(super) command: u16,
    pub(super) row_count: u64,
}

impl ResponseWriter {
    /// The end of one statement; to be called for every executed one but DECLARE. `row_count` is `None` where SQL
    /// Server counts nothing (SET, PRINT, or all under SET NOCOUNT ON).
    ///
    /// Inside a procedure a statement without a count, a result set or an error leaves no trace: clients take a
    /// DONEINPROC for a result of its own.
    pub fn done_statement(&mut self, kind: DoneKind, row_count: Option<u64>) {
        let in_procedure = self.procedure_depth > 0;
        if in_procedure && row_count.is_none() && !self.result_open && !self.error_raised {
            return;
        }
        let token = if in_procedure { TOKEN_DONE_IN_PROCEDURE } else { TOKEN_DONE };
        self.hold_done(token, kind, row_count);
    }

    /// A procedure begins: called by RPC (sp_executesql too), by EXEC in a batch, or by another procedure.
    pub fn enter_procedure(&mut self) {
        self.procedure_depth += 1;
    }

    /// The procedure ends, also when an error ends it. The outermost one writes DONEPROC; for inner ones their
    /// statements have said everything.
    pub fn leave_procedure(&mut self) {
        debug_assert!(self.procedure_depth > 0, "leave_procedure without enter_procedure");
        self.procedure_depth = self.procedure_depth.saturating_sub(1);
        if self.procedure_depth == 0 {
            self.hold_done(TOKEN_DONE_PROCEDURE, DoneKind::Execute, None);
        }
    }

    /// Another call of the same message follows the one that has just ended.
    pub fn next_call_follows(&mut self) {
        if let Some(done) = &mut self.held_done {
            done.status |= DONE_RPC_IN_BATCH;
        }
    }

    /// Ends the answer.
    pub(crate) fn finish(&mut self) {
        self.procedure_depth = 0;
        self.result_open = false;
        if self.held_done.is_none() || self.error_raised {
            self.hold_done(TOKEN_DONE, DoneKind::Other, None);
        }
        if let Some(done) = self.held_done.take() {
            self.put_done(&done);
        }
        self.send(true);
        if let Some(connection) = &mut self.connection {
            connection.next_packet_id = 1;
        }
    }

    /// Ends the answer to a request that was cancelled, or given up while it was sent (MS-TDS 2.2.1.7): the last DONE
    /// has the error bit, without an error in front of it.
    pub(crate) fn finish_cancelled(&mut self) {
        self.error_raised = true;
        self.finish();
    }

    /// Answers an attention. SQL Server does that in a message of its own, also after the cut-off answer to the request
    /// it cancelled; clients such as tedious rely on it.
    pub(crate) fn acknowledge_attention(&mut self) {
        self.held_done =
            Some(HeldDone { token: TOKEN_DONE, status: DONE_ATTENTION, command: COMMAND_ATTENTION, row_count: 0 });
        self.finish();
    }

    fn hold_done(&mut self, token: u8, kind: DoneKind, row_count: Option<u64>) {
        self.release_done();
        let mut status = 0;
        if std::mem::take(&mut self.error_raised) {
            status |= DONE_ERROR;
        }
        if row_count.is_some() {
            status |= DONE_COUNT;
        }
        self.result_open = false;
        let row_count = row_count.unwrap_or(0);
        self.held_done = Some(HeldDone { token, status, command: kind.command(), row_count });
    }

    /// Something follows the DONE that was held back.
    pub(super) fn release_done(&mut self) {
        if let Some(mut done) = self.held_done.take() {
            done.status |= DONE_MORE;
            self.put_done(&done);
        }
    }

    pub(super) fn put_done(&mut self, done: &HeldDone) {
        self.tokens.push(done.token);
        self.tokens.extend_from_slice(&done.status.to_le_bytes());
        self.tokens.extend_from_slice(&done.command.to_le_bytes());
        self.tokens.extend_from_slice(&done.row_count.to_le_bytes());
    }
}
