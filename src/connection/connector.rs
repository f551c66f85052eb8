//! Making connections to SQL Server. (Which of them can be trusted after they idled: `idle_connections.rs`.)
//!
//! A connection also ends with the tokio runtime in which it was made, whose poller its socket belongs to. Clones of a
//! queue may be used in several runtimes, and a worker's ends with the worker ([`Connection::has_lost_its_runtime`]).

use std::convert::Infallible;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, Socket};
use tiberius::SqlBrowser;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::config::connection_string::{Address, Place};
use crate::config::{ConnectionConfig, Timeouts};
use crate::error::Error;
use crate::login::{Attempt, Credentials, Proof};
use crate::metrics::QueueMetrics;

use super::answer::{Allowance, AnswerLimit, Limited};
use super::idle_connections::{IdleConnections, keep_alive};
use super::without_warnings;

/// How much is read from a socket at once. The driver itself asks for 8 KiB, half a packet: sixteen system calls for a
/// claim of 500 jobs of 200 bytes.
const READ_BYTES: usize = 64 * 1024;

/// A connection as the driver has it.
type Client = tiberius::Client<Compat<BufReader<Limited<TcpStream>>>>;

/// A connection, and its socket beside the driver, which hides it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    allowance: Arc<Allowance>,
    socket: Socket,
    /// Its receiver waits in a task of the runtime in which the connection was made, and is dropped with the runtime.
    runtime: oneshot::Sender<Infallible>,
}

impl Connection {
    /// In the runtime that the stream was made in.
    fn new(client: Client, allowance: Arc<Allowance>, socket: Socket) -> Connection {
        let (runtime, connection) = oneshot::channel();
        tokio::spawn(connection); // until the connection is dropped
        Connection { client, allowance, socket, runtime }
    }

    /// Before a call: how much its answer may be. Beyond that the call fails, and the connection is of no use.
    pub(crate) fn expect_answer(&self, limit: AnswerLimit) {
        self.allowance.grant(limit);
    }

    /// Whether the runtime in which it was made has ended: its socket is open, and no call can use it.
    pub(crate) fn has_lost_its_runtime(&self) -> bool {
        self.runtime.is_closed()
    }

