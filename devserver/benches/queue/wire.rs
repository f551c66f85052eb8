//! The bytes of the calls that workers and producers make, and a client that costs next to nothing: it writes messages
//! that were made before, and of the answers it looks only at what the next call needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use readpast_devserver::tds::packet::{PacketType, frame, put_b_varchar, put_us_varchar, put_utf16};
use readpast_devserver::tds::wire_type::{TABLE_TYPE, put_type_info, put_value};
use readpast_devserver::value::{Length, SqlType, Value};
use uuid::Uuid;

const PACKET_SIZE: usize = 32_767;
const HEADER_SIZE: usize = 8;
const END_OF_MESSAGE: u8 = 0x01;

const COLUMN_METADATA: u8 = 0x81;
const ORDER: u8 = 0xA9;
const ROW: u8 = 0xD1;
const ERROR: u8 = 0xAA;

/// The schema of readpast's own tables.
pub const OWN_SCHEMA: &str = "readpast";

/// A claimed job: its id and fence.
pub type Claimed = (i64, i32);

fn text(text: &str) -> (SqlType, Value) {
    (SqlType::NVarChar(Length::Limit(128)), Value::String(text.into()))
}

/// The start of a remote call: ALL_HEADERS without a transaction, the procedure, no options.
fn call(schema: &str, procedure: &str) -> Vec<u8> {
    let mut out = vec![22, 0, 0, 0, 18, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    put_us_varchar(&mut out, &format!("{schema}.{procedure}"), u16::MAX);
    out.extend_from_slice(&[0, 0]);
    out
}

fn put_parameter(out: &mut Vec<u8>, name: &str, (sql_type, value): &(SqlType, Value)) {
    put_b_varchar(out, name);
    out.push(0);
    put_type_info(out, *sql_type);
    put_value(out, *sql_type, value);
}

fn put_table(
    out: &mut Vec<u8>,
    name: &str,
    schema: &str,
    type_name: &str,
    columns: &[SqlType],
    rows: impl Iterator<Item = Vec<Value>>,
) {
    put_b_varchar(out, name);
    out.extend_from_slice(&[0, TABLE_TYPE]);
    put_b_varchar(out, "");
    put_b_varchar(out, schema);
    put_b_varchar(out, type_name);
    out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
    for column in columns {
        out.extend_from_slice(&[0; 6]);
        put_type_info(out, *column);
        put_b_varchar(out, "");
    }
    out.push(0);
    for row in rows {
        out.push(1);
        for (column, value) in columns.iter().zip(&row) {
            put_value(out, *column, value);
        }
    }
    out.push(0);
}

pub fn claim(schema: &str, queue: &str, worker: Uuid, max: i32) -> Vec<u8> {
    let mut out = call(schema, "claim");
    put_parameter(&mut out, "@queue", &text(queue));
    put_parameter(&mut out, "@worker_id", &(SqlType::UniqueIdentifier, Value::Uuid(worker)));
    put_parameter(&mut out, "@max", &(SqlType::Int, Value::Int(max)));
    out
}

pub fn heartbeat(worker: Uuid) -> Vec<u8> {
    let mut out = call(OWN_SCHEMA, "heartbeat");
    put_parameter(&mut out, "@worker_id", &(SqlType::UniqueIdentifier, Value::Uuid(worker)));
    out
}

/// Acknowledges jobs as done; in the order of their ids, as a worker does it.
pub fn finish(schema: &str, queue: &str, worker: Uuid, jobs: &[Claimed]) -> Vec<u8> {
    let columns = [
        SqlType::BigInt,
        SqlType::Int,
        SqlType::TinyInt,
        SqlType::BigInt,
        SqlType::BigInt,
        SqlType::NVarChar(Length::Limit(4000)),
        SqlType::VarBinary(Length::Max),
    ];
    let rows = jobs.iter().map(|&(job, fence)| {
        let run_us = Value::BigInt(1_500);
        vec![Value::BigInt(job), Value::Int(fence), Value::TinyInt(0), Value::Null, run_us, Value::Null, Value::Null]
    });
    let mut out = call(schema, "finish");
    put_parameter(&mut out, "@queue", &text(queue));
    put_parameter(&mut out, "@worker_id", &(SqlType::UniqueIdentifier, Value::Uuid(worker)));
    put_table(&mut out, "@jobs", schema, "finish_list", &columns, rows);
    out
}

/// Enqueues `count` jobs of `payload` bytes. With a delay they are scheduled.
pub fn enqueue(queue: &str, count: i32, payload: usize, delay_ms: Option<i64>) -> Vec<u8> {
    let columns = [
        SqlType::Int,
        SqlType::VarBinary(Length::Max),
        SqlType::NVarChar(Length::Max),
        SqlType::SmallInt,
        SqlType::BigInt,
        SqlType::DateTime2(3),
        SqlType::Int,
        SqlType::NVarChar(Length::Limit(256)),
        SqlType::UniqueIdentifier,
        SqlType::VarChar(Length::Limit(64)),
    ];
    let rows = (0..count).map(|ordinal| {
        let mut row = vec![Value::Null; columns.len()];
        row[0] = Value::Int(ordinal);
        row[1] = Value::Bytes(vec![7; payload].into());
        row[4] = delay_ms.map_or(Value::Null, Value::BigInt);
        row
    });
    let mut out = call(OWN_SCHEMA, "enqueue_batch");
    put_parameter(&mut out, "@queue", &text(queue));
    put_table(&mut out, "@jobs", OWN_SCHEMA, "enqueue_list", &columns, rows);
    out
}

/// A connection with one call at a time.
pub struct Client {
    socket: TcpStream,
    packets: Vec<u8>,
    received: Vec<u8>,
    answer: Vec<u8>,
}

impl Client {
    /// Connects without encryption and logs in.
    pub fn connect(address: SocketAddr, user: &str, password: &str) -> Client {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_nodelay(true).expect("a TCP socket");
        let mut client = Client { socket, packets: Vec::new(), received: vec![0; 256 * 1024], answer: Vec::new() };
        // VERSION and ENCRYPTION (2: not supported).
        client.send(PacketType::PreLogin, &[0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xFF, 0, 0, 0, 0, 0, 0, 2]);
        client.receive();
        client.send(PacketType::Login7, &login(user, password));
        client.receive();
        client
    }

    pub fn call(&mut self, message: &[u8]) {
        self.send(PacketType::Rpc, message);
        self.receive();
    }

    fn send(&mut self, packet_type: PacketType, message: &[u8]) {
        let packet_size = if packet_type == PacketType::Rpc { PACKET_SIZE } else { 4096 };
        self.packets.clear();
        frame(&mut self.packets, message, packet_type, packet_size, 0, &mut 1, true);
        self.socket.write_all(&self.packets).expect("the server reads");
    }

    /// Takes in a whole answer.
    fn receive(&mut self) {
        self.answer.clear();
        let (mut start, mut end) = (0, 0);
        loop {
            if end - start >= HEADER_SIZE {
                let packet = &self.received[start..end];
                let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
                if packet.len() >= length {
                    let is_last = packet[1] & END_OF_MESSAGE != 0;
                    self.answer.extend_from_slice(&packet[HEADER_SIZE..length]);
                    start += length;
                    if is_last {
                        assert_ne!(self.answer.first(), Some(&ERROR), "{}", String::from_utf8_lossy(&self.answer));
                        return;
                    }
                    continue;
                }
            }
            self.received.copy_within(start..end, 0);
            (start, end) = (0, end - start);
            let count = self.socket.read(&mut self.received[end..]).expect("the server answers");
            assert!(count > 0, "the server has closed the connection");
            end += count;
        }
    }

    /// The jobs in the answer to a claim.
    pub fn claimed(&self) -> Vec<Claimed> {
        let answer = &self.answer;
        assert_eq!(answer.first(), Some(&COLUMN_METADATA));
        let (types, mut at) = column_types(answer);
        let mut jobs = Vec::with_capacity(1000);
        if answer[at] == ORDER {
            at += 3 + usize::from(u16::from_le_bytes(answer[at + 1..at + 3].try_into().expect("two bytes")));
        }
        while answer[at] == ROW {
            // job_id and fence come first, each with a byte of length before it.
            let id = i64::from_le_bytes(answer[at + 2..at + 10].try_into().expect("eight bytes"));
            let fence = i32::from_le_bytes(answer[at + 11..at + 15].try_into().expect("four bytes"));
            jobs.push((id, fence));
            at += 1;
            for form in &types {
                at += form.length_of(&answer[at..]);
            }
        }
        jobs
    }
}

/// How a column's values say how long they are.
#[derive(Clone, Copy)]
enum Form {
    Short,
    Long,
    Partial,
}

impl Form {
    fn length_of(self, bytes: &[u8]) -> usize {
        match self {
            Form::Short => 1 + usize::from(bytes[0]),
            Form::Long => match u16::from_le_bytes([bytes[0], bytes[1]]) {
                u16::MAX => 2,
                length => 2 + usize::from(length),
            },
            Form::Partial => {
                if bytes[..8] == [0xFF; 8] {
                    return 8;
                }
                let mut at = 8;
                loop {
                    let chunk = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
                    at += 4 + chunk;
                    if chunk == 0 {
                        return at;
                    }
                }
            }
        }
    }
}

/// The forms of the columns, and where the rows begin.
fn column_types(answer: &[u8]) -> (Vec<Form>, usize) {
    let count = u16::from_le_bytes([answer[1], answer[2]]);
    let mut at = 3;
    let mut types = Vec::new();
    for _ in 0..count {
        at += 6;
        let form = match answer[at] {
            // INTN, BITN, UNIQUEIDENTIFIER
            0x26 | 0x68 | 0x24 => {
                at += 2;
                Form::Short
            }
            // VARCHAR, NVARCHAR
            0xA7 | 0xE7 => {
                at += 8;
                Form::Long
            }
            // VARBINARY
            0xA5 => {
                at += 3;
                Form::Partial
            }
            other => panic!("a claim has no column of type 0x{other:02X}"),
        };
        types.push(form);
        at += 1 + 2 * usize::from(answer[at]);
    }
    (types, at)
}

/// LOGIN7, see MS-TDS 2.2.6.4.
fn login(user: &str, password: &str) -> Vec<u8> {
    const FIXED: usize = 94;
    let utf16 = |text: &str| {
        let mut bytes = Vec::new();
        put_utf16(&mut bytes, text);
        bytes
    };
    let hidden = utf16(password).into_iter().map(|byte| byte.rotate_left(4) ^ 0xA5).collect();
    // Host, user, password, program, server, extension, library, language, database.
    let texts = [vec![], utf16(user), hidden, utf16("bench"), vec![], vec![], vec![], vec![], vec![]];
    let mut pointers = Vec::new();
    let mut data = Vec::new();
    for text in texts {
        pointers.extend_from_slice(&((FIXED + data.len()) as u16).to_le_bytes());
        pointers.extend_from_slice(&((text.len() / 2) as u16).to_le_bytes());
        data.extend_from_slice(&text);
    }
    let mut message = Vec::new();
    message.extend_from_slice(&((FIXED + data.len()) as u32).to_le_bytes());
    message.extend_from_slice(&0x7400_0004_u32.to_le_bytes());
    message.extend_from_slice(&(PACKET_SIZE as u32).to_le_bytes());
    // Versions, options, time zone and locale.
    message.extend_from_slice(&[0; 12 + 4 + 8]);
    message.extend_from_slice(&pointers);
    message.resize(FIXED, 0);
    message.extend_from_slice(&data);
    message
}
