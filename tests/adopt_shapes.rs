//! Tables of other shapes: names that need brackets, keys of several columns, payloads of many types as JSON, rows that
//! are moved while they stand in their table, newest first, and a database with row versions.

use readpast::{BoxError, Handlers, Job, JobError, Output, Worker};
use readpast_adopt::Mapping;

use crate::adopted::adopted_with;
use crate::support::{WorkerSession, number, text};

const ODD: &str = "
CREATE SCHEMA odd
GO
CREATE TABLE odd.[Ta]]sk's 5%d]
(
    [order] bigint IDENTITY NOT NULL,
    [ke]]y] nvarchar(40) NOT NULL,
    [sta te] nvarchar(20) NOT NULL,
    [a 'b'] nvarchar(max) NULL,
    [\"n\"] int NULL,
    flag bit NULL,
    amount decimal(10, 3) NULL,
    [when] datetime2(3) NULL,
    guid uniqueidentifier NULL,
    narrow varchar(10) NULL,
    ratio float NULL,
    CONSTRAINT odd_pk PRIMARY KEY NONCLUSTERED ([ke]]y], [order])
);
CREATE CLUSTERED INDEX [cl]]ustered] ON odd.[Ta]]sk's 5%d] ([sta te], [order]);
CREATE TABLE odd.Done
(
    nr bigint NOT NULL,
    [ke]]y] nvarchar(40) NOT NULL,
    tries int NOT NULL,
    job bigint NOT NULL,
    worker nvarchar(5) NULL,
    result varbinary(max) NULL,
    at datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME()
);
";

const ODD_MAPPING: &str = r#"
table = "odd.[Ta]]sk's 5%d]"
queue = "it's odd"
key = ["order", "ke]y"]
payload = ["a 'b'", "\"n\"", "flag", "amount", "when", "guid", "narrow", "ratio"]
order = "[order] DESC"
ready = "[sta te] = 'it''s new'"
max_attempts = 2

[claim]
set = { "sta te" = "'taken'" }

[done]
move = "odd.Done"
with = { nr = "[order]", "ke]y" = "[ke]]y]", tries = "{attempt}", job = "{job_id}", worker = "LEFT({worker}, 5)", result = "{output}" }

[failed]
set = { narrow = "{error}" }

[dead]
delete = true
"#;

