//! `wait` and `drain`: each way in which it ends has its exit code.

use std::process::Stdio;
use std::time::Duration;

use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{Handlers, JobError, NewJob, Output, Worker};
use serde_json::json;

use crate::support::Fixture;

fn handle(job: &readpast::Job, _: &readpast::Context) -> Result<Output, readpast::BoxError> {
    match &*job.text()? {
        "dead" => Err(JobError::dead("it cannot be read").into()),
        text => Ok(Output::bytes(text.to_uppercase())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_tells_how_a_job_has_ended() {
    let fixture = Fixture::with("wait", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    let queue = fixture.queue("work").await;
    let jobs = [NewJob::text("done"), NewJob::text("dead"), NewJob::text("late").delay(Duration::from_secs(3_600))];
    let ids: Vec<String> =
        queue.enqueue_many(&jobs).await.unwrap().iter().map(|enqueued| enqueued.job_id.to_string()).collect();
    let waiting = fixture.command(&["wait", &ids[0]]).stdout(Stdio::piped()).spawn().unwrap();
    let worker = Worker::builder(&queue, Handlers::any(handle)).start().await.unwrap();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"DONE"[..]));
    let message = fixture.run(&["wait", &ids[1]]).failed(9);
    assert!(message.contains("is dead: it cannot be read"), "{message}");
    let message = fixture.run(&["wait", &ids[2], "--timeout", "10ms"]).failed(8);
    assert!(message.contains("did not finish within 10ms"), "{message}");
    fixture.run(&["cancel", "work", &ids[2], "--yes"]).ok();
    let run = fixture.run(&["wait", &ids[2], "--json"]);
    let line: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &line["end"]), (10, &json!("cancelled")));
    fixture.run(&["wait", "4711"]).failed(3);
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_when_nothing_is_left() {
    let fixture = Fixture::new("drain").await;
    let queue = fixture.queue("work").await;
    queue.enqueue_many(&[NewJob::text("a"), NewJob::text("dead")]).await.unwrap();
    let message = fixture.run(&["drain", "work", "--timeout", "10ms"]).failed(8);
    assert!(message.contains("work has 2 unfinished jobs"), "{message}");
    let worker = Worker::builder(&queue, Handlers::any(handle)).start().await.unwrap();
    assert_eq!(fixture.run(&["drain", "work"]).ok(), "work is empty, with 1 dead job\n");
    worker.shutdown().await.unwrap();
    queue.enqueue(&NewJob::text("late").delay(Duration::from_secs(3_600))).await.unwrap();
    fixture.run(&["drain", "work", "--timeout", "10ms"]).failed(8);
    fixture.run(&["drain", "work", "--not-scheduled"]).ok();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn drain_goes_on_after_the_server_was_away() {
    use crate::proxy::Proxy;
    use crate::pty::Terminal;

    let fixture = Fixture::new("drain_lost").await;
    let queue = fixture.queue("work").await;
    queue.enqueue(&NewJob::text("a")).await.unwrap();
    let proxy = Proxy::start(&fixture.url).await;
    let terminal = Terminal::start(&fixture.command_as(proxy.url(), &["drain", "work", "--timeout", "5m"]), 120, 24);
    terminal.until_it_says("0 of 1");
    proxy.close();
    terminal.until_it_says("retrying");
    proxy.open();
    let worker = Worker::builder(&queue, Handlers::any(handle)).start().await.unwrap();
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("work is empty"), "{screen}");
    worker.shutdown().await.unwrap();
}
