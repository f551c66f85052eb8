//! A test of one's own T-SQL, with locks that a mock would not have. README.md shows it; `cargo run --example tiberius`
//! runs it.

use readpast_devserver::{DevServer, SqlError};
use tiberius::{Client, Config};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

const ORDERS: &str = "
    CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, state varchar(10) NOT NULL);
    INSERT dbo.orders (id, state) VALUES (1, 'new'), (2, 'new');";

const NEXT: &str = "
    CREATE PROCEDURE dbo.next_order AS
    SELECT TOP (1) id FROM dbo.orders WITH (UPDLOCK, ROWLOCK, READPAST) WHERE state = 'new' ORDER BY id;";

async fn connect(server: &DevServer) -> tiberius::Result<Client<Compat<TcpStream>>> {
    let config = Config::from_ado_string(&server.connection_string())?;
    let socket = TcpStream::connect(config.get_addr()).await?;
    Client::connect(config, socket.compat_write()).await
}

async fn next_order(client: &mut Client<Compat<TcpStream>>) -> tiberius::Result<Option<i32>> {
    Ok(client.simple_query("EXEC dbo.next_order").await?.into_row().await?.and_then(|row| row.get(0)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = DevServer::start().await?;
    let mut one = connect(&server).await?;
    let mut other = connect(&server).await?;
    one.simple_query(ORDERS).await?.into_results().await?;
    one.simple_query(NEXT).await?.into_results().await?;

    // What one transaction has locked, the other passes over.
    one.simple_query("BEGIN TRANSACTION").await?.into_results().await?;
    assert_eq!(next_order(&mut one).await?, Some(1));
    assert_eq!(next_order(&mut other).await?, Some(2));
    one.simple_query("ROLLBACK").await?.into_results().await?;

    // How does the program take it if the second call from now on is a deadlock's victim?
    server.faults().on_call("dbo.next_order", |call| {
        (call == 2).then(|| SqlError::new(1205, "Transaction was deadlocked and has been chosen as the victim."))
    });
    assert_eq!(next_order(&mut one).await?, Some(1));
    assert_eq!(next_order(&mut one).await.unwrap_err().code(), Some(1205));

    server.shutdown().await;
    println!("the example is right");
    Ok(())
}
