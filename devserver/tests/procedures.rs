//! Procedures through a real client: table-valued parameters, output parameters, transactions of the client, errors.

use readpast_devserver::DevServer;
use tiberius::{Command, SqlTableDataRow, TableValueRow};

use crate::client::{Connection, connect, run};

/// A server with a table, a list type and procedures over both.
async fn prepared() -> (DevServer, Connection) {
    let server = DevServer::start().await.unwrap();
    let mut connection = connect(&server).await;
    for sql in [
        "CREATE TABLE dbo.item (id int NOT NULL IDENTITY (1, 1) PRIMARY KEY, text nvarchar(20) NOT NULL, amount bigint NULL)",
        "CREATE TYPE dbo.item_list AS TABLE (ordinal int NOT NULL PRIMARY KEY, text nvarchar(20) NOT NULL, amount bigint NULL)",
        "CREATE PROCEDURE dbo.add_items @items dbo.item_list READONLY, @total bigint = NULL OUTPUT AS
         SET NOCOUNT ON;
         INSERT dbo.item (text, amount) OUTPUT inserted.id, inserted.text SELECT text, amount FROM @items ORDER BY ordinal;
         SELECT @total = SUM(amount) FROM dbo.item;
         RETURN 7",
        "CREATE PROCEDURE dbo.refuse @why nvarchar(100) AS
         SET XACT_ABORT ON;
         BEGIN TRANSACTION;
         INSERT dbo.item (text) VALUES (N'never');
         THROW 50042, @why, 3",
    ] {
        run(&mut connection, sql).await;
    }
    (server, connection)
}

struct Item(i32, &'static str, Option<i64>);

impl<'a> TableValueRow<'a> for Item {
    fn get_db_type() -> &'static str {
        "dbo.item_list"
    }

    fn bind_fields(&self, data_row: &mut SqlTableDataRow<'a>) {
        data_row.add_field(self.0);
        data_row.add_field(self.1);
        data_row.add_field(self.2);
    }
}

#[tokio::test]
async fn a_table_goes_in_and_rows_and_outputs_come_back() {
    let (_server, mut connection) = prepared().await;
    let mut command = Command::new("dbo.add_items");
    let items = [Item(2, "second", None), Item(1, "first", Some(40)), Item(3, "third", Some(2))];
    command.bind_table("@items", items.into_iter());
    command.bind_out_param("@total", 0i64);
    let result = command.exec(&mut connection).await.unwrap().into_command_result().await.unwrap();
    assert_eq!(result.return_code(), 7);
    assert_eq!(result.try_return_value::<i64>("@total").unwrap(), Some(42));
    assert_eq!(result.to_query_result(0).map(Vec::len), Some(3));
    let rows = connection.simple_query("SELECT id, text FROM dbo.item ORDER BY id").await.unwrap();
    let rows = rows.into_first_result().await.unwrap();
    let texts: Vec<&str> = rows.iter().filter_map(|row| row.get::<&str, _>(1)).collect();
    assert_eq!(texts, ["first", "second", "third"]);
}

#[tokio::test]
async fn a_thrown_error_leaves_the_connection_and_the_table_as_they_were() {
    let (_server, mut connection) = prepared().await;
    let mut command = Command::new("dbo.refuse");
    command.bind_param("@why", "because");
    let error = async { command.exec(&mut connection).await?.into_command_result().await }.await;
    let error = error.expect_err("it throws");
    let tiberius::error::Error::Server(token) = error else { panic!("{error}") };
    assert_eq!((token.code(), token.state(), token.message()), (50042, 3, "because"));
    let count = connection.simple_query("SELECT COUNT(*), @@TRANCOUNT FROM dbo.item").await.unwrap();
    let row = count.into_row().await.unwrap().unwrap();
    assert_eq!((row.get(0), row.get(1)), (Some(0i32), Some(0i32)));
}

#[tokio::test]
async fn parameters_of_every_kind_come_through_unchanged() {
    let (_server, mut connection) = prepared().await;
    let long = "x".repeat(9000);
    let rows = connection
        .query(
            "SELECT @P1 + 1, @P2, DATALENGTH(@P3), @P4, CASE WHEN @P5 IS NULL THEN 1 ELSE 0 END",
            &[&41i64, &"žluťoučký 😀", &vec![1u8; 8001], &long.as_str(), &None::<i32>],
        )
        .await
        .unwrap()
        .into_first_result()
        .await
        .unwrap();
    assert_eq!(rows[0].get::<i64, _>(0), Some(42));
    assert_eq!(rows[0].get::<&str, _>(1), Some("žluťoučký 😀"));
    assert_eq!(rows[0].get::<&str, _>(3), Some(long.as_str()));
    assert_eq!(rows[0].get::<i32, _>(4), Some(1));
}

/// "Long length types" and the text pointers before their values: MS-TDS 2.2.5.4.3, 2.2.7.4 (COLMETADATA) and 2.2.7.19
/// (ROW).
#[tokio::test]
async fn text_ntext_and_image_come_back() {
    let (_server, mut connection) = prepared().await;
    run(&mut connection, "CREATE TABLE dbo.old (id int NOT NULL, a text, b ntext, c image)").await;
    let long = "x".repeat(9000);
    for (id, a, b, c) in [(1, Some("café"), Some("žluťoučký 😀"), Some(vec![1u8, 2])), (2, None, None, None)] {
        let insert = "INSERT dbo.old VALUES (@P1, @P2, @P3, @P4)";
        connection.execute(insert, &[&id, &a, &b, &c]).await.unwrap();
    }
    connection.execute("INSERT dbo.old VALUES (3, @P1, @P1, 0x)", &[&long.as_str()]).await.unwrap();
    let rows = connection.simple_query("SELECT a, b, c, id, CAST('t' AS text) FROM dbo.old ORDER BY id").await.unwrap();
    let rows = rows.into_first_result().await.unwrap();
    let texts: Vec<_> = rows.iter().map(|row| (row.get::<&str, _>(0), row.get::<&str, _>(1))).collect();
    assert_eq!(texts, [(Some("café"), Some("žluťoučký 😀")), (None, None), (Some(long.as_str()), Some(long.as_str()))]);
    let images: Vec<_> = rows.iter().map(|row| row.get::<&[u8], _>(2)).collect();
    assert_eq!(images, [Some(&[1u8, 2][..]), None, Some(&[][..])]);
    let last: Vec<_> = rows.iter().map(|row| (row.get::<i32, _>(3), row.get::<&str, _>(4))).collect();
    assert_eq!(last, [(Some(1), Some("t")), (Some(2), Some("t")), (Some(3), Some("t"))]);
    let types: Vec<_> = rows[0].columns()[..3].iter().map(|column| column.column_type()).collect();
    assert_eq!(types, [tiberius::ColumnType::Text, tiberius::ColumnType::NText, tiberius::ColumnType::Image]);
}
