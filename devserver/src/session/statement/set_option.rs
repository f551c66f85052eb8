//! SET of options that are ON or OFF.

use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::SessionOption;
use crate::value::Value;

impl Session {
    /// SET DATEFIRST. 2742: docs/relational-databases/errors-events/database-engine-events-and-errors-2000-to-2999.md.
    pub(crate) fn set_date_first(&mut self, day: &Value) -> SqlResult<()> {
        let Some(number) = day.as_i64() else { return Err(SqlError::not_supported("SET DATEFIRST to NULL")) };
        match u8::try_from(number) {
            Ok(day @ 1..=7) => self.state.options.date_first = day,
            _ => return Err(SqlError::new(2742, format!("SET DATEFIRST {number} is out of range."))),
        }
        Ok(())
    }

    /// Filtered indexes and most of what is newer demand the settings that clients make at login; the dev server knows
    /// T-SQL under these settings only.
    pub(crate) fn set_option(&mut self, option: SessionOption, on: bool) -> SqlResult<()> {
        let refused =
            |what: &str| Err(SqlError::not_supported(format!("SET {what} {}", if on { "ON" } else { "OFF" })));
        let options = &mut self.state.options;
        match (option, on) {
            (SessionOption::NoCount, _) => options.no_count = on,
            (SessionOption::FmtOnly, _) => options.format_only = on,
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
            (SessionOption::ForcePlan, true) => return refused("FORCEPLAN"),
            (SessionOption::ImplicitTransactions, true) => return refused("IMPLICIT_TRANSACTIONS"),
            (SessionOption::NumericRoundAbort, true) => return refused("NUMERIC_ROUNDABORT"),
            (SessionOption::ParseOnly, true) => return refused("PARSEONLY"),
            (SessionOption::StatisticsIo, true) => return refused("STATISTICS IO"),
            (SessionOption::StatisticsTime, true) => return refused("STATISTICS TIME"),
            // Under it, cursors are refused.
            (SessionOption::CursorCloseOnCommit, _) => options.cursor_close_on_commit = on,
            // They are as they always are here.
            _ => {}
        }
        Ok(())
    }
}
