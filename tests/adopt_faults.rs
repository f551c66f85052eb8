//! Workers of an adopted table behind networks that cut and lose answers: no row is lost, and none is with two at a time.
//! (`adopt_articles` kills workers.)

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::config::WorkerConfig;
use readpast::{Handlers, Queue, Worker};

use crate::adopted::{SIMPLE_QUEUE, TABLES_AS_QUEUES, adopted_with, example};
use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, until};

/// A worker behind a network with faults, and how often it has handled each row.
async fn behind(proxy: &Proxy, fixture: &Fixture) -> (Worker, Arc<Mutex<HashMap<String, u32>>>) {
    let mut config = fixture.config.clone();
    let database = fixture.database().expect("a database of its own");
    config.connection.url = format!("{};Database={database}", proxy.connection_string()).into();
    config.connection.connect_timeout = Duration::from_secs(1);
    config.connection.command_timeout = Duration::from_secs(1);
    let queue = Queue::connect(&config).await.unwrap();
    let settings = changed(WorkerConfig::default(), |worker| {
        worker.lease = Duration::from_secs(60);
        worker.heartbeat_interval = Duration::from_millis(300);
        worker.batch_size = 50;
        worker.buffer = 100;
    });
    let handled = Arc::<Mutex<HashMap<String, u32>>>::default();
    let noted = handled.clone();
    let handler = move |job: &readpast::Job, _: &readpast::Context| -> Result<(), readpast::BoxError> {
        std::thread::sleep(Duration::from_micros(300));
        *noted.lock().entry(job.text()?.into_owned()).or_default() += 1;
        Ok(())
    };
    let worker = Worker::builder(&queue, Handlers::any(handler)).config(&settings).start().await.unwrap();
    (worker, handled)
}

async fn each_once_through(
    test_name: &str,
    tables: &str,
    mapping: &str,
    fill: &str,
    faults: impl AsyncFn(&Proxy, &dyn Fn() -> usize),
) {
    let (fixture, _) = adopted_with(test_name, tables, &example(mapping)).await;
    let mut session = fixture.session().await;
    session.sql(fill).await;
    let proxy = Proxy::start(fixture.url()).await;
    let (worker, handled) = behind(&proxy, &fixture).await;
    let count = || handled.lock().len();
    faults(&proxy, &count).await;
    tokio::time::timeout(Duration::from_secs(90), worker.drain()).await.expect("it ends").unwrap();
    let handled = handled.lock().clone();
    assert_eq!(handled.len(), 2_000, "every row was handled");
    let twice: Vec<_> = handled.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "each once: {twice:?}");
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 0);
    drop(session);
    fixture.remove().await;
}

const FILL_SIMPLE: &str = "INSERT SimpleQueue (Id, CreatedAt, Payload) SELECT NEWID(), SYSUTCDATETIME(), CONCAT(N'row \
                           ', value) FROM GENERATE_SERIES(1, 2000)";
const FILL_FIFO: &str =
    "INSERT FifoQueue (Payload) SELECT CAST(CONCAT('row ', value) AS varbinary(max)) FROM GENERATE_SERIES(1, 2000)";

async fn cuts(proxy: &Proxy, handled: &dyn Fn() -> usize) {
    for cut in 1..=5 {
        until("some more rows were handled", || handled() >= cut * 300).await;
        proxy.cut();
    }
}

async fn lost_answers(proxy: &Proxy, handled: &dyn Fn() -> usize) {
    for (round, procedure) in ["claim", "finish", "claim", "finish"].into_iter().enumerate() {
        until("some more rows were handled", || handled() >= (round + 1) * 300).await;
        proxy.reset_answer(procedure, 20);
        until("the fault has happened", || proxy.has_sprung() || handled() == 2_000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_cuts_loses_no_row_and_runs_none_twice() {
    each_once_through("adopt_cut", SIMPLE_QUEUE, "simple-queue.toml", FILL_SIMPLE, cuts).await;
    each_once_through("adopt_cut_fifo", TABLES_AS_QUEUES, "fifo-queue.toml", FILL_FIFO, cuts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_loses_no_row_and_runs_none_twice() {
    each_once_through("adopt_answers", SIMPLE_QUEUE, "simple-queue.toml", FILL_SIMPLE, lost_answers).await;
    each_once_through("adopt_answers_fifo", TABLES_AS_QUEUES, "fifo-queue.toml", FILL_FIFO, lost_answers).await;
}
