//! Packets: the 8-byte headers that cut messages into pieces, and a bounds-checked reader for what is inside.
//!
//! Bytes from the socket go into [`PacketReader`], whole messages come out. In the other direction [`frame`] cuts the
//! response into packets. Nothing here trusts a length: memory grows with bytes received, never with bytes announced.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::SqlError;
use crate::value::units::{RESERVED, from_units, units};

/// The size of a packet's header.
pub const HEADER_SIZE: usize = 8;

/// The packet size before a login has negotiated another one.
pub const DEFAULT_PACKET_SIZE: usize = 4096;

/// The bounds within which a login may choose the packet size (MS-TDS, LOGIN7, PacketSize).
pub const PACKET_SIZE_RANGE: std::ops::RangeInclusive<usize> = 512..=32767;

/// A message above this size is refused, which keeps a client that never ends its message from filling the memory. It
/// holds the largest value that readpast sends, 256 MiB, and what goes with it.
pub const MAX_MESSAGE_SIZE: usize = 257 * 1024 * 1024;

/// The same before the login, when nobody knows who sends it: a LOGIN7 message has at most 128 KB.
pub const MAX_MESSAGE_SIZE_BEFORE_LOGIN: usize = 128 * 1024;

/// How many bytes are asked of the socket at once.
const READ_SIZE: usize = 16 * 1024;

const STATUS_END_OF_MESSAGE: u8 = 0x01;
const STATUS_IGNORE: u8 = 0x02;
const STATUS_RESET: u8 = 0x08;
const STATUS_RESET_KEEP_TRANSACTION: u8 = 0x10;

/// What a message is (MS-TDS, "Type" of the packet header).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    SqlBatch = 0x01,
    Rpc = 0x03,
    TabularResult = 0x04,
    Attention = 0x06,
    TransactionManager = 0x0E,
    Login7 = 0x10,
    PreLogin = 0x12,
}

impl PacketType {
    fn from_byte(byte: u8) -> Option<PacketType> {
        use PacketType::{Attention, Login7, PreLogin, Rpc, SqlBatch, TabularResult, TransactionManager};
        let types = [SqlBatch, Rpc, TabularResult, Attention, TransactionManager, Login7, PreLogin];
        types.into_iter().find(|packet_type| *packet_type as u8 == byte)
    }
}

/// The status bits by which a connection pool asks for a fresh session before the request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    No,
    Session,
    SessionButTransaction,
}

/// One complete message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    pub packet_type: PacketType,
    pub reset: Reset,
    /// The client gave the message up while sending it; the payload is to be ignored and answered with a plain DONE.
    pub ignored: bool,
    pub payload: Vec<u8>,
}

/// Puts messages together from the bytes of a connection.
pub struct PacketReader {
    received: Vec<u8>,
    consumed: usize,
    partial: Option<Message>,
    max_message_size: usize,
}

impl Default for PacketReader {
    fn default() -> Self {
        PacketReader {
            received: Vec::new(),
            consumed: 0,
            partial: None,
            max_message_size: MAX_MESSAGE_SIZE_BEFORE_LOGIN,
        }
    }
}

impl PacketReader {
    /// The login has come: from now on messages may be of any size that requests need.
    pub fn allow_large_messages(&mut self) {
        self.max_message_size = MAX_MESSAGE_SIZE;
    }

