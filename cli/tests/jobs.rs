//! `jobs` and `job`: lists, filters, JSON, and everything about one job.

use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobFilter, JobState, QueueOptions};
use readpast::{Handlers, NewJob, Worker};
use serde_json::json;

use crate::support::{Fixture, snapshot, until};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_as_a_table_and_as_json() {
    let fixture = Fixture::new("jobs").await;
    let queue = fixture.queue("work").await;
    queue.enqueue_many(&[NewJob::text("a.png").kind("resize"), NewJob::bytes([0, 159])]).await.unwrap();
    snapshot("jobs", &fixture.run(&["jobs", "work"]).ok());
    let jobs = fixture.run(&["jobs", "work", "--json", "--kind", "resize"]).json();
    let row = queue.admin().list(&JobFilter::all().kind("resize"), None, 10).await.unwrap().jobs.remove(0);
    assert_eq!(jobs, [serde_json::to_value(&row).unwrap()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_filter_is_passed_on() {
    let fixture = Fixture::new("filters").await;
    let queue = fixture.queue("work").await;
    let batch = queue.create_batch(&readpast::NewBatch::new()).await.unwrap();
    let id = readpast::crates::uuid::Uuid::new_v4();
    let jobs = [
        NewJob::text("0").kind("resize"),
        NewJob::text("1").dedup_key("k1"),
        NewJob::text("2").group_key("g1"),
        NewJob::text("3").batch(batch),
        NewJob::text("4").correlation_id(id),
        NewJob::text("5").delay(Duration::from_secs(3_600)),
    ];
    queue.enqueue_many(&jobs).await.unwrap();
    let (batch, id) = (batch.to_string(), id.to_string());
    for (filter, payload) in [
        (["--kind", "resize"], "0"),
        (["--key", "k1"], "1"),
        (["--group", "g1"], "2"),
        (["--batch", &batch], "3"),
        (["--correlation-id", &id], "4"),
        (["--state", "scheduled"], "5"),
    ] {
        let listed = fixture.run(&["jobs", "work", "--json", filter[0], filter[1]]).json();
        let payloads: Vec<&str> = listed.iter().map(|job| job["payload_text"].as_str().unwrap()).collect();
        assert_eq!(payloads, [payload], "{filter:?}");
    }
    let none = ["jobs", "work", "--older-than", "1h"];
    assert_eq!(fixture.run(&none).ok(), "no job matches\n");
    let limited = fixture.run(&["jobs", "work", "--json", "--limit", "2"]).json();
    assert_eq!(limited.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_shows_its_payload_and_every_failed_attempt() {
    let fixture = Fixture::with("dead_job", QueueOptions::default().max_attempts(2)).await;
    let queue = fixture.queue("work").await;
    let mut config = fixture.config("work").worker;
    config.retry.base = Duration::from_millis(1);
    config.retry.max = Duration::from_millis(1);
    config.name = "worker-1".to_owned();
    let job = NewJob::text(r#"{"width":640,"of":"a.png"}"#).kind("resize").header("tenant", "acme");
    let job_id = queue.enqueue(&job).await.unwrap().job_id;
    let handler = |job: &readpast::Job, context: &readpast::Context| -> Result<(), readpast::BoxError> {
        context.progress(0.5, "half of it");
        Err(format!("no memory left at {}", job.attempt()).into())
    };
    let worker = Worker::builder(&queue, Handlers::any(handler)).config(&config).start().await.unwrap();
    worker.drain().await.unwrap();

    let id = job_id.to_string();
    snapshot("dead_job", &fixture.run(&["job", &id]).ok());
    let shown = fixture.run(&["job", &id, "--json"]).json().remove(0);
    assert_eq!((&shown["queue"], &shown["state"], &shown["attempt"]), (&json!("work"), &json!("dead"), &json!(2)));
    assert_eq!(shown["failed_attempts"].as_array().unwrap().len(), 2);
    assert_eq!(shown["failed_attempts"][0]["error"], "no memory left at 1");
    assert_eq!(shown["progress"]["text"], "half of it");
    assert_eq!(queue.admin().job(job_id, None).await.unwrap().unwrap().state, JobState::Dead);
}

#[tokio::test(flavor = "multi_thread")]
async fn payload_and_output_are_shown_as_json_text_or_digits() {
    let fixture = Fixture::with("forms", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let queue = fixture.queue("work").await;
    let job_id = queue.enqueue(&NewJob::bytes([0, 1, 2, 255])).await.unwrap().job_id;
    let handler = |_: &readpast::Job, _: &readpast::Context| Ok(readpast::Output::bytes("a\u{1b}[2Jb"));
    Worker::builder(&queue, Handlers::any(handler)).start().await.unwrap().drain().await.unwrap();
    let id = job_id.to_string();
    let auto = fixture.run(&["job", &id]).ok();
    assert!(auto.contains("payload\n00000000  00 01 02 ff"), "{auto}");
    assert!(auto.contains("output\na\\u{1b}[2Jb"), "nothing that steers a terminal comes through: {auto}");
    let hex = fixture.run(&["job", &id, "--form", "hex"]).ok();
    assert!(hex.contains("output\n00000000  61 1b 5b 32 4a 62"), "{hex}");
    let text = fixture.run(&["job", &id, "--form", "text"]).ok();
    assert!(text.contains("payload\n\\u{0}\\u{1}\\u{2}\u{fffd}"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_costs_no_more_than_it_shows() {
    let fixture = Fixture::new("large").await;
    let queue = fixture.queue("work").await;
    for n in 0..8 {
        queue.enqueue(&NewJob::text(format!("{n}{}", "ü".repeat(4 << 20)))).await.unwrap();
    }
    let (run, memory_kib) = fixture.run_measured(&["jobs", "work"]);
    let table = run.ok();
    assert!(table.contains(&format!("7{}…", "ü".repeat(38))), "{table}");
    let (whole, whole_kib) = fixture.run_measured(&["jobs", "work", "--json"]);
    let jobs = whole.json();
    assert_eq!(jobs.len(), 8);
    assert!(jobs.iter().all(|job| job["payload_bytes"] == json!((8 << 20) + 1)));
    assert_eq!(jobs[7]["payload_text"].as_str().unwrap().len(), (8 << 20) + 1);
    // A payload has 8 MiB: the table keeps none of them, JSON one at a time.
    assert!(memory_kib + (4 << 10) < whole_kib && whole_kib < 120_000, "{memory_kib} and {whole_kib} KiB");
    queue.enqueue(&NewJob::bytes(vec![0xff; 1_000])).await.unwrap();
    assert!(fixture.run(&["jobs", "work"]).ok().contains("1,000 bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_not_there_is_not_found() {
    let fixture = Fixture::new("no_job").await;
    let message = fixture.run(&["job", "4711"]).failed(3);
    assert!(message.contains("there is no job 4711"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_when_they_ended_the_newest_first() {
    let fixture = Fixture::new("times").await;
    let queue = fixture.queue("work").await;
    queue.enqueue_many(&["1", "2", "3"].map(NewJob::text)).await.unwrap();
    fixture.kill_all("work").await;
    for day in 1..=3 {
        let ended = format!("UPDATE [{}].[jobs] SET finished_at = '2026-01-0{day}T12:00:00'", fixture.schema);
        fixture.sql(&format!("{ended} WHERE payload = CAST(N'{day}' AS varbinary(max))")).await;
    }
    let payloads = |more: &[&str]| -> String {
        let listed = fixture.run(&[&["jobs", "work", "--state", "dead", "--json"], more].concat()).json();
        listed.iter().map(|job| job["payload_text"].as_str().unwrap()).collect()
    };
    assert_eq!(payloads(&[]), "123");
    assert_eq!(payloads(&["--newest"]), "321");
    assert_eq!(payloads(&["--newest", "--limit", "1"]), "3");
    assert_eq!(payloads(&["--since", "2026-01-02T12:00"]), "23", "that very moment counts");
    assert_eq!(payloads(&["--until", "2026-01-02T12:00:00Z"]), "1", "that very moment does not count");
    assert_eq!(payloads(&["--since", "2026-01-02", "--until", "2026-01-03"]), "2");
    let said = fixture.run(&["jobs", "work", "--since", "yesterday"]).failed(2);
    assert!(said.contains("write it as 2026-11-23T10:20 (UTC)"), "{said}");
    let said = fixture.run(&["jobs", "work", "--newest"]).failed(2);
    assert!(said.contains("--newest needs --state"), "{said}");
    // What is done to jobs takes the same times.
    fixture.run(&["requeue", "work", "--since", "2026-01-02", "--until", "2026-01-03", "--yes"]).ok();
    assert_eq!(payloads(&[]), "13");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_the_worker_that_holds_them() {
    let fixture = Fixture::new("held").await;
    let queue = fixture.queue("work").await;
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    let handler = move |_: &readpast::Job, _: &readpast::Context| -> Result<(), readpast::BoxError> {
        let _ = ended.lock().unwrap().recv(); // until the test is over
        Ok(())
    };
    let worker = Worker::builder(&queue, Handlers::any(handler)).start().await.unwrap();
    let id = queue.enqueue(&NewJob::text("held")).await.unwrap().job_id;
    until("it is claimed", async || queue.admin().stats(None).await.unwrap().claimed == 1).await;
    queue.enqueue(&NewJob::text("later").delay(Duration::from_secs(3_600))).await.unwrap();
    let workers = fixture.run(&["workers", "--json"]).json();
    let holder = workers[0]["worker_id"].as_str().unwrap();
    let held = fixture.run(&["jobs", "work", "--worker", holder, "--json"]).json();
    assert_eq!(held.iter().map(|job| job["job_id"].as_i64().unwrap()).collect::<Vec<_>>(), [id.0]);
    let nobody = readpast::crates::uuid::Uuid::new_v4().to_string();
    assert_eq!(fixture.run(&["jobs", "work", "--worker", &nobody]).ok(), "no job matches\n");
    fixture.run(&["jobs", "work", "--worker", holder, "--state", "dead"]).failed(2);
    drop(end);
    worker.shutdown().await.unwrap();
}
