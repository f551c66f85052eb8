//! A TCP proxy between a program and the server that does what networks do: cuts, resets in the middle of a message,
//! stalls without a word, and crawls.
//!
//! What happens to the answer or request of a given procedure needs connections without encryption, which
//! [`Proxy::connection_string`] asks for: only there can the proxy see what is called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub struct Proxy {
    connection_string: String,
    control: Arc<Control>,
}

/// What all connections look at.
struct Control {
    /// Cuts every connection.
    cut: Notify,
    /// New connections are closed.
    blocked: AtomicBool,
    stalled: watch::Sender<bool>,
    /// Connections up to this number are dead, and nobody is told.
    swallowed: watch::Sender<usize>,
    /// For how long a new connection is silent, in milliseconds.
    silence_ms: AtomicU64,
    bytes_per_second: AtomicU64,
    connections: AtomicUsize,
    /// How many were closed at once.
    refused: AtomicUsize,
    /// Counted by its clones: each open connection has one.
    open: Arc<()>,
    traps: Mutex<Vec<Trap>>,
    /// How many requests that were held have been answered.
    answered_late: AtomicUsize,
}

/// Waits for the next call of a procedure.
struct Trap {
    /// The procedure's name as it stands in the request: `].[name]` in UTF-16.
    name: Vec<u8>,
    /// Of which message so many bytes still arrive.
    message: Message,
    bytes: usize,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    Request,
    Answer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Both sides see the connection reset.
    Reset,
    /// Nothing more arrives in this direction until [`Proxy::resume`].
    Stall,
}

impl Proxy {
    /// Forwards to the server of `connection_string`.
    pub async fn start(connection_string: &str) -> Proxy {
        let (address, rest) = address_of(connection_string);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let control = Arc::new(Control {
            cut: Notify::new(),
            blocked: AtomicBool::new(false),
            stalled: watch::Sender::new(false),
            swallowed: watch::Sender::new(0),
            silence_ms: AtomicU64::new(0),
            bytes_per_second: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            open: Arc::default(),
            traps: Mutex::default(),
            answered_late: AtomicUsize::new(0),
        });
        let shared = control.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.blocked.load(Ordering::Acquire) {
                    shared.refused.fetch_add(1, Ordering::AcqRel);
                } else {
                    let number = shared.connections.fetch_add(1, Ordering::AcqRel) + 1;
                    tokio::spawn(forward(number, client, address.clone(), shared.clone()));
                }
            }
        });
        // The last of several equal keys counts.
        let connection_string = format!("Server=tcp:127.0.0.1,{port};{rest};Encrypt=DANGER_PLAINTEXT");
        Proxy { connection_string, control }
    }

    /// How to connect through the proxy, without encryption.
    pub fn connection_string(&self) -> String {
        self.connection_string.clone()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.control.connections.load(Ordering::Acquire)
    }

    /// Cuts every connection there is at this moment.
    pub fn cut(&self) {
        self.control.cut.notify_waiters();
    }

    /// Cuts every connection and lets no new one through.
    pub fn block(&self) {
        self.control.blocked.store(true, Ordering::Release);
        self.cut();
    }

    /// How many connections were tried in vain while it was blocked.
    pub fn refused(&self) -> usize {
        self.control.refused.load(Ordering::Acquire)
    }

    /// Whether both ends of every connection have been told that it is closed.
    pub fn is_closed(&self) -> bool {
        Arc::strong_count(&self.control.open) == 1
    }

    /// Lets connections through again.
    pub fn unblock(&self) {
        self.control.blocked.store(false, Ordering::Release);
    }

    /// Holds every byte in both directions; nobody is told, as when packets vanish.
    pub fn stall(&self) {
        self.control.stalled.send_replace(true);
    }

    /// Lets the bytes through again, those that were held first: TCP sends them again.
    pub fn resume(&self) {
        self.control.stalled.send_replace(false);
        self.control.traps.lock().clear();
    }

    /// Forgets every connection there is at this moment, as a gateway does: what is sent on one arrives nowhere, for
    /// ever, and nobody is told. New ones work.
    pub fn swallow(&self) {
        self.control.swallowed.send_replace(self.connections());
    }

    /// Lets a new connection wait for so long before the server hears of it.
    pub fn delay_connections(&self, by: Duration) {
        self.control.silence_ms.store(by.as_millis() as u64, Ordering::Release);
    }

    /// Lets only so many bytes a second through each connection and direction; 0: as many as come.
    pub fn throttle(&self, bytes_per_second: u64) {
        self.control.bytes_per_second.store(bytes_per_second, Ordering::Release);
    }

    /// Resets the connection after so many bytes of the answer to the next call of a procedure: the call has run.
    pub fn reset_answer(&self, procedure: &str, bytes: usize) {
        self.trap(procedure, Message::Answer, bytes, Then::Reset);
    }

    /// Resets the connection after so many bytes of the next call of a procedure: the call has not run.
    pub fn reset_request(&self, procedure: &str, bytes: usize) {
        self.trap(procedure, Message::Request, bytes, Then::Reset);
    }

    /// Holds the answer to the next call of a procedure after so many bytes of it.
    pub fn stall_answer(&self, procedure: &str, bytes: usize) {
        self.trap(procedure, Message::Answer, bytes, Then::Stall);
    }

    /// Holds the next call of a procedure before it reaches the server.
    pub fn stall_request(&self, procedure: &str) {
        self.trap(procedure, Message::Request, 0, Then::Stall);
    }

    fn trap(&self, procedure: &str, message: Message, bytes: usize, then: Then) {
        let name = format!("].[{procedure}]").encode_utf16().flat_map(u16::to_le_bytes).collect();
        self.control.traps.lock().push(Trap { name, message, bytes, then });
    }

    /// Whether all calls that were waited for have come.
    pub fn has_sprung(&self) -> bool {
        self.control.traps.lock().is_empty()
    }

    /// Whether a call that was held has arrived after [`Proxy::resume`], and was answered.
    pub fn has_answered_late(&self) -> bool {
        self.control.answered_late.load(Ordering::Acquire) > 0
    }
}