    /// The next message, or `None` when the client has closed the connection.
    ///
    /// # Cancel safety
    /// What was received stays in the reader, so the future can be dropped and the call repeated.
    pub async fn next_message(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(Some(message));
            }
            self.received.drain(..self.consumed);
            self.consumed = 0;
            self.received.reserve(READ_SIZE);
            if stream.read_buf(&mut self.received).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// A message out of the bytes received so far, if one is complete.
    fn take_message(&mut self) -> io::Result<Option<Message>> {
        loop {
            let bytes = &self.received[self.consumed..];
            let Some((header, rest)) = bytes.split_at_checked(HEADER_SIZE) else {
                return Ok(None);
            };
            let packet_type = PacketType::from_byte(header[0])
                .ok_or_else(|| invalid(format!("packet type 0x{:02X} is not known", header[0])))?;
            let status = header[1];
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let Some(payload_length) = length.checked_sub(HEADER_SIZE) else {
                return Err(invalid(format!("a packet of {length} bytes is shorter than its header")));
            };
            let Some(payload) = rest.get(..payload_length) else {
                return Ok(None);
            };
            self.consumed += length;

            // An attention stands alone, also where it interrupts a message that was never ended.
            if packet_type == PacketType::Attention {
                self.partial = None;
            }
            let message = match &mut self.partial {
                Some(message) if message.packet_type == packet_type => message,
                Some(message) => {
                    let expected = message.packet_type;
                    return Err(invalid(format!("a {packet_type:?} packet came inside a {expected:?} message")));
                }
                None => self.partial.insert(Message {
                    packet_type,
                    reset: reset_of(status),
                    ignored: false,
                    payload: Vec::new(),
                }),
            };
            if message.payload.len() + payload.len() > self.max_message_size {
                return Err(invalid(format!("a message is larger than {} bytes", self.max_message_size)));
            }
            message.payload.extend_from_slice(payload);
            if status & STATUS_END_OF_MESSAGE != 0 {
                message.ignored = status & STATUS_IGNORE != 0;
                return Ok(self.partial.take());
            }
        }
    }
}

fn reset_of(status: u8) -> Reset {
    if status & STATUS_RESET_KEEP_TRANSACTION != 0 {
        Reset::SessionButTransaction
    } else if status & STATUS_RESET != 0 {
        Reset::Session
    } else {
        Reset::No
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Cuts `payload` into packets and appends them to `out`. With `last`, the final packet ends the message (and there is
/// one even for an empty payload); without, only whole packets are cut. Gives the number of payload bytes taken.
pub fn frame(
    out: &mut Vec<u8>,
    payload: &[u8],
    packet_type: PacketType,
    packet_size: usize,
    spid: u16,
    next_packet_id: &mut u8,
    last: bool,
) -> usize {
    let capacity = packet_size - HEADER_SIZE;
    let mut taken = 0;
    loop {
        let rest = &payload[taken..];
        let is_final = last && rest.len() <= capacity;
        if !is_final && rest.len() < capacity {
            return taken;
        }
        let piece = &rest[..rest.len().min(capacity)];
        let length = u16::try_from(piece.len() + HEADER_SIZE).expect("the packet size is at most 32767");
        out.push(packet_type as u8);
        out.push(if is_final { STATUS_END_OF_MESSAGE } else { 0 });
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&spid.to_be_bytes());
        out.push(*next_packet_id);
        out.push(0);
        out.extend_from_slice(piece);
        *next_packet_id = next_packet_id.wrapping_add(1);
        taken += piece.len();
        if is_final {
            return taken;
        }
    }
}

/// Why the inside of a message cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The message ends in the middle of something, or a type or a length in it does not exist.
    Malformed,
    /// It is well-formed as far as it goes, but the dev server does not take it.
    NotSupported(String),
    /// A value outside the range of its type.
    InvalidValue(u8),
}

impl From<ReadError> for SqlError {
    /// The error for the client, where it is not about one parameter of an RPC.
    fn from(error: ReadError) -> SqlError {
        match error {
            ReadError::NotSupported(what) => SqlError::not_supported(what),
            ReadError::Malformed | ReadError::InvalidValue(_) => SqlError::new(
                4002,
                "The incoming tabular data stream (TDS) protocol stream is incorrect. The stream ended unexpectedly.",
            ),
        }
    }
}

/// Reads a message's payload from front to back.
pub struct PayloadReader<'a> {
    rest: &'a [u8],
}

