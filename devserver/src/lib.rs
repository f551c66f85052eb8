//! A SQL Server stand-in for tests, in one line. **It is not SQL Server.**
//!
//! It listens on loopback, speaks TDS 7.4 and executes T-SQL in memory, with SQL Server's row locks, transactions and
//! error numbers. What it does not know it refuses with error 59000; it never guesses. Nothing survives its end.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! let server = readpast_devserver::DevServer::start().await?;
//! let connection_string = server.connection_string();
//! // ... connect with any SQL Server client ...
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! What it knows of T-SQL, and what it refuses, stands in the [README](https://docs.rs/crate/readpast-devserver).
//! [`Builder`] has the port, the database and the login; [`DevServer::faults`] breaks it on demand.
//!
//! What stands on this page is kept as semantic versioning asks. The modules are open for the benches and fuzz targets
//! of its own project, and change with any version.
//!
//! The way of a request: `server` accepts, `tds` reads and writes the wire, `session` runs what `tsql` has parsed,
//! `bind` has made a plan of, with the names of `catalog`, and `execute` turns into rows, over the tables and locks of
//! `storage`, with the types of `value`. `src/README.md` is the map of these layers.

// The module docs are the map for those who work on the dev server; they name private modules too.
#![allow(rustdoc::private_intra_doc_links)]

#[cfg_attr(docsrs, doc(hidden))]
pub mod access_token;
#[cfg_attr(docsrs, doc(hidden))]
pub mod bind;
#[cfg_attr(docsrs, doc(hidden))]
pub mod catalog;
#[cfg_attr(docsrs, doc(hidden))]
pub mod error;
#[cfg_attr(docsrs, doc(hidden))]
pub mod execute;
#[cfg_attr(docsrs, doc(hidden))]
pub mod gate;
#[cfg_attr(docsrs, doc(hidden))]
#[cfg_attr(not(all(unix, feature = "gssapi")), path = "no_kerberos.rs")]
pub mod kerberos;
#[cfg_attr(docsrs, doc(hidden))]
pub mod plan;
#[cfg_attr(docsrs, doc(hidden))]
pub mod server;
#[cfg_attr(docsrs, doc(hidden))]
pub mod session;
#[cfg_attr(docsrs, doc(hidden))]
pub mod storage;
#[cfg_attr(docsrs, doc(hidden))]
pub mod tds;
#[cfg_attr(docsrs, doc(hidden))]
pub mod tsql;
#[cfg_attr(docsrs, doc(hidden))]
pub mod value;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use catalog::server::Product;
pub use error::SqlError;
pub use session::Faults;

use access_token::{AUDIENCE, TokenKey};
use catalog::release::Release;
use server::Shared;
use session::{Engine, EngineOptions};
use tds::tls::TlsAcceptors;

/// Threads for sockets alone; statements run on a thread of their session.
const IO_THREADS: usize = 2;

/// What a dev server can be told. Every option has a default.
#[derive(Clone)]
pub struct Builder {
    port: u16,
    database: String,
    user: String,
    password: String,
    tls: bool,
    log_sql: bool,
    product: Product,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            port: 0,
            database: "readpast".to_owned(),
            user: "sa".to_owned(),
            password: "readpast".to_owned(),
            tls: true,
            log_sql: false,
            product: Product::default(),
        }
    }
}

impl Builder {
    /// The port on 127.0.0.1. Default: 0, any free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The database that exists from the start, and the login's default. Default: `readpast`.
    pub fn database(mut self, database: impl Into<String>) -> Self {
        self.database = database.into();
        self
    }

