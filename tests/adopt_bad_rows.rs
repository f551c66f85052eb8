//! Rows of an adopted table for which the server refuses what the mapping says: a constraint, a text that is too long.
//! One such row stops nobody: its job fails, and says why; all others go on.

use std::time::Duration;

use readpast::admin::{JobChange, JobState};
use readpast::{BoxError, Handlers, Job, JobError, JobId, Worker};
use readpast_adopt::Mapping;

use crate::adopted::{REQUESTS_QUEUE, SIMPLE_QUEUE, STATUS_QUEUE, STATUS_QUEUE_INDEXES, adopted, adopted_with};
use crate::support::{Fixture, Session, WorkerSession, changed, number, text};

/// Drains the queue without a pause between attempts. The worker must not stop by itself.
async fn drain(fixture: &Fixture, handler: fn(&Job) -> Result<(), BoxError>) {
    let settings = changed(fixture.config.worker.clone(), |worker| {
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
        worker.promote_interval = Duration::from_millis(100);
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(move |job, _| handler(job)))
        .config(&settings)
        .start()
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(60), worker.drain()).await.expect("it ends").unwrap();
}

async fn error_of_the_dead(session: &mut Session) -> String {
    let row = session.row("SELECT TOP (1) error FROM [$(schema)].[jobs] WHERE state = 4 ORDER BY job_id").await;
    text(&row, "error").unwrap_or_default()
}

fn status_tables() -> String {
    format!(
        "{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}GO\nALTER TABLE [Queue] ADD CONSTRAINT two_states CHECK (Status IN (1, 2))"
    )
}

