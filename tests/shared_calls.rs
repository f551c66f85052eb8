//! Callers of `enqueue` that come at the same time share calls, and notice nothing of each other.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};

use readpast::admin::QueueOptions;
use readpast::{Enqueued, Error, NewJob, Queue};
use tiberius::Row;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::support::proxy::Proxy;
use crate::support::{Fixture, bytes, dev_server, number, until};

const CALLERS: usize = 60;

/// How many calls are under way before other callers' jobs wait.
const AT_ONCE: usize = 2;

/// A queue whose first calls of `enqueue` are held by the server until they are released.
struct Held {
    fixture: Fixture,
    arrived: Arc<AtomicUsize>,
    shared: Arc<AtomicUsize>,
    gates: Arc<[Barrier; AT_ONCE]>,
}

impl Held {
    async fn new(test_name: &str, options: QueueOptions) -> Held {
        let fixture = Fixture::on_dev_server(test_name, options).await;
        let (arrived, shared) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let gates = Arc::new([Barrier::new(2), Barrier::new(2)]);
        let faults = dev_server().await.faults();
        faults.on_call(&fixture.procedure_to_fail("enqueue"), {
            let (arrived, gates) = (arrived.clone(), gates.clone());
            move |call| {
                arrived.fetch_add(1, Ordering::AcqRel);
                if let Some(gate) = gates.get(call as usize - 1) {
                    gate.wait();
                }
                None
            }
        });
        let counted = shared.clone();
        faults.on_call(&fixture.procedure_to_fail("enqueue_batch"), move |_| {
            counted.fetch_add(1, Ordering::AcqRel);
            None
        });
        Held { fixture, arrived, shared, gates }
    }

    async fn jobs(&self) -> Vec<Row> {
        self.fixture.sql(&format!("SELECT job_id, payload FROM [{}].[jobs]", self.fixture.schema())).await
    }

    /// Enqueues jobs until as many calls are held as are under way at a time.
    async fn hold(&self) -> Vec<Caller> {
        let held = (0..AT_ONCE).map(|_| caller(&self.fixture.queue, NewJob::text("held"))).collect();
        until("the calls are held", || self.arrived.load(Ordering::Acquire) == AT_ONCE).await;
        held
    }

    fn release(&self, call: usize) {
        self.gates[call].wait();
    }
}

type Caller = JoinHandle<Result<Enqueued, Error>>;

fn caller(queue: &Queue, job: NewJob) -> Caller {
    let queue = queue.clone();
    tokio::spawn(async move { queue.enqueue(&job).await })
}

/// Begins a call, which hands the job in and waits.
fn handed_in<'a>(queue: &'a Queue, job: &'a NewJob) -> impl Future<Output = Result<Enqueued, Error>> + 'a {
    let mut waiting = Box::pin(queue.enqueue(job));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    waiting
}

