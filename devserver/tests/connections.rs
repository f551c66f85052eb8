//! Connections, from the handshake to their end, through a real client.

use std::time::Duration;

use readpast_devserver::{DevServer, Product};
use tiberius::{AuthMethod, EncryptionLevel};
use tokio::net::TcpStream;

use crate::client::{connect, connect_with, number, run};
use crate::wire::{LOGIN7, PRELOGIN, RawClient, login_payload, message, prelogin_payload};

#[tokio::test]
async fn every_encryption_carries_small_and_large_packets() {
    let server = DevServer::start().await.unwrap();
    let text = "ü😀".repeat(100_000);
    for encryption in [
        EncryptionLevel::NotSupported,
        EncryptionLevel::Off,
        EncryptionLevel::On,
        EncryptionLevel::Required,
        EncryptionLevel::Strict,
    ] {
        for packet_size in [512, 4096, 32767] {
            let mut connection = connect_with(&server, |config| {
                config.encryption(encryption);
                config.packet_size(packet_size);
            })
            .await
            .unwrap_or_else(|error| panic!("{encryption:?}: {error}"));
            assert_eq!(number(&mut connection, "SELECT 1").await, 1);
            let rows = connection.query("SELECT @P1", &[&text]).await.unwrap().into_first_result().await.unwrap();
            assert_eq!(rows[0].get::<&str, _>(0), Some(text.as_str()), "{encryption:?} in packets of {packet_size}");
        }
    }
    server.shutdown().await;
}

/// "SQL Server 2022 … support Tabular Data Stream (TDS) 8.0" ("TDS 8.0", MicrosoftDocs/sql-docs,
/// docs/relational-databases/security/networking/tds-8.md).
#[tokio::test]
async fn strict_encryption_needs_sql_server_2022() {
    for (year, is_spoken) in [(2019, false), (2022, true)] {
        let server = DevServer::builder().product(Product::sql_server(year).unwrap()).start().await.unwrap();
        let connected = connect_with(&server, |config| config.encryption(EncryptionLevel::Strict)).await;
        assert_eq!(connected.is_ok(), is_spoken, "{year}");
        assert_eq!(number(&mut connect(&server).await, "SELECT 1").await, 1);
    }
    let unknown = DevServer::builder().product(Product { major_version: 12, ..Product::default() }).start().await;
    assert!(unknown.is_err_and(|error| error.to_string().contains("must be 13 to 17, not 12")));
}

/// PRELOGIN and LOGINACK ([MS-TDS] 2.2.6.5 and 2.2.7.14) have the version: 15.0.2000.
#[tokio::test]
async fn clients_are_told_the_version_before_and_at_the_login() {
    let server = DevServer::builder().product(Product::sql_server(2019).unwrap()).start().await.unwrap();
    let mut client = RawClient::connect(server.address());
    let is_told = |answer: &[u8]| answer.windows(4).any(|bytes| bytes == [15, 0, 0x07, 0xD0]);
    client.send(&message(PRELOGIN, &prelogin_payload()));
    assert!(is_told(&client.answer()));
    client.send(&message(LOGIN7, &login_payload("sa", "readpast")));
    assert!(is_told(&client.answer()));
}

#[tokio::test]
async fn a_wrong_login_says_18456_and_an_unknown_database_4060() {
    let server = DevServer::start().await.unwrap();
    let wrong_password =
        connect_with(&server, |config| config.authentication(AuthMethod::sql_server("sa", "wrong"))).await;
    assert_eq!(wrong_password.err().and_then(|error| error.code()), Some(18456));
    let wrong_user =
        connect_with(&server, |config| config.authentication(AuthMethod::sql_server("nobody", "readpast"))).await;
    assert_eq!(wrong_user.err().and_then(|error| error.code()), Some(18456));
    let wrong_database = connect_with(&server, |config| config.database("nowhere")).await;
    assert_eq!(wrong_database.err().and_then(|error| error.code()), Some(4060));
}

#[tokio::test]
async fn any_password_fits_into_the_connection_string() {
    let server = DevServer::builder().password("a;b=\"c' {d}").tls(false).start().await.unwrap();
    assert_eq!(number(&mut connect(&server).await, "SELECT 1").await, 1);
}

