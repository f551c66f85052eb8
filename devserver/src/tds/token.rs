//! The answer to a request: tokens, packets, and the way to the socket.
//!
//! The executor calls [`ResponseWriter`] while it runs; tokens are encoded straight into a buffer, whole packets are
//! cut off it and written to the connection from the executor's own thread, which waits while the client is slow to
//! read, so that a large result never stands in memory. Every DONE is held back until it is known whether more follows.
//! Source: MS-TDS, "2.2.7 Packet Data Token Stream Definition".

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::login::{FEATURE_FEDERATED_AUTHENTICATION, Login, Proof};
use super::packet::{DEFAULT_PACKET_SIZE, PacketType, frame, put_b_varchar, put_us_varchar};
use super::prelogin::SERVER_VERSION;
use super::wire_type::{put_type_info, put_value, user_type};
use crate::error::SqlError;
use crate::gate::Gate;
use crate::value::{Collation, Length, SqlType, Value, convert};

const TOKEN_RETURN_STATUS: u8 = 0x79;
const TOKEN_COLUMN_METADATA: u8 = 0x81;
const TOKEN_ERROR: u8 = 0xAA;
const TOKEN_INFO: u8 = 0xAB;
const TOKEN_RETURN_VALUE: u8 = 0xAC;
const TOKEN_LOGIN_ACK: u8 = 0xAD;
const TOKEN_FEATURE_EXT_ACK: u8 = 0xAE;
const TOKEN_ROW: u8 = 0xD1;
const TOKEN_ENVIRONMENT_CHANGE: u8 = 0xE3;
const TOKEN_SSPI: u8 = 0xED;
const TOKEN_DONE: u8 = 0xFD;
const TOKEN_DONE_PROCEDURE: u8 = 0xFE;
const TOKEN_DONE_IN_PROCEDURE: u8 = 0xFF;

const DONE_MORE: u16 = 0x01;
const DONE_ERROR: u16 = 0x02;
const DONE_COUNT: u16 = 0x10;
const DONE_ATTENTION: u16 = 0x20;
/// Another call of the same message follows.
const DONE_RPC_IN_BATCH: u16 = 0x80;

/// The command in the DONE that acknowledges an attention, as SQL Server sends it.
const COMMAND_ATTENTION: u16 = 0xFD;

const ENVIRONMENT_DATABASE: u8 = 1;
const ENVIRONMENT_LANGUAGE: u8 = 2;
const ENVIRONMENT_PACKET_SIZE: u8 = 4;
const ENVIRONMENT_COLLATION: u8 = 7;
const ENVIRONMENT_BEGIN_TRANSACTION: u8 = 8;
const ENVIRONMENT_COMMIT_TRANSACTION: u8 = 9;
const ENVIRONMENT_ROLLBACK_TRANSACTION: u8 = 10;
const ENVIRONMENT_RESET_DONE: u8 = 18;

const COLUMN_NULLABLE: u16 = 0x01;
const COLUMN_IDENTITY: u16 = 0x10;

/// The status of a RETURNVALUE that is an output parameter (the other one is a function's result).
const RETURN_VALUE_OUTPUT: u8 = 0x01;

const SERVER_NAME: &str = "readpast-devserver";
const PROGRAM_NAME: &str = "Microsoft SQL Server";
const LANGUAGE: &str = "us_english";

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
const FLUSH_SIZE: usize = 32 * 1024;

/// A column of a result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    pub name: String,
    pub sql_type: SqlType,
    pub nullable: bool,
    pub identity: bool,
}

/// Which kind of statement a DONE token ends (its CurCmd).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    Execute,
    Other,
}

impl StatementKind {
    /// As SQL Server numbers its commands; MS-TDS leaves the numbers to the application.
    fn command(self) -> u16 {
        match self {
            StatementKind::Select => 0xC1,
            StatementKind::Insert => 0xC3,
            StatementKind::Delete => 0xC4,
            StatementKind::Update => 0xC5,
            StatementKind::Merge => 0x117,
            StatementKind::Execute => 0xE0,
            StatementKind::Other => 0,
        }
    }
}

