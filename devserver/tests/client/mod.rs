//! Connections through a real client, and what most tests do with them.

use readpast_devserver::DevServer;
use tiberius::{Client, Config};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

pub type Connection = Client<Compat<TcpStream>>;

pub async fn connect(server: &DevServer) -> Connection {
    connect_with(server, |_| {}).await.expect("the connection string fits the server")
}

pub async fn connect_with(server: &DevServer, change: impl FnOnce(&mut Config)) -> tiberius::Result<Connection> {
    let mut config = Config::from_ado_string(&server.connection_string())?;
    change(&mut config);
    let socket = TcpStream::connect(server.address()).await?;
    socket.set_nodelay(true)?;
    Client::connect(config, socket.compat_write()).await
}

/// Runs a batch that must not fail.
pub async fn run(connection: &mut Connection, sql: &str) {
    let results = async { connection.simple_query(sql).await?.into_results().await };
    results.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The one number that a batch selects.
pub async fn number(connection: &mut Connection, sql: &str) -> i32 {
    let row = async { connection.simple_query(sql).await?.into_row().await };
    let row = row.await.unwrap_or_else(|error| panic!("{sql}: {error}")).expect("a row");
    row.get(0).expect("not NULL")
}