async fn ended(callers: Vec<Caller>) -> Vec<Result<Enqueued, Error>> {
    let mut results = Vec::new();
    for caller in callers {
        results.push(caller.await.unwrap());
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_come_while_calls_are_under_way_are_sent_together() {
    let held = Held::new("together", QueueOptions::default()).await;
    let stuck = held.hold().await;
    let jobs: Vec<NewJob> = (0..CALLERS).map(|number| NewJob::text(number.to_string())).collect();
    let callers: Vec<_> = jobs.iter().map(|job| handed_in(&held.fixture.queue, job)).collect();
    held.release(0);
    until("the next call is sent", || held.shared.load(Ordering::Acquire) == 1).await;
    let mut ids = Vec::new();
    for caller in callers {
        ids.push(caller.await.unwrap().job_id.0);
    }
    assert_eq!(held.arrived.load(Ordering::Acquire), AT_ONCE, "no job was sent alone");
    // Each caller got the id of its own job.
    for row in held.jobs().await {
        let text = String::from_utf8(bytes(&row, "payload").unwrap()).unwrap();
        let Ok(place) = text.parse::<usize>() else { continue };
        assert_eq!(ids[place], number(&row, "job_id"));
    }
    held.release(1);
    assert!(ended(stuck).await.iter().all(Result::is_ok));
    assert_eq!(held.fixture.job_counts().await.ready, (CALLERS + AT_ONCE) as i64);
    held.fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_room_for_some_the_others_are_refused() {
    const ROOM: u32 = 10;
    let held = Held::new("some", QueueOptions::default().max_depth(ROOM)).await;
    let stuck = held.hold().await;
    let jobs: Vec<NewJob> = (0..CALLERS).map(|_| NewJob::text("x")).collect();
    let callers: Vec<_> = jobs.iter().map(|job| handed_in(&held.fixture.queue, job)).collect();
    held.release(0);
    let mut added = 0;
    for caller in callers {
        match caller.await {
            Ok(_) => added += 1,
            Err(error) => assert!(matches!(error, Error::QueueFull { .. }), "{error}"),
        }
    }
    assert_eq!(held.arrived.load(Ordering::Acquire), AT_ONCE, "no job was sent alone");
    held.release(1);
    added += ended(stuck).await.iter().filter(|result| result.is_ok()).count();
    assert!((ROOM as usize..=ROOM as usize + AT_ONCE).contains(&added), "{added}");
    assert_eq!(held.fixture.job_counts().await.ready, added as i64);
    held.fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_all_calls_are_stuck_the_others_are_sent_alone() {
    let held = Held::new("stuck", QueueOptions::default()).await;
    let stuck = held.hold().await;
    let callers = (0..CALLERS).map(|_| caller(&held.fixture.queue, NewJob::text("x"))).collect();
    assert!(ended(callers).await.iter().all(Result::is_ok));
    assert!(stuck.iter().all(|caller| !caller.is_finished()));
    (0..AT_ONCE).for_each(|call| held.release(call));
    assert!(ended(stuck).await.iter().all(Result::is_ok));
    assert_eq!(held.fixture.job_counts().await.ready, (CALLERS + AT_ONCE) as i64);
    held.fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_sql_server_rejects_fails_alone() {
    let held = Held::new("rejected", QueueOptions::default()).await;
    let stuck = held.hold().await;
    let refuses = "CREATE TRIGGER [$(schema)].[refuses] ON [$(schema)].[jobs] AFTER INSERT AS
        IF EXISTS (SELECT 1 FROM inserted WHERE kind = 'unwanted') THROW 50001, N'unwanted', 1";
    held.fixture.session().await.sql(refuses).await;
    let jobs: Vec<NewJob> = (0..9).map(|_| NewJob::text("x")).chain([NewJob::text("x").kind("unwanted")]).collect();
    let callers: Vec<_> = jobs.iter().map(|job| handed_in(&held.fixture.queue, job)).collect();
    held.release(0);
    until("the next call is sent", || held.shared.load(Ordering::Acquire) == 1).await;
    let mut results = Vec::new();
    for caller in callers {
        results.push(caller.await);
    }
    let error = results.pop().unwrap().unwrap_err();
    assert_eq!(error.sql_number(), Some(50_001), "{error}");
    let ids: HashSet<i64> = results.into_iter().map(|result| result.unwrap().job_id.0).collect();
    assert_eq!(ids.len(), 9);
    held.release(1);
    assert!(ended(stuck).await.iter().all(Result::is_ok));
    assert_eq!(held.fixture.job_counts().await.ready, (9 + AT_ONCE) as i64);
    held.fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_dropped_leaves_the_jobs_of_others_alone() {
    let held = Held::new("dropped", QueueOptions::default()).await;
    let stuck = held.hold().await;
    let (queue, job) = (&held.fixture.queue, NewJob::text("withdrawn"));
    let waiting = handed_in(queue, &job);
    drop(waiting);
    let callers = (0..9).map(|_| caller(queue, NewJob::text("x"))).collect();
    // The callers of the calls that are stuck go, too.
    stuck.iter().for_each(JoinHandle::abort);
    assert!(ended(callers).await.iter().all(Result::is_ok));
    (0..AT_ONCE).for_each(|call| held.release(call));
    let is_withdrawn = |row: &Row| bytes(row, "payload").unwrap() == b"withdrawn";
    assert!(!held.jobs().await.iter().any(is_withdrawn), "it was dropped before it was sent");
    held.fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_each_caller_of_a_shared_call_is_in_doubt() {
    let fixture = Fixture::new("shared_in_doubt").await;
    let (proxy, queue, stuck) = stuck_behind_proxy(&fixture).await;
    let job = NewJob::text("x");
    let callers: Vec<_> = (0..9).map(|_| handed_in(&queue, &job)).collect();
    proxy.reset_answer("enqueue_batch", 0);
    stuck[0].abort();
    until("the next call is sent", || proxy.has_sprung()).await;
    for caller in callers {
        let error = caller.await.unwrap_err();
        assert!(matches!(&error, Error::EnqueueInDoubt { jobs: 1, cause, .. } if cause.is_transient()), "{error}");
    }
    assert_eq!(fixture.job_counts().await.ready, (AT_ONCE + 9) as i64, "they were sent once");
    stuck[1].abort();
    fixture.remove().await;
}

#[test]
fn a_runtime_that_stops_in_a_shared_call_puts_the_jobs_of_the_others_in_doubt() {
    let (own, other) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    own.block_on(async {
        let fixture = Fixture::new("runtime_stops").await;
        let (proxy, queue, stuck) = stuck_behind_proxy(&fixture).await;
        let job = NewJob::text("x");
        // The first of the waiting callers runs the call.
        let _waits_first = {
            let _entered = other.enter();
            handed_in(&queue, &job)
        };
        let here = handed_in(&queue, &job);
        proxy.stall_request("enqueue_batch");
        stuck[0].abort();
        until("the shared call is sent", || proxy.has_sprung()).await;
        other.shutdown_background();
        let error = here.await.unwrap_err();
        assert!(matches!(error, Error::EnqueueInDoubt { jobs: 1, .. }), "{error}");
        assert!(error.to_string().contains("runtime"), "{error}");
        // Its call has ended as any other does.
        let callers = (0..9).map(|_| caller(&queue, NewJob::text("x"))).collect();
        assert!(ended(callers).await.iter().all(Result::is_ok));
        stuck[1].abort();
        fixture.remove().await;
    });
}

/// A queue whose calls are all under way: the answers do not come.
async fn stuck_behind_proxy(fixture: &Fixture) -> (Proxy, Queue, Vec<Caller>) {
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    let queue = Queue::connect(&config).await.unwrap();
    let mut stuck = Vec::new();
    for _ in 0..AT_ONCE {
        proxy.stall_answer("enqueue", 0);
        stuck.push(caller(&queue, NewJob::text("stuck")));
    }
    until("the calls are stuck", || proxy.has_sprung()).await;
    (proxy, queue, stuck)
}