    /// Whether the other end has closed it, or it was reset: nothing that is sent now would be heard. A server has
    /// nothing to say on a connection without a call but that it ends it, and a TLS layer's farewell are bytes as well.
    pub(crate) fn is_closed(&self) -> bool {
        match self.socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// How often a server may send us on to another address. Azure SQL does it once.
const MAX_REDIRECTS: usize = 3;

/// Knows how to make connections, and the schema that they are for.
#[derive(Debug)]
pub(crate) struct Connector {
    /// The driver's settings without the address.
    driver: tiberius::Config,
    address: Address,
    credentials: Arc<Credentials>,
    server: String,
    schema: String,
    timeouts: Timeouts,
    pub(crate) idle: IdleConnections,
    metrics: QueueMetrics,
}

impl Connector {
    /// Reads the settings; connects to nothing. `queue` is what its connections are counted for.
    ///
    /// # Errors
    ///
    /// [`Error::ConnectionString`] and [`Error::Config`].
    pub(crate) fn new(config: &ConnectionConfig, queue: &str) -> Result<Connector, Error> {
        config.validate()?;
        let options = config.url.parse()?;
        let timeouts = config.timeouts()?;
        let mut driver = options.driver;
        driver.packet_size(options.packet_size.unwrap_or(config.packet_size) as u32); // 16,383 at the most
        // Both are bounded here, as a whole: the driver's own time limits hold for each packet.
        driver.handshake_timeout(None);
        driver.command_timeout(None);
        // Old rows may have half of a surrogate pair, and one of them must not make an answer unreadable.
        driver.lossy_utf16_decoding(true);
        Ok(Connector {
            driver,
            credentials: Arc::new(Credentials::new(config.login()?)),
            server: options.address.to_string(),
            address: options.address,
            schema: config.schema.clone(),
            timeouts,
            idle: IdleConnections::default(),
            metrics: QueueMetrics::new(queue),
        })
    }

    /// The same for another queue of the schema.
    pub(crate) fn for_queue(&self, queue: &str) -> Connector {
        Connector {
            driver: self.driver.clone(),
            address: self.address.clone(),
            credentials: self.credentials.clone(),
            server: self.server.clone(),
            schema: self.schema.clone(),
            timeouts: self.timeouts,
            idle: IdleConnections::default(),
            metrics: QueueMetrics::new(queue),
        }
    }

    /// How long connecting and a call may take.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The schema that readpast is installed in.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// What it connects to, for errors and logs.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn metrics(&self) -> &QueueMetrics {
        &self.metrics
    }

    /// Makes a connection: TCP, TLS, login; follows redirections. It has until `deadline`, `limit` after the call.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`], [`Error::Tls`], [`Error::Credentials`], [`Error::LoginFailed`], [`Error::Database`],
    /// [`Error::TimedOut`] and others of SQL Server's.
    pub(crate) async fn connect(&self, deadline: tokio::time::Instant, limit: Duration) -> Result<Connection, Error> {
        loop {
            let mut attempt = self.credentials.attempt(deadline, limit).await?;
            // Boxed: the driver's handshake is a future of tens of kilobytes, and every caller's would contain it.
            let logging_in = Box::pin(self.log_in(&mut attempt));
            let Ok(logged_in) = tokio::time::timeout_at(deadline, logging_in).await else {
                // A KDC that does not answer is waited for longer than that.
                let kerberos = if matches!(attempt.proof(), Proof::Integrated) { ", Kerberos included" } else { "" };
                return Err(Error::TimedOut { call: format!("connecting to {}{kerberos}", self.server), after: limit });
            };
            match logged_in {
                Ok(connection) => {
                    attempt.was_let_in();
                    return Ok(connection);
                }
                Err(Error::LoginFailed { number, message, .. }) => attempt.was_refused(number, message)?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn log_in(&self, attempt: &mut Attempt<'_>) -> Result<Connection, Error> {
        let mut address = self.address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut driver = self.driver.clone();
            driver.authentication(attempt.proof().method());
            address.apply(&mut driver);
            let (stream, socket) = self.open(&driver).await?;
            if let (Proof::Integrated, Ok(peer)) = (attempt.proof(), stream.peer_addr()) {
                // The driver asks for a ticket for MSSQLSvc/host:port; of a named instance it has not learnt the port.
                driver.port(peer.port());
                driver.handshake_timeout(Some(self.timeouts.connect)); // it goes on when nobody waits any more
            }
            let allowance = Arc::new(Allowance::default());
            allowance.grant(AnswerLimit::LOGIN);
            let stream = Limited::new(stream, allowance.clone());
            let stream = BufReader::with_capacity(READ_BYTES, stream).compat_write();
            let connecting = without_warnings::without_warnings(tiberius::Client::connect(driver, stream));
            attempt.is_sent();
            let connected = match attempt.proof() {
                Proof::Integrated => on_blocking_thread(connecting).await,
                _ => connecting.await,
            };
            attempt.is_over();
            match connected {
                Ok(client) => return Ok(Connection::new(client, allowance, socket)),
                Err(tiberius::error::Error::Routing { host, port }) => {
                    tracing::debug!(host, port, "redirected");
                    address = Address { host, place: Place::Port(port) };
                }
                Err(tiberius::error::Error::Io { kind, message }) if is_of_certificates(kind, &message) => {
                    return Err(Error::Tls { server: self.server.clone(), message });
                }
                Err(error @ tiberius::error::Error::Io { .. }) => return Err(self.connect_error(error)),
                #[cfg(all(unix, feature = "gssapi"))]
                Err(tiberius::error::Error::Gssapi(message)) => {
                    return Err(Error::Credentials { source_name: "Kerberos".to_string(), message });
                }
                Err(error) => return Err(Error::from_login(error, &self.server, &self.schema)),
            }
        }
        let cause = io::Error::other(format!("redirected more than {MAX_REDIRECTS} times"));
        Err(Error::Connect { server: self.server.clone(), cause })
    }

    /// The TCP connection, with its options set, and its socket once more.
    async fn open(&self, driver: &tiberius::Config) -> Result<(TcpStream, Socket), Error> {
        let stream = TcpStream::connect_named(driver).await.map_err(|error| self.connect_error(error))?;
        let options = stream.set_nodelay(true).and_then(|()| keep_alive(&stream));
        let socket = options.and_then(|()| SockRef::from(&stream).try_clone()).and_then(|socket| {
            socket.set_nonblocking(true)?; // it is on most systems: it is the stream's
            Ok(socket)
        });
        match socket {
            Ok(socket) => Ok((stream, socket)),
            Err(cause) => Err(Error::Connect { server: self.server.clone(), cause }),
        }
    }

    fn connect_error(&self, error: tiberius::error::Error) -> Error {
        let cause = match error {
            tiberius::error::Error::Io { kind, message } => io::Error::new(kind, message),
            other => io::Error::other(other.to_string()),
        };
        Error::Connect { server: self.server.clone(), cause }
    }

    pub(crate) fn error(&self, error: tiberius::error::Error) -> Error {
        Error::from_driver(error, &self.server, &self.schema)
    }
}

/// Kerberos and SSPI ask their servers while they block the thread.
async fn on_blocking_thread<F, T>(connecting: F) -> tiberius::Result<T>
where
    F: Future<Output = tiberius::Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let runtime = Handle::current();
    match tokio::task::spawn_blocking(move || runtime.block_on(connecting)).await {
        Ok(connected) => connected,
        Err(ended) => Err(io::Error::other(ended).into()),
    }
}

/// Whether the driver could not read the certificates that it is to trust. It reports that as it does a broken
/// connection.
fn is_of_certificates(kind: io::ErrorKind, message: &str) -> bool {
    match kind {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => true, // no socket says so
        io::ErrorKind::InvalidData => message.contains("certificate"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    #[cfg(target_os = "linux")]
    use std::time::Duration;

    use super::*;
    use crate::connection::session::Session;

    fn connector(port: u16) -> Connector {
        let url = format!("Server=127.0.0.1,{port};User ID=u;Password=p");
        Connector::new(&ConnectionConfig { url: url.into(), ..ConnectionConfig::default() }, "q").unwrap()
    }

    /// What the operating system has, not what was asked of it.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn every_connection_is_probed_while_it_idles() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connector = connector(listener.local_addr().unwrap().port());
        let mut driver = connector.driver.clone();
        connector.address.apply(&mut driver);
        let (stream, _) = connector.open(&driver).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert!(stream.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_server_that_does_not_listen_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = format!("Server=127.0.0.1,{port};User ID=u;Password=hunter2");
        let config = ConnectionConfig { url: url.into(), ..ConnectionConfig::default() };
        let error = Session::new(Arc::new(Connector::new(&config, "q").unwrap())).ensure_connected().await.unwrap_err();
        assert!(matches!(&error, Error::Connect { server, .. } if *server == format!("127.0.0.1:{port}")), "{error}");
        assert!(error.is_transient());
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_times_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("Server=127.0.0.1,{};User ID=u;Password=p", listener.local_addr().unwrap().port());
        let config = ConnectionConfig {
            url: url.into(),
            connect_timeout: Duration::from_millis(100),
            ..ConnectionConfig::default()
        };
        let error = Session::new(Arc::new(Connector::new(&config, "q").unwrap())).ensure_connected().await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    }

    /// The caller's time may be over before a wrong password is refused.
    #[tokio::test]
    async fn a_password_that_nobody_waits_for_is_not_sent_again_and_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connector = connector(listener.local_addr().unwrap().port());
        for _ in 0..3 {
            let limit = std::time::Duration::from_millis(100);
            let error = connector.connect(tokio::time::Instant::now() + limit, limit).await.unwrap_err();
            assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        }
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_ok());
        assert!(listener.accept().is_err(), "one connection");
    }
}