    /// The login that may do everything. Default: `sa`, which is there in any case.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// The password of that login and of `sa`. Default: `readpast`; the server is reachable from this machine only.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = password.into();
        self
    }

    /// Whether the connection string asks for encryption. The server itself leaves that to each client, like SQL Server
    /// without "Force Encryption"; even without, a client that can encrypts its login. Default: true.
    pub fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// Print every request to standard error. Default: false.
    pub fn log_sql(mut self, log_sql: bool) -> Self {
        self.log_sql = log_sql;
        self
    }

    /// What the server says it is, and differs in as Azure SQL Database does. Default: SQL Server 2022, Developer
    /// Edition.
    pub fn product(mut self, product: Product) -> Self {
        self.product = product;
        self
    }

    /// Starts the server. It accepts connections when this returns.
    ///
    /// # Errors
    /// When the port is taken, a name is not one that SQL Server takes, the product is neither SQL Server 2016 to 2025
    /// nor Azure SQL Database, or the machine gives no thread or certificate.
    pub async fn start(self) -> io::Result<DevServer> {
        check_name("database", &self.database)?;
        check_name("user", &self.user)?;
        if !Release::is_known(self.product) {
            let message = format!("the product's major version must be 13 to 17, not {}", self.product.major_version);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
            .map_err(|error| io::Error::new(error.kind(), format!("port {} of 127.0.0.1: {error}", self.port)))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let tls = TlsAcceptors::with_new_certificate()?;
        let certificate = tls.certificate.clone();
        let token_key = Arc::new(TokenKey::generate()?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("devserver-io")
            .enable_all()
            .build()?;
        let registered = {
            let _in_runtime = runtime.enter();
            TcpListener::from_std(listener)
        };
        let listener = match registered {
            Ok(listener) => listener,
            Err(error) => {
                // A runtime must not simply be dropped in async code.
                runtime.shutdown_background();
                return Err(error);
            }
        };

        let engine = Engine::new(EngineOptions {
            user: self.user.clone(),
            password: self.password.clone(),
            database: self.database.clone(),
            product: self.product,
        });
        let shared = Shared { engine: Arc::clone(&engine), tls, token_key: token_key.clone(), log_sql: self.log_sql };
        let (stop, stopping) = watch::channel(false);
        let accepting = runtime.spawn(server::run(listener, Arc::new(shared), stopping));
        Ok(DevServer {
            address,
            options: self,
            engine,
            certificate,
            token_key,
            running: Some(Running { runtime, accepting, stop }),
        })
    }
}

/// A running dev server. It stops when dropped; [`DevServer::shutdown`] also waits for its connections to end.
pub struct DevServer {
    address: SocketAddr,
    options: Builder,
    engine: Arc<Engine>,
    certificate: String,
    token_key: Arc<TokenKey>,
    running: Option<Running>,
}

struct Running {
    runtime: Runtime,
    accepting: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl DevServer {
    /// A server with all defaults, on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn start() -> io::Result<DevServer> {
        DevServer::builder().start().await
    }

    /// The options, to be changed before [`Builder::start`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// An ADO.NET connection string for the login and the database that exist from the start.
    pub fn connection_string(&self) -> String {
        format!(
            "Server=tcp:{},{};Database={};User ID={};Password={};Encrypt={};TrustServerCertificate=true",
            self.address.ip(),
            self.address.port(),
            quoted(&self.options.database),
            quoted(&self.options.user),
            quoted(&self.options.password),
            self.options.tls
        )
    }

    /// The certificate that it shows to every client, as PEM: it is made anew at each start, for `localhost` and the
    /// loopback addresses, and signed by itself. A client that names it as an authority can check it.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// An access token for a login that was made FROM EXTERNAL PROVIDER, as Microsoft Entra ID would issue one for
    /// Azure SQL, which this server accepts for as long.
    pub fn access_token(&self, login: &str, lives_for: Duration) -> String {
        self.access_token_for(login, AUDIENCE, access_token::now() + lives_for)
    }

    /// The same for another audience, or one that has run out: this server refuses it.
    pub fn access_token_for(&self, login: &str, audience: &str, expires_at: SystemTime) -> String {
        self.token_key.issue(login, audience, expires_at)
    }

    /// Makes a database `to` with all that is in the database `from`: tables with their rows, procedures, users,
    /// permissions, options. A test suite installs its schema once, and gives each test a copy, which costs it no more
    /// than its rows do.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = readpast_devserver::DevServer::start().await?;
    /// // ... install the schema in the database `readpast`, which is there from the start
    /// server.copy_database("readpast", "first_test")?;
    /// let connection_string = format!("{};Database=first_test", server.connection_string());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Faults::on_call`] takes the name of a database before the procedure's, so that tests on copies do not meet
    /// each other's faults.
    ///
    /// It waits for statements that run in `from`, as long as they have the server to themselves.
    ///
    /// # Errors
    /// 911 if there is no database `from`, 1801 if there is one `to`, 1038 or 103 if `to` is empty or has more than 128
    /// characters, 3702 while a transaction or a statement has locks in `from`.
    pub fn copy_database(&self, from: &str, to: &str) -> Result<(), SqlError> {
        self.engine.copy_database(from, to)
    }

    /// Removes a database and all that is in it, whoever still uses it: their sessions end.
    ///
    /// # Errors
    /// 3701 if there is no such database, 3708 for a system database.
    pub fn drop_database(&self, name: &str) -> Result<(), SqlError> {
        self.engine.end_database(name)
    }

    /// Errors and delays on demand, for the tests of clients.
    pub fn faults(&self) -> &Faults {
        &self.engine.faults
    }

    /// How many index entries and rows all sessions together have read by scans and seeks so far, ghosts included
    /// ([`Faults::keep_ghosts`]). It only grows: the difference before and after says what a statement has read.
    ///
    /// An entry counts once, and the row that it leads to does not count again. Table variables and parameters do not
    /// count.
    pub fn entries_read(&self) -> u64 {
        self.engine.entries_read()
    }

    /// What executes the statements, for tests that look at or change it past the wire.
    #[cfg_attr(docsrs, doc(hidden))]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Closes the listener, cancels what runs, rolls back what is open, and waits until all of it has ended.
    pub async fn shutdown(mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        self.engine.faults.thaw();
        let _ = running.stop.send(true);
        // It cannot fail but by a panic, which has been reported by then.
        let _ = running.accepting.await;
        running.runtime.shutdown_background();
    }
}

impl Drop for DevServer {
    /// Does not wait, so that it can stand in async code: connections are cut, sessions end on their own threads.
    fn drop(&mut self) {
        // Sessions that stand still would never end.
        self.engine.faults.thaw();
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
    }
}

/// SQL Server's names have 1 to 128 characters.
fn check_name(what: &str, name: &str) -> io::Result<()> {
    if (1..=128).contains(&name.encode_utf16().count()) {
        return Ok(());
    }
    let message = format!("the {what} name must have 1 to 128 characters, not '{name}'");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// A value for a connection string: in double quotes where a character in it would end or change it.
fn quoted(value: &str) -> String {
    let is_plain = !value.is_empty() && value.trim() == value && !value.contains([';', '=', '"', '\'', '{', '}']);
    if is_plain { value.to_owned() } else { format!("\"{}\"", value.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_string_values_are_quoted_where_they_must_be() {
        assert_eq!(quoted("readpast"), "readpast");
        assert_eq!(quoted("a;b=\"c\""), "\"a;b=\"\"c\"\"\"");
        assert_eq!(quoted(" a"), "\" a\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
