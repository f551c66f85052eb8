//! Opens connections to SQL Server. `idle_trust.rs` decides whether an idle connection is still usable.
//!
//! A connection cannot be used after the tokio runtime in which it was opened has ended, because its socket belongs to
//! that runtime's poller ([`Connection::has_lost_its_runtime`]). Clones of a queue may be used in several runtimes, and
//! a worker's runtime ends with the worker.

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
use crate::login::{Attempt, LoginAttempts, Proof};
use crate::metrics::QueueMetrics;

use super::answer_size_limit::{Allowance, AnswerSizeLimit, Limited};
use super::idle_trust::{IdleTrust, keep_alive};
use super::without_warnings;

/// How much to read from a socket at once. The driver reads 8 KiB, half a packet, which would be sixteen system calls
/// for a claim of 500 jobs of 200 bytes.
const READ_BYTES: usize = 64 * 1024;

type Client = tiberius::Client<Compat<BufReader<Limited<TcpStream>>>>;

/// A connection, and a handle to its socket, which the driver hides.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    allowance: Arc<Allowance>,
    socket: Socket,
    /// Detects the end of the runtime in which the connection was opened. The receiver waits in a task of that runtime,
    /// and is dropped with the runtime.
    runtime: oneshot::Sender<Infallible>,
}

impl Connection {
    /// Creates a connection. Must be called in the runtime in which the stream was opened.
    fn new(client: Client, allowance: Arc<Allowance>, socket: Socket) -> Connection {
        let (runtime, connection) = oneshot::channel();
        tokio::spawn(connection); // until the connection is dropped
        Connection { client, allowance, socket, runtime }
    }

    /// Sets the maximum response of the next call. If the response is larger, the call fails and the connection is
    /// unusable.
    pub(crate) fn expect_answer(&self, limit: AnswerSizeLimit) {
        self.allowance.grant(limit);
    }

    /// Whether the runtime in which the connection was opened has ended. The socket is then still open, but no call can
    /// use it.
    pub(crate) fn has_lost_its_runtime(&self) -> bool {
        self.runtime.is_closed()
    }

    /// Whether the other end closed or reset the connection. Without a call, a server sends nothing except to end the
    /// connection; a TLS layer's closing message counts, too.
    pub(crate) fn is_closed(&self) -> bool {
        match self.socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// How often a server may redirect a login. Azure SQL does it once.
const MAX_REDIRECTS: usize = 3;

/// Opens connections for one schema.
#[derive(Debug)]
pub(crate) struct Connector {
    driver: tiberius::Config,
    address: Address,
    credentials: Arc<LoginAttempts>,
    server: String,
    schema: String,
    timeouts: Timeouts,
    pub(crate) idle: IdleTrust,
    metrics: QueueMetrics,
}

impl Connector {
    /// Reads the settings, without connecting. `queue` is the label of its metrics.
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
        // This connector limits the handshake and each call as a whole. The driver's own timeouts would apply to each
        // packet.
        driver.handshake_timeout(None);
        driver.command_timeout(None);
        // Old rows may contain half a surrogate pair, which must not make a whole response unreadable.
        driver.lossy_utf16_decoding(true);
        Ok(Connector {
            driver,
            credentials: Arc::new(LoginAttempts::new(config.login()?)),
            server: options.address.to_string(),
            address: options.address,
            schema: config.schema.clone(),
            timeouts,
            idle: IdleTrust::default(),
            metrics: QueueMetrics::new(queue),
        })
    }

    pub(crate) fn for_queue(&self, queue: &str) -> Connector {
        Connector {
            driver: self.driver.clone(),
            address: self.address.clone(),
            credentials: self.credentials.clone(),
            server: self.server.clone(),
            schema: self.schema.clone(),
            timeouts: self.timeouts,
            idle: IdleTrust::default(),
            metrics: QueueMetrics::new(queue),
        }
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn metrics(&self) -> &QueueMetrics {
        &self.metrics
    }

    /// Opens a connection: TCP, TLS, login. Follows redirections. Fails after `deadline`, which is `limit` after the
    /// caller's call.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`], [`Error::Tls`], [`Error::Credentials`], [`Error::LoginFailed`], [`Error::Database`],
    /// [`Error::TimedOut`] and other errors of SQL Server.
    pub(crate) async fn connect(&self, deadline: tokio::time::Instant, limit: Duration) -> Result<Connection, Error> {
        loop {
            let mut attempt = self.credentials.attempt(deadline, limit).await?;
            // Boxed: the driver's handshake is a future of tens of kilobytes, which every caller's future would
            // contain.
            let logging_in = Box::pin(self.log_in(&mut attempt));
            let Ok(logged_in) = tokio::time::timeout_at(deadline, logging_in).await else {
                // If the KDC does not respond, Kerberos takes longer than the limit.
                let kerberos = if matches!(attempt.proof(), Proof::Integrated) { ", including Kerberos" } else { "" };
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
                // The driver requests a ticket for MSSQLSvc/host:port, but does not know the port of a named instance.
                driver.port(peer.port());
                driver.handshake_timeout(Some(self.timeouts.connect)); // it continues after the caller has given up
            }
            let allowance = Arc::new(Allowance::default());
            allowance.grant(AnswerSizeLimit::LOGIN);
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
        Err(Error::Connect { server: self.server.clone(), cause: cause.into() })
    }

    /// Opens the TCP connection, sets its options, and returns a second handle to its socket.
    async fn open(&self, driver: &tiberius::Config) -> Result<(TcpStream, Socket), Error> {
        let stream = TcpStream::connect_named(driver).await.map_err(|error| self.connect_error(error))?;
        let options = stream.set_nodelay(true).and_then(|()| keep_alive(&stream));
        let socket = options.and_then(|()| SockRef::from(&stream).try_clone()).and_then(|socket| {
            socket.set_nonblocking(true)?; // already set on most systems, because it is the stream's
            Ok(socket)
        });
        match socket {
            Ok(socket) => Ok((stream, socket)),
            Err(cause) => Err(Error::Connect { server: self.server.clone(), cause: cause.into() }),
        }
    }

    fn connect_error(&self, error: tiberius::error::Error) -> Error {
        let cause = match error {
            tiberius::error::Error::Io { kind, message } => io::Error::new(kind, message),
            other => io::Error::other(other.to_string()),
        };
        Error::Connect { server: self.server.clone(), cause: cause.into() }
    }

    pub(crate) fn error(&self, error: tiberius::error::Error) -> Error {
        Error::from_driver(error, &self.server, &self.schema)
    }
}

/// Connects on a thread that may block, because Kerberos and SSPI block it while they ask their servers.
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

/// Whether the error means that the driver could not read the certificates to trust. The driver reports this like a
/// broken connection.
fn is_of_certificates(kind: io::ErrorKind, message: &str) -> bool {
    match kind {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => true, // no socket returns these
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

    /// The operating system's values, not the requested ones.
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
