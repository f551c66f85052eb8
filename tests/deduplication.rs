//! One unfinished job for each key of a queue: the second producer is told about the first one's job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{Error, JobId, NewJob, Queue};
use tokio::sync::Barrier;

use crate::support::{Fixture, JobCounts, Session, WorkerSession, literal, number};

fn keyed(key: &str) -> NewJob {
    NewJob::text("x").dedup_key(key)
}

async fn enqueue(queue: &Queue, key: &str) -> (JobId, bool) {
    let enqueued = queue.enqueue(&keyed(key)).await.unwrap();
    (enqueued.job_id, enqueued.duplicate)
}

async fn enqueue_by_sql(session: &mut Session, key: &str) -> (i64, bool) {
    let key = literal(key);
    let row = session
        .row(&format!(
            "DECLARE @id bigint, @duplicate bit;
             EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = {key},
                  @job_id = @id OUTPUT, @duplicate = @duplicate OUTPUT;
             SELECT @id AS job_id, @duplicate AS duplicate;"
        ))
        .await;
    (number(&row, "job_id"), number(&row, "duplicate") == 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn within_one_batch_the_first_job_counts() {
    let fixture = Fixture::new("same_batch").await;
    let jobs = [keyed("a"), NewJob::text("no key"), keyed("a"), keyed("b"), keyed("a")];
    let enqueued = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let duplicates: Vec<bool> = enqueued.iter().map(|job| job.duplicate).collect();
    assert_eq!(duplicates, [false, false, true, false, true]);
    assert_eq!((enqueued[2].job_id, enqueued[4].job_id), (enqueued[0].job_id, enqueued[0].job_id));
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 3, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn across_calls_the_job_that_is_there_counts() {
    let fixture = Fixture::new("across_calls").await;
    let mut session = fixture.session().await;
    let (first, duplicate) = enqueue(&fixture.queue, "a").await;
    assert!(!duplicate);
    assert_eq!(enqueue(&fixture.queue, "a").await, (first, true));
    assert_eq!(enqueue_by_sql(&mut session, "a").await, (first.0, true));
    let batch = fixture.queue.enqueue_many(&[keyed("b"), keyed("a")]).await.unwrap();
    assert_eq!((batch[1].job_id, batch[1].duplicate), (first, true));
    assert_eq!(enqueue_by_sql(&mut session, "b").await, (batch[0].job_id.0, true));
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 2, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_a_key_are_never_duplicates() {
    let fixture = Fixture::new("no_key").await;
    fixture.queue.enqueue_many(&[NewJob::text("same"), NewJob::text("same")]).await.unwrap();
    assert!(!fixture.queue.enqueue(&NewJob::text("same")).await.unwrap().duplicate);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 3, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_taken_while_its_job_is_ready_scheduled_or_claimed() {
    let fixture = Fixture::new("unfinished").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let (job_id, _) = enqueue(&fixture.queue, "a").await;
    let job = worker.claim_one().await;
    assert_eq!(enqueue(&fixture.queue, "a").await, (job_id, true), "claimed");
    worker.finish(&[job.retry(60_000, "later")]).await;
    assert_eq!(enqueue(&fixture.queue, "a").await, (job_id, true), "scheduled");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_free_again_when_its_job_is_done_or_dead() {
    for completion in [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let options = QueueOptions::default().completion(completion);
        let fixture = Fixture::with("free_again", options).await;
        let mut worker = WorkerSession::register(&fixture).await;
        let (first, _) = enqueue(&fixture.queue, "a").await;
        let job = worker.claim_one().await;
        worker.finish(&[job.done()]).await;
        let (second, duplicate) = enqueue(&fixture.queue, "a").await;
        assert!(second > first && !duplicate, "done");
        let job = worker.claim_one().await;
        worker.finish(&[job.dead("no")]).await;
        let batch = fixture.queue.enqueue_many(&[keyed("a")]).await.unwrap();
        assert!(batch[0].job_id > second && !batch[0].duplicate, "dead");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_queues_may_use_one_key() {
    let mut fixture = Fixture::new("two_queues").await;
    fixture.config.queue.name = "other".to_string();
    let other = fixture.connect().await;
    other.admin().create(QueueOptions::default()).await.unwrap();
    assert!(!enqueue(&fixture.queue, "a").await.1);
    assert!(!enqueue(&other, "a").await.1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_compare_by_code_point_and_have_no_spaces_at_their_ends() {
    let fixture = Fixture::new("code_points").await;
    // In most collations some of these are equal; the emoji are in nearly all.
    for key in ["key", "KEY", "kéy", "ke\u{301}y", "🦀", "🦞", "ﬀ", "ff", "ß", "ss"] {
        assert!(!enqueue(&fixture.queue, key).await.1, "{key:?} is a key of its own");
    }
    // SQL Server pads the shorter string of a comparison with spaces, so that these would be duplicates of each other.
    let mut session = fixture.session().await;
    for key in ["key ", " key", "", "  "] {
        let error = fixture.queue.enqueue(&keyed(key)).await.unwrap_err();
        assert!(matches!(error, Error::InvalidJob { .. }), "{error}");
        let single =
            format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = {}", literal(key));
        assert_eq!(session.refusal(&single).await.0, 58003, "{key:?}");
        let batch = format!(
            "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'x', {});
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs",
            literal(key)
        );
        assert_eq!(session.refusal(&batch).await.0, 58003, "{key:?}");
    }
    // Not cut to the column's width and taken for another.
    let long = "k".repeat(257);
    let too_long =
        format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = {}", literal(&long));
    assert_eq!(session.refusal(&too_long).await.0, 58003);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_eight_producers_at_once_one_adds_the_job() {
    const KEYS: usize = 100;
    let fixture = Fixture::new("eight_producers").await;
    // All producers begin with a key together, so that they meet in the look-up.
    let together = Arc::new(Barrier::new(8));
    let mut producers = Vec::new();
    for _ in 0..8 {
        let (queue, together) = (fixture.connect().await, together.clone());
        producers.push(tokio::spawn(async move {
            let mut answers = Vec::new();
            for key in 0..KEYS {
                together.wait().await;
                answers.push(queue.enqueue(&keyed(&format!("key {key}"))).await);
            }
            answers
        }));
    }
    let mut answers = Vec::new();
    for producer in producers {
        let of_one_producer = producer.await.unwrap().into_iter().collect::<Result<Vec<_>, _>>();
        answers.push(of_one_producer.expect("no producer meets an error"));
    }
    for key in 0..KEYS {
        let new_jobs = answers.iter().filter(|answer| !answer[key].duplicate).count();
        assert_eq!(new_jobs, 1, "key {key}");
        assert!(answers.iter().all(|answer| answer[key].job_id == answers[0][key].job_id), "all name the same job");
    }
    assert_eq!(fixture.job_counts().await, JobCounts { ready: KEYS as i64, ..JobCounts::default() });
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_eight_equal_batches_at_once_one_adds_the_jobs() {
    const KEYS: usize = 20;
    const ROUNDS: usize = 20;
    let fixture = Fixture::new("eight_batches").await;
    let together = Arc::new(Barrier::new(8));
    let mut producers = Vec::new();
    for _ in 0..8 {
        let (queue, together) = (fixture.connect().await, together.clone());
        producers.push(tokio::spawn(async move {
            let mut answers = Vec::new();
            for round in 0..ROUNDS {
                let jobs: Vec<NewJob> = (0..KEYS).map(|key| keyed(&format!("round {round:02} key {key:02}"))).collect();
                together.wait().await;
                answers.push(queue.enqueue_many(&jobs).await);
            }
            answers
        }));
    }
    let mut new_jobs = 0;
    for producer in producers {
        for answers in producer.await.unwrap() {
            let answers = answers.expect("no producer meets an error");
            new_jobs += answers.iter().filter(|job| !job.duplicate).count();
        }
    }
    assert_eq!(new_jobs, ROUNDS * KEYS);
    assert_eq!(fixture.job_counts().await, JobCounts { ready: (ROUNDS * KEYS) as i64, ..JobCounts::default() });
    fixture.remove().await;
}

/// Time, because nothing counts what is read of a table-valued parameter: eight times the rows take eight times as long
/// where each is sought, and 64 times where the list is read for each.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_costs_by_its_rows_and_not_by_their_square() {
    let fixture = Fixture::new("linear").await;
    let mut session = fixture.session().await;
    for column in ["dedup_key", "batch_id"] {
        let (few, many) = (1_000, 8_000);
        let mut shortest = Duration::MAX;
        for round in 0..3 {
            shortest = shortest.min(enqueue_numbered(&mut session, column, few, round * few).await);
        }
        let long = enqueue_numbered(&mut session, column, many, 3 * few).await;
        assert!(long < 24 * shortest, "{column}: {few} rows took {shortest:?}, {many} took {long:?}");
    }
    fixture.remove().await;
}

/// Enqueues jobs by one call, each with a key, or each of a batch of its own. Returns how long the call took.
async fn enqueue_numbered(session: &mut Session, column: &str, count: usize, from: usize) -> Duration {
    let mut rows = String::new();
    for first in (0..count).step_by(1_000) {
        let list: Vec<String> = (first..first + 1_000).map(|place| format!("({place}, N'x')")).collect();
        rows += &format!("INSERT #rows (ordinal, text) VALUES {};", list.join(", "));
    }
    session.sql(&format!("CREATE TABLE #rows (ordinal int NOT NULL PRIMARY KEY, text nvarchar(9) NULL); {rows}")).await;
    let (key, details) = match column {
        "dedup_key" => ("CONCAT(N'key ', ordinal + FROM_ID)".replace("FROM_ID", &from.to_string()), String::new()),
        _ => {
            session
                .sql(&format!(
                    "SET IDENTITY_INSERT [$(schema)].[batches] ON;
                 INSERT [$(schema)].[batches] (batch_id, queue_id, created_at, priority, payload_utf16, payload)
                 SELECT ordinal + {from} + 1000, 1, SYSUTCDATETIME(), 0, 0, 0x FROM #rows;
                 SET IDENTITY_INSERT [$(schema)].[batches] OFF;"
                ))
                .await;
            (
                "NULL".to_string(),
                format!("INSERT @details (ordinal, batch_id) SELECT ordinal, ordinal + {from} + 1000 FROM #rows;"),
            )
        }
    };
    let began = Instant::now();
    session
        .sql(&format!(
            "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];
             INSERT @jobs (ordinal, text, dedup_key) SELECT ordinal, text, {key} FROM #rows; {details}
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @report = 0, @details = @details;"
        ))
        .await;
    let took = began.elapsed();
    session.sql("DROP TABLE #rows").await;
    took
}
