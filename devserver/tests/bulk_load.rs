//! Bulk loads through a real client, which asks for the table's columns first and announces those that take values.

use std::time::Duration;

use readpast_devserver::DevServer;
use tiberius::IntoRow;

use crate::client::{Connection, connect, number, run};
use crate::wire::{
    ATTENTION, BULK_LOAD, RPC, RawClient, SQL_BATCH, batch, batch_payload, bulk_load_payload, execute_sql_payload,
    message,
};

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
}

/// How many errors of a number an answer has: the token, its length, the number.
fn errors(answer: &[u8], number: i32) -> usize {
    answer.windows(7).filter(|bytes| bytes[0] == 0xAA && bytes[3..] == number.to_le_bytes()).count()
}

fn send(client: &mut RawClient, bytes: &[u8]) -> Vec<u8> {
    client.send(bytes);
    client.answer()
}

/// A last DONE with the attention bit.
fn is_attention_acknowledged(answer: &[u8]) -> bool {
    let done = &answer[answer.len() - 13..];
    done[0] == 0xFD && done[1] & 0x20 != 0
}

/// What INSERT BULK has announced is for the next message alone, whatever becomes of that.
///
/// Source: 4022 in "Database Engine events and errors (4000 to 4999)" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/errors-events/); MS-TDS 2.2.6.1.
#[tokio::test(flavor = "multi_thread")]
async fn the_rows_come_next_or_not_at_all() {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    run(&mut connection, "CREATE TABLE dbo.item (id int, n nvarchar(10))").await;
    let mut client = RawClient::log_in(server.address());
    let insert = batch("INSERT BULK dbo.item (id int, n nvarchar(10))");
    let rows = message(BULK_LOAD, &bulk_load_payload());

    let call = execute_sql_payload("INSERT dbo.item VALUES (1, N'call')", "", &[]);
    // Two calls, with a mark between them.
    let calls = [&call[..], &[0xFF], &call[22..]].concat();
    let undecodable = message(SQL_BATCH, &[1, 2, 3]);
    let mut other_transaction = batch_payload("SELECT 1");
    other_transaction[10] = 1;
    let mut with_reset = batch("SELECT 1");
    with_reset[1] |= 8;
    for (what, between, number) in [
        ("a batch", batch("INSERT dbo.item VALUES (1, N'batch')"), 4022),
        ("two calls", message(RPC, &calls), 4022),
        ("what cannot be read", undecodable, 0),
        ("another transaction", message(SQL_BATCH, &other_transaction), 3989),
        ("a reset", with_reset, 0),
        ("an attention", message(ATTENTION, &[]), 0),
    ] {
        send(&mut client, &insert);
        let answer = send(&mut client, &between);
        assert!(number == 0 || errors(&answer, number) == 1, "{what}: {answer:?}");
        assert_eq!(is_attention_acknowledged(&answer), what == "an attention", "{what}: {answer:?}");
        let answer = send(&mut client, &rows);
        assert_eq!(errors(&answer, 59000), 1, "{what}: {answer:?}");
        assert_eq!(number_of_rows(&mut connection).await, 0, "{what}");
    }

    send(&mut client, &insert);
    send(&mut client, &rows);
    assert_eq!(number_of_rows(&mut connection).await, 2);
    let as_sent = "SELECT COUNT(*) FROM dbo.item WHERE id = 7 AND n = N'ab' OR id = 8 AND n IS NULL";
    assert_eq!(number(&mut connection, as_sent).await, 2);
}

async fn number_of_rows(connection: &mut Connection) -> i32 {
    number(connection, "SELECT COUNT(*) FROM dbo.item").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_given_up_leaves_nothing() {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    run(&mut connection, "CREATE TABLE dbo.item (id int, n nvarchar(10)); BEGIN TRANSACTION").await;
    run(&mut connection, "INSERT dbo.item WITH (TABLOCKX) VALUES (1, N'held')").await;
    let mut client = RawClient::log_in(server.address());
    send(&mut client, &batch("INSERT BULK dbo.item (id int, n nvarchar(10))"));
    client.send(&message(BULK_LOAD, &bulk_load_payload()));
    for _ in 0..1000 {
        if server.engine().waiting_count() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(server.engine().waiting_count(), 1, "it waits for the table");
    client.send(&message(ATTENTION, &[]));
    let _cancelled = client.answer();
    assert!(is_attention_acknowledged(&client.answer()));
    run(&mut connection, "COMMIT").await;
    assert_eq!(number_of_rows(&mut connection).await, 1);
}
