//! Why jobs have failed: their errors, read in one look and put together where they are alike.

use std::time::Duration;

use readpast::admin::{JobFilter, JobState, QueueOptions};
use readpast::{Error, JobId, NewJob};
use readpast_devserver::DevServer;

use crate::support::{Fixture, WorkerSession, literal, text};

/// Has a job of a kind die of an error.
async fn dies(fixture: &Fixture, worker: &mut WorkerSession, kind: &str, error: &str) -> JobId {
    let job_id = fixture.queue.enqueue(&NewJob::text("x").kind(kind)).await.unwrap().job_id;
    let job = worker.claim_one().await;
    worker.finish(&[job.dead(error)]).await;
    job_id
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_are_grouped_by_what_their_errors_have_in_common() {
    let fixture = Fixture::new("failures").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut no_room = Vec::new();
    for (kind, page) in [("store", 7), ("store", 1_205), ("resize", 99)] {
        let error = format!("cannot store page {page}: no room\n  at line {page}");
        no_room.push(dies(&fixture, &mut worker, kind, &error).await);
    }
    let refused = dies(&fixture, &mut worker, "mail", "'maria' is unknown").await;
    let failures = fixture.queue.admin().failures(10_000).await.unwrap();
    assert_eq!(failures.looked_at, 4);
    let [first, second] = &failures.groups[..] else { panic!("two groups: {failures:?}") };
    assert_eq!((&first.pattern[..], first.count, first.example), ("cannot store page …: no room", 3, no_room[2]));
    assert_eq!(first.example_error, "cannot store page 99: no room\n  at line 99");
    assert_eq!(first.kinds, ["resize", "store"]);
    let ended = async |job: JobId| fixture.queue.admin().job(job, None).await.unwrap().unwrap().finished_at.unwrap();
    assert_eq!((first.first_at, first.last_at), (ended(no_room[0]).await, ended(no_room[2]).await));
    assert_eq!((&second.pattern[..], second.count, second.example), ("'…' is unknown", 1, refused));

    // By the text that they have in common, the list finds them.
    let like_these = JobFilter::from(JobState::Dead).error(first.search_text()).newest_first();
    let found: Vec<JobId> = fixture.queue.admin().list_ids(&like_these, None, 10).await.unwrap().jobs;
    assert_eq!(found, [no_room[2], no_room[1], no_room[0]]);

    let json = serde_json::to_value(&failures).unwrap();
    assert_eq!(json["groups"][0]["example"], no_room[2].0);
    assert!(json["groups"][0]["last_at"].as_str().unwrap().ends_with('Z'), "{json}");
    drop(worker);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_newest_are_looked_at() {
    let fixture = Fixture::new("newest_failures").await;
    let mut worker = WorkerSession::register(&fixture).await;
    for error in ["the oldest", "older", "newer", "the newest"] {
        dies(&fixture, &mut worker, "k", error).await;
        fixture.sql("UPDATE [$(schema)].[jobs] SET finished_at = DATEADD(HOUR, -1, finished_at)").await;
    }
    let failures = fixture.queue.admin().failures(2).await.unwrap();
    let patterns: Vec<&str> = failures.groups.iter().map(|group| &group.pattern[..]).collect();
    assert_eq!((failures.looked_at, patterns), (2, vec!["the newest", "newer"]));
    drop(worker);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_for_another_attempt_have_failures_of_their_own() {
    let fixture = Fixture::new("to_retry").await;
    let mut worker = WorkerSession::register(&fixture).await;
    dies(&fixture, &mut worker, "k", "dead").await;
    for ms in [60_000, 30_000] {
        fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
        let job = worker.claim_one().await;
        worker.finish(&[job.retry(ms, &format!("no answer within {ms} ms"))]).await;
    }
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let job = worker.claim_one().await;
    worker.finish(&[job.snooze(90_000, "too early")]).await;
    // One that never ran, and is due before them.
    fixture.queue.enqueue(&NewJob::text("x").delay(Duration::from_secs(10))).await.unwrap();
    let patterns = async |next: usize| {
        let failures = fixture.queue.admin().failures_to_retry(next).await.unwrap();
        let groups = failures.groups.into_iter().map(|group| (group.pattern, group.count));
        (failures.looked_at, groups.collect::<Vec<_>>())
    };
    let no_answer = |count| ("no answer within … ms".to_owned(), count);
    assert_eq!(patterns(10_000).await, (3, vec![no_answer(2), ("too early".to_owned(), 1)]));
    assert_eq!(patterns(3).await, (2, vec![no_answer(2)]));
    assert_eq!(patterns(1).await, (0, vec![]));
    drop(worker);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_jobs_that_cannot_be_is_refused() {
    let fixture = Fixture::new("refused_failures").await;
    for count in [0, 100_001, usize::MAX] {
        let error = fixture.queue.admin().failures(count).await.unwrap_err();
        let expected = "; it must be 1 to 100000";
        assert!(matches!(&error, Error::Refused { message, .. } if message.ends_with(expected)), "{error}");
    }
    let mut session = fixture.session().await;
    for (state, expected) in [
        ("N'done'", "state is 'done'; it must be dead or scheduled"),
        ("NULL", "state is NULL;"),
        ("''", "state is '';"),
    ] {
        let call = format!("EXEC [$(schema)].[list_errors] @queue = N'work', @state = {state}");
        let (number, message) = session.refusal(&call).await;
        assert_eq!(number, 58003);
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(session.refusal("EXEC [$(schema)].[list_errors] @queue = N'other'").await.0, 58001);
    drop(session);
    fixture.remove().await;
}

/// A character that takes two units of UTF-16 is not cut in two.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_cut_between_characters() {
    let fixture = Fixture::new("cut_errors").await;
    let mut worker = WorkerSession::register(&fixture).await;
    for (before, kept) in [(399, 399), (398, 400), (500, 400)] {
        let error = format!("{}😀😀", "x".repeat(before));
        dies(&fixture, &mut worker, "k", "x").await;
        let set = format!("UPDATE [$(schema)].[jobs] SET error = {} WHERE error = N'x'", literal(&error));
        fixture.sql(&set).await;
        let example = fixture.queue.admin().failures(1).await.unwrap().groups.remove(0).example_error;
        assert_eq!(example.encode_utf16().count(), kept, "{before}");
        assert!(error.starts_with(&example));
    }
    drop(worker);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_being_changed_is_left_out_and_waited_for_by_nobody() {
    let fixture = Fixture::new("locked_failures").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let job = dies(&fixture, &mut worker, "k", "no room").await;
    let mut holder = fixture.session().await;
    let change = format!("BEGIN TRANSACTION; UPDATE [$(schema)].[jobs] SET priority = 1 WHERE job_id = {}", job.0);
    holder.sql(&change).await;
    let look = "SET LOCK_TIMEOUT 0; EXEC [$(schema)].[list_errors] @queue = N'work'";
    dies(&fixture, &mut worker, "k", "no time").await;
    let rows = fixture.session().await.sql(look).await;
    assert_eq!(rows.iter().map(|row| text(row, "error").unwrap()).collect::<Vec<_>>(), ["no time"]);
    holder.sql("ROLLBACK TRANSACTION").await;
    drop((worker, holder));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_newest_costs_their_rows() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "cost_of_failures", QueueOptions::default()).await;
    let mut session = fixture.session().await;
    let add = |state: i32, first: i64| {
        format!(
            "INSERT [$(schema)].[jobs] (job_id, queue_id, payload_utf16, payload, state, ended, priority, enqueued_at, due_at, finished_at, error)
             SELECT {first} + n.value, 1, 0, 0x7B7D, {state}, CASE {state} WHEN 4 THEN 1 ELSE 0 END, 0, '2020-01-01', '2020-01-01',
                    DATEADD(SECOND, n.value / 1000, '2020-01-01'), CONCAT(N'no room on page ', n.value)
             FROM GENERATE_SERIES(1, 20000) AS n"
        )
    };
    session.sql(&add(4, 0)).await;
    session.sql(&add(1, 100_000)).await;
    let mut costs = async |state: &str| {
        let before = server.entries_read();
        let call = format!("EXEC [$(schema)].[list_errors] @queue = N'work', @state = '{state}', @max = 1000");
        let ids = session.numbers(&call).await;
        let read = server.entries_read() - before;
        assert!(read <= 2_100, "{state}: {read} entries read");
        ids
    };
    assert_eq!(costs("dead").await, (19_001..=20_000).rev().collect::<Vec<_>>());
    assert_eq!(costs("scheduled").await, (100_001..=101_000).collect::<Vec<_>>());
}