/// Old text, and a trigger's error that quotes some.
#[tokio::test(flavor = "multi_thread")]
async fn rows_with_half_a_character_fail_alone() {
    const HALF: &str = "CAST(0x3DD8 AS nvarchar(1))"; // of a surrogate pair
    let (fixture, _) = adopted("adopt_halves", SIMPLE_QUEUE, "simple-queue.toml").await;
    let mut session = fixture.session().await;
    session
        .sql(&format!(
            "CREATE TRIGGER keep ON SimpleQueue AFTER DELETE AS
             DECLARE @message nvarchar(100) = CONCAT(N'it stays: ', {HALF});
             IF EXISTS (SELECT 1 FROM deleted WHERE Payload = N'row 17') THROW 50001, @message, 1;"
        ))
        .await;
    session
        .sql(&format!(
            "INSERT SimpleQueue (Id, CreatedAt, Payload)
             SELECT NEWID(), SYSUTCDATETIME(), CASE value WHEN 23 THEN {HALF} ELSE CONCAT(N'row ', value) END
             FROM GENERATE_SERIES(1, 40)"
        ))
        .await;
    drain(&fixture, |job| {
        job.text()?;
        Ok(())
    })
    .await;
    assert_eq!(session.number("SELECT COUNT(*) FROM SimpleQueue").await, 2, "all others are done");
    let rows = session.sql("SELECT error FROM [$(schema)].[jobs] WHERE state = 4 ORDER BY job_id").await;
    let errors: Vec<String> = rows.iter().map(|row| text(row, "error").unwrap()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors.iter().any(|error| error.contains("error 50001") && error.contains("it stays: \u{FFFD}")),
        "{errors:?}"
    );
    assert!(errors.iter().any(|error| error.contains("invalid payload of job")), "{errors:?}");
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_deleted_fails_alone() {
    let tables = format!(
        "{SIMPLE_QUEUE}GO\nCREATE TABLE Child (Id uniqueidentifier NOT NULL CONSTRAINT of_a_row REFERENCES SimpleQueue (Id))"
    );
    let (fixture, adoption) = adopted("adopt_child", &tables, "simple-queue.toml").await;
    assert!(adoption.notes().iter().any(|note| note.contains("of_a_row")), "{:?}", adoption.notes());
    let mut session = fixture.session().await;
    session
        .sql(
            "INSERT SimpleQueue (Id, CreatedAt, Payload)
             SELECT NEWID(), SYSUTCDATETIME(), CONCAT(N'row ', value) FROM GENERATE_SERIES(1, 40);
             INSERT Child (Id) SELECT Id FROM SimpleQueue WHERE Payload = N'row 17'",
        )
        .await;
    drain(&fixture, |_| Ok(())).await;
    let row = session.row("SELECT Payload, Errors FROM SimpleQueue").await;
    assert_eq!(text(&row, "Payload").as_deref(), Some("row 17"), "all others are done");
    assert!(text(&row, "Errors").unwrap().contains("of_a_row"));
    assert!(error_of_the_dead(&mut session).await.contains("error 547 with its row of dbo.SimpleQueue"));
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_also_where_its_row_cannot_say_so() {
    let (fixture, adoption) = adopted("adopt_check_dead", &status_tables(), "status-queue.toml").await;
    assert!(adoption.notes().iter().any(|note| note.contains("two_states")), "{:?}", adoption.notes());
    let mut session = fixture.session().await;
    session.sql("INSERT [Queue] (Status, Message) VALUES (1, 0x01), (1, 0x02), (1, 0x03)").await;
    drain(&fixture, |job| if job.payload() == [2] { Err("no use".into()) } else { Ok(()) }).await;
    assert_eq!(session.numbers("SELECT CAST(Status AS int) FROM [Queue]").await, [2], "as the claim has left it");
    let error = error_of_the_dead(&mut session).await;
    assert!(error.starts_with("no use; its row was left as it is: error 547: "), "{error}");
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_workers_jobs_come_back_also_where_a_row_cannot_say_so() {
    let text = std::fs::read_to_string(format!("{}/examples/adopt/status-queue.toml", env!("CARGO_MANIFEST_DIR")));
    let text = text.unwrap().replace("[dead]", "[failed]\nset = { Status = 3 }\n\n[dead]");
    let mapping = Mapping::from_toml(&text).unwrap();
    let tables = status_tables().replace("Status IN (1, 2)", "Status IN (1, 2) OR Id = 1");
    let (fixture, _) = adopted_with("adopt_check_lost", &tables, &mapping).await;
    let mut session = fixture.session().await;
    session.sql("INSERT [Queue] (Status, Message) SELECT 1, 0x01 FROM GENERATE_SERIES(1, 6)").await;
    let mut lost = WorkerSession::register(&fixture).await;
    assert_eq!(lost.claim(10).await.len(), 6);
    lost.lose(&fixture).await;
    assert_eq!(fixture.job_counts().await.ready, 6, "all of them");
    let refused = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE error LIKE N'%was lost%its row was left as it is%'";
    assert_eq!(session.number(refused).await, 5, "all but the first");
    drop((session, lost));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_moved_fails_alone() {
    let tables =
        format!("{REQUESTS_QUEUE}GO\nALTER TABLE RequestsCompleted ADD CONSTRAINT moved_once PRIMARY KEY (id)");
    let (fixture, _) = adopted("adopt_moved_once", &tables, "requests-queue.toml").await;
    let mut session = fixture.session().await;
    session
        .sql(
            "INSERT RequestsQueue (request) SELECT CONCAT('request ', value) FROM GENERATE_SERIES(1, 20);
             INSERT RequestsCompleted (id, request) SELECT id, 'before' FROM RequestsQueue WHERE request = 'request 7'",
        )
        .await;
    drain(&fixture, |_| Ok(())).await;
    assert_eq!(session.number("SELECT COUNT(*) FROM RequestsCompleted WHERE request <> 'before'").await, 19);
    let error = error_of_the_dead(&mut session).await;
    assert!(error.contains("error 2627 with its row") && error.contains("; its row was left as it is"), "{error}");
    drop(session);
    fixture.remove().await;
}

/// Nobody can mark such a row as taken. It is passed by, its job is dead and says why, and it comes again when it can.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_claimed_are_passed_by() {
    let tables = format!(
        "{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}GO\nALTER TABLE [Queue] ADD CONSTRAINT not_these CHECK (Status = 1 OR Id NOT IN (3, 4, 90))"
    );
    let (fixture, adoption) = adopted("adopt_unclaimed", &tables, "status-queue.toml").await;
    assert!(adoption.notes().iter().any(|note| note.contains("not_these")), "{:?}", adoption.notes());
    let mut session = fixture.session().await;
    session
        .sql("INSERT [Queue] (Status, Message) SELECT 1, CAST(value AS varbinary(8)) FROM GENERATE_SERIES(1, 100)")
        .await;
    drain(&fixture, |_| Ok(())).await;
    assert_eq!(session.numbers("SELECT Id FROM [Queue] WHERE Status = 1 ORDER BY Id").await, [3, 4, 90]);
    assert_eq!(session.number("SELECT COUNT(*) FROM [Queue]").await, 3, "all others are done");
    let row =
        session.row("SELECT error, CAST(payload AS int) AS message FROM [$(schema)].[jobs] WHERE their_Id = 90").await;
    assert_eq!(number(&row, "message"), 90);
    let error = text(&row, "error").unwrap();
    assert!(error.starts_with("its row cannot be claimed: error 547: ") && error.contains("not_these"), "{error}");
    assert_eq!(fixture.job_counts().await.dead, 3);

    // To requeue it is to have the next claim try the row again.
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 3);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[refused_rows]").await, 0);
    drain(&fixture, |_| Ok(())).await;
    assert_eq!(fixture.job_counts().await.dead, 3);

    // Two come back by requeue, and one by the time.
    session.sql("ALTER TABLE [Queue] DROP CONSTRAINT not_these").await;
    let jobs = session.numbers("SELECT job_id FROM [$(schema)].[jobs] WHERE their_Id IN (3, 4)").await;
    let jobs: Vec<JobId> = jobs.into_iter().map(JobId).collect();
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, &jobs).await.unwrap().changed, 2);
    assert_eq!(session.numbers("SELECT their_Id FROM [$(schema)].[refused_rows]").await, [90]);
    // Whoever has done something with a row meanwhile is not undone.
    session.sql("UPDATE [Queue] SET Message = 0x03AA WHERE Id = 3; DELETE [Queue] WHERE Id = 4").await;
    // (Nor does it wait for days, where the clock was ahead by days.)
    session.sql("SELECT * INTO #refused FROM [$(schema)].[refused_rows]").await;
    for moved in ["DAY, 2", "MINUTE, -11"] {
        session.sql("DELETE [$(schema)].[refused_rows]").await;
        session.sql("INSERT [$(schema)].[refused_rows] SELECT * FROM #refused").await;
        session.sql(&format!("UPDATE [$(schema)].[refused_rows] SET refused_at = DATEADD({moved}, refused_at)")).await;
        session.sql("EXEC [$(schema)].[reap] @queue = N'messages'").await;
        assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[refused_rows]").await, 0, "{moved}");
    }
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    let payloads: Vec<Vec<u8>> = claimed.iter().map(|job| job.payload.clone()).collect();
    assert_eq!(payloads.len(), 2, "{payloads:?}");
    assert!(payloads.contains(&vec![0x03, 0xAA]), "as it is now: {payloads:?}");
    drop(worker);
    drop(session);
    fixture.remove().await;
}

