//! What a session remembers between statements: its SET options, who it is, and the results that the functions
//! `@@ROWCOUNT`, `@@ERROR`, `ERROR_MESSAGE()` … ask for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::SqlError;
use crate::execute::open_cursor::SharedCursor;
use crate::storage::{ObjectId, fold};
use crate::tsql::ast::IsolationLevel;
use crate::value::Value;

/// The session options that procedures restore when they end.
///
/// The defaults are those of ODBC, OLE DB and .NET clients, which set them at login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub no_count: bool,
    /// SET NOEXEC ON: batches are compiled, and nothing in them is done until it is OFF again.
    pub no_exec: bool,
    pub xact_abort: bool,
    pub isolation: IsolationLevel,
    pub ansi_padding: bool,
    pub arith_abort: bool,
    pub cursor_close_on_commit: bool,
    pub implicit_transactions: bool,
    pub lock_timeout: Option<Duration>,
    pub deadlock_priority: i8,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            no_count: false,
            no_exec: false,
            xact_abort: false,
            isolation: IsolationLevel::ReadCommitted,
            ansi_padding: true,
            arith_abort: true,
            cursor_close_on_commit: false,
            implicit_transactions: false,
            lock_timeout: None,
            deadlock_priority: 0,
        }
    }
}

impl Options {
    /// `@@OPTIONS`.
    ///
    /// Source: "Configure the user options" (MicrosoftDocs/sql-docs,
    /// docs/database-engine/configure-windows/configure-the-user-options-server-configuration-option.md).
    pub fn bits(&self) -> i32 {
        let flags = [
            (true, 8),
            (self.ansi_padding, 16),
            (true, 32),
            (self.arith_abort, 64),
            (self.implicit_transactions, 2),
            (self.cursor_close_on_commit, 4),
            (true, 256),
            (self.no_count, 512),
            // ANSI_NULL_DFLT_ON, which clients set at login too.
            (true, 1024),
            (true, 4096),
            (self.xact_abort, 16384),
        ];
        flags.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum()
    }
}

/// A `#temp` table and the procedure level that made it.
#[derive(Debug, Clone)]
pub struct TemporaryTable {
    pub name: String,
    pub id: ObjectId,
    pub level: u32,
}

#[derive(Debug)]
pub struct SessionState {
    pub spid: i32,
    pub login: Arc<str>,
    /// The login may do everything on the server.
    pub is_administrator: bool,
    pub host_name: Arc<str>,
    pub app_name: Arc<str>,
    /// The user in the current database.
    pub user: i32,
    pub default_schema: Arc<str>,
    pub options: Options,
    /// What sp_set_session_context has stored.
    pub context: HashMap<String, Value>,
    pub row_count: i64,
    pub error: i32,
    /// `@@IDENTITY`.
    pub identity: Option<i64>,
    /// SCOPE_IDENTITY() outside of procedures, for the next batch.
    pub scope_identity: Option<i64>,
    /// `@@TRANCOUNT`.
    pub transaction_count: i32,
    /// The transaction can only be rolled back: XACT_STATE() is -1.
    pub doomed: bool,
    /// The errors of the CATCH blocks that are running, the innermost last.
    pub caught: Vec<SqlError>,
    /// `@@NESTLEVEL`.
    pub nest_level: u32,
    pub temporary_tables: Vec<TemporaryTable>,
    /// SET IDENTITY_INSERT: the one table for which it is ON.
    pub identity_insert: Option<ObjectId>,
    /// The global cursors by folded name.
    pub cursors: Vec<(String, SharedCursor)>,
    /// `@@FETCH_STATUS`.
    pub fetch_status: i32,
    /// INSERT … EXEC is running: it cannot nest, and nothing can be rolled back in it.
    pub in_insert_exec: bool,
}

impl SessionState {
    /// The `#temp` table that a name means: the one made last.
    pub fn temporary_table(&self, name: &str) -> Option<ObjectId> {
        let name = fold(name);
        self.temporary_tables.iter().rev().find(|table| table.name == name).map(|table| table.id)
    }
}
