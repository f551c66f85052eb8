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

/// PRELOGIN, TLS where it was agreed on, and the LOGIN7 message. `None`: the client went away.
pub(super) async fn negotiate(mut socket: TcpStream, shared: &Shared) -> io::Result<Option<Negotiated>> {
    socket.set_nodelay(true)?;
    let mut first_byte = [0];
    if socket.peek(&mut first_byte).await? == 0 {
        return Ok(None);
    }
    if first_byte[0] == TLS_HANDSHAKE {
        return negotiate_strict(socket, shared).await;
    }
    let version = shared.engine.release().wire_version();
    let Some((encryption, mut packets)) = answer_prelogin(&mut socket, None, version).await? else {
        return Ok(None);
    };
    if encryption == Encryption::NotSupported {
        let login = packets.next_message(&mut socket).await?;
        return Ok(login.map(|login| Negotiated::Plain(socket, packets, login)));
    }

    let mut stream = shared.tls.wrapped.accept(HandshakeStream::wrapping(socket)).await?;
    stream.get_mut().0.handshake_done();
    let Some(login) = packets.next_message(&mut stream).await? else {
        return Ok(None);
    };
    if encryption == Encryption::Off {
        // Only the login was to be encrypted; the answer to it goes in the clear already.
        let (stream, _) = stream.into_inner();
        return Ok(Some(Negotiated::Plain(stream.into_socket(), packets, login)));
    }
    Ok(Some(Negotiated::Encrypted(Box::new(stream), packets, login)))
}

/// TDS 8.0: TLS from the first byte, then the same messages. "SQL Server 2022, Azure SQL Database, and Azure SQL
/// Managed Instance support Tabular Data Stream (TDS) 8.0" ("TDS 8.0", MicrosoftDocs/sql-docs,
/// docs/relational-databases/security/networking/tds-8.md).
async fn negotiate_strict(socket: TcpStream, shared: &Shared) -> io::Result<Option<Negotiated>> {
    if !shared.engine.product().has_all_of(16) {
        return Err(protocol_error("TDS 8.0, which this version of SQL Server does not speak".to_owned()));
    }
    let mut stream = shared.tls.strict.accept(HandshakeStream::direct(socket)).await?;
    let version = shared.engine.release().wire_version();
    let Some((_, mut packets)) = answer_prelogin(&mut stream, Some(Encryption::On), version).await? else {
        return Ok(None);
    };
    let login = packets.next_message(&mut stream).await?;
    Ok(login.map(|login| Negotiated::Encrypted(Box::new(stream), packets, login)))
}

/// Reads PRELOGIN and answers it, with `fixed` encryption where there is nothing to negotiate any more.
async fn answer_prelogin<S>(
    stream: &mut S,
    fixed: Option<Encryption>,
    version: [u8; 4],
) -> io::Result<Option<(Encryption, PacketReader)>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut packets = PacketReader::default();
    let Some(message) = packets.next_message(stream).await? else {
        return Ok(None);
    };
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
    Ok(Some((encryption, packets)))
}

pub(super) fn protocol_error(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
