//! A server that stands still, as its clients see it.

use crate::wire;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use readpast_devserver::DevServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{connect, number};

/// Far longer than the answers of these tests take.
const STANDSTILL: Duration = Duration::from_millis(300);

async fn stands_still<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> bool {
    tokio::time::timeout(STANDSTILL, future).await.is_err()
}

#[tokio::test]
async fn nobody_is_answered_and_nobody_logs_in_until_the_thaw() {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    let mut other = connect(&server).await;
    server.faults().freeze();
    let mut asking = std::pin::pin!(number(&mut connection, "SELECT 1"));
    let mut connecting = std::pin::pin!(connect(&server));
    assert!(stands_still(&mut asking).await, "a frozen server has answered");
    assert!(stands_still(&mut connecting).await, "a frozen server has accepted a login");
    // Not even the first message of a connection.
    let mut greeting = TcpStream::connect(server.address()).await.expect("the operating system takes it");
    greeting.write_all(&wire::message(wire::PRELOGIN, &wire::prelogin_payload())).await.unwrap();
    let mut greeted = std::pin::pin!(greeting.read_u8());
    assert!(stands_still(&mut greeted).await, "a frozen server has answered");
    server.faults().thaw();
    assert_eq!(asking.await, 1);
    greeted.await.expect("an answer");
    assert_eq!(number(&mut connecting.await, "SELECT 2").await, 2);
    assert_eq!(number(&mut other, "SELECT 3").await, 3);
}

#[tokio::test]
async fn what_ran_goes_on_after_the_thaw_and_the_clock_has_moved() {
    let server = DevServer::start().await.unwrap();
    let mut watcher = connect(&server).await;
    let mut sleeper = connect(&server).await;
    let nap = "DECLARE @began datetime2 = SYSUTCDATETIME(); WAITFOR DELAY '00:00:00.200';
        SELECT DATEDIFF(MILLISECOND, @began, SYSUTCDATETIME())";
    let sleeping = tokio::spawn(async move { number(&mut sleeper, nap).await });
    while number(&mut watcher, "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE wait_type = 'WAITFOR'").await == 0 {}
    server.faults().freeze();
    tokio::time::sleep(Duration::from_millis(600)).await;
    server.faults().thaw();
    // The second statement has not run before the thaw.
    let slept = sleeping.await.unwrap();
    assert!(slept >= 600, "{slept} ms");
}

#[tokio::test]
async fn a_request_runs_though_its_client_has_given_up_before_the_thaw() {
    let server = DevServer::start().await.unwrap();
    let mut watcher = connect(&server).await;
    watcher.simple_query("CREATE TABLE dbo.t (id int)").await.unwrap().into_results().await.unwrap();
    for round in 1..=3 {
        let mut client = wire::RawClient::log_in(server.address());
        server.faults().freeze();
        client.send(&wire::batch(&format!("INSERT dbo.t VALUES ({round}); INSERT dbo.t VALUES ({round})")));
        drop(client);
        tokio::time::sleep(STANDSTILL).await;
        server.faults().thaw();
        let both = format!("SELECT COUNT(*) FROM dbo.t WHERE id = {round}");
        let ran = async { while number(&mut watcher, &both).await < 2 {} };
        tokio::time::timeout(wire::PATIENCE, ran).await.expect("it was received");
    }
}

#[tokio::test]
async fn a_frozen_server_can_be_shut_down() {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    server.faults().freeze();
    let mut asking = std::pin::pin!(connection.simple_query("SELECT 1"));
    assert!(stands_still(&mut asking).await);
    tokio::time::timeout(wire::PATIENCE, server.shutdown()).await.expect("nothing holds it up");
}