/// One connection; `number` counts them from 1.
async fn forward(number: usize, client: TcpStream, address: String, control: Arc<Control>) {
    let _open = control.open.clone();
    let mut client = client; // dropped before that
    let cut = control.cut.notified();
    tokio::time::sleep(Duration::from_millis(control.silence_ms.load(Ordering::Acquire))).await;
    let Ok(mut server) = TcpStream::connect(address).await else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let sprung = Sprung::default();
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let ended = tokio::select! {
        ended = pump(Message::Request, from_client, to_server, &control, &sprung) => ended,
        ended = pump(Message::Answer, from_server, to_client, &control, &sprung) => ended,
        () = cut => Ended::Closed,
        () = swallowed(number, &control) => {
            // Neither end is read any more, nor closed while the test runs.
            std::future::pending().await
        }
    };
    if ended == Ended::Reset {
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

/// Returns when the connection is dead.
async fn swallowed(number: usize, control: &Control) {
    let mut swallowed = control.swallowed.subscribe();
    let _ = swallowed.wait_for(|upto| number <= *upto).await;
}

/// What one connection's two directions tell each other.
#[derive(Default)]
struct Sprung {
    trap: Mutex<Option<Trap>>,
    answered: Notify,
}

#[derive(PartialEq, Eq)]
enum Ended {
    Closed,
    Reset,
}

/// Forwards one direction until an end.
async fn pump(
    message: Message,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    control: &Control,
    sprung: &Sprung,
) -> Ended {
    let mut stalled = control.stalled.subscribe();
    let mut buffer = vec![0; 8_192];
    let mut free_at = Instant::now();
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else {
            return Ended::Closed;
        };
        let _ = stalled.wait_for(|stalled| !*stalled).await;
        if message == Message::Request {
            let mut traps = control.traps.lock();
            let comes = |trap: &Trap| buffer[..length].windows(trap.name.len()).any(|window| window == trap.name);
            if let Some(first) = traps.iter().position(comes) {
                *sprung.trap.lock() = Some(traps.remove(first));
            }
        } else {
            sprung.answered.notify_waiters();
        }
        let mut bytes = &buffer[..length];
        let here = sprung.trap.lock().take_if(|trap| trap.message == message && trap.bytes <= length);
        if let Some(trap) = &here {
            let (last, held) = bytes.split_at(trap.bytes);
            if to.write_all(last).await.is_err() || trap.then == Then::Reset {
                return Ended::Reset;
            }
            stalled.mark_unchanged();
            let _ = stalled.changed().await;
            bytes = held;
            if message == Message::Request {
                // It arrives late and is answered, though the client may be gone: its end is not forwarded before that.
                let answered = sprung.answered.notified();
                if to.write_all(bytes).await.is_err() {
                    return Ended::Closed;
                }
                answered.await;
                control.answered_late.fetch_add(1, Ordering::AcqRel);
                continue;
            }
        } else if let Some(trap) = sprung.trap.lock().as_mut().filter(|trap| trap.message == message) {
            trap.bytes -= length;
        }
        let rate = control.bytes_per_second.load(Ordering::Acquire);
        if rate > 0 {
            // By the clock, and not piece by piece: a timer is a millisecond late, and a fast link's pieces take less
            // than that.
            free_at = free_at.max(Instant::now()) + Duration::from_secs_f64(length as f64 / rate as f64);
            if free_at > Instant::now() + Duration::from_millis(2) {
                tokio::time::sleep_until(free_at).await;
            }
        }
        if to.write_all(bytes).await.is_err() {
            return Ended::Closed;
        }
    }
}

/// `host:port`, and the connection string without its server.
fn address_of(connection_string: &str) -> (String, String) {
    let mut address = None;
    let mut rest = Vec::new();
    for part in connection_string.split(';').filter(|part| !part.trim().is_empty()) {
        match part.split_once('=') {
            Some((key, value)) if matches!(key.trim().to_lowercase().as_str(), "server" | "data source") => {
                let value = value.trim().trim_start_matches("tcp:");
                let (host, port) = value.split_once(',').unwrap_or((value, "1433"));
                address = Some(format!("{host}:{port}"));
            }
            _ => rest.push(part),
        }
    }
    (address.expect("a connection string names its server"), rest.join(";"))
}
