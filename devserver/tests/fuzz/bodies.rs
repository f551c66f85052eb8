//! What is done with arbitrary bytes. The fuzz targets of `fuzz/` and the ordinary test `tests/fuzz/mod.rs` share it.
//!
//! None of these may panic, hang, or take memory that the input's length does not justify. What is decoded is also
//! shown (`--log-sql`), for that code sees every input too.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use readpast_devserver::DevServer;
use readpast_devserver::tds::packet::{Message, PacketReader, PacketType, Reset};
use readpast_devserver::tds::request::{self, Request};
use readpast_devserver::tds::{login, prelogin};
use readpast_devserver::tsql;

use super::wire::{LOGIN7, PRELOGIN, login_payload, message, prelogin_payload};

/// The stack of the server's session threads, on which requests are decoded, parsed and executed there.
pub const SESSION_STACK: usize = 16 * 1024 * 1024;

/// No input keeps the server busy for longer once its client is gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of a connection, cut into messages; each is decoded as a request.
pub fn packets(mut bytes: &[u8]) {
    let mut reader = PacketReader::default();
    reader.allow_large_messages();
    while let Ok(Some(message)) = ready(reader.next_message(&mut bytes)) {
        decode(&message);
    }
}

/// The two messages before anybody is known: PRELOGIN and LOGIN7.
pub fn login(bytes: &[u8]) {
    if let Ok(client) = prelogin::decode(bytes) {
        let answer = prelogin::encode(&client, prelogin::negotiate(client.encryption), [16, 0, 3, 232]);
        prelogin::decode(&answer).expect("the answer can be read");
    }
    if let Ok(login) = login::decode(bytes) {
        assert!((512..=32767).contains(&login.packet_size));
    }
}

/// The payload of a request; the first byte says of which kind.
pub fn requests(bytes: &[u8]) {
    let Some((kind, payload)) = bytes.split_first() else { return };
    let packet_type = [PacketType::Rpc, PacketType::SqlBatch, PacketType::TransactionManager][usize::from(*kind % 3)];
    decode(&Message { packet_type, reset: Reset::No, ignored: false, payload: payload.to_vec() });
}

fn decode(message: &Message) {
    match request::decode(message).map(|decoded| decoded.request) {
        Ok(Request::Batch(sql)) => parse(&sql),
        Ok(Request::Transaction(request)) => drop(request.to_string()),
        Ok(Request::Calls(calls)) => calls.iter().for_each(|call| drop(call.to_string())),
        Err(_) => {}
    }
}

/// T-SQL: lexer and parser, of batches and of parameter lists.
pub fn parse_bytes(bytes: &[u8]) {
    parse(&String::from_utf8_lossy(bytes));
}

fn parse(sql: &str) {
    if let Ok(statements) = tsql::parse_request(sql) {
        // Trees are dropped by recursion, too.
        drop(statements);
    }
    let _ = tsql::parse_parameter_list(sql);
}

/// A whole session: bytes to a server in this process, before the login (first byte odd) or after it.
pub fn session(bytes: &[u8]) {
    let Some((when, rest)) = bytes.split_first() else { return };
    let mut socket = TcpStream::connect(server().address()).expect("the server listens");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket takes a time-out");
    let mut sent = Vec::new();
    if when % 2 == 0 {
        sent.extend(message(PRELOGIN, &prelogin_payload()));
        sent.extend(message(LOGIN7, &login_payload("sa", "readpast")));
    }
    sent.extend_from_slice(rest);
    // The server may end the connection at any byte.
    let _ = socket.write_all(&sent);
    // Answers come while there is something to do; then the client goes, whatever runs.
    let mut answer = [0; 65536];
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(200) && matches!(socket.read(&mut answer), Ok(1..)) {}
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.set_read_timeout(Some(PATIENCE));
    loop {
        match socket.read(&mut answer) {
            Ok(0) => break,
            Ok(_) => assert!(started.elapsed() < PATIENCE, "it answers for ever"),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                panic!("the connection did not end within {PATIENCE:?}")
            }
            Err(_) => break,
        }
    }
    assert!(!PANICKED.load(Ordering::SeqCst), "a thread of the server panicked");
}

static PANICKED: AtomicBool = AtomicBool::new(false);

/// One server for all inputs, which also shows that none of them harms the next. A panic in any of its threads is kept.
fn server() -> &'static DevServer {
    static SERVER: OnceLock<DevServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.store(true, Ordering::SeqCst);
            report(panic);
        }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(DevServer::start()).expect("a free port")
    })
}

/// The outcome of a future over bytes that are all there.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("bytes in memory are always ready"),
    }
}

/// Valid inputs of every target, to begin from.
pub mod valid {
    use super::super::wire::{
        ATTENTION, RPC, SQL_BATCH, TRANSACTION, batch_payload, execute_sql_payload, message, transaction_payload,
    };
    use super::*;

