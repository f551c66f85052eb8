use crate::error::SqlError;
use crate::tds::login::{Login, LoginRequest, Proof};
use crate::tds::packet::{PacketReader, PayloadReader};
use crate::tds::token::done::DoneKind;
use crate::tds::token::number::{
    DONE_ATTENTION, DONE_COUNT, DONE_ERROR, DONE_MORE, TOKEN_COLUMN_METADATA, TOKEN_DONE, TOKEN_DONE_IN_PROCEDURE,
    TOKEN_DONE_PROCEDURE, TOKEN_ENVIRONMENT_CHANGE, TOKEN_ERROR, TOKEN_INFO, TOKEN_LOGIN_ACK, TOKEN_ORDER,
    TOKEN_RETURN_STATUS, TOKEN_RETURN_VALUE, TOKEN_ROW,
};
use crate::tds::token::response::{FLUSH_SIZE, ResponseWriter, ResultColumn};
use crate::tds::token::socket_writer::SocketWriter;
use crate::tds::wire_type::client_values::{read_result, read_table_name};
use crate::tds::wire_type::form::WireType;
use crate::tds::wire_type::read::{read_type_info, read_value};
use crate::value::{Collation, Length, SqlType, Value};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;
use tokio::sync::watch;

impl ResponseWriter {
    /// A writer without a connection, which keeps everything.
    pub fn for_test() -> ResponseWriter {
        ResponseWriter::with(None)
    }

    /// The tokens so far, readable: `COLMETADATA(a Int)`, `ROW(1, 'text', NULL, Bit(true))`, `DONE(count=1, more)`,
    /// `ERROR(208, ...)`.
    pub fn tokens(&self) -> Vec<String> {
        let mut bytes = self.tokens.clone();
        if let Some(done) = &self.held_done {
            let mut writer = ResponseWriter::for_test();
            writer.put_done(done);
            bytes.extend(writer.tokens);
        }
        describe(&bytes)
    }
}

/// A value as T-SQL writes it, if that tells its type.
fn in_sql(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::String(text) => format!("'{text}'"),
        value => format!("{value:?}"),
    }
}

/// The tokens in `bytes`, in words.
fn describe(bytes: &[u8]) -> Vec<String> {
    let mut reader = PayloadReader::new(bytes);
    let mut columns: Vec<WireType> = Vec::new();
    let mut tokens = Vec::new();
    while reader.remaining() > 0 {
        let token = reader.u8().unwrap();
        tokens.push(match token {
            TOKEN_COLUMN_METADATA => {
                columns.clear();
                let mut names = Vec::new();
                for _ in 0..reader.u16().unwrap() {
                    reader.bytes(6).unwrap();
                    let wire_type = read_type_info(&mut reader).unwrap();
                    read_table_name(&mut reader, &wire_type).unwrap();
                    let sql_type = wire_type.sql_type;
                    names.push(format!("{} {sql_type:?}", reader.b_varchar().unwrap()));
                    columns.push(wire_type);
                }
                format!("COLMETADATA({})", names.join(", "))
            }
            TOKEN_ROW => {
                let values: Vec<String> =
                    columns.iter().map(|column| in_sql(&read_result(&mut reader, column).unwrap())).collect();
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
                format!("RETURNVALUE({ordinal} {name} {})", in_sql(&read_value(&mut reader, &wire_type).unwrap()))
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
                        let units = usize::from(body.u16().unwrap());
                        format!("{name}({number}, {})", body.text(units).unwrap())
                    }
                    TOKEN_ORDER => {
                        let columns = (0..length / 2).map(|_| body.u16().unwrap().to_string());
                        format!("ORDER({})", columns.collect::<Vec<_>>().join(", "))
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
    ResultColumn {
        name: name.to_owned(),
        sql_type: SqlType::Int,
        collation: Collation::default(),
        nullable: true,
        identity: false,
        updatable: false,
    }
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
    (
        ResponseWriter::new(SocketWriter::new(Box::new(server), Handle::current(), stopping, Arc::default())),
        client,
        stop,
    )
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
        out.done_statement(DoneKind::Select, Some(ROWS as u64));
        out.finish();
        assert!(out.tokens.capacity() + out.packets.capacity() < 6 * FLUSH_SIZE);
    });
    let mut reader = PacketReader::default();
    reader.allow_large_messages();
    let message = reader.next_message(&mut client).await.unwrap().unwrap();
    writing.await.unwrap();
    let tokens = describe(&message.payload);
    assert_eq!(tokens.len(), 2 + ROWS as usize);
    assert_eq!(tokens[ROWS as usize], format!("ROW({})", ROWS - 1));
}

/// Source: MS-TDS 2.2.3.1.4, SPID, which the server sends. State 2 of the message at a login is that of MS-TDS 4.3,
/// "Login response"; 1 after USE is what pymssql's tests ask of SQL Server (test_user_msghandler.py).
#[tokio::test]
async fn a_login_tells_its_session_and_its_database() {
    let (mut out, mut client, _stop) = connected();
    let request = LoginRequest {
        user: "sa".into(),
        password: None,
        database: String::new(),
        app_name: String::new(),
        host_name: String::new(),
    };
    let login =
        Login { request, proof: Proof::Password, tds_version: 0x7400_0004, packet_size: 4096, has_features: false };
    let state_of_5701 = |bytes: &[u8]| {
        let at = bytes.windows(4).position(|bytes| bytes == 5701_u32.to_le_bytes()).expect("the message is there");
        bytes[at + 4]
    };
    let writing = tokio::task::spawn_blocking(move || {
        out.login_accepted(&login, "db", 0x1234, [16, 0, 3, 232]);
        assert_eq!(state_of_5701(&out.tokens), 2);
        out.finish();
        out.database_changed("master", "db");
        assert_eq!(state_of_5701(&out.tokens), 1);
    });
    let mut header = [0; 8];
    client.read_exact(&mut header).await.unwrap();
    assert_eq!(header[4..6], [0x12, 0x34]);
    drop(client);
    writing.await.unwrap();
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

/// [MS-TDS] 2.2.5.1.2, "Collation Rule Definition".
#[test]
fn columns_of_text_come_with_their_collations() {
    let mut out = ResponseWriter::for_test();
    let column =
        |collation| ResultColumn { sql_type: SqlType::VarChar(Length::Limit(9)), collation, ..int_column("c") };
    let collations = [Collation::default(), Collation::Latin1GeneralCiAs, Collation::Latin1General100Bin2];
    out.columns(&collations.map(column));
    for collation in collations {
        let bytes = collation.tds_bytes();
        assert!(out.tokens.windows(5).any(|window| window == bytes), "{}", collation.name());
    }
}