#[tokio::test(flavor = "multi_thread")]
async fn names_types_and_keys_of_any_kind() {
    let mapping = Mapping::from_toml(ODD_MAPPING).unwrap();
    let (fixture, adoption) = adopted_with("adopt_odd", ODD, &mapping).await;
    assert!(adoption.script().contains("DELETE t\n        OUTPUT deleted.[order]"), "moved by one statement");
    let mut session = fixture.session().await;
    let (_, refusal) = session.refusal("EXEC [$(schema)].[enqueue] @queue = N'it''s odd', @text = N'x'").await;
    assert!(refusal.contains("the table odd.Ta]sk's 5%d; "), "{refusal}");
    session
        .sql(
            "INSERT odd.[Ta]]sk's 5%d] ([ke]]y], [sta te], [a 'b'], [\"n\"], flag, amount, [when], guid, narrow, ratio)
             VALUES (N'k\"1', N'it''s new', N'a \"quoted\" \\ text' + NCHAR(10) + N'é', -7, 1, 12.500,
             '2026-01-02T03:04:05.678',
                     'd6513312-4dcc-4c44-b044-08b98257037c', 'abc', 0.1),
                    (N'k2', N'it''s new', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                    (N'k3', N'other', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                    (N'k4', N'it''s new', N'bad', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .await;

    // The newest first, with what the columns hold.
    let mut by_hand = WorkerSession::register(&fixture).await;
    let claimed = by_hand.claim(10).await;
    let shown: Vec<serde_json::Value> = claimed
        .iter()
        .map(|job| {
            let utf16: Vec<u16> = job.payload.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            serde_json::from_str(&String::from_utf16(&utf16).unwrap()).unwrap()
        })
        .collect();
    let keys: Vec<&str> = claimed.iter().map(|job| job.details["headers"]["ke]y"].as_str().unwrap()).collect();
    assert_eq!(keys, ["k4", "k2", "k\"1"]);
    assert_eq!(claimed[2].details["headers"]["order"], "1");
    assert_eq!(
        shown[2],
        serde_json::json!({
            "a 'b'": "a \"quoted\" \\ text\né", "\"n\"": -7, "flag": true, "amount": 12.5, "when": "2026-01-02T03:04:05.678",
            "guid": "D6513312-4DCC-4C44-B044-08B98257037C", "narrow": "abc", "ratio": 0.1
        })
    );
    assert!(shown[1].as_object().unwrap().values().all(serde_json::Value::is_null), "{}", shown[1]);
    by_hand.release(&claimed).await;
    assert_eq!(session.number("SELECT COUNT(*) FROM odd.[Ta]]sk's 5%d] WHERE [sta te] = N'it''s new'").await, 3);

    let handler = |job: &Job, _: &readpast::Context| -> Result<Option<Output>, BoxError> {
        let body = job.text()?;
        if body.contains("bad") {
            return Err(JobError::dead("an error that is longer than the column").into());
        }
        Ok(Some(Output::bytes(b"fine")))
    };
    let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead), (2, 1));
    let moved = session
        .sql(
            "SELECT nr, [ke]]y] AS name, tries, CAST(result AS varchar(10)) AS result, LEN(worker) AS \
                             letters FROM odd.Done ORDER BY nr",
        )
        .await;
    let moved: Vec<_> = moved
        .iter()
        .map(|row| (number(row, "nr"), text(row, "name").unwrap(), number(row, "tries"), text(row, "result").unwrap()))
        .collect();
    assert_eq!(moved, [(1, "k\"1".to_string(), 1, "fine".to_string()), (2, "k2".to_string(), 1, "fine".to_string())]);
    assert_eq!(
        session.numbers("SELECT [order] FROM odd.[Ta]]sk's 5%d]").await,
        [3],
        "the dead one was deleted, as the mapping says"
    );
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().dead, 1, "and is kept as a job");
    drop((session, by_hand));
    fixture.remove().await;
}

/// An error that is longer than its column is cut, or the acknowledgement would fail for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_cut_to_its_column_and_a_count_does_not_overflow() {
    let tables = "CREATE TABLE dbo.Small (Id int NOT NULL PRIMARY KEY, Taken bit NOT NULL, Body varchar(20) NULL, \
                  Tries tinyint NOT NULL, Why varchar(8) NOT NULL);
                  CREATE INDEX ready ON dbo.Small (Taken, Id);
                  INSERT dbo.Small VALUES (1, 0, 'x', 254, '')";
    let mapping = Mapping::from_toml(
        "table = \"Small\"\nkey = \"Id\"\npayload = \"Body\"\norder = \"Id\"\nready = \"Taken = 0\"\nmax_attempts = \
         300\n\
         [claim]\nset = { Taken = true }\n[done]\ndelete = true\n[columns]\nattempts = \"Tries\"\nerror = \"Why\"\n",
    )
    .unwrap();
    let (fixture, _) = adopted_with("adopt_small", tables, &mapping).await;
    let mut session = fixture.session().await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut job = worker.claim_one().await;
    assert_eq!(job.attempt, 255);
    worker.finish(&[job.retry(0, "a rather long error")]).await;
    job = worker.claim_one().await;
    assert_eq!(job.attempt, 256);
    worker.finish(&[job.dead("another long error")]).await;
    let row = session.row("SELECT CAST(Tries AS int) AS tries, Why FROM dbo.Small").await;
    assert_eq!((number(&row, "tries"), text(&row, "Why").as_deref()), (255, Some("another ")));
    session.sql("UPDATE dbo.Small SET Taken = 0").await;
    assert_eq!(worker.claim_one().await.attempt, 256, "a row that was made ready with its attempts used up");
    drop((session, worker));
    fixture.remove().await;
}

/// READPAST is refused under row versions without READCOMMITTEDLOCK ("Table hints", READPAST).
#[tokio::test(flavor = "multi_thread")]
async fn a_database_with_row_versions() {
    let tables = format!(
        "{}\nGO\nALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE",
        crate::adopted::OUTBOX
    );
    let mapping = crate::adopted::example("outbox.toml");
    let (fixture, _) = adopted_with("adopt_versions", &tables, &mapping).await;
    let mut session = fixture.session().await;
    session.sql("INSERT Outbox (type, payload) SELECT N'a', N'x' FROM GENERATE_SERIES(1, 100)").await;
    let mut reader = fixture.session().await;
    reader.sql("BEGIN TRANSACTION; UPDATE Outbox SET type = N'b' WHERE id <= 10").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(200).await;
    assert_eq!(claimed.len(), 90, "what somebody has locked is passed over");
    reader.sql("COMMIT TRANSACTION").await;
    let done: Vec<_> = claimed.iter().map(|job| job.done()).collect();
    assert!(worker.finish(&done).await.is_empty());
    assert_eq!(worker.claim(200).await.len(), 10);
    drop((session, worker, reader));
    fixture.remove().await;
}
