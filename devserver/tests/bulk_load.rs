//! Bulk loads through a real client, which asks for the table's columns first and announces those that take values.

use readpast_devserver::DevServer;
use tiberius::{Client, Config, IntoRow, SqlBulkCopyOption};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

type Connection = Client<Compat<TcpStream>>;

async fn connect(server: &DevServer) -> Connection {
    let config = Config::from_ado_string(&server.connection_string()).unwrap();
    let socket = TcpStream::connect(server.address()).await.unwrap();
    Client::connect(config, socket.compat_write()).await.unwrap()
}

async fn run(connection: &mut Connection, sql: &str) {
    let results = async { connection.simple_query(sql).await?.into_results().await };
    results.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn number(connection: &mut Connection, sql: &str) -> i32 {
    let row = connection.simple_query(sql).await.unwrap().into_row().await.unwrap();
    row.and_then(|row| row.get(0)).unwrap()
}

#[tokio::test]
async fn rows_go_in_by_bulk_insert() {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    run(
        &mut connection,
        "CREATE TABLE dbo.item (id int NOT NULL IDENTITY (1, 1) PRIMARY KEY, text nvarchar(20) NOT NULL,
             amount bigint NULL, price decimal(9, 2) NOT NULL DEFAULT 1, twice AS amount * 2, v rowversion)",
    )
    .await;
    // Many packets.
    let mut load = connection.bulk_insert("dbo.item").await.unwrap();
    for amount in 0..2000_i64 {
        let price = tiberius::numeric::Numeric::new_with_scale(250, 2);
        load.send(("text", Some(amount), price).into_row()).await.unwrap();
    }
    assert_eq!(load.finalize().await.unwrap().total(), 2000);
    assert_eq!(number(&mut connection, "SELECT CAST(SUM(twice) AS int) FROM dbo.item").await, 3_998_000);
    assert_eq!(number(&mut connection, "SELECT MAX(id) FROM dbo.item WHERE price = 2.5").await, 2000);

    let keeping = SqlBulkCopyOption::KeepIdentity | SqlBulkCopyOption::TableLock;
    let columns = ["id", "text", "amount"];
    let mut load = connection.bulk_insert_with_options("dbo.item", &columns, keeping, &[]).await.unwrap();
    load.send((5000, "kept", Option::<i64>::None).into_row()).await.unwrap();
    load.finalize().await.unwrap();
    assert_eq!(number(&mut connection, "SELECT id FROM dbo.item WHERE text = 'kept' AND price = 1").await, 5000);

    let mut load = connection.bulk_insert_with_options("dbo.item", &columns, keeping, &[]).await.unwrap();
    load.send((5000, "again", Some(1_i64)).into_row()).await.unwrap();
    assert_eq!(load.finalize().await.unwrap_err().code(), Some(2627));
    assert_eq!(number(&mut connection, "SELECT COUNT(*) FROM dbo.item").await, 2001);
}
