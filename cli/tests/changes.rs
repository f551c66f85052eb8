//! `requeue`, `cancel`, `purge`, `priority` and `promote`: by id, by filter, of many jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use readpast::admin::{JobChange, JobFilter, JobState, QueueOptions};
use readpast::{BoxError, Context, Handlers, Job, JobError, NewJob, Queue, Worker};
use serde_json::json;

use crate::support::{Fixture, Run, until};

/// A queue with jobs in some states: dead ones of two kinds, ready ones, scheduled ones.
async fn some_jobs(fixture: &Fixture) -> Queue {
    let queue = fixture.queue("work").await;
    queue
        .enqueue_many(&[NewJob::text("1").kind("a"), NewJob::text("2").kind("a"), NewJob::text("3").kind("b")])
        .await
        .unwrap();
    fixture.kill_all("work").await;
    let later = Duration::from_secs(3_600);
    queue.enqueue_many(&[NewJob::text("4"), NewJob::text("5"), NewJob::text("6").delay(later)]).await.unwrap();
    queue
}

async fn in_state(queue: &Queue, state: JobState) -> Vec<String> {
    let page = queue.admin().list(&JobFilter::from(state), None, 100).await.unwrap();
    let mut payloads: Vec<String> = page.jobs.iter().map(|job| job.payload_text().unwrap().into_owned()).collect();
    payloads.sort();
    payloads
}

