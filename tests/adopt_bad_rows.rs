//! Rows of an adopted table for which the server refuses what the mapping says: a constraint, a text that is too long. One
//! such row stops nobody: its job fails, and says why; all others go on.

use std::time::Duration;

use readpast::{BoxError, Handlers, Job, Mapping, Worker};

use crate::support::adopted::{
    REQUESTS_QUEUE, SIMPLE_QUEUE, STATUS_QUEUE, STATUS_QUEUE_INDEXES, adopted, adopted_with,
};
use crate::support::{Fixture, Session, WorkerSession, changed, text};

/// Drains the queue without a pause between attempts. The worker must not stop by itself.
async fn drain(fixture: &Fixture, handler: fn(&Job) -> Result<(), BoxError>) {
    let settings = changed(fixture.config.worker.clone(), |worker| {
        worker.retry.base_ms = 1;
        worker.retry.max_ms = 1;
        worker.promote_interval_ms = 100;
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(move |job, _| handler(job)))
        .config(&settings)
        .start()
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(60), worker.drain()).await.expect("it ends").unwrap();
}

async fn error_of_the_dead(session: &mut Session) -> String {
    let row = session.row("SELECT error FROM [$(schema)].[jobs] WHERE state = 4").await;
    text(&row, "error").unwrap_or_default()
}

fn status_tables() -> String {
    format!(
        "{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}GO\nALTER TABLE [Queue] ADD CONSTRAINT two_states CHECK (Status IN (1, 2))"
    )
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

/// What a claim has taken of the jobs that are held is run, whatever the server says of the rows behind them.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_claimed_does_not_keep_back_what_is_held() {
    let tables = format!(
        "{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}GO\nALTER TABLE [Queue] ADD CONSTRAINT not_3 CHECK (Status = 1 OR Id <> 3)"
    );
    let (fixture, _) = adopted("adopt_unclaimed", &tables, "status-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT [Queue] (Status, Message) VALUES (1, 0x01), (1, 0x02), (1, 0x03)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim(2).await;
    worker.finish(&[first[0].retry(0, "not yet"), first[1].done()]).await;
    let again = worker.claim(10).await;
    assert_eq!(again.iter().map(|job| (job.job_id, job.fence)).collect::<Vec<_>>(), [(first[0].job_id, 2)]);
    let refusal = worker.try_claim(10).await.unwrap_err();
    assert!(refusal.to_string().contains("not_3"), "{refusal}");
    drop((session, worker));
    fixture.remove().await;
}