/// A dead job whose row cannot be marked again stays dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_marked_again_keeps_its_job_dead() {
    let (fixture, _) =
        adopted("adopt_unmarked", &format!("{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}"), "status-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT [Queue] (Status, Message) VALUES (1, 0x01), (1, 0x02), (1, 0x03)").await;
    drain(&fixture, |_| Err(JobError::dead("no use").into())).await;
    session.sql("ALTER TABLE [Queue] ADD CONSTRAINT not_2 CHECK (Status = 3 OR Id <> 2)").await;
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 2);
    assert_eq!(session.numbers("SELECT CAST(Status AS int) FROM [Queue] ORDER BY Id").await, [2, 3, 2]);
    let error = error_of_the_dead(&mut session).await;
    assert!(error.starts_with("the job cannot be requeued; its row was left as it is: error 547: "), "{error}");
    drop(session);
    fixture.remove().await;
}

/// Of rows that are refused only together, one comes with each claim.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_refused_together_come_one_by_one() {
    let tables = "CREATE TABLE Orders (Id int NOT NULL PRIMARY KEY, Taken int NOT NULL, Place int NOT NULL, Customer int NOT NULL);
                  CREATE INDEX Orders_taken ON Orders (Taken, Id); CREATE UNIQUE INDEX one_each ON Orders (Customer, Place)";
    let mapping = "table = \"Orders\"\nkey = \"Id\"\npayload = \"Customer\"\norder = \"Id\"\nready = \"Taken = 0\"\n\
                   [claim]\nset = { Taken = 1, Place = 0 }\n[done]\ndelete = true\n";
    let (fixture, adoption) = adopted_with("adopt_together", tables, &Mapping::from_toml(mapping).unwrap()).await;
    assert!(adoption.notes().iter().any(|note| note.contains("one_each")), "{:?}", adoption.notes());
    let mut session = fixture.session().await;
    session.sql("INSERT Orders (Id, Taken, Place, Customer) VALUES (1, 0, 1, 7), (2, 0, 2, 7), (3, 0, 3, 8)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(10).await.len(), 1, "the first of customer 7");
    assert_eq!(worker.claim(10).await.len(), 0, "now the second is to blame");
    assert_eq!(worker.claim(10).await.len(), 1, "customer 8");
    drop((session, worker));
    fixture.remove().await;
}

