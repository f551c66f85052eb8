//! `workers`: who works, as JSON and as a table.

use std::time::Duration;

use readpast::{Handlers, NewJob, Worker};

use crate::support::{Fixture, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_listed_with_what_it_holds() {
    let fixture = Fixture::new("workers").await;
    assert_eq!(fixture.run(&["workers"]).ok(), "no worker has a lease; --lost includes stopped and lost workers\n");
    let queue = fixture.queue("work").await;
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    let handler = move |_: &readpast::Job, _: &readpast::Context| -> Result<(), readpast::BoxError> {
        let _ = ended.lock().unwrap().recv(); // until the test is over
        Ok(())
    };
    let mut config = fixture.config("work").worker;
    config.name = "worker-1".to_owned();
    config.heartbeat_interval = Duration::from_millis(200);
    config.threads = 2;
    let worker = Worker::builder(&queue, Handlers::any(handler)).config(&config).start().await.unwrap();
    queue.enqueue(&NewJob::text("long")).await.unwrap();
    until("its heartbeat has told", async || {
        queue.admin().workers(std::time::Duration::MAX).await.unwrap()[0].running == Some(1)
    })
    .await;
    let listed = fixture.run(&["workers", "work", "--json"]).json();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((listed[0]["name"].as_str(), listed[0]["held"].as_u64()), (Some("worker-1"), Some(1)));
    let table = fixture.run(&["workers"]).ok();
    assert!(table.lines().nth(1).unwrap().starts_with("work") && table.contains("worker-1"), "{table}");
    drop(end);
    worker.shutdown().await.unwrap();
    assert_eq!(fixture.run(&["workers"]).ok(), "no worker has a lease; --lost includes stopped and lost workers\n");
    assert!(fixture.run(&["workers", "--lost"]).ok().contains("ended "));
}
