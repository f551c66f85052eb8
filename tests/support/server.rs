//! The server that tests run against: with `READPAST_URL` set, that SQL Server; otherwise the dev server, started by
//! the first test that asks. The program's and the page's tests share this file.
//!
//! On the dev server most tests have a database of their own, a copy of one in which everything was installed once:
//! half of what the tests cost was their installs.

use readpast::crates::tiberius::{Client, Config as DriverConfig};
use readpast::crates::uuid::Uuid;
use readpast::{Config, Queue};
use readpast_devserver::DevServer;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_util::compat::TokioAsyncWriteCompatExt;

/// The schema in each copy.
pub const SCHEMA: &str = "tests";

/// It ends with the program.
static DEV_SERVER: OnceCell<DevServer> = OnceCell::const_new();

/// The database that the others are copies of.
static INSTALLED: OnceCell<String> = OnceCell::const_new();

/// `READPAST_URL`.
pub fn real_server_url() -> Option<String> {
    std::env::var("READPAST_URL").ok().filter(|url| !url.is_empty())
}

/// The dev server, for what only it can be made to do: errors on demand.
pub async fn dev_server() -> &'static DevServer {
    DEV_SERVER.get_or_init(|| async { DevServer::start().await.expect("the dev server starts") }).await
}

/// The connection string of the server that the tests run against.
pub async fn server_url() -> String {
    match real_server_url() {
        Some(url) => url,
        None => dev_server().await.connection_string(),
    }
}

/// `name`, made different from every other on the server.
pub fn unique(name: &str) -> String {
    format!("{name}_{}", &Uuid::new_v4().simple().to_string()[..12])
}

/// Makes a database on the dev server, in which everything is installed, and gives its connection string.
pub async fn installed_database(name: &str) -> String {
    let server = dev_server().await;
    let installed = INSTALLED.get_or_init(|| install(server)).await;
    server.copy_database(installed, name).unwrap_or_else(|error| panic!("{error}"));
    url_of(server, name)
}

fn url_of(server: &DevServer, database: &str) -> String {
    format!("{};Database={database}", server.connection_string())
}

async fn install(server: &DevServer) -> String {
    let database = unique("installed");
    execute(server, &server.connection_string(), &format!("CREATE DATABASE {database}")).await;
    let mut config = Config::default();
    config.connection.url = url_of(server, &database).into();
    config.connection.schema = SCHEMA.to_owned();
    let queue = Queue::connect(&config).await.expect("the library connects");
    queue.admin().install().await.expect("the schema is installed");
    // Each copy is at home where it is first used.
    execute(server, &url_of(server, &database), &format!("DELETE [{SCHEMA}].[homes]")).await;
    database
}

async fn execute(server: &DevServer, url: &str, statement: &str) {
    let driver = DriverConfig::from_ado_string(url).expect("it is the server's own");
    let socket = TcpStream::connect(server.address()).await.expect("the server listens");
    let mut client = Client::connect(driver, socket.compat_write()).await.expect("the login succeeds");
    let answer = client.simple_query(statement).await.expect("the server answers");
    answer.into_results().await.expect("it can be done");
}