/// Also one whose values cannot be computed.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_which_no_job_can_be_made_is_passed_by() {
    let tables =
        "CREATE TABLE Parts (Id int NOT NULL PRIMARY KEY, Taken bit NOT NULL, Size int NOT NULL, Pieces int NOT NULL);
                  CREATE INDEX Parts_taken ON Parts (Taken, Id)";
    let mapping = "table = \"Parts\"\nkey = \"Id\"\npayload = \"Size\"\norder = \"Id\"\nready = \"Taken = 0\"\n[claim]\nset = { Taken = 1 }\n\
                   [done]\ndelete = true\n[columns]\npriority = \"Size / Pieces\"\n";
    let (fixture, _) = adopted_with("adopt_uncomputed", tables, &Mapping::from_toml(mapping).unwrap()).await;
    let mut session = fixture.session().await;
    session.sql("INSERT Parts (Id, Taken, Size, Pieces) VALUES (1, 0, 6, 0), (2, 0, 6, 2), (3, 0, 6, 3)").await;
    drain(&fixture, |_| Ok(())).await;
    assert_eq!(session.numbers("SELECT Id FROM Parts WHERE Taken = 0").await, [1]);
    assert!(error_of_the_dead(&mut session).await.contains("error 8134"), "divided by zero");
    drop(session);
    fixture.remove().await;
}

/// What a claim has taken of the jobs that are held is run, whatever the server says of the rows behind them.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_claimed_does_not_keep_back_what_is_held() {
    let tables = format!(
        "{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}GO\nALTER TABLE [Queue] ADD CONSTRAINT not_3 CHECK (Status = 1 OR Id <> 3)"
    );
    let (fixture, _) = adopted("adopt_unclaimed_held", &tables, "status-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT [Queue] (Status, Message) VALUES (1, 0x01), (1, 0x02), (1, 0x03), (1, 0x04)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim(2).await;
    worker.finish(&[first[0].retry(0, "not yet"), first[1].done()]).await;
    let again = worker.claim(10).await;
    assert_eq!(again.iter().map(|job| (job.job_id, job.fence)).collect::<Vec<_>>(), [(first[0].job_id, 2)]);
    assert_eq!(worker.claim(10).await.len(), 1, "the fourth");
    drop((session, worker));
    fixture.remove().await;
}