    /// T-SQL of every kind the parser knows, among it readpast's own scripts.
    pub fn t_sql() -> Vec<Vec<u8>> {
        const CORPUS: &str = include_str!("../../src/tsql/parser/corpus/accepted.sql");
        let mut texts: Vec<Vec<u8>> = CORPUS.split("\nGO\n").map(|text| text.as_bytes().to_vec()).collect();
        texts.push(include_bytes!("../../../sql/230_claim.sql").to_vec());
        texts.push(include_bytes!("../../../sql/240_finish.sql").to_vec());
        // Deeper and longer than the parser's limits.
        texts.push(format!("SELECT {}1{}", "(".repeat(600), ")".repeat(600)).into_bytes());
        texts.push(format!("SELECT 1{}", " + 1".repeat(600)).into_bytes());
        texts.push(format!("SELECT {}1", "-~".repeat(600)).into_bytes());
        texts.push(format!("IF {} 1 = 1 SELECT 1", "NOT ".repeat(600)).into_bytes());
        texts.push("BEGIN ".repeat(600).into_bytes());
        texts.push("IF 1 = 1 ".repeat(600).into_bytes());
        texts.push(format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(600)).into_bytes());
        texts.push(format!("SELECT {}1{}", "CASE WHEN 1 = 1 THEN ".repeat(600), " END".repeat(600)).into_bytes());
        texts.push(format!("SELECT 1 WHERE 1 = 1{}", " AND 1 = 1".repeat(600)).into_bytes());
        texts.push(format!("SELECT * FROM {}t{}", "(SELECT * FROM ".repeat(600), ") x".repeat(600)).into_bytes());
        texts.push(format!("/*{}", "/*".repeat(600)).into_bytes());
        texts.push(format!("SELECT N'{}", "''".repeat(600)).into_bytes());
        texts
    }

    /// Payloads of requests behind the byte that says their kind.
    pub fn requests() -> Vec<Vec<u8>> {
        let call = execute_sql_payload(
            "SELECT @a, @b, @c, @d, @e, @f",
            "@a int, @b nvarchar(max), @c decimal(10, 2), @d datetime2, @e varbinary(10), @f uniqueidentifier",
            &[
                ("@a", &[0x26, 4, 4, 1, 0, 0, 0]),
                (
                    "@b",
                    &[0xE7, 0xFF, 0xFF, 9, 4, 0xD0, 0, 0x34, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'x', 0, 0, 0, 0, 0],
                ),
                ("@c", &[0x6A, 9, 10, 2, 5, 1, 0x39, 0x30, 0, 0]),
                ("@d", &[0x2A, 7, 8, 0, 0, 0, 0, 0, 0x5B, 0x95, 0x0A]),
                ("@e", &[0xA5, 10, 0, 2, 0, 1, 2]),
                ("@f", &[0x24, 16, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
            ],
        );
        let text = execute_sql_payload(
            "SELECT @a",
            "@a text",
            &[("@a", &[0x23, 9, 0, 0, 0, 9, 4, 0xD0, 0, 0x34, 1, 0, 0, 0, b'x'])],
        );
        let table = execute_sql_payload(
            "SELECT * FROM @t",
            "@t dbo.list READONLY",
            &[("@t", &[0xF3, 0, 0, 1, b'l', 0, 1, 0, 0, 0, 0, 0, 1, 0, 0x26, 4, 0, 0, 1, 4, 7, 0, 0, 0, 1, 0, 0])],
        );
        [
            (0, call),
            (0, text),
            (0, table),
            (1, batch_payload("SELECT 1 AS a; PRINT N'ü😀'")),
            (2, transaction_payload(5)),
            (2, transaction_payload(7)),
        ]
        .into_iter()
        .map(|(kind, payload)| [vec![kind], payload].concat())
        .collect()
    }

    pub fn logins() -> Vec<Vec<u8>> {
        vec![prelogin_payload(), login_payload("sa", "readpast")]
    }

    pub fn packets() -> Vec<Vec<u8>> {
        let kinds = [RPC, SQL_BATCH, TRANSACTION];
        let mut messages: Vec<Vec<u8>> =
            requests().iter().map(|request| message(kinds[usize::from(request[0])], &request[1..])).collect();
        messages.push([message(SQL_BATCH, &batch_payload("SELECT 1")), message(ATTENTION, &[])].concat());
        messages.push(message(SQL_BATCH, &batch_payload(&"SELECT 1; ".repeat(1000))));
        messages
    }

    pub fn sessions() -> Vec<Vec<u8>> {
        let logins = [message(PRELOGIN, &prelogin_payload()), message(LOGIN7, &login_payload("sa", "readpast"))];
        let statements = [
            "CREATE TABLE #t (id int NOT NULL PRIMARY KEY, n nvarchar(50) NULL); INSERT #t VALUES (1, N'a'), (2, NULL); \
             UPDATE #t SET n = N'b' OUTPUT inserted.* WHERE id = 1; DELETE TOP (1) #t; SELECT * FROM #t",
            "BEGIN TRANSACTION; SAVE TRANSACTION s; ROLLBACK TRANSACTION s; THROW 50000, N'x', 1",
            "DECLARE @t TABLE (id int); WHILE (SELECT COUNT(*) FROM @t) < 5 INSERT @t VALUES (1); SELECT SUM(id) FROM @t",
            "SELECT TOP (5) name, CAST(object_id AS varchar(20)), SYSUTCDATETIME() FROM sys.objects ORDER BY name",
        ];
        let mut sessions: Vec<Vec<u8>> = packets();
        sessions.extend(statements.map(|sql| message(SQL_BATCH, &batch_payload(sql))));
        let mut sessions: Vec<Vec<u8>> = sessions.into_iter().map(|bytes| [vec![0], bytes].concat()).collect();
        sessions.push([vec![1], logins.concat(), message(SQL_BATCH, &batch_payload("SELECT 1"))].concat());
        sessions
    }
}
