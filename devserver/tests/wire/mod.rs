//! TDS messages as a client writes them, byte by byte: for tests that send what no client library would.

#![allow(dead_code)] // Each test program uses some of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const SQL_BATCH: u8 = 0x01;
pub const RPC: u8 = 0x03;
pub const ATTENTION: u8 = 0x06;
pub const TRANSACTION: u8 = 0x0E;
pub const LOGIN7: u8 = 0x10;
pub const PRELOGIN: u8 = 0x12;

/// Nothing a server does for these tests takes longer; what does has hung.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A message in packets of at most 4,096 bytes.
pub fn message(packet_type: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let pieces: Vec<&[u8]> = if payload.is_empty() { vec![payload] } else { payload.chunks(4088).collect() };
    for (index, piece) in pieces.iter().enumerate() {
        let is_last = index == pieces.len() - 1;
        let length = u16::try_from(piece.len() + 8).expect("a small piece").to_be_bytes();
        bytes.extend_from_slice(&[packet_type, u8::from(is_last), length[0], length[1], 0, 0, 1, 0]);
        bytes.extend_from_slice(piece);
    }
    bytes
}

pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// VERSION and ENCRYPTION: not supported, so that all stays readable.
pub fn prelogin_payload() -> Vec<u8> {
    vec![0x00, 0, 11, 0, 6, 0x01, 0, 17, 0, 1, 0xFF, 9, 0, 0, 0, 0, 0, 2]
}

/// LOGIN7 for TDS 7.4.
pub fn login_payload(user: &str, password: &str) -> Vec<u8> {
    const FIXED: usize = 94;
    let hidden: Vec<u8> = utf16(password).iter().map(|byte| byte.rotate_left(4) ^ 0xA5).collect();
    let parts = [utf16("host"), utf16(user), hidden, utf16("app"), vec![], vec![], vec![], vec![], vec![]];
    let (mut pointers, mut data) = (Vec::new(), Vec::new());
    for part in &parts {
        pointers.extend_from_slice(&u16::try_from(FIXED + data.len()).expect("short").to_le_bytes());
        pointers.extend_from_slice(&u16::try_from(part.len() / 2).expect("short").to_le_bytes());
        data.extend_from_slice(part);
    }
    pointers.extend_from_slice(&[0; 6 + 3 * 4 + 4]);
    let mut payload = u32::try_from(FIXED + data.len()).expect("short").to_le_bytes().to_vec();
    payload.extend_from_slice(&0x7400_0004_u32.to_le_bytes());
    payload.extend_from_slice(&4096_u32.to_le_bytes());
    payload.extend_from_slice(&[0; 12 + 4 + 8]);
    payload.extend_from_slice(&pointers);
    payload.extend_from_slice(&data);
    payload
}

/// ALL_HEADERS for a session that is in no transaction.
fn headers() -> Vec<u8> {
    vec![22, 0, 0, 0, 18, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
}

pub fn batch_payload(sql: &str) -> Vec<u8> {
    [headers(), utf16(sql)].concat()
}

pub fn batch(sql: &str) -> Vec<u8> {
    message(SQL_BATCH, &batch_payload(sql))
}

/// sp_executesql by number, with a statement, a declaration, and parameters as their bytes after the name.
pub fn execute_sql_payload(sql: &str, declared: &str, parameters: &[(&str, &[u8])]) -> Vec<u8> {
    let mut payload = headers();
    payload.extend_from_slice(&[0xFF, 0xFF, 10, 0, 0, 0]);
    for text in [sql, declared] {
        let text = utf16(text);
        payload.extend_from_slice(&[0, 0, 0xE7, 0x40, 0x1F, 9, 4, 0xD0, 0, 0x34]);
        payload.extend_from_slice(&u16::try_from(text.len()).expect("short").to_le_bytes());
        payload.extend_from_slice(&text);
    }
    for (name, value) in parameters {
        payload.push(u8::try_from(name.encode_utf16().count()).expect("short"));
        payload.extend_from_slice(&utf16(name));
        payload.push(0);
        payload.extend_from_slice(value);
    }
    payload
}

/// A transaction request: 5 begin, 7 commit, 8 rollback.
pub fn transaction_payload(kind: u8) -> Vec<u8> {
    [headers(), vec![kind, 0, 0, 0]].concat()
}

/// A connection of raw bytes.
pub struct RawClient {
    pub socket: TcpStream,
}

impl RawClient {
    pub fn connect(address: SocketAddr) -> RawClient {
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        socket.set_nodelay(true).expect("a socket takes it");
        RawClient { socket }
    }

    /// Connected and logged in as `sa`, without encryption.
    pub fn log_in(address: SocketAddr) -> RawClient {
        let mut client = RawClient::connect(address);
        client.send(&message(PRELOGIN, &prelogin_payload()));
        client.answer();
        client.send(&message(LOGIN7, &login_payload("sa", "readpast")));
        let answer = client.answer();
        assert!(answer.contains(&0xAD), "LOGINACK: {answer:?}");
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("it takes what it is sent");
    }

    /// The payload of the next answer.
    pub fn answer(&mut self) -> Vec<u8> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 8];
            self.socket.read_exact(&mut header).expect("an answer");
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let start = payload.len();
            payload.resize(start + length - 8, 0);
            self.socket.read_exact(&mut payload[start..]).expect("the rest of a packet");
            if header[1] & 1 != 0 {
                return payload;
            }
        }
    }

    /// Waits until the server closes the connection.
    pub fn wait_for_the_end(&mut self) {
        let mut rest = [0; 4096];
        loop {
            match self.socket.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    panic!("the server did not close the connection within {PATIENCE:?}")
                }
                // A reset is an end too.
                Err(_) => return,
            }
        }
    }
}
