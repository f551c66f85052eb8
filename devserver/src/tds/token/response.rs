//! The writer of an answer: result sets, messages, and what a procedure returns.

use crate::error::SqlError;
use crate::tds::packet::{DEFAULT_PACKET_SIZE, PacketType, frame, put_b_varchar, put_us_varchar};
use crate::tds::token::done::HeldDone;
use crate::tds::token::number::{
    COLUMN_IDENTITY, COLUMN_NULLABLE, COLUMN_UPDATABLE_UNKNOWN, RETURN_VALUE_OUTPUT, TOKEN_COLUMN_METADATA,
    TOKEN_ERROR, TOKEN_INFO, TOKEN_ORDER, TOKEN_RETURN_STATUS, TOKEN_RETURN_VALUE, TOKEN_ROW,
};
use crate::tds::token::socket_writer::{Connection, SocketWriter};
use crate::tds::wire_type::write::{put_column_type, put_type_info, put_value, user_type};
use crate::value::{Collation, SqlType, Value};

const SERVER_NAME: &str = "readpast-devserver";

/// From this severity on an error ends the connection ("Database Engine error severities", MicrosoftDocs/sql-docs).
const FATAL_SEVERITY: u8 = 20;

/// The severity that goes out as 0: "for compatibility reasons, the Database Engine converts severity 10 to severity 0
/// before returning the error information to the calling application" (same page). DB-Library clients, for one, take
/// what is higher for an error.
const INFORMATIONAL_SEVERITY: u8 = 10;

/// The longest message of an error; RAISERROR and THROW stop at 2,047 and 2,048 characters.
const MAX_MESSAGE_UNITS: u16 = 4000;

/// When this much is encoded, whole packets go to the connection: enough to make few system calls, small enough for the
/// caches.
pub(super) const FLUSH_SIZE: usize = 32 * 1024;

/// The table's name, which the columns of `text`, `ntext` and `image` have in COLMETADATA: one part, empty.
const NO_TABLE_NAME: &[u8] = &[1, 0, 0];

/// A column of a result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    pub name: String,
    pub sql_type: SqlType,
    /// Of text.
    pub collation: Collation,
    pub nullable: bool,
    pub identity: bool,
    /// A column of a table that takes values.
    pub updatable: bool,
}

/// Writes the answer to one request after the other. It never fails: once the client is gone, it discards.
pub struct ResponseWriter {
    /// Tokens that are not in a packet yet.
    pub(super) tokens: Vec<u8>,
    /// Packets on their way out; kept for its memory.
    pub(super) packets: Vec<u8>,
    /// `None` in tests that only look at the tokens.
    pub(super) connection: Option<Connection>,
    pub(super) held_done: Option<HeldDone>,
    pub(super) error_raised: bool,
    pub(super) result_open: bool,
    pub(super) procedure_depth: u32,
    /// The types of the open result set's columns as the executor gives them.
    pub(super) column_types: Vec<SqlType>,
    pub(super) transaction_descriptor: u64,
    /// An error was sent after which the connection ends.
    pub(super) fatal: bool,
}

impl ResponseWriter {
    /// A writer toward a connection; packet size and session number are those before a login.
    pub fn new(output: SocketWriter) -> ResponseWriter {
        let packet_size = DEFAULT_PACKET_SIZE;
        ResponseWriter::with(Some(Connection { output, packet_size, spid: 0, next_packet_id: 1, gone: false }))
    }

    pub(super) fn with(connection: Option<Connection>) -> ResponseWriter {
        ResponseWriter {
            tokens: Vec::new(),
            packets: Vec::new(),
            connection,
            held_done: None,
            error_raised: false,
            result_open: false,
            procedure_depth: 0,
            column_types: Vec::new(),
            transaction_descriptor: 0,
            fatal: false,
        }
    }

    /// Starts a result set; [`ResponseWriter::done_statement`] ends it.
    pub fn columns(&mut self, columns: &[ResultColumn]) {
        self.release_done();
        self.result_open = true;
        self.column_types.clear();
        self.tokens.push(TOKEN_COLUMN_METADATA);
        let count = u16::try_from(columns.len()).expect("a result set has at most 4,096 columns");
        self.tokens.extend_from_slice(&count.to_le_bytes());
        for column in columns {
            let mut flags = 0;
            if column.nullable {
                flags |= COLUMN_NULLABLE;
            }
            if column.identity {
                flags |= COLUMN_IDENTITY;
            }
            if column.updatable {
                flags |= COLUMN_UPDATABLE_UNKNOWN;
            }
            self.tokens.extend_from_slice(&user_type(column.sql_type).to_le_bytes());
            self.tokens.extend_from_slice(&flags.to_le_bytes());
            put_column_type(&mut self.tokens, column.sql_type, column.collation);
            if column.sql_type.is_text_or_image() {
                self.tokens.extend_from_slice(NO_TABLE_NAME);
            }
            put_b_varchar(&mut self.tokens, &column.name);
            self.column_types.push(column.sql_type);
        }
    }

    /// By which columns the open result set is ordered, from 1; before its rows ([MS-TDS] 2.2.7, "ORDER").
    pub fn order(&mut self, columns: &[u16]) {
        if columns.is_empty() {
            return;
        }
        let length_at = self.begin_sized_token(TOKEN_ORDER);
        for column in columns {
            self.tokens.extend_from_slice(&column.to_le_bytes());
        }
        self.end_sized_token(length_at);
    }

