//! What no well-behaved client does: floods, half-open logins, clients that do not read, attentions at any moment. None
//! of it may block others, keep a lock, or leave memory or threads behind.

use crate::wire;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use readpast_devserver::DevServer;
use wire::{ATTENTION, PRELOGIN, RawClient, batch, message, prelogin_payload};

async fn server() -> DevServer {
    DevServer::start().await.expect("a free port")
}

/// The first column of the first row, an int, of a batch.
fn number(client: &mut RawClient, sql: &str) -> i32 {
    client.send(&batch(sql));
    let answer = client.answer();
    // ROW, then INTN with four bytes.
    let at = answer.windows(2).rposition(|bytes| bytes == [0xD1, 4]).unwrap_or_else(|| panic!("{sql}: {answer:?}"));
    i32::from_le_bytes(answer[at + 2..at + 6].try_into().expect("four bytes"))
}

/// Runs a batch that must not fail.
fn run(client: &mut RawClient, sql: &str) {
    client.send(&batch(sql));
    let answer = client.answer();
    let done = &answer[answer.len() - 13..];
    assert!(done[0] >= 0xFD && done[1] & 2 == 0, "{sql}: {answer:?}");
}

/// Takes a lock that [`LOCK`] of anybody else waits for. It is the session's: raw clients know no transaction
/// descriptor.
const LOCK: &str = "EXEC sp_getapplock @Resource = N'r', @LockMode = 'Exclusive', @LockOwner = 'Session'";