#[tokio::test]
async fn transaction_requests_and_statements_are_one_transaction() {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    run(&mut connection, "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)").await;
    connection.begin_transaction().await.unwrap();
    run(&mut connection, "INSERT dbo.t (id) VALUES (1)").await;
    assert_eq!(number(&mut connection, "SELECT @@TRANCOUNT").await, 1);
    connection.rollback_transaction().await.unwrap();
    assert_eq!(number(&mut connection, "SELECT COUNT(*) FROM dbo.t").await, 0);
    run(&mut connection, "BEGIN TRANSACTION; INSERT dbo.t (id) VALUES (2)").await;
    connection.commit_transaction().await.unwrap();
    assert_eq!(number(&mut connection, "SELECT COUNT(*) FROM dbo.t").await, 1);
    assert_eq!(number(&mut connection, "SELECT @@TRANCOUNT").await, 0);
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_no_lock_behind() {
    let server = DevServer::start().await.unwrap();
    let mut survivor = connect(&server).await;
    run(&mut survivor, "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY); INSERT dbo.t (id) VALUES (1)").await;
    let mut holder = connect(&server).await;
    run(&mut holder, "BEGIN TRANSACTION; UPDATE dbo.t SET id = 2").await;

    // One that waits for the holder's lock, and vanishes while it waits.
    let mut waiting = connect(&server).await;
    let wait = tokio::time::timeout(Duration::from_millis(100), run(&mut waiting, "UPDATE dbo.t SET id = 3"));
    assert!(wait.await.is_err(), "the row is locked");
    drop(waiting);
    drop(holder);
    let update = tokio::time::timeout(Duration::from_secs(10), run(&mut survivor, "UPDATE dbo.t SET id = 4"));
    update.await.expect("both locks are gone");
    assert_eq!(number(&mut survivor, "SELECT id FROM dbo.t").await, 4);
}

#[tokio::test]
async fn shutdown_ends_a_statement_that_waits() {
    let server = DevServer::start().await.unwrap();
    let mut holder = connect(&server).await;
    run(&mut holder, "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY); INSERT dbo.t (id) VALUES (1)").await;
    run(&mut holder, "BEGIN TRANSACTION; UPDATE dbo.t SET id = 2").await;
    let mut waiting = connect(&server).await;
    let wait = tokio::time::timeout(Duration::from_millis(100), run(&mut waiting, "UPDATE dbo.t SET id = 3"));
    assert!(wait.await.is_err(), "the row is locked");
    let address = server.address();
    tokio::time::timeout(Duration::from_secs(10), server.shutdown()).await.expect("nothing holds it up");
    assert!(TcpStream::connect(address).await.is_err(), "the port is free again");
}

#[tokio::test]
async fn dropping_the_server_in_async_code_is_fine() {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    assert_eq!(number(&mut connection, "SELECT 1").await, 1);
    drop(server);
    assert!(connection.simple_query("SELECT 1").await.is_err());
}

#[tokio::test]
async fn a_taken_port_is_an_error() {
    let first = DevServer::start().await.unwrap();
    let second = DevServer::builder().port(first.address().port()).start().await;
    assert_eq!(second.err().map(|error| error.kind()), Some(std::io::ErrorKind::AddrInUse));
}

#[tokio::test]
async fn garbage_closes_its_own_connection_only() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xFF, 0xFF, 0], &[0x12, 1, 0, 9, 0, 0, 0, 0, 0xFF]] {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        socket.write_all(garbage).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // Whether it ends by a close or a reset does not matter; that it ends does.
        let _ = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut answer)).await.unwrap();
    }
    assert_eq!(number(&mut connection, "SELECT 1").await, 1);
}

/// Source: "sys.dm_exec_connections" (docs/relational-databases/system-dynamic-management-views/): a connection is
/// encrypted where more than its login is.
#[tokio::test]
async fn a_connection_tells_what_was_agreed_on() {
    let server = DevServer::start().await.unwrap();
    for (encryption, shown) in [
        (EncryptionLevel::NotSupported, "FALSE"),
        (EncryptionLevel::Off, "FALSE"),
        (EncryptionLevel::Required, "TRUE"),
        (EncryptionLevel::Strict, "TRUE"),
    ] {
        let mut connection = connect_with(&server, |config| {
            config.encryption(encryption);
            config.packet_size(8000);
        })
        .await
        .unwrap_or_else(|error| panic!("{encryption:?}: {error}"));
        let query = "SELECT encrypt_option, net_packet_size FROM sys.dm_exec_connections WHERE session_id = @@SPID";
        let row = connection.simple_query(query).await.unwrap().into_row().await.unwrap().expect("a row");
        assert_eq!((row.get::<&str, _>(0), row.get::<i32, _>(1)), (Some(shown), Some(8000)), "{encryption:?}");
    }
    server.shutdown().await;
}
