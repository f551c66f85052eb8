//! Workers of an adopted table that are killed, and networks that cut and lose answers: no row is lost, none is with
//! two at a time, and nobody else gets what a worker holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use readpast::config::WorkerConfig;
use readpast::{Handlers, Queue, Worker};

use crate::adopted::{FOUR_QUEUE, SIMPLE_QUEUE, TABLES_AS_QUEUES, adopted_with, example, own_database};
use crate::support::child::{ChildWorker, Ledger};
use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, until};

/// Short times, so that a lost lease is noticed soon.
const SHORT: [(&str, &str); 5] = [
    ("WORKER_LEASE_MS", "3000"),
    ("WORKER_HEARTBEAT_INTERVAL_MS", "300"),
    ("WORKER_REAP_INTERVAL_MS", "100"),
    ("CONNECTION_CONNECT_TIMEOUT_MS", "3000"),
    ("CONNECTION_COMMAND_TIMEOUT_MS", "3000"),
];

async fn drained(queue: &Queue) {
    let give_up = Instant::now() + Duration::from_secs(120);
    loop {
        let stats = queue.admin().stats(None).await.unwrap();
        if stats.ready + stats.scheduled + stats.claimed == 0 {
            assert_eq!(stats.dead, 0);
            return;
        }
        assert!(Instant::now() < give_up, "rows are left: {stats:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Kills workers again and again; `left` counts what must not be there in the end.
async fn killed_again_and_again(test_name: &str, tables: &str, mapping: &str, fill: &str, rows: usize, left: &str) {
    // So many attempts that no row dies of the kills.
    let text = std::fs::read_to_string(format!("{}/examples/adopt/{mapping}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let plenty = |line: &str| if line.starts_with("max_attempts") { String::new() } else { format!("{line}\n") };
    let text = format!("max_attempts = 1000\n{}", text.lines().map(plenty).collect::<String>());
    let mapping = readpast_adopt::Mapping::from_toml(&text.replace(" AND attempts < 3", "")).unwrap();
    let (fixture, _) = adopted_with(test_name, tables, &mapping).await;
    let mut session = fixture.session().await;
    session.sql(fill).await;
    let url = own_database(&fixture);
    let ledger = Ledger::new();
    let start = async |number: usize| {
        let name = format!("worker {number}");
        let mut settings = SHORT.to_vec();
        settings.extend([
            ("URL", url.as_str()),
            ("WORKER_NAME", &name),
            ("WORKER_BATCH_SIZE", "50"),
            ("WORKER_BUFFER", "100"),
        ]);
        ChildWorker::start(&fixture, &ledger, &settings).await
    };
    let mut workers = Vec::new();
    for number in 0..4 {
        workers.push(start(number).await);
    }
    for kill in 1..=6 {
        until("some more rows were handled", || ledger.lines() >= 2 * kill * rows / 8).await;
        let victim = fastrand::usize(..workers.len());
        workers[victim].kill().await;
        workers[victim] = start(3 + kill).await;
    }
    drained(&fixture.queue).await;
    for worker in workers {
        worker.stop().await;
    }
    let handled = ledger.rows();
    assert_eq!(handled.len(), rows, "every row was handled");
    // A row runs again only when its worker was killed with it, and a worker holds 100 at the most, and what runs.
    let again = handled.values().filter(|times| **times > 1).count();
    assert!(again <= 6 * 150, "{again} rows were handled again");
    assert_eq!(session.numbers(left).await, [0]);
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[jobs]").await, 0);
    drop(session);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_of_a_marked_table_is_lost_with_its_worker() {
    killed_again_and_again(
        "adopt_killed",
        SIMPLE_QUEUE,
        "simple-queue.toml",
        "INSERT SimpleQueue (Id, CreatedAt, Payload) SELECT NEWID(), SYSUTCDATETIME(), CONCAT(N'row ', value) FROM \
         GENERATE_SERIES(1, 4000)",
        4_000,
        "SELECT COUNT(*) FROM SimpleQueue",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_that_a_claim_has_taken_out_is_lost_with_its_worker() {
    killed_again_and_again(
        "adopt_killed_fifo",
        TABLES_AS_QUEUES,
        "fifo-queue.toml",
        "INSERT FifoQueue (Payload) SELECT CAST(CONCAT('row ', value) AS varbinary(max)) FROM GENERATE_SERIES(1, 4000)",
        4_000,
        "SELECT COUNT(*) FROM FifoQueue",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_that_stays_when_it_is_done_is_lost_with_its_worker() {
    killed_again_and_again(
        "adopt_killed_four",
        FOUR_QUEUE,
        "four-queue.toml",
        "INSERT dbo.four_queue (reputation) SELECT value FROM GENERATE_SERIES(1, 2000)",
        2_000,
        "SELECT COUNT(*) FROM dbo.four_queue WHERE in_process = 0 OR end_date > SYSDATETIME()",
    )
    .await;
}

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