fn changed(run: Run) -> (u64, u64) {
    let answer = run.json().remove(0);
    (answer["changed"].as_u64().unwrap(), answer["matched"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_come_back_by_filter_and_by_id() {
    let fixture = Fixture::new("requeue").await;
    let queue = some_jobs(&fixture).await;
    assert_eq!(fixture.run(&["requeue", "work", "--kind", "a", "--dry-run", "--json"]).json(), [json!({"matched": 2})]);
    assert_eq!(in_state(&queue, JobState::Dead).await, ["1", "2", "3"], "a dry run changes nothing");
    assert_eq!(changed(fixture.run(&["requeue", "work", "--kind", "a", "--yes", "--json"])), (2, 2));
    assert_eq!(in_state(&queue, JobState::Dead).await, ["3"]);
    let dead = queue.admin().list(&JobState::Dead.into(), None, 1).await.unwrap().jobs[0].job_id.to_string();
    assert_eq!(fixture.run(&["requeue", "work", &dead, "--yes"]).ok(), "requeued 1 of 1 job\n");
    assert_eq!(in_state(&queue, JobState::Ready).await, ["1", "2", "3", "4", "5"]);
    let run = fixture.run(&["requeue", "work", &dead, "--yes", "--json"]);
    assert_eq!(run.stdout, "{\"changed\":0,\"matched\":1}\n", "it is not dead any more");
    run.failed(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_were_named_and_cannot_be_changed_are_named() {
    let fixture = Fixture::new("named").await;
    let queue = some_jobs(&fixture).await;
    let dead: Vec<String> = queue
        .admin()
        .list(&JobState::Dead.into(), None, 10)
        .await
        .unwrap()
        .jobs
        .iter()
        .map(|job| job.job_id.to_string())
        .collect();
    let ready = queue.admin().list(&JobState::Ready.into(), None, 1).await.unwrap().jobs[0].job_id.to_string();
    let run = fixture.run(&["requeue", "work", &dead[0], "4711", &ready, &dead[0], &dead[1], "--yes"]);
    assert_eq!(run.stdout, "requeued 2 of 4 jobs\n", "each once: {run:?}");
    let message = run.failed(3);
    assert!(message.contains(&format!(": 4711, {ready}\n")) && message.contains("dead, cancelled"), "{message}");
    // Without --yes nobody is asked about nothing.
    let run = fixture.run(&["purge", "work", "4711"]);
    assert_eq!(run.stdout, "deleted 0 of 1 job\n");
    run.failed(3);
    let run = fixture.run(&["promote", "work", "4711", &ready]);
    assert_eq!(run.stdout, "made ready 0 of 2 jobs\n");
    assert!(run.failed(3).contains(&format!(": 4711, {ready}\n")));
    fixture.run(&["purge", "work", &dead[2], "--yes"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_may_get_another_payload() {
    let fixture = Fixture::new("payload").await;
    let queue = some_jobs(&fixture).await;
    let dead = queue.admin().list(&JobFilter::from(JobState::Dead).kind("b"), None, 1).await.unwrap().jobs[0].job_id;
    let id = dead.to_string();
    fixture.run(&["requeue", "work", &id, "--payload", "better", "--yes"]).ok();
    assert_eq!(queue.admin().job(dead, None).await.unwrap().unwrap().payload_text().unwrap(), "better");
    let message = fixture.run(&["requeue", "work", &id, "--payload", "again", "--yes"]).failed(3);
    assert!(message.contains("neither dead nor cancelled"), "{message}");
    fixture.run(&["requeue", "work", "--all", "--payload", "x", "--yes"]).failed(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_jobs_are_cancelled_and_dead_ones_are_left_alone() {
    let fixture = Fixture::new("cancel").await;
    let queue = some_jobs(&fixture).await;
    assert_eq!(
        changed(fixture.run(&["cancel", "work", "--all", "--why", "the customer left", "--yes", "--json"])),
        (3, 3)
    );
    assert_eq!(in_state(&queue, JobState::Cancelled).await, ["4", "5", "6"]);
    let page = queue.admin().list(&JobState::Cancelled.into(), None, 1).await.unwrap();
    assert!(page.jobs[0].error.as_deref().unwrap().contains("the customer left"));
    assert_eq!(in_state(&queue, JobState::Dead).await, ["1", "2", "3"]);
    let message = fixture.run(&["cancel", "work", "--state", "dead", "--yes"]).failed(2);
    assert!(message.contains("it must be one of scheduled, waiting, ready, claimed"), "{message}");
    assert_eq!(changed(fixture.run(&["requeue", "work", "--state", "cancelled", "--yes", "--json"])), (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_deleted_only_in_the_state_that_is_named() {
    let fixture = Fixture::new("purge").await;
    let queue = some_jobs(&fixture).await;
    let message = fixture.run(&["purge", "work", "--kind", "a", "--yes"]).failed(2);
    assert!(message.contains("--state"), "{message}");
    assert_eq!(changed(fixture.run(&["purge", "work", "--state", "dead", "--kind", "a", "--yes", "--json"])), (2, 2));
    assert_eq!(in_state(&queue, JobState::Dead).await, ["3"]);
    assert_eq!(
        changed(fixture.run(&["purge", "work", "--state", "dead", "--older-than", "1h", "--yes", "--json"])),
        (0, 0)
    );
    let ready = queue.admin().list(&JobState::Ready.into(), None, 1).await.unwrap().jobs[0].job_id.to_string();
    assert_eq!(changed(fixture.run(&["purge", "work", &ready, "--yes", "--json"])), (1, 1));
    assert_eq!(in_state(&queue, JobState::Ready).await, ["5"]);
    assert_eq!(in_state(&queue, JobState::Scheduled).await, ["6"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn priorities_and_due_times_are_changed() {
    let fixture = Fixture::new("priority").await;
    let queue = some_jobs(&fixture).await;
    assert_eq!(
        changed(fixture.run(&["priority", "work", "--state", "ready", "--to", "-10", "--yes", "--json"])),
        (2, 2)
    );
    let page = queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap();
    assert!(page.jobs.iter().all(|job| job.priority == -10));
    let scheduled = queue.admin().list(&JobState::Scheduled.into(), None, 1).await.unwrap().jobs[0].job_id.to_string();
    assert_eq!(fixture.run(&["promote", "work", &scheduled]).ok(), "made ready 1 of 1 job\n");
    assert_eq!(in_state(&queue, JobState::Ready).await, ["4", "5", "6"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_moves_back_in_the_list_is_counted_once() {
    let fixture = Fixture::new("moved").await;
    let queue = fixture.queue("work").await;
    queue.enqueue_many(&vec![NewJob::text("x"); 2_500]).await.unwrap();
    let command = ["priority", "work", "--all", "--to", "5", "--yes", "--json"];
    assert_eq!(changed(fixture.run(&command)), (2_500, 2_500));
    assert_eq!(changed(fixture.run(&command)), (0, 0), "they have it");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_at_the_question_is_a_no() {
    use crate::pty::Terminal;

    let fixture = Fixture::new("ctrl_c").await;
    let queue = some_jobs(&fixture).await;
    let mut terminal = Terminal::start(&fixture.command(&["purge", "work", "--state", "dead"]), 80, 24);
    terminal.until_it_says("Delete 3 jobs of work? [y/N]");
    terminal.press("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("nothing was done"), "{screen}");
    assert_eq!(in_state(&queue, JobState::Dead).await.len(), 3);
    // And an answer is still one.
    let mut terminal = Terminal::start(&fixture.command(&["purge", "work", "--state", "dead"]), 80, 24);
    terminal.until_it_says("[y/N]");
    terminal.press("y\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(in_state(&queue, JobState::Dead).await.len(), 0);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_is_heard_while_nothing_matches() {
    use crate::proxy::Proxy;
    use crate::pty::Terminal;

    let fixture = Fixture::new("ctrl_c_none").await;
    let proxy = Proxy::start(&fixture.url).await;
    proxy.stall();
    let command = fixture.command_as(proxy.url(), &["requeue", "work", "--kind", "none"]);
    let mut terminal = Terminal::start(&command, 80, 24);
    until("it connects", async || proxy.connections() == 1).await;
    terminal.press("\x03");
    proxy.open();
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("nothing was done"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_nobody_is_asked_and_nothing_is_done() {
    let fixture = Fixture::new("asked").await;
    let queue = some_jobs(&fixture).await;
    let message = fixture.run(&["purge", "work", "--state", "dead"]).failed(4);
    assert!(message.contains("to delete 3 jobs of work, pass --yes"), "{message}");
    assert_eq!(in_state(&queue, JobState::Dead).await.len(), 3);
    let message = fixture.run(&["purge", "work", "--yes"]).failed(2);
    assert!(message.contains("by ids, by a filter, or with --all"), "{message}");
    fixture.run(&["cancel", "work", "1", "--kind", "a", "--yes"]).failed(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_die_again_at_once_are_requeued_only_once() {
    const JOBS: u64 = 3_000;
    let fixture = Fixture::new("die_again").await;
    let queue = fixture.queue("work").await;
    queue.enqueue_many(&vec![NewJob::text("x"); JOBS as usize]).await.unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let counted = seen.clone();
    // Were they requeued for ever, it would give up at some time.
    let refuse = move |_: &readpast::Job, _: &readpast::Context| -> Result<(), readpast::BoxError> {
        let gives_up = counted.fetch_add(1, Ordering::Relaxed) > 5 * JOBS;
        if gives_up { Ok(()) } else { Err(JobError::dead("again").into()) }
    };
    let worker = Worker::builder(&queue, Handlers::any(refuse)).start().await.unwrap();
    let all_dead = async || queue.admin().stats(None).await.unwrap().dead == JOBS;
    until("all are dead", all_dead).await;
    // A few may be met again, where an answer takes longer than the job.
    let (_, matched) = changed(fixture.run(&["requeue", "work", "--all", "--yes", "--json"]));
    assert!((JOBS..JOBS + JOBS / 10).contains(&matched), "{matched}");
    until("all are dead again", all_dead).await;
    let before = seen.load(Ordering::Relaxed);
    let requeued = queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed;
    assert!((JOBS..JOBS + JOBS / 10).contains(&requeued), "{requeued} after {before}");
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_job_matches_nobody_is_asked_and_nothing_is_done() {
    let fixture = Fixture::new("none").await;
    assert_eq!(fixture.run(&["requeue", "work", "--all"]).ok(), "requeued 0 of 0 jobs\n");
    assert_eq!(changed(fixture.run(&["purge", "work", "--state", "done", "--json"])), (0, 0));
}

/// A million jobs, in a release build: `cargo test --release -p readpast-cli -- --ignored --nocapture a_million`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn a_million_jobs_are_requeued_and_deleted_with_bounded_memory() {
    many_jobs("million", 1_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_requeued_and_deleted_with_bounded_memory() {
    many_jobs("many", 10_000).await;
}

async fn many_jobs(name: &str, count: u64) {
    let fixture = Fixture::new(name).await;
    let queue = fixture.queue("work").await;
    for from in (0..count).step_by(10_000) {
        let jobs: Vec<NewJob> = (from..from + 10_000).map(|n| NewJob::text(n.to_string()).kind("x")).collect();
        queue.enqueue_many(&jobs).await.unwrap();
    }
    for (arguments, state) in [
        (vec!["cancel", "work", "--kind", "x", "--yes", "--json"], JobState::Cancelled),
        (vec!["requeue", "work", "--kind", "x", "--state", "cancelled", "--yes", "--json"], JobState::Ready),
        (vec!["purge", "work", "--kind", "x", "--state", "ready", "--yes", "--json"], JobState::Archived),
    ] {
        let begin = std::time::Instant::now();
        let (run, memory_kib) = fixture.run_measured(&arguments);
        assert_eq!(changed(run), (count, count), "{arguments:?}");
        println!("{} of {count} jobs: {:.1} s, {memory_kib} KiB", arguments[0], begin.elapsed().as_secs_f64());
        assert!(memory_kib < 120_000, "{} took {memory_kib} KiB", arguments[0]);
        let stats = queue.admin().stats(None).await.unwrap();
        let left = [stats.ready, stats.cancelled];
        let expected = match state {
            JobState::Cancelled => [0, count],
            JobState::Ready => [count, 0],
            _ => [0, 0],
        };
        assert_eq!(left, expected, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_that_halts_its_group_is_skipped() {
    let fixture = Fixture::with("skip", QueueOptions::default().halt_groups(true)).await;
    let queue = fixture.queue("work").await;
    let jobs = ["1", "2"].map(|text| NewJob::text(text).group_key("g"));
    let first = queue.enqueue_many(&jobs).await.unwrap()[0].job_id.to_string();
    let fails =
        Handlers::any(|_: &Job, _: &Context| -> Result<(), BoxError> { Err(JobError::dead("it fails").into()) });
    let worker = Worker::builder(&queue, fails).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.dead, 1);
    assert_eq!(in_state(&queue, JobState::Waiting).await, ["2"]);
    assert_eq!(fixture.run(&["job", &first, "--json"]).json()[0]["halts_group"], true);
    assert_eq!(changed(fixture.run(&["skip", "work", &first, "--yes", "--json"])), (1, 1));
    assert_eq!(changed(fixture.run(&["skip", "work", "--all", "--yes", "--json"])), (0, 1));
    assert_eq!(in_state(&queue, JobState::Ready).await, ["2"]);
}