impl<'a> PayloadReader<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        PayloadReader { rest: payload }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next byte, which stays.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], ReadError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ReadError::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ReadError::Malformed)?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub fn u8(&mut self) -> Result<u8, ReadError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, ReadError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Text of so many UTF-16 units.
    pub fn text(&mut self, units: usize) -> Result<String, ReadError> {
        let bytes = self.bytes(units * 2)?;
        decode_utf16(bytes)
    }

    /// B_VARCHAR: a byte with the number of UTF-16 units, then the text.
    pub fn b_varchar(&mut self) -> Result<String, ReadError> {
        let units = usize::from(self.u8()?);
        self.text(units)
    }
}

/// UTF-16LE to a string. The number of bytes must be even.
pub fn decode_utf16(bytes: &[u8]) -> Result<String, ReadError> {
    let (units, odd_byte) = bytes.as_chunks::<2>();
    if !odd_byte.is_empty() {
        return Err(ReadError::Malformed);
    }
    let text = from_units(units.iter().map(|unit| u16::from_le_bytes(*unit)));
    text.ok_or_else(|| ReadError::NotSupported(format!("{RESERVED} cannot be stored")))
}

/// Appends text as UTF-16LE and gives the number of units.
pub fn put_utf16(out: &mut Vec<u8>, text: &str) -> usize {
    let start = out.len();
    out.reserve(text.len() * 2);
    for unit in units(text) {
        out.extend_from_slice(&unit.to_le_bytes());
    }
    (out.len() - start) / 2
}

/// Appends a B_VARCHAR. Names in SQL Server have at most 128 characters; a longer text is cut at 255 units.
pub fn put_b_varchar(out: &mut Vec<u8>, text: &str) {
    let length_at = out.len();
    out.push(0);
    let units = put_utf16(out, text).min(255);
    out.truncate(length_at + 1 + units * 2);
    out[length_at] = u8::try_from(units).expect("cut at 255 just before");
}

