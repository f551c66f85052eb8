//! Dead jobs of an adopted table that are to run again: their rows are marked as taken again, and where a row is gone,
//! that is refused.

use readpast::Error;
use readpast::admin::{JobChange, JobState};
use readpast_adopt::Mapping;

use crate::adopted::{FOUR_QUEUE, REQUESTS_QUEUE, SIMPLE_QUEUE, STATUS_QUEUE, STATUS_QUEUE_INDEXES};
use crate::adopted::{adopted, adopted_with};
use crate::support::{WorkerSession, number};

/// Erik Darling's four_queue: its dequeue also takes what is in process for ten minutes, has no end and attempts left.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_is_not_the_authors_to_take_nor_what_waits_again() {
    let (fixture, _) = adopted("adopt_given_up", FOUR_QUEUE, "four-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT dbo.four_queue (reputation) VALUES (11)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim(1).await.remove(0);
    worker.finish(&[job.dead("no use")]).await;
    session.sql("UPDATE dbo.four_queue SET start_date = DATEADD(HOUR, -1, SYSDATETIME())").await;
    let taken = "SELECT COUNT(*) FROM dbo.four_queue
                 WHERE in_process = 0 OR (in_process = 1 AND end_date IS NULL
                       AND start_date < DATEADD(MINUTE, -10, SYSDATETIME()) AND attempts < 3)";
    assert_eq!(session.number(taken).await, 0);

    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    let row = session
        .row(
            "SELECT CAST(in_process AS int) AS in_process, CAST(attempts AS int) AS attempts,
                    CASE WHEN end_date > SYSDATETIME() AND start_date > DATEADD(MINUTE, -1, SYSDATETIME())
                              AND app_server = N'a test' THEN 1 ELSE 0 END AS is_marked
             FROM dbo.four_queue",
        )
        .await;
    assert_eq!((number(&row, "in_process"), number(&row, "is_marked")), (1, 1));
    assert_eq!(number(&row, "attempts"), 3, "no attempt has begun");
    assert_eq!(session.number(taken).await, 0);
    let again = worker.claim(1).await.remove(0);
    assert_eq!((again.job_id, again.fence), (job.job_id, 2));
    assert_eq!(worker.finish(&[again.done()]).await, []);
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_job_waits_again_is_marked_again() {
    let tables = format!("{STATUS_QUEUE}GO\n{STATUS_QUEUE_INDEXES}");
    let (fixture, _) = adopted("adopt_marked_again", &tables, "status-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("INSERT [Queue] (Status, Message) VALUES (1, 0x01), (1, 0x02)").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let jobs = worker.claim(2).await;
    worker.finish(&[jobs[0].dead("no use"), jobs[1].done()]).await;
    let status = "SELECT CAST(Status AS int) FROM [Queue]";
    assert_eq!(session.numbers(status).await, [3]);
    fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
    assert_eq!(session.numbers(status).await, [2]);
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_gone_is_not_requeued() {
    let (fixture, _) = adopted("adopt_gone", REQUESTS_QUEUE, "requests-queue.toml").await;
    let mut session = fixture.session().await;
    session.sql("EXEC usp_Request_Push 'bad'").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim(1).await.remove(0);
    worker.finish(&[job.dead("no use")]).await;
    let refusal = fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap_err();
    assert!(matches!(refusal, Error::Refused { .. }) && refusal.to_string().contains("dead.move"), "{refusal}");
    assert_eq!(session.number("SELECT COUNT(*) FROM RequestsCompleted").await, 1);
    drop((session, worker));
    fixture.remove().await;

    let text = std::fs::read_to_string(format!("{}/examples/adopt/simple-queue.toml", env!("CARGO_MANIFEST_DIR")));
    let text = text.unwrap().replace("[columns]", "[dead]\ndelete = true\n\n[columns]");
    let (fixture, _) = adopted_with("adopt_gone_deleted", SIMPLE_QUEUE, &Mapping::from_toml(&text).unwrap()).await;
    let refusal = fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap_err();
    assert!(refusal.to_string().contains("dead.delete"), "{refusal}");
    fixture.remove().await;
}
