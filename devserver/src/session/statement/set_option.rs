//! SET of options that are ON or OFF.

use crate::session::client_session::Session;
use crate::tsql::ast::SessionOption;

impl Session {
    /// Filtered indexes and most of what is newer demand the settings that clients make at login; the dev server knows
    /// T-SQL under these settings only.
    pub(crate) fn set_option(&mut self, option: SessionOption, on: bool) {
        let options = &mut self.state.options;
        match option {
            SessionOption::NoCount => options.no_count = on,
            SessionOption::NoExec => options.no_exec = on,
            SessionOption::XactAbort => options.xact_abort = on,
            // With ANSI_WARNINGS ON, which it always is, ARITHABORT changes no result.
            SessionOption::ArithAbort => options.arith_abort = on,
            // It bears on the columns that are made while it is OFF, which are refused, and on filtered indexes.
            SessionOption::AnsiPadding => options.ansi_padding = on,
            // Under it, cursors are refused.
            SessionOption::CursorCloseOnCommit => options.cursor_close_on_commit = on,
            SessionOption::ImplicitTransactions => options.implicit_transactions = on,
            SessionOption::Fixed(..) => {}
        }
    }
}
