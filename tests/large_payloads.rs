//! A payload that a link cannot carry in time: after some tries its job has failed an attempt and gives way; the others
//! run.

use std::time::Duration;

use readpast::admin::{JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Queue, Worker};

use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, numbers, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_never_arrives_does_not_stop_the_queue() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("undeliverable_payload", options).await;
    let large = fixture.queue.enqueue(&NewJob::bytes(vec![1; 12_000_000])).await.unwrap().job_id;
    fixture.queue.enqueue_many(&numbers(300)).await.unwrap();
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.connection.connect_timeout = Duration::from_secs(1);
    config.connection.command_timeout = Duration::from_secs(1);
    let queue = Queue::connect(&config).await.unwrap();
    proxy.throttle(1_500_000); // eight seconds for the large one
    let mut worker = changed(WorkerConfig::default(), |worker| {
        worker.lease = Duration::from_secs(60);
        worker.heartbeat_interval = Duration::from_millis(300);
    });
    worker.retry.base = Duration::from_millis(100);
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&worker).start().await.unwrap();
    let monitor = worker.monitor();

    until("the others are done", || monitor.stats().done == 300).await;
    until("its only attempt is used up", || monitor.stats().dead == 1).await;

    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    assert_eq!((dead.len(), dead[0].job_id, dead[0].attempt), (1, large, 1));
    let error = dead[0].error.as_deref().unwrap();
    assert!(error.contains("the payload of 12000000 bytes could not be delivered in 6 tries of 1000 ms"), "{error}");
    assert_eq!(monitor.stats().lost, 0);
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}