/// A DONE token that waits for its MORE bit.
struct HeldDone {
    token: u8,
    status: u16,
    command: u16,
    row_count: u64,
}

/// Where packets go.
struct Connection {
    output: Output,
    packet_size: usize,
    spid: u16,
    next_packet_id: u8,
    gone: bool,
}

/// The writing half of a connection, for a thread outside the runtime that drives it.
///
/// Writing from the executing thread saves the hand-over to a task, which would cost a small answer more than all else.
pub struct Output {
    gate: Arc<Gate>,
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    runtime: Handle,
    hung_up: watch::Receiver<bool>,
}

impl Output {
    /// `runtime` is the one that drives `stream`; when `hung_up` changes, a client that does not read is given up.
    /// Nothing is written while `gate` is closed.
    pub fn new(
        stream: Box<dyn AsyncWrite + Send + Unpin>,
        runtime: Handle,
        hung_up: watch::Receiver<bool>,
        gate: Arc<Gate>,
    ) -> Self {
        Output { gate, stream, runtime, hung_up }
    }

    fn write(&mut self, packets: &[u8]) -> io::Result<()> {
        self.gate.pass();
        let Output { stream, runtime, hung_up, .. } = self;
        let writing = async {
            stream.write_all(packets).await?;
            stream.flush().await
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                written = writing => written,
                _ = hung_up.changed() => Err(io::ErrorKind::ConnectionAborted.into()),
            }
        })
    }

    fn close(&mut self) -> io::Result<()> {
        self.gate.pass();
        let Output { stream, runtime, hung_up, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                closed = stream.shutdown() => closed,
                _ = hung_up.changed() => Ok(()),
            }
        })
    }
}

/// Writes the answer to one request after the other. It never fails: once the client is gone, it discards.
pub struct ResponseWriter {
    /// Tokens that are not in a packet yet.
    tokens: Vec<u8>,
    /// Packets on their way out; kept for its memory.
    packets: Vec<u8>,
    /// `None` in tests that only look at the tokens.
    connection: Option<Connection>,
    held_done: Option<HeldDone>,
    error_raised: bool,
    result_open: bool,
    procedure_depth: u32,
    /// The types of the open result set's columns as the executor gives them.
    column_types: Vec<SqlType>,
    /// The client has the types that came with TDS 7.3.
    knows_date_types: bool,
    transaction_descriptor: u64,
    /// An error was sent after which the connection ends.
    fatal: bool,
}

impl ResponseWriter {
    /// A writer toward a connection; packet size and session number are those before a login.
    pub fn new(output: Output) -> ResponseWriter {
        let packet_size = DEFAULT_PACKET_SIZE;
        ResponseWriter::with(Some(Connection { output, packet_size, spid: 0, next_packet_id: 1, gone: false }))
    }

    fn with(connection: Option<Connection>) -> ResponseWriter {
        ResponseWriter {
            tokens: Vec::new(),
            packets: Vec::new(),
            connection,
            held_done: None,
            error_raised: false,
            result_open: false,
            procedure_depth: 0,
            column_types: Vec::new(),
            knows_date_types: true,
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
            let sent_type = self.sent_type(column.sql_type);
            self.tokens.extend_from_slice(&user_type(sent_type).to_le_bytes());
            self.tokens.extend_from_slice(&flags.to_le_bytes());
            put_type_info(&mut self.tokens, sent_type);
            put_b_varchar(&mut self.tokens, &column.name);
            self.column_types.push(column.sql_type);
        }
    }