/// Appends a US_VARCHAR, cut at `limit` units.
pub fn put_us_varchar(out: &mut Vec<u8>, text: &str, limit: u16) {
    let length_at = out.len();
    out.extend_from_slice(&[0, 0]);
    let units = u16::try_from(put_utf16(out, text)).unwrap_or(u16::MAX).min(limit);
    out.truncate(length_at + 2 + usize::from(units) * 2);
    out[length_at..length_at + 2].copy_from_slice(&units.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(packet_type: PacketType, status: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len() + HEADER_SIZE).unwrap().to_be_bytes();
        let mut packet = vec![packet_type as u8, status, length[0], length[1], 0, 0, 1, 0];
        packet.extend_from_slice(payload);
        packet
    }

    fn messages(bytes: &[u8]) -> io::Result<Vec<Message>> {
        let mut reader = PacketReader { received: bytes.to_vec(), ..PacketReader::default() };
        let mut messages = Vec::new();
        while let Some(message) = reader.take_message()? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[test]
    fn a_message_of_several_packets_is_put_together() {
        let mut bytes = packet(PacketType::Rpc, STATUS_RESET, b"ab");
        bytes.extend(packet(PacketType::Rpc, STATUS_RESET_KEEP_TRANSACTION, b""));
        bytes.extend(packet(PacketType::Rpc, STATUS_END_OF_MESSAGE, b"c"));
        bytes.extend(packet(PacketType::SqlBatch, STATUS_END_OF_MESSAGE, b"d"));
        let messages = messages(&bytes).unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].payload, b"abc");
        assert_eq!(messages[0].reset, Reset::Session, "the reset bit counts in the first packet only");
        assert_eq!(messages[1].payload, b"d");
        assert_eq!(messages[1].reset, Reset::No);
    }

    #[test]
    fn every_prefix_of_a_message_waits_for_the_rest() {
        let mut bytes = packet(PacketType::SqlBatch, 0, b"first");
        bytes.extend(packet(PacketType::SqlBatch, STATUS_END_OF_MESSAGE, b"second"));
        for length in 0..bytes.len() {
            assert_eq!(messages(&bytes[..length]).unwrap(), Vec::new(), "{length} bytes");
        }
    }

    #[test]
    fn garbage_is_refused() {
        assert!(messages(b"GET / HTTP/1.1\r\n").is_err());
        assert!(messages(&[0x01, 0x01, 0x00, 0x07, 0, 0, 0, 0]).is_err(), "shorter than a header");
        let mut mixed = packet(PacketType::SqlBatch, 0, b"a");
        mixed.extend(packet(PacketType::Rpc, STATUS_END_OF_MESSAGE, b"b"));
        assert!(messages(&mixed).is_err());
    }

    #[test]
    fn an_attention_drops_an_unfinished_message() {
        let mut bytes = packet(PacketType::SqlBatch, 0, b"half");
        bytes.extend(packet(PacketType::Attention, STATUS_END_OF_MESSAGE, b""));
        let messages = messages(&bytes).unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].packet_type, PacketType::Attention);
    }

    #[test]
    fn messages_are_short_until_the_login_has_come() {
        let half = packet(PacketType::Login7, 0, &[0; MAX_MESSAGE_SIZE_BEFORE_LOGIN / 4]);
        let mut reader = PacketReader { received: half.repeat(5), ..PacketReader::default() };
        assert!(reader.take_message().is_err());
        let mut reader = PacketReader { received: half.repeat(5), ..PacketReader::default() };
        reader.allow_large_messages();
        assert_eq!(reader.take_message().unwrap(), None);
    }

    #[test]
    fn the_ignore_bit_is_kept() {
        let mut bytes = packet(PacketType::SqlBatch, 0, b"half");
        bytes.extend(packet(PacketType::SqlBatch, STATUS_END_OF_MESSAGE | STATUS_IGNORE, b""));
        assert!(messages(&bytes).unwrap()[0].ignored);
    }

    #[test]
    fn a_framed_payload_comes_back_whole() {
        for size in [0, 1, 503, 504, 505, 1008, 5000] {
            let payload: Vec<u8> = (0..size).map(|n| n as u8).collect();
            let mut framed = Vec::new();
            let mut id = 255;
            let taken = frame(&mut framed, &payload, PacketType::SqlBatch, 512, 51, &mut id, true);
            assert_eq!(taken, payload.len());
            let messages = messages(&framed).unwrap();
            assert_eq!(messages.len(), 1);
            assert_eq!(messages[0].payload, payload);
        }
    }

    #[test]
    fn only_whole_packets_are_cut_before_the_end() {
        let mut framed = Vec::new();
        let taken = frame(&mut framed, &[7; 1200], PacketType::SqlBatch, 512, 51, &mut 1, false);
        assert_eq!(taken, 1008);
        assert_eq!(framed.len(), 1024);
        assert_eq!(messages(&framed).unwrap(), Vec::new());
    }

    #[test]
    fn half_a_surrogate_pair_is_read_and_written_as_it_is() {
        let mut written = Vec::new();
        put_utf16(&mut written, &decode_utf16(&[0x3D, 0xD8, 0x41, 0x00]).unwrap());
        assert_eq!(written, [0x3D, 0xD8, 0x41, 0x00]);
        assert_eq!(decode_utf16(&[0x3D, 0xD8, 0x00, 0xDE]).unwrap(), "😀");
        assert_eq!(decode_utf16(&[0x41]), Err(ReadError::Malformed));
    }

    #[test]
    fn long_names_are_cut_not_wrapped() {
        let mut out = Vec::new();
        put_b_varchar(&mut out, &"x".repeat(300));
        assert_eq!(out.len(), 1 + 255 * 2);
        assert_eq!(PayloadReader::new(&out).b_varchar().unwrap().len(), 255);
    }
}
