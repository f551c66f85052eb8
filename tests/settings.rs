//! Where a worker's settings come from: the configuration that its queue was connected with, a section of the program's
//! own file among them, or the builder. Callers share as many connections as `pool_size` allows.

use readpast::admin::QueueOptions;
use readpast::config::WorkerConfig;
use readpast::{Config, Handlers, NewJob, Queue, Worker};
use readpast_devserver::DevServer;
use tokio::task::JoinSet;

use crate::support::{Fixture, changed, numbers, text};

/// The name that a worker of the fixture's queue has registered with.
async fn registered_as(fixture: &Fixture) -> Option<String> {
    let rows = fixture.sql("SELECT TOP (1) name FROM [$(schema)].[workers] ORDER BY registered_at DESC").await;
    text(&rows[0], "name")
}

#[tokio::test]
async fn a_worker_has_the_settings_its_queue_was_connected_with_unless_it_is_given_others() {
    let mut fixture = Fixture::new("settings").await;
    let file = "greeting = 'hello'\n[queue.worker]\nname = 'of the file'\nthreads = 1\n";
    fixture.config.worker = Config::from_section(file, "queue").unwrap().worker;
    let queue = fixture.connect().await;
    let builder = || Worker::builder(&queue, Handlers::any(|_, _| Ok(())));
    let worker = builder().start().await.unwrap();
    assert_eq!(registered_as(&fixture).await.as_deref(), Some("of the file"));
    worker.drain().await.unwrap();
    let others = changed(fixture.config.worker.clone(), |worker| worker.name = "of the builder".to_string());
    let worker = builder().config(&others).start().await.unwrap();
    assert_eq!(registered_as(&fixture).await.as_deref(), Some("of the builder"));
    worker.drain().await.unwrap();
    drop(queue);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_share_as_many_connections_as_pool_size_says() {
    const CALLERS: usize = 40;
    let server = DevServer::start().await.unwrap();
    let mut fixture = Fixture::on(&server, "pool_size", QueueOptions::default()).await;
    fixture.config.connection.url = format!("{};Application Name=pooled", fixture.url()).into();
    fixture.config.connection.pool_size = 2;
    let queue = fixture.connect().await;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let queue = queue.clone();
        callers.spawn(async move { queue.enqueue(&NewJob::text("x")).await.unwrap() });
    }
    assert_eq!(callers.join_all().await.len(), CALLERS);
    let connections = "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE program_name = N'pooled'";
    assert_eq!(fixture.session().await.number(connections).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_setters_change_single_settings_of_the_queue() {
    let fixture = Fixture::new("setters").await;
    let handlers = || Handlers::any(|_, _| Ok(()));
    let queue: &Queue = &fixture.queue;
    let mut expected = fixture.config.worker.clone();
    expected.name = "setters".to_owned();
    expected.threads = 3;
    expected.take_over = true;
    let set = Worker::builder(queue, handlers()).name("setters").threads(3).take_over(true);
    assert_eq!(format!("{set:?}"), format!("{:?}", Worker::builder(queue, handlers()).config(&expected)));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_no_more_than_it_may_hold() {
    let fixture = Fixture::new("may_hold").await;
    fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.batch_size = 40;
        worker.max_in_flight = 30;
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!(summary.stats.done, 100);
    fixture.remove().await;
}