    /// One row of the open result set. The values are of the columns' types already, or NULL.
    pub fn row(&mut self, values: &[Value]) {
        debug_assert_eq!(values.len(), self.column_types.len(), "a row has a value for each column");
        self.tokens.push(TOKEN_ROW);
        for (index, value) in values.iter().enumerate() {
            self.put(self.column_types[index], value);
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

    /// The end of one statement; to be called for every executed one but DECLARE. `row_count` is `None` where SQL
    /// Server counts nothing (SET, PRINT, or all under SET NOCOUNT ON).
    ///
    /// Inside a procedure a statement without a count, a result set or an error leaves no trace: clients take a
    /// DONEINPROC for a result of its own.
    pub fn done_statement(&mut self, kind: StatementKind, row_count: Option<u64>) {
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
            self.hold_done(TOKEN_DONE_PROCEDURE, StatementKind::Execute, None);
        }
    }

    /// Another call of the same message follows the one that has just ended.
    pub fn next_call_follows(&mut self) {
        if let Some(done) = &mut self.held_done {
            done.status |= DONE_RPC_IN_BATCH;
        }
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
        let sent_type = self.sent_type(sql_type);
        self.tokens.extend_from_slice(&user_type(sent_type).to_le_bytes());
        self.tokens.extend_from_slice(&COLUMN_NULLABLE.to_le_bytes());
        put_type_info(&mut self.tokens, sent_type);
        self.put(sql_type, value);
        self.flush_if_large();
    }

    /// An outermost transaction began. `descriptor` is not 0 and new for each transaction.
    pub fn transaction_begun(&mut self, descriptor: u64) {
        self.transaction_descriptor = descriptor;
        self.put_environment(ENVIRONMENT_BEGIN_TRANSACTION, &descriptor_bytes(descriptor), &[0]);
    }

    /// The outermost transaction was committed.
    pub fn transaction_committed(&mut self, descriptor: u64) {
        self.transaction_descriptor = 0;
        self.put_environment(ENVIRONMENT_COMMIT_TRANSACTION, &[0], &descriptor_bytes(descriptor));
    }

    /// The whole transaction was rolled back.
    pub fn transaction_rolled_back(&mut self, descriptor: u64) {
        self.transaction_descriptor = 0;
        self.put_environment(ENVIRONMENT_ROLLBACK_TRANSACTION, &[0], &descriptor_bytes(descriptor));
    }

    /// USE has changed the database.
    pub fn database_changed(&mut self, new: &str, old: &str) {
        self.put_environment(ENVIRONMENT_DATABASE, &name_bytes(new), &name_bytes(old));
        self.info(5701, 10, 2, &format!("Changed database context to '{new}'."), None, 1);
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

    /// The login was accepted: LOGINACK, the session's environment, and from the next answer on its packet size.
    pub(crate) fn login_accepted(&mut self, login: &Login, database: &str, spid: u16) {
        self.knows_date_types = login.knows_date_types();
        self.database_changed(database, "");
        self.put_environment(ENVIRONMENT_COLLATION, &collation_bytes(), &[0]);
        self.put_environment(ENVIRONMENT_LANGUAGE, &name_bytes(LANGUAGE), &name_bytes(""));
        self.info(5703, 10, 1, &format!("Changed language setting to {LANGUAGE}."), None, 1);
        self.put_login_ack(login.tds_version);
        let old_size = DEFAULT_PACKET_SIZE.to_string();
        let new_size = login.packet_size.to_string();
        self.put_environment(ENVIRONMENT_PACKET_SIZE, &name_bytes(&new_size), &name_bytes(&old_size));
        if login.has_features {
            self.tokens.push(TOKEN_FEATURE_EXT_ACK);
            if let Proof::Token(_) = login.proof {
                self.tokens.extend_from_slice(&[FEATURE_FEDERATED_AUTHENTICATION, 0, 0, 0, 0]);
            }
            self.tokens.push(0xFF); // no other is in use
        }
        if let Some(connection) = &mut self.connection {
            connection.spid = spid;
        }
    }

    /// What Kerberos has to say to the client, in a message of its own: tiberius, which is in use with Active Directory, reads on
    /// in the next one.
    pub(crate) fn integrated_answer(&mut self, answer: &[u8]) {
        let length_at = self.begin_sized_token(TOKEN_SSPI);
        self.tokens.extend_from_slice(answer);
        self.end_sized_token(length_at);
        self.send(true);
    }

    /// The packet size that [`ResponseWriter::login_accepted`] announced comes into force.
    pub(crate) fn use_packet_size(&mut self, packet_size: usize) {
        if let Some(connection) = &mut self.connection {
            connection.packet_size = packet_size;
        }
    }

    /// The session was reset for a connection pool; its transaction, if it had to go, was rolled back.
    pub(crate) fn session_reset(&mut self, keep_transaction: bool) {
        if self.transaction_descriptor != 0 && !keep_transaction {
            self.transaction_rolled_back(self.transaction_descriptor);
        }
        self.put_environment(ENVIRONMENT_RESET_DONE, &[0], &[0]);
    }

    /// Ends the answer.
    pub(crate) fn finish(&mut self) {
        self.procedure_depth = 0;
        self.result_open = false;
        if self.held_done.is_none() || self.error_raised {
            self.hold_done(TOKEN_DONE, StatementKind::Other, None);
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

    /// The column type as the client can understand it: dates go as text to clients from before TDS 7.3.
    fn sent_type(&self, sql_type: SqlType) -> SqlType {
        match sql_type {
            SqlType::Date | SqlType::Time(_) | SqlType::DateTime2(_) | SqlType::DateTimeOffset(_)
                if !self.knows_date_types =>
            {
                // "9999-12-31 23:59:59.9999999 +14:00"
                SqlType::NVarChar(Length::Limit(34))
            }
            other => other,
        }
    }

    fn put(&mut self, sql_type: SqlType, value: &Value) {
        let sent_type = self.sent_type(sql_type);
        if sent_type == sql_type {
            put_value(&mut self.tokens, sql_type, value);
            return;
        }
        let text = convert(value.clone(), sql_type, sent_type, None, true).unwrap_or(Value::Null);
        put_value(&mut self.tokens, sent_type, &text);
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

    fn put_environment(&mut self, kind: u8, new: &[u8], old: &[u8]) {
        self.release_done();
        let length_at = self.begin_sized_token(TOKEN_ENVIRONMENT_CHANGE);
        self.tokens.push(kind);
        self.tokens.extend_from_slice(new);
        self.tokens.extend_from_slice(old);
        self.end_sized_token(length_at);
    }

    fn put_login_ack(&mut self, tds_version: u32) {
        const INTERFACE_TSQL: u8 = 1;
        let length_at = self.begin_sized_token(TOKEN_LOGIN_ACK);
        self.tokens.push(INTERFACE_TSQL);
        // Here, unlike in LOGIN7, the most significant byte comes first.
        self.tokens.extend_from_slice(&tds_version.to_be_bytes());
        put_b_varchar(&mut self.tokens, PROGRAM_NAME);
        self.tokens.extend_from_slice(&SERVER_VERSION);
        self.end_sized_token(length_at);
    }

    /// A token with two bytes of length; gives where they stand.
    fn begin_sized_token(&mut self, token: u8) -> usize {
        self.tokens.push(token);
        self.tokens.extend_from_slice(&[0, 0]);
        self.tokens.len() - 2
    }

    fn end_sized_token(&mut self, length_at: usize) {
        let start = length_at + 2;
        let length = u16::try_from(self.tokens.len() - start).expect("the texts in it are limited");
        self.tokens[length_at..start].copy_from_slice(&length.to_le_bytes());
    }

    fn hold_done(&mut self, token: u8, kind: StatementKind, row_count: Option<u64>) {
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
    fn release_done(&mut self) {
        if let Some(mut done) = self.held_done.take() {
            done.status |= DONE_MORE;
            self.put_done(&done);
        }
    }

    fn put_done(&mut self, done: &HeldDone) {
        self.tokens.push(done.token);
        self.tokens.extend_from_slice(&done.status.to_le_bytes());
        self.tokens.extend_from_slice(&done.command.to_le_bytes());
        self.tokens.extend_from_slice(&done.row_count.to_le_bytes());
    }

    fn flush_if_large(&mut self) {
        if self.tokens.len() >= FLUSH_SIZE {
            self.send(false);
        }
    }

    /// Hands packets to the connection: whole ones, or with `last` everything. Waits while the client is slow to read.
    fn send(&mut self, last: bool) {
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

/// B_VARBYTE with the descriptor of a transaction.
fn descriptor_bytes(descriptor: u64) -> [u8; 9] {
    let mut bytes = [8; 9];
    bytes[1..].copy_from_slice(&descriptor.to_le_bytes());
    bytes
}

/// B_VARBYTE with the server's collation.
fn collation_bytes() -> [u8; 6] {
    let mut bytes = [5; 6];
    bytes[1..].copy_from_slice(&Collation::default().tds_bytes());
    bytes
}

fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_b_varchar(&mut bytes, name);
    bytes
}

#[cfg(test)]
impl ResponseWriter {
    /// A writer without a connection, which keeps everything.
    pub fn for_test() -> ResponseWriter {
        ResponseWriter::with(None)
    }

    /// The tokens so far, readable: `COLMETADATA(a Int)`, `ROW(Int(1))`, `DONE(count=1, more)`, `ERROR(208, ...)`.
    pub fn tokens(&self) -> Vec<String> {
        let mut bytes = self.tokens.clone();
        if let Some(done) = &self.held_done {
            let mut writer = ResponseWriter::for_test();
            writer.put_done(done);
            bytes.extend(writer.tokens);
        }
        tests::describe(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{PacketReader, PayloadReader};
    use super::super::wire_type::{WireType, read_result, read_result_type, read_type_info, read_value};
    use super::*;

    /// The tokens in `bytes`, in words.
    pub fn describe(bytes: &[u8]) -> Vec<String> {
        let mut reader = PayloadReader::new(bytes);
        let mut columns: Vec<Option<WireType>> = Vec::new();
        let mut tokens = Vec::new();
        while reader.remaining() > 0 {
            let token = reader.u8().unwrap();
            tokens.push(match token {
                TOKEN_COLUMN_METADATA => {
                    columns.clear();
                    let mut names = Vec::new();
                    for _ in 0..reader.u16().unwrap() {
                        reader.bytes(6).unwrap();
                        let wire_type = read_result_type(&mut reader).unwrap();
                        let sql_type = wire_type.map_or(SqlType::Variant, |wire_type| wire_type.sql_type);
                        names.push(format!("{} {sql_type:?}", reader.b_varchar().unwrap()));
                        columns.push(wire_type);
                    }
                    format!("COLMETADATA({})", names.join(", "))
                }
                TOKEN_ROW => {
                    let values: Vec<String> = columns
                        .iter()
                        .map(|column| format!("{:?}", read_result(&mut reader, column.as_ref()).unwrap()))
                        .collect();
                    format!("ROW({})", values.join(", "))
                }
                TOKEN_RETURN_STATUS => {
                    format!("RETURNSTATUS({})", i32::from_le_bytes(reader.array().unwrap()))
                }
                TOKEN_RETURN_VALUE => {
                    let ordinal = reader.u16().unwrap();
                    let name = reader.b_varchar().unwrap();
                    reader.bytes(7).unwrap();
                    let wire_type = read_type_info(&mut reader).unwrap();
                    format!("RETURNVALUE({ordinal} {name} {:?})", read_value(&mut reader, &wire_type).unwrap())
                }
                TOKEN_DONE | TOKEN_DONE_PROCEDURE | TOKEN_DONE_IN_PROCEDURE => {
                    let status = reader.u16().unwrap();
                    let _command = reader.u16().unwrap();
                    let count = reader.u64().unwrap();
                    let mut words = Vec::new();
                    if status & DONE_COUNT != 0 {
                        words.push(format!("count={count}"));
                    }
                    for (bit, word) in [(DONE_ERROR, "error"), (DONE_ATTENTION, "attention"), (DONE_MORE, "more")] {
                        if status & bit != 0 {
                            words.push(word.to_owned());
                        }
                    }
                    let name = match token {
                        TOKEN_DONE => "DONE",
                        TOKEN_DONE_PROCEDURE => "DONEPROC",
                        _ => "DONEINPROC",
                    };
                    format!("{name}({})", words.join(", "))
                }
                _ => {
                    let length = usize::from(reader.u16().unwrap());
                    let mut body = PayloadReader::new(reader.bytes(length).unwrap());
                    match token {
                        TOKEN_ERROR | TOKEN_INFO => {
                            let number = body.u32().unwrap();
                            body.bytes(2).unwrap();
                            let name = if token == TOKEN_ERROR { "ERROR" } else { "INFO" };
                            format!("{name}({number}, {})", body.us_varchar().unwrap())
                        }
                        TOKEN_ENVIRONMENT_CHANGE => format!("ENVCHANGE({})", body.u8().unwrap()),
                        TOKEN_LOGIN_ACK => "LOGINACK".to_owned(),
                        other => panic!("token 0x{other:02X}"),
                    }
                }
            });
        }
        tokens
    }

    fn int_column(name: &str) -> ResultColumn {
        ResultColumn { name: name.to_owned(), sql_type: SqlType::Int, nullable: true, identity: false }
    }

    #[test]
    fn every_done_but_the_last_says_that_more_follows() {
        let mut out = ResponseWriter::for_test();
        out.columns(&[int_column("a")]);
        out.row(&[Value::Int(1)]);
        out.row(&[Value::Null]);
        out.done_statement(StatementKind::Select, Some(2));
        out.done_statement(StatementKind::Other, None);
        out.done_statement(StatementKind::Update, Some(3));
        out.finish();
        assert_eq!(
            out.tokens(),
            ["COLMETADATA(a Int)", "ROW(Int(1))", "ROW(Null)", "DONE(count=2, more)", "DONE(more)", "DONE(count=3)"]
        );
    }

    #[test]
    fn an_answer_without_statements_is_one_done() {
        let mut out = ResponseWriter::for_test();
        out.finish();
        assert_eq!(out.tokens(), ["DONE()"]);
    }

    #[test]
    fn an_error_marks_the_next_done() {
        let mut out = ResponseWriter::for_test();
        out.error(&SqlError::new(208, "Invalid object name 'x'."));
        out.done_statement(StatementKind::Select, None);
        out.done_statement(StatementKind::Select, None);
        out.error(&SqlError::new(8134, "Divide by zero error encountered."));
        out.finish();
        assert_eq!(
            out.tokens(),
            [
                "ERROR(208, Invalid object name 'x'.)",
                "DONE(error, more)",
                "DONE(more)",
                "ERROR(8134, Divide by zero error encountered.)",
                "DONE(error)"
            ]
        );
    }

    #[test]
    fn a_procedure_ends_with_its_status_outputs_and_doneproc() {
        let mut out = ResponseWriter::for_test();
        out.enter_procedure();
        out.done_statement(StatementKind::Other, None);
        out.done_statement(StatementKind::Insert, Some(1));
        out.enter_procedure();
        out.columns(&[int_column("a")]);
        out.done_statement(StatementKind::Select, None);
        out.return_status(9);
        out.leave_procedure();
        out.return_status(0);
        out.return_value("@b", 1, SqlType::Int, &Value::Int(7));
        out.leave_procedure();
        out.finish();
        assert_eq!(
            out.tokens(),
            [
                "DONEINPROC(count=1, more)",
                "COLMETADATA(a Int)",
                "DONEINPROC(more)",
                "RETURNSTATUS(0)",
                "RETURNVALUE(1 @b Int(7))",
                "DONEPROC()"
            ]
        );
    }

    #[test]
    fn a_cancelled_request_ends_with_an_error_bit_and_the_attention_has_its_own_answer() {
        let mut out = ResponseWriter::for_test();
        out.columns(&[int_column("a")]);
        out.finish_cancelled();
        out.acknowledge_attention();
        assert_eq!(out.tokens(), ["COLMETADATA(a Int)", "DONE(error)", "DONE(attention)"]);
    }

    #[test]
    fn the_transaction_the_client_knows_of_is_kept() {
        let mut out = ResponseWriter::for_test();
        out.transaction_begun(77);
        assert_eq!(out.transaction_descriptor(), 77);
        out.transaction_committed(77);
        assert_eq!(out.transaction_descriptor(), 0);
        out.transaction_begun(78);
        out.session_reset(true);
        assert_eq!(out.transaction_descriptor(), 78);
        out.session_reset(false);
        assert_eq!(out.transaction_descriptor(), 0);
        assert_eq!(
            out.tokens(),
            ["ENVCHANGE(8)", "ENVCHANGE(9)", "ENVCHANGE(8)", "ENVCHANGE(18)", "ENVCHANGE(10)", "ENVCHANGE(18)"]
        );
    }

    #[test]
    fn clients_before_tds_7_3_get_dates_as_text() {
        let mut out = ResponseWriter::for_test();
        out.knows_date_types = false;
        let column = ResultColumn { sql_type: SqlType::Date, ..int_column("d") };
        out.columns(&[column]);
        out.row(&[Value::Date(693_595)]);
        assert_eq!(out.tokens(), ["COLMETADATA(d NVarChar(Limit(34)))", "ROW(String(\"1900-01-01\"))"]);
    }

    #[test]
    fn long_messages_are_cut() {
        let mut out = ResponseWriter::for_test();
        out.error(&SqlError::new(50000, "x".repeat(100_000)));
        out.finish();
        assert_eq!(out.tokens()[0].len(), "ERROR(50000, )".len() + 4000);
    }

    /// A writer, the client's end of its connection, and what must stay alive meanwhile.
    fn connected() -> (ResponseWriter, tokio::io::DuplexStream, watch::Sender<bool>) {
        let (server, client) = tokio::io::duplex(1024);
        let (stop, stopping) = watch::channel(false);
        (ResponseWriter::new(Output::new(Box::new(server), Handle::current(), stopping, Arc::default())), client, stop)
    }

    #[tokio::test]
    async fn large_results_go_out_packet_by_packet_and_come_back_whole() {
        const ROWS: i32 = 50_000;
        let (mut out, mut client, _stop) = connected();
        let writing = tokio::task::spawn_blocking(move || {
            out.use_packet_size(512);
            out.columns(&[int_column("a")]);
            for number in 0..ROWS {
                out.row(&[Value::Int(number)]);
            }
            out.done_statement(StatementKind::Select, Some(ROWS as u64));
            out.finish();
            assert!(out.tokens.capacity() + out.packets.capacity() < 6 * FLUSH_SIZE);
        });
        let mut reader = PacketReader::default();
        reader.allow_large_messages();
        let message = reader.next_message(&mut client).await.unwrap().unwrap();
        writing.await.unwrap();
        let tokens = describe(&message.payload);
        assert_eq!(tokens.len(), 2 + ROWS as usize);
        assert_eq!(tokens[ROWS as usize], format!("ROW(Int({}))", ROWS - 1));
    }

    #[tokio::test]
    async fn a_client_that_is_gone_costs_no_memory() {
        let (mut out, client, _stop) = connected();
        drop(client);
        let writing = tokio::task::spawn_blocking(move || {
            out.columns(&[int_column("a")]);
            for _ in 0..100_000 {
                out.row(&[Value::Int(1)]);
            }
            assert!(out.is_client_gone());
            assert!(out.tokens.capacity() < 4 * FLUSH_SIZE);
        });
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_given_up_when_the_server_stops() {
        let (mut out, _client, stop) = connected();
        let writing = tokio::task::spawn_blocking(move || {
            out.columns(&[int_column("a")]);
            while !out.is_client_gone() {
                out.row(&[Value::Int(1)]);
            }
        });
        stop.send(true).unwrap();
        writing.await.unwrap();
    }
}