    /// One row of the open result set. The values are of the columns' types already, or NULL.
    pub fn row(&mut self, values: &[Value]) {
        debug_assert_eq!(values.len(), self.column_types.len(), "a row has a value for each column");
        self.tokens.push(TOKEN_ROW);
        for (index, value) in values.iter().enumerate() {
            put_value(&mut self.tokens, self.column_types[index], value);
        }
        self.flush_if_large();
    }

    /// An error; the next DONE carries the error bit.
    pub fn error(&mut self, error: &SqlError) {
        self.release_done();
        self.error_raised = true;
        self.fatal |= error.severity >= FATAL_SEVERITY;
        self.put_message(
            TOKEN_ERROR,
            error.number,
            error.state,
            error.severity,
            &error.message,
            error.procedure.as_deref(),
            error.line,
        );
    }

    /// A message that is no error: PRINT (number 0, severity 0), RAISERROR up to severity 10.
    pub fn info(&mut self, number: i32, severity: u8, state: u8, message: &str, procedure: Option<&str>, line: u32) {
        self.release_done();
        let severity = if severity == INFORMATIONAL_SEVERITY { 0 } else { severity };
        self.put_message(TOKEN_INFO, number, state, severity, message, procedure, line);
        self.flush_if_large();
    }

    /// What the procedure returned; before [`ResponseWriter::leave_procedure`]. An inner procedure's is not the
    /// client's.
    pub fn return_status(&mut self, status: i32) {
        if self.procedure_depth > 1 {
            return;
        }
        self.release_done();
        self.tokens.push(TOKEN_RETURN_STATUS);
        self.tokens.extend_from_slice(&status.to_le_bytes());
    }

    /// The value of an OUTPUT parameter of a remote call; after the return status. `ordinal` is the parameter's place
    /// in the call, from 0; `name` is the one the client sent, with its `@`, or empty.
    pub fn return_value(&mut self, name: &str, ordinal: u16, sql_type: SqlType, value: &Value) {
        self.release_done();
        self.tokens.push(TOKEN_RETURN_VALUE);
        self.tokens.extend_from_slice(&ordinal.to_le_bytes());
        put_b_varchar(&mut self.tokens, name);
        self.tokens.push(RETURN_VALUE_OUTPUT);
        self.tokens.extend_from_slice(&user_type(sql_type).to_le_bytes());
        self.tokens.extend_from_slice(&COLUMN_NULLABLE.to_le_bytes());
        put_type_info(&mut self.tokens, sql_type);
        put_value(&mut self.tokens, sql_type, value);
        self.flush_if_large();
    }

    /// Nobody reads the answer any more.
    pub fn is_client_gone(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.gone)
    }

    /// Tells the client that nothing more will come.
    pub(crate) fn close(&mut self) {
        if let Some(connection) = &mut self.connection {
            // A client that is gone needs no good-bye.
            let _ = connection.output.close();
        }
    }

    /// An error of a severity that ends the connection was sent.
    pub(crate) fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// The transaction the client was told of, 0 if none.
    pub(crate) fn transaction_descriptor(&self) -> u64 {
        self.transaction_descriptor
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an ERROR token")]
    fn put_message(
        &mut self,
        token: u8,
        number: i32,
        state: u8,
        severity: u8,
        message: &str,
        procedure: Option<&str>,
        line: u32,
    ) {
        let length_at = self.begin_sized_token(token);
        self.tokens.extend_from_slice(&number.to_le_bytes());
        self.tokens.extend_from_slice(&[state, severity]);
        put_us_varchar(&mut self.tokens, message, MAX_MESSAGE_UNITS);
        put_b_varchar(&mut self.tokens, SERVER_NAME);
        put_b_varchar(&mut self.tokens, procedure.unwrap_or_default());
        self.tokens.extend_from_slice(&line.to_le_bytes());
        self.end_sized_token(length_at);
    }

    /// A token with two bytes of length; gives where they stand.
    pub(super) fn begin_sized_token(&mut self, token: u8) -> usize {
        self.tokens.push(token);
        self.tokens.extend_from_slice(&[0, 0]);
        self.tokens.len() - 2
    }

    pub(super) fn end_sized_token(&mut self, length_at: usize) {
        let start = length_at + 2;
        let length = u16::try_from(self.tokens.len() - start).expect("the texts in it are limited");
        self.tokens[length_at..start].copy_from_slice(&length.to_le_bytes());
    }

    fn flush_if_large(&mut self) {
        if self.tokens.len() >= FLUSH_SIZE {
            self.send(false);
        }
    }

    /// Hands packets to the connection: whole ones, or with `last` everything. Waits while the client is slow to read.
    pub(super) fn send(&mut self, last: bool) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        if connection.gone {
            self.tokens.clear();
            return;
        }
        self.packets.clear();
        let taken = frame(
            &mut self.packets,
            &self.tokens,
            PacketType::TabularResult,
            connection.packet_size,
            connection.spid,
            &mut connection.next_packet_id,
            last,
        );
        self.tokens.drain(..taken);
        connection.gone = connection.output.write(&self.packets).is_err();
        // One large value must not keep its memory for as long as the connection lives.
        self.packets.shrink_to(2 * FLUSH_SIZE);
        self.tokens.shrink_to(2 * FLUSH_SIZE);
    }
}
