//! Databases of the dev server with a schema in them, one for each test: copies of one in which everything was installed
//! once. Half of what the tests cost was their installs.

use readpast::tiberius::{Client, Config as DriverConfig};
use readpast::{Config, Queue};
use readpast_devserver::DevServer;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_util::compat::TokioAsyncWriteCompatExt;

/// The schema in each of them.
pub const SCHEMA: &str = "tests";

/// The database that they are copies of.
const INSTALLED: &str = "installed";

static IS_INSTALLED: OnceCell<()> = OnceCell::const_new();

/// Makes a database on the program's only dev server, and gives its connection string. It ends with the server.
pub async fn database(server: &DevServer, name: &str) -> String {
    IS_INSTALLED.get_or_init(|| install(server)).await;
    server.copy_database(INSTALLED, name).expect("nobody uses the database");
    url(server, name)
}

fn url(server: &DevServer, database: &str) -> String {
    format!("{};Database={database}", server.connection_string())
}

async fn install(server: &DevServer) {
    let driver = DriverConfig::from_ado_string(&server.connection_string()).expect("it is the server's own");
    let socket = TcpStream::connect(server.address()).await.expect("the server listens");
    let mut client = Client::connect(driver, socket.compat_write()).await.expect("the login succeeds");
    let created = client.simple_query(format!("CREATE DATABASE {INSTALLED}")).await.expect("the server answers");
    created.into_results().await.expect("the database is new");
    let mut config = Config::default();
    config.connection.url = url(server, INSTALLED).into();
    config.connection.schema = SCHEMA.to_owned();
    let queue = Queue::connect(&config).await.expect("the library connects");
    queue.install().await.expect("the schema is installed");
}