/// Waits until so many sessions wait for a lock.
fn wait_for_waiting(server: &DevServer, count: usize) {
    for _ in 0..3000 {
        if server.engine().waiting_count() == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} sessions wait instead of {count}", server.engine().waiting_count());
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_never_log_in_are_in_nobodys_way() {
    let server = server().await;
    let silent: Vec<RawClient> = (0..200).map(|_| RawClient::connect(server.address())).collect();
    let mut half: Vec<RawClient> = (0..200).map(|_| RawClient::connect(server.address())).collect();
    for (index, client) in half.iter_mut().enumerate() {
        let hello = message(PRELOGIN, &prelogin_payload());
        client.send(&hello[..index % hello.len()]);
    }
    assert_eq!(number(&mut RawClient::log_in(server.address()), "SELECT 7"), 7);
    tokio::time::timeout(Duration::from_secs(20), server.shutdown()).await.expect("none of them holds it up");
    drop((silent, half));
}

/// With the clock of the test: it stands still while anything happens and jumps when all wait.
#[tokio::test(start_paused = true)]
async fn a_login_that_does_not_come_ends_the_connection() {
    use readpast_devserver::server::{Shared, run};
    use readpast_devserver::session::{Engine, EngineOptions};
    use readpast_devserver::tds::tls::TlsAcceptors;
    use tokio::io::AsyncReadExt;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsAcceptors::with_new_certificate().unwrap();
    let token_key = std::sync::Arc::new(readpast_devserver::access_token::TokenKey::generate().unwrap());
    let shared = Shared { engine: Engine::new(EngineOptions::default()), tls, token_key, log_sql: false };
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    tokio::spawn(run(listener, std::sync::Arc::new(shared), stopping));
    let mut silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let started = tokio::time::Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(3600), silent.read(&mut [0])).await;
    assert_eq!(ended.expect("it does not wait for ever").expect("a close"), 0);
    assert!(started.elapsed() <= Duration::from_secs(31), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_in_the_middle_of_anything_frees_its_locks() {
    let server = server().await;
    let mut survivor = RawClient::log_in(server.address());
    run(&mut survivor, "CREATE TABLE dbo.big (id int NOT NULL PRIMARY KEY, s char(8000) NOT NULL)");
    run(&mut survivor, "INSERT dbo.big (id, s) SELECT value, 'x' FROM GENERATE_SERIES(1, 5000)");
    type Vanish = fn(&mut RawClient);
    let vanishing: [(&str, Vanish); 4] = [
        ("between two requests", |_| {}),
        ("in the middle of a message", |client| client.send(&batch("SELECT 1")[..20])),
        ("with an answer of 40 MB unread", |client| client.send(&batch("SELECT id, s FROM dbo.big"))),
        ("half closed, with an answer unread", |client| {
            client.send(&batch("SELECT id, s FROM dbo.big"));
            client.socket.shutdown(Shutdown::Write).expect("it is open");
        }),
    ];
    for (when, vanish) in vanishing {
        let mut client = RawClient::log_in(server.address());
        run(&mut client, LOCK);
        println!("{when}");
        vanish(&mut client);
        // One that has closed its half only stays open for the rest of the round.
        let _kept = when.starts_with("half").then_some(client);
        run(&mut survivor, LOCK);
        run(&mut survivor, "EXEC sp_releaseapplock @Resource = N'r', @LockOwner = 'Session'");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_do_not_hold_up_the_end() {
    let server = server().await;
    let mut lazy = RawClient::log_in(server.address());
    // 40 MB: more than sockets hold.
    lazy.send(&batch("SELECT REPLICATE(N'x', 4000) FROM GENERATE_SERIES(1, 5000)"));
    lazy.socket.read_exact(&mut [0; 8]).expect("an answer");
    tokio::time::timeout(Duration::from_secs(20), server.shutdown()).await.expect("it does not wait for the client");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attention_at_any_moment_leaves_a_connection_that_works() {
    let server = server().await;
    let mut holder = RawClient::log_in(server.address());
    run(&mut holder, LOCK);
    let attention = message(ATTENTION, &[]);
    let mut client = RawClient::log_in(server.address());

    // While it waits for a lock: one answer to what was cancelled, one to the attention.
    client.send(&batch(LOCK));
    wait_for_waiting(&server, 1);
    client.send(&attention);
    let _cancelled = client.answer();
    assert!(is_attention_acknowledged(&client.answer()));
    assert_eq!(number(&mut client, "SELECT 1"), 1);

    // With nothing running.
    client.send(&attention);
    assert!(is_attention_acknowledged(&client.answer()));
    assert_eq!(number(&mut client, "SELECT 2"), 2);

    // At any moment of a short request; it may have ended before.
    for round in 0..200 {
        client.send(&batch("DECLARE @i int = 0; WHILE @i < 20 SET @i += 1; SELECT @i"));
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        client.send(&attention);
        let first = client.answer();
        if !is_attention_acknowledged(&first) {
            assert!(is_attention_acknowledged(&client.answer()));
        }
        assert_eq!(number(&mut client, "SELECT 3"), 3, "round {round}");
    }

    // In the middle of a message that is never ended.
    client.send(&[0x01, 0, 0, 12, 0, 0, 1, 0, 1, 2, 3, 4]);
    client.send(&attention);
    assert!(is_attention_acknowledged(&client.answer()));
    assert_eq!(number(&mut client, "SELECT 4"), 4);
}

/// A last DONE with the attention bit.
fn is_attention_acknowledged(answer: &[u8]) -> bool {
    let done = &answer[answer.len() - 13..];
    done[0] == 0xFD && done[1] & 0x20 != 0
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_waiting_for_answers_end_their_connection_only() {
    let server = server().await;
    let mut holder = RawClient::log_in(server.address());
    run(&mut holder, LOCK);
    let mut hasty = RawClient::log_in(server.address());
    hasty.send(&batch(LOCK));
    wait_for_waiting(&server, 1);
    for _ in 0..20 {
        // The server may have closed the connection by now.
        if hasty.socket.write_all(&batch("SELECT 1")).is_err() {
            break;
        }
    }
    hasty.wait_for_the_end();
    wait_for_waiting(&server, 0);
    assert_eq!(number(&mut holder, "SELECT 1"), 1);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads the server's memory and threads from /proc")]
fn a_thousand_connections_leave_nothing_behind() {
    let server = Program::start();
    let at_rest = server.threads();
    let connect_and_leave = |count| {
        for _ in 0..count {
            let mut client = RawClient::log_in(server.address);
            run(&mut client, "CREATE TABLE #t (id int NOT NULL PRIMARY KEY); INSERT #t (id) VALUES (1)");
        }
        for _ in 0..3000 {
            if server.threads() <= at_rest {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} threads are left, {at_rest} were there before", server.threads());
    };
    // What is taken once: caches, the allocator's pools.
    connect_and_leave(200);
    let before = server.resident_bytes();
    connect_and_leave(1000);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "{} KB more after 1,000 connections", grown >> 10);
}

/// The server as a process of its own, so that its memory and threads are nobody else's.
struct Program {
    process: Child,
    address: SocketAddr,
}

impl Program {
    fn start() -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_readpast-devserver"));
        let mut process = command.args(["--port", "0"]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut said).expect("what it is");
        let address = said.trim_end().trim_end_matches('.').rsplit(' ').next().expect("where it listens");
        Program { address: address.parse().expect("an address"), process }
    }

    fn resident_bytes(&self) -> usize {
        self.status("VmRSS:") * 1024
    }

    fn threads(&self) -> usize {
        self.status("Threads:")
    }

    fn status(&self, field: &str) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
