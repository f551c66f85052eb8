//! PRELOGIN, TLS where it was agreed on, and the LOGIN7 message.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::shared::Shared;
use crate::tds::packet::{DEFAULT_PACKET_SIZE, Message, PacketReader, PacketType, frame};
use crate::tds::prelogin::{self, Encryption};
use crate::tds::tls::HandshakeStream;

/// The first byte of a TLS handshake, by which a strict (TDS 8.0) client is told from one that sends PRELOGIN.
const TLS_HANDSHAKE: u8 = 0x16;

type TlsStream = tokio_rustls::server::TlsStream<HandshakeStream>;

/// A connection whose LOGIN7 message has arrived.
pub(super) enum Negotiated {
    Plain(TcpStream, PacketReader, Message),
    Encrypted(Box<TlsStream>, PacketReader, Message),
}

/// PRELOGIN, TLS where it was agreed on, and the LOGIN7 message.
pub(super) async fn negotiate(mut socket: TcpStream, shared: &Shared) -> io::Result<Negotiated> {
    socket.set_nodelay(true)?;
    let mut first_byte = [0];
    socket.peek(&mut first_byte).await?;
    if first_byte[0] == TLS_HANDSHAKE {
        return negotiate_strict(socket, shared).await;
    }
    let version = shared.engine.release().wire_version();
    let (encryption, mut packets) = answer_prelogin(&mut socket, None, version).await?;
    if encryption == Encryption::NotSupported {
        let login = next_message(&mut packets, &mut socket).await?;
        return Ok(Negotiated::Plain(socket, packets, login));
    }

    let mut stream = shared.tls.wrapped.accept(HandshakeStream::wrapping(socket)).await?;
    stream.get_mut().0.handshake_done();
    let login = next_message(&mut packets, &mut stream).await?;
    if encryption == Encryption::Off {
        // Only the login was to be encrypted; the answer to it goes in the clear already.
        let (stream, _) = stream.into_inner();
        return Ok(Negotiated::Plain(stream.into_socket(), packets, login));
    }
    Ok(Negotiated::Encrypted(Box::new(stream), packets, login))
}

/// TDS 8.0: TLS from the first byte, then the same messages. "SQL Server 2022, Azure SQL Database, and Azure SQL
/// Managed Instance support Tabular Data Stream (TDS) 8.0" ("TDS 8.0", MicrosoftDocs/sql-docs,
/// docs/relational-databases/security/networking/tds-8.md).
async fn negotiate_strict(socket: TcpStream, shared: &Shared) -> io::Result<Negotiated> {
    if !shared.engine.product().has_all_of(16) {
        return Err(protocol_error("TDS 8.0, which this version of SQL Server does not speak"));
    }
    let mut stream = shared.tls.strict.accept(HandshakeStream::direct(socket)).await?;
    let version = shared.engine.release().wire_version();
    let (_, mut packets) = answer_prelogin(&mut stream, Some(Encryption::On), version).await?;
    let login = next_message(&mut packets, &mut stream).await?;
    Ok(Negotiated::Encrypted(Box::new(stream), packets, login))
}

/// Reads PRELOGIN and answers it, with `fixed` encryption where there is nothing to negotiate any more.
async fn answer_prelogin<S>(
    stream: &mut S,
    fixed: Option<Encryption>,
    version: [u8; 4],
) -> io::Result<(Encryption, PacketReader)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut packets = PacketReader::default();
    let message = next_message(&mut packets, stream).await?;
    if message.packet_type != PacketType::PreLogin {
        return Err(protocol_error(format!("{:?} came instead of PRELOGIN", message.packet_type)));
    }
    let client = prelogin::decode(&message.payload).map_err(|error| protocol_error(format!("PRELOGIN: {error:?}")))?;
    let encryption = fixed.unwrap_or_else(|| prelogin::negotiate(client.encryption));
    let answer = prelogin::encode(&client, encryption, version);
    let mut packet = Vec::new();
    frame(&mut packet, &answer, PacketType::TabularResult, DEFAULT_PACKET_SIZE, 0, &mut 1, true);
    stream.write_all(&packet).await?;
    stream.flush().await?;
    Ok((encryption, packets))
}

async fn next_message(packets: &mut PacketReader, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    packets.next_message(stream).await?.ok_or_else(|| protocol_error("the client went away before it logged in"))
}

pub(super) fn protocol_error(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
