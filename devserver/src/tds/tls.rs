//! Encryption: the server's certificate, and the stream under the TLS handshake.
//!
//! In TDS 7.x the handshake travels inside PRELOGIN packets, and everything after it is plain TLS ([`HandshakeStream`]
//! unwraps and wraps, then steps aside). In TDS 8.0 ("strict") TLS comes first and the stream never wraps.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ServerConfig, SupportedProtocolVersion};

use super::packet::{DEFAULT_PACKET_SIZE, HEADER_SIZE, PacketType, frame};

/// The application protocol a strict client asks for.
const STRICT_PROTOCOL: &[u8] = b"tds/8.0";

/// The two ways into TLS.
#[derive(Clone)]
pub struct TlsAcceptors {
    /// TLS 1.2 only: SQL Server offers TLS 1.3 to TDS 8.0 connections alone ("TDS 8.0", MicrosoftDocs/sql-docs,
    /// docs/relational-databases/security/networking/tds-8.md), and the tickets which a TLS 1.3 server sends after
    /// its handshake would have no place between PRELOGIN packets and plain TLS.
    pub wrapped: TlsAcceptor,
    /// TLS 1.2 and 1.3.
    pub strict: TlsAcceptor,
    /// As PEM.
    pub certificate: String,
}

impl TlsAcceptors {
    /// A new key and a self-signed certificate for `localhost` and the loopback addresses.
    pub fn with_new_certificate() -> io::Result<TlsAcceptors> {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let certificate = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        let acceptor = |versions: &[&'static SupportedProtocolVersion], protocols: Vec<Vec<u8>>| {
            let key = PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
            let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(versions)
                .and_then(|builder| {
                    builder.with_no_client_auth().with_single_cert(vec![certificate.cert.der().clone()], key.into())
                })
                .map_err(io::Error::other)?;
            config.alpn_protocols = protocols;
            Ok::<_, io::Error>(TlsAcceptor::from(Arc::new(config)))
        };
        Ok(TlsAcceptors {
            wrapped: acceptor(&[&TLS12], Vec::new())?,
            strict: acceptor(&[&TLS12, &TLS13], vec![STRICT_PROTOCOL.to_vec()])?,
            certificate: pem(certificate.cert.der()),
        })
    }
}

/// RFC 7468: lines of 64 characters.
fn pem(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines: Vec<&str> = encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A socket that, until [`HandshakeStream::handshake_done`], takes PRELOGIN packets apart when reading and packs what
/// is written into PRELOGIN packets.
pub struct HandshakeStream {
    socket: TcpStream,
    wrapping: bool,
    header: [u8; HEADER_SIZE],
    header_read: usize,
    payload_left: usize,
    /// Written by TLS, not packed yet.
    unpacked: Vec<u8>,
    /// Packed, not sent yet.
    packed: Vec<u8>,
    sent: usize,
}

impl HandshakeStream {
    /// The stream of TDS 7.x.
    pub fn wrapping(socket: TcpStream) -> Self {
        HandshakeStream {
            socket,
            wrapping: true,
            header: [0; HEADER_SIZE],
            header_read: 0,
            payload_left: 0,
            unpacked: Vec::new(),
            packed: Vec::new(),
            sent: 0,
        }
    }

    /// The stream of TDS 8.0.
    pub fn direct(socket: TcpStream) -> Self {
        let mut stream = HandshakeStream::wrapping(socket);
        stream.handshake_done();
        stream
    }

    /// From now on bytes pass unchanged.
    pub fn handshake_done(&mut self) {
        self.wrapping = false;
    }

    /// The socket, for a client that wanted its login encrypted and nothing else.
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.packed.len() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(context, &self.packed[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
        }
        self.packed.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for HandshakeStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if !stream.wrapping {
            return Pin::new(&mut stream.socket).poll_read(context, buf);
        }
        while stream.payload_left == 0 {
            let mut header = ReadBuf::new(&mut stream.header[stream.header_read..]);
            ready!(Pin::new(&mut stream.socket).poll_read(context, &mut header))?;
            let read = header.filled().len();
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            stream.header_read += read;
            if stream.header_read < HEADER_SIZE {
                continue;
            }
            stream.header_read = 0;
            let length = usize::from(u16::from_be_bytes([stream.header[2], stream.header[3]]));
            let is_prelogin = stream.header[0] == PacketType::PreLogin as u8;
            if !is_prelogin || length < HEADER_SIZE {
                let error = "only PRELOGIN packets may carry the TLS handshake";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            stream.payload_left = length - HEADER_SIZE;
        }
        let wanted = stream.payload_left.min(buf.remaining());
        let mut payload = ReadBuf::new(buf.initialize_unfilled_to(wanted));
        ready!(Pin::new(&mut stream.socket).poll_read(context, &mut payload))?;
        let read = payload.filled().len();
        buf.advance(read);
        stream.payload_left -= read;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for HandshakeStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        if !stream.wrapping {
            return Pin::new(&mut stream.socket).poll_write(context, bytes);
        }
        stream.unpacked.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if !stream.unpacked.is_empty() {
            frame(&mut stream.packed, &stream.unpacked, PacketType::PreLogin, DEFAULT_PACKET_SIZE, 0, &mut 1, true);
            stream.unpacked.clear();
        }
        ready!(stream.poll_send(context))?;
        Pin::new(&mut stream.socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}
