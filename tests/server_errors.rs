//! Errors that SQL Server raises: those that pass are tried again, those that do not stop the worker, and neither drops
//! a job.
//!
//! The errors are raised on demand, which only the dev server can do: these tests use it whatever `READPAST_URL` says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use readpast::admin::{QueueOptions, Schedule};
use readpast::config::WorkerConfig;
use readpast::{Error, Handlers, JobError, NewJob, Output, Queue, Worker};
use readpast_devserver::DevServer;
use readpast_devserver::SqlError;

use crate::support::child::{ChildWorker, Ledger};
use crate::support::counted::{assert_each_once, counting_worker, drained};
use crate::support::proxy::Proxy;
use crate::support::{Fixture, WorkerSession, changed, dev_server, numbers, until};

/// What a worker calls.
const PROCEDURES: [&str; 8] =
    ["claim", "finish", "release", "recover", "heartbeat", "promote", "reap", "unregister_worker"];

/// Deadlock victim, lock time-out; then what Azure SQL says when it throttles, is busy, moves or reconfigures a
/// database, or ends a session; out of memory, of locks, of log space, of disk space; a slow disk; a database that
/// comes or goes.
const PASSING: [(i32, u8); 17] = [
    (1205, 13),
    (1222, 16),
    (40501, 20),
    (40197, 17),
    (40613, 17),
    (10928, 16),
    (10929, 16),
    (49918, 16),
    (701, 17),
    (1204, 19),
    (9002, 17),
    (1101, 17),
    (1105, 17),
    (845, 17),
    (40544, 20),
    (40549, 16),
    (952, 16),
];

async fn fixture(test_name: &str) -> Fixture {
    Fixture::on_dev_server(test_name, QueueOptions::default()).await
}

async fn on_call(fixture: &Fixture, procedure: &str, decide: impl Fn(u64) -> Option<SqlError> + Send + Sync + 'static) {
    dev_server().await.faults().on_call(&fixture.procedure_to_fail(procedure), decide);
}

fn error(number: i32, severity: u8) -> SqlError {
    SqlError::new(number, format!("raised by a test ({number})")).severity(severity)
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_pass_at_random_on_any_procedure_lose_and_repeat_nothing() {
    let fixture = fixture("passing").await;
    fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.batch_size = 50;
        worker.finish_batch_size = 50;
        worker.heartbeat_interval = Duration::from_millis(100);
        worker.promote_interval = Duration::from_millis(50);
        worker.reap_interval = Duration::from_millis(100);
    });
    let (worker, runs) = counting_worker(&fixture.queue, &config).await;
    let raised = Arc::new(AtomicU64::new(0));
    for procedure in PROCEDURES {
        let raised = raised.clone();
        on_call(&fixture, procedure, move |_| {
            let (number, severity) = PASSING[fastrand::usize(..PASSING.len())];
            (fastrand::u8(..10) < 3).then(|| {
                raised.fetch_add(1, Ordering::Relaxed);
                error(number, severity)
            })
        })
        .await;
    }
    let summary = drained(worker).await;
    assert_each_once(&runs, 2_000);
    assert_eq!((summary.stats.done, summary.stats.lost, summary.stats.dead), (2_000, 0, 0));
    assert!(raised.load(Ordering::Relaxed) > 20, "the errors were raised");
    fixture.remove().await;
}

/// A fixture, a proxy that counts connections, and a queue that is reached through it.
async fn through_proxy(test_name: &str) -> (Fixture, Proxy, Queue) {
    let fixture = fixture(test_name).await;
    let proxy = Proxy::start(fixture.url()).await;
    let config = changed(fixture.config.clone(), |config| config.connection.url = proxy.connection_string().into());
    let queue = Queue::connect(&config).await.unwrap();
    (fixture, proxy, queue)
}

/// A login is dear: TCP, TLS, a check of the password, and memory of the server's.
#[tokio::test(flavor = "multi_thread")]
async fn refused_results_and_deadlock_victims_cost_no_connection() {
    let (fixture, proxy, queue) = through_proxy("kept").await;
    let sink = "CREATE PROCEDURE [$(schema)].[sink] @done [$(schema)].[sink_list] READONLY AS
        IF EXISTS (SELECT 1 FROM @done WHERE output = 0x626164) THROW 50001, N'it says no', 1;";
    fixture.sql(sink).await;
    let options = QueueOptions::default().sink(format!("{}.sink", fixture.schema())).max_attempts(1);
    fixture.queue.admin().create(options).await.unwrap();
    let jobs: Vec<NewJob> =
        (0..200).map(|number| NewJob::text(if number % 10 == 0 { "bad" } else { "good" })).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let victims = Arc::new(AtomicU64::new(0));
    for procedure in ["claim", "finish"] {
        let victims = victims.clone();
        on_call(&fixture, procedure, move |call| {
            (call % 2 == 1 && call < 40).then(|| {
                victims.fetch_add(1, Ordering::Relaxed);
                error(1205, 13)
            })
        })
        .await;
    }
    let config = changed(WorkerConfig::default(), |worker| worker.batch_size = 10);
    let worker = Worker::builder(&queue, Handlers::any(|job, _| Ok(Output::bytes(job.payload()))))
        .config(&config)
        .start()
        .await
        .unwrap();
    let summary = drained(worker).await;
    assert_eq!((summary.stats.done, summary.stats.dead), (180, 20));
    let victims = victims.load(Ordering::Relaxed);
    assert!(victims > 20, "{victims} victims");
    // One for each of a worker's lanes, and the producer's.
    let connections = proxy.connections();
    assert!(connections <= 10, "{connections} connections after 20 refused results and {victims} victims");
    fixture.sql("DROP PROCEDURE [$(schema)].[sink]").await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_an_open_transaction_or_a_foreign_error_is_not_used_again() {
    let (fixture, proxy, queue) = through_proxy("not_kept").await;
    let after_two_pauses = async || {
        let before = proxy.connections();
        for _ in 0..2 {
            queue.admin().pause().await.unwrap_err();
        }
        proxy.connections() - before
    };
    let ordinary = "THROW 50001, N'no', 1;";
    let leaves_a_transaction = "SET XACT_ABORT OFF; BEGIN TRANSACTION;
        UPDATE [$(schema)].[queues] SET paused = 1; THROW 50001, N'no', 1;";
    // (The second of two calls is the first that needs another connection.)
    for (body, connections) in [(ordinary, 0), (leaves_a_transaction, 1)] {
        fixture.sql(&format!("CREATE OR ALTER PROCEDURE [$(schema)].[pause] @queue nvarchar(129) AS {body}")).await;
        queue.admin().stats(None).await.unwrap();
        assert_eq!(after_two_pauses().await, connections, "{body}");
    }
    // Waits for the end of the transactions, which stats does not.
    let paused = fixture.session().await.number("SELECT COUNT(*) FROM [$(schema)].[queues] WHERE paused = 1").await;
    assert_eq!(paused, 0, "the transactions were undone");
    on_call(&fixture, "pause", |_| Some(error(40613, 17))).await;
    queue.admin().stats(None).await.unwrap();
    assert_eq!(after_two_pauses().await, 1, "the database is elsewhere");
    fixture.remove().await;
}

/// Until somebody makes room.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_for_a_while_ends_no_worker_and_costs_no_job() {
    for number in [1101, 1105] {
        let fixture = fixture("full").await;
        fixture.queue.enqueue_many(&numbers(600)).await.unwrap();
        let config = changed(WorkerConfig::default(), |worker| {
            worker.batch_size = 20;
            worker.finish_batch_size = 20;
            worker.heartbeat_interval = Duration::from_millis(200);
        });
        let [is_busy, is_full]: [Arc<AtomicBool>; 2] = Default::default();
        let refused: [Arc<AtomicU64>; 3] = Default::default();
        for (procedure, refused) in ["claim", "finish", "heartbeat"].into_iter().zip(&refused) {
            let (is_busy, is_full, refused) = (is_busy.clone(), is_full.clone(), refused.clone());
            on_call(&fixture, procedure, move |call| {
                if procedure == "claim" && call == 6 {
                    is_busy.store(true, Ordering::Release);
                }
                // Jobs are in every state: some are to be acknowledged, and most are not claimed yet.
                if procedure == "finish" && is_busy.swap(false, Ordering::AcqRel) {
                    is_full.store(true, Ordering::Release);
                }
                is_full.load(Ordering::Acquire).then(|| {
                    refused.fetch_add(1, Ordering::AcqRel);
                    error(number, 17)
                })
            })
            .await;
        }
        let (worker, runs) = counting_worker(&fixture.queue, &config).await;
        // A claim, an acknowledgement and a renewal are each refused again and again; the pauses between grow to
        // seconds.
        let again_and_again = || refused.iter().all(|refused| refused.load(Ordering::Acquire) >= 6);
        until("every stage has met the full disk", again_and_again).await;
        is_full.store(false, Ordering::Release);
        let summary = drained(worker).await;
        assert_each_once(&runs, 600);
        assert_eq!((summary.stats.done, summary.stats.lost, summary.stats.dead), (600, 0, 0), "{number}");
        assert_eq!(fixture.job_counts().await, Default::default());
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_does_not_pass_stops_the_worker_and_drops_nothing() {
    // Permission denied, no such procedure, a column that is gone, a parameter that is not known.
    for (procedure, number) in [("claim", 229), ("claim", 2812), ("finish", 229), ("finish", 207), ("heartbeat", 229)] {
        let fixture = fixture("permanent").await;
        let config = changed(WorkerConfig::default(), |worker| {
            worker.threads = 2;
            worker.heartbeat_interval = Duration::from_millis(100);
            worker.promote_interval = Duration::from_millis(50);
            worker.reap_interval = Duration::from_millis(100);
            worker.shutdown_deadline = Duration::from_millis(500);
        });
        let (worker, _) = counting_worker(&fixture.queue, &config).await;
        on_call(&fixture, procedure, move |_| Some(error(number, 16))).await;
        fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(60), worker.run()).await.expect("the worker stops");
        let stopped_by = ended.expect_err("and says why");
        match number {
            229 => assert!(matches!(stopped_by, Error::PermissionDenied { .. }), "{stopped_by:?}"),
            2812 => assert!(matches!(stopped_by, Error::NotInstalled { .. }), "{stopped_by:?}"),
            _ => {}
        }
        assert_eq!(stopped_by.sql_number(), Some(number));
        assert!(stopped_by.to_string().contains("raised by a test"), "{stopped_by}");

        dev_server().await.faults().clear(&fixture.procedure_to_fail(procedure));
        fixture.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
        let elsewhere = changed(WorkerConfig::default(), |worker| worker.reap_interval = Duration::from_millis(100));
        let unfinished = fixture.job_counts().await;
        let (second, runs) = counting_worker(&fixture.queue, &elsewhere).await;
        let done = drained(second).await.stats.done;
        assert_eq!(done as i64, unfinished.ready + unfinished.claimed, "{procedure} {number}");
        assert_eq!(runs.lock().len() as u64, done);
        if procedure == "finish" || procedure == "claim" {
            assert_eq!(done, 20, "none was acknowledged");
        }
        fixture.remove().await;
    }
}

/// Whatever SQL Server says of what one worker does for the whole queue, its jobs need none of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_duty_that_fails_ends_no_worker_and_is_shown_until_it_succeeds() {
    // No such procedure, a counter at its end, a parameter that is not known, permission denied.
    for (procedure, duty, number) in [
        ("promote", "promote", 2812),
        ("promote", "promote", 8115),
        ("sweep", "promote", 8115),
        ("reap", "reap", 8145),
        ("sample", "sample", 229),
        ("expire", "expire", 229),
        ("due_schedules", "schedules", 229),
    ] {
        let fixture = fixture("duty").await;
        let each_second = Schedule::new("each second", "* * * * * *", NewJob::text("x").kind("scheduled"));
        fixture.queue.admin().set_schedule(&each_second).await.unwrap();
        let config = changed(WorkerConfig::default(), |worker| {
            worker.heartbeat_interval = Duration::from_millis(100);
            worker.promote_interval = Duration::from_millis(50);
            worker.reap_interval = Duration::from_millis(100);
            worker.sample_interval = Duration::from_secs(1);
        });
        on_call(&fixture, procedure, move |_| Some(error(number, 16))).await;
        let worker =
            Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
        let monitor = worker.monitor();
        let fails = || {
            monitor
                .failing_duties()
                .iter()
                .any(|(failing, error)| *failing == duty && error.contains("raised by a test"))
        };
        until("it is shown", fails).await;
        fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
        until("its jobs run all the same", || monitor.stats().done >= 20).await;

        dev_server().await.faults().clear(&fixture.procedure_to_fail(procedure));
        // (What is deleted is looked for once a minute.)
        if procedure != "expire" {
            until("it has succeeded", || monitor.failing_duties().is_empty()).await;
        }
        worker.shutdown().await.expect("it ends as it is told to");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_whose_failure_cannot_be_saved_is_a_duty_that_fails() {
    let fixture = fixture("unsaved").await;
    let each_second = Schedule::new("each second", "* * * * * *", NewJob::text("x").kind("scheduled"));
    fixture.queue.admin().set_schedule(&each_second).await.unwrap();
    for procedure in ["fire_schedule", "fail_schedule"] {
        on_call(&fixture, procedure, |_| Some(error(8115, 16))).await;
    }
    let config = changed(WorkerConfig::default(), |worker| worker.promote_interval = Duration::from_millis(50));
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    let fails = || monitor.failing_duties().iter().any(|(duty, _)| *duty == "schedules");
    until("it is shown", fails).await;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(fails(), "the next turn does not end it");
    }
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// Claims find what the watch of an empty queue would have told it.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_may_not_watch_its_empty_queue_claims_all_the_same() {
    let fixture = fixture("unwatched").await;
    on_call(&fixture, "await_jobs", |_| Some(error(229, 14))).await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let elsewhere = fixture.connect().await;
    for done in 1..=3 {
        elsewhere.enqueue(&NewJob::text("x")).await.unwrap();
        until("it finds the job", || worker.stats().done == done).await;
    }
    worker.shutdown().await.expect("it ends as it is told to");
    drop(elsewhere);
    fixture.remove().await;
}

/// Within seconds, and not at the end of a deadline that is meant for running jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_procedure_or_a_permission_that_is_gone_for_good_ends_the_worker_soon() {
    for (procedure, is_dropped) in [("finish", true), ("finish", false), ("claim", true), ("heartbeat", true)] {
        let fixture = fixture("gone").await;
        let config = changed(fixture.config.worker.clone(), |worker| {
            worker.heartbeat_interval = Duration::from_millis(100);
            worker.shutdown_deadline = Duration::from_secs(60);
        });
        let (worker, _) = counting_worker(&fixture.queue, &config).await;
        if is_dropped {
            fixture.sql(&format!("DROP PROCEDURE [$(schema)].[{procedure}]")).await;
        } else {
            on_call(&fixture, procedure, |_| Some(error(229, 14))).await;
        }
        fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), worker.run()).await.expect("the worker stops soon");
        match ended.expect_err("and says why") {
            Error::NotInstalled { message, .. } if is_dropped => assert!(message.contains(procedure), "{message}"),
            Error::PermissionDenied { number: 229, .. } if !is_dropped => {}
            other => panic!("{procedure}: {other:?}"),
        }
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_procedure_that_a_deployment_replaces_costs_no_result() {
    let fixture = fixture("replaced").await;
    let (worker, runs) = counting_worker(&fixture.queue, &fixture.config.worker).await;
    let monitor = worker.monitor();
    fixture.sql("DROP PROCEDURE [$(schema)].[finish]").await;
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    let ending = tokio::spawn(worker.run());
    until("the worker stops", || !monitor.stats().lease_held).await;
    fixture.session().await.script(include_str!("../sql/240_finish.sql")).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), ending).await.expect("the worker stops").unwrap();
    assert!(matches!(ended, Err(Error::NotInstalled { .. })));
    let counts = fixture.job_counts().await;
    let ran = runs.lock().len() as i64;
    assert_eq!((counts.claimed, counts.ready), (0, 20 - ran), "what has run is acknowledged, the rest given back");
    assert_eq!(monitor.stats().done, ran as u64);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_arrive_when_the_cause_is_mended_before_the_worker_has_stopped() {
    let fixture = fixture("mended").await;
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    on_call(&fixture, "finish", |call| (call <= 3).then(|| error(229, 14))).await;
    let (worker, runs) = counting_worker(&fixture.queue, &WorkerConfig::default()).await;
    let ended = tokio::time::timeout(Duration::from_secs(60), worker.run()).await.expect("the worker stops");
    assert!(matches!(ended, Err(Error::PermissionDenied { .. })));
    let counts = fixture.job_counts().await;
    let ran = runs.lock().len() as i64;
    assert_eq!((counts.claimed, counts.ready), (0, 20 - ran), "what has run is acknowledged, the rest given back");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_acknowledging_is_slow_the_prefetcher_holds_back() {
    let fixture = fixture("backlog").await;
    fixture.queue.enqueue_many(&numbers(500)).await.unwrap();
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    on_call(&fixture, "finish", move |_| {
        while !gate.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    })
    .await;
    let config = changed(WorkerConfig::default(), |worker| {
        worker.max_in_flight = 60;
        worker.batch_size = 20;
        worker.finish_batch_size = 20;
    });
    let (worker, runs) = counting_worker(&fixture.queue, &config).await;
    until("all that is allowed has run", || worker.stats().awaiting_finish == 60).await;
    // Claims would go on at once if they did: wait for a call that comes after them.
    for _ in 0..20 {
        fixture.queue.admin().stats(None).await.unwrap();
    }
    assert_eq!(runs.lock().len(), 60, "no more were claimed than may be in flight");
    assert_eq!(worker.stats().done, 0);
    let counts = fixture.job_counts().await;
    assert_eq!((counts.claimed, counts.ready), (60, 440), "no job is acknowledged before its result is stored");
    open.store(true, Ordering::Release);
    assert_eq!(drained(worker).await.stats.done, 500);
    assert_each_once(&runs, 500);
    fixture.remove().await;
}

/// How much memory a worker holds is up to `max_in_flight`, and not to how many jobs there are: their outputs would be
/// 36 MB.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(target_os = "linux"), ignore = "reads the process's memory from /proc")]
async fn while_acknowledging_stands_still_results_take_no_more_memory_than_max_in_flight_of_them() {
    const OUTPUT: usize = 60_000;
    let fixture = fixture("held_results").await;
    let payload = format!("echo {}", "x".repeat(OUTPUT));
    for _ in 0..2 {
        fixture.queue.enqueue_many(&(0..300).map(|_| NewJob::text(payload.clone())).collect::<Vec<_>>()).await.unwrap();
    }
    let asked = Arc::new(AtomicU64::new(0));
    let finishes = asked.clone();
    // Refused at once, again and again, so that every result stays with the worker.
    on_call(&fixture, "finish", move |_| {
        finishes.fetch_add(1, Ordering::Relaxed);
        Some(error(40501, 20))
    })
    .await;
    let ledger = Ledger::new();
    let settings = [("WORKER_MAX_IN_FLIGHT", "40"), ("WORKER_BATCH_SIZE", "20"), ("WORKER_FINISH_BATCH_SIZE", "20")];
    let worker = ChildWorker::start(&fixture, &ledger, &settings).await;
    let at_start = worker.resident_bytes();
    until("all that is allowed has run", || ledger.lines() >= 80).await;
    let so_far = asked.load(Ordering::Relaxed);
    until("the results were sent some more times", || asked.load(Ordering::Relaxed) >= so_far + 4).await;
    let growth = worker.resident_bytes().saturating_sub(at_start);
    assert_eq!(ledger.lines(), 80, "forty starts and ends");
    assert!(growth < 24 << 20, "{growth} bytes more than the {at_start} at the start");
    dev_server().await.faults().clear(&fixture.procedure_to_fail("finish"));
    until("there is room again", || ledger.lines() > 80).await;
    let did = worker.stop().await;
    assert!(did.done >= 40 && did.lost == 0, "nothing that was held is gone: {did:?}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_is_hours_off_or_jumps_changes_nothing() {
    const HOUR: i64 = 3_600_000;
    let server = DevServer::start().await.unwrap();
    server.faults().set_clock(-7 * HOUR);
    let fixture = Fixture::on(&server, "clocks", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&numbers(300)).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.batch_size = 10;
        worker.reap_interval = Duration::from_millis(100);
        worker.promote_interval = Duration::from_millis(10);
    });
    let (worker, runs) = counting_worker(&fixture.queue, &config).await;
    until("the first have run", || runs.lock().len() >= 300).await;

    // To the future by less than the lease, and to the past by hours: nobody's lease runs out.
    for ms in [-7 * HOUR + 15_000, -12 * HOUR] {
        server.faults().set_clock(ms);
        let before = runs.lock().len();
        fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
        fixture.queue.enqueue(&NewJob::text("later").delay(Duration::from_millis(50))).await.unwrap();
        until("all have run, and the delayed one", || runs.lock().len() == before + 101).await;
    }
    let stats = worker.stats();
    assert_eq!(stats.lost, 0);

    // To the future by hours: to SQL Server every lease has run out. Jobs may run again, none is lost, and the worker
    // registers anew.
    server.faults().set_clock(12 * HOUR);
    let before = runs.lock().len();
    fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
    until("all have run", || runs.lock().len() == before + 100).await;
    drained(worker).await;
    let counts = fixture.job_counts().await;
    assert_eq!((counts.ready, counts.claimed, counts.scheduled, counts.dead), (0, 0, 0, 0));
    fixture.remove().await;
    server.shutdown().await;
}

/// The jumps meet jobs in every state: one that runs, one that waits in memory, one that is to be repeated, one that is
/// scheduled. (A worker's own wall clock is never read: clippy.toml forbids it.)
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_back_and_forth_over_jobs_in_every_state_loses_none() {
    const DAY: i64 = 86_400_000;
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "jumps", QueueOptions::default()).await;
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let starts = Arc::new(AtomicU64::new(0));
    let counted = starts.clone();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 1;
        worker.buffer = 10;
        worker.heartbeat_interval = Duration::from_millis(100);
        worker.reap_interval = Duration::from_millis(100);
        worker.promote_interval = Duration::from_millis(10);
    });
    let hour = Duration::from_secs(3_600);
    fixture.queue.enqueue_many(&[NewJob::text("repeated"), NewJob::text("runs"), NewJob::text("waits")]).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("scheduled").delay(hour)).await.unwrap();
    let handlers = Handlers::any(move |job, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        if job.text()? == "repeated" && job.attempt() == 1 {
            return Err(JobError::retry_in(hour, "again in an hour").into());
        }
        gate.lock().recv_timeout(Duration::from_secs(60))?;
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stats = || worker.stats();
    until("each is in its state", || stats().retried == 1 && stats().running == 1 && stats().buffered == 1).await;

    server.faults().set_clock(-DAY);
    let renewed =
        "SELECT COUNT(*) AS n FROM [$(schema)].[workers] WHERE lease_until < DATEADD(HOUR, 1, SYSUTCDATETIME())";
    let held = async { while fixture.sql(renewed).await[0].get::<i32, _>("n") != Some(1) {} };
    tokio::time::timeout(Duration::from_secs(30), held).await.expect("the lease is renewed by the new time");
    release.send(()).unwrap();
    until("the running one is done, the waiting one runs", || stats().done == 1 && stats().running == 1).await;
    assert_eq!(starts.load(Ordering::Relaxed), 3, "nothing is due a day and an hour early");

    // Two hours ahead of the first time: all is due. The lease has run out, but nobody was served for hours: that is an
    // outage, and no reason to call the worker lost.
    server.faults().set_clock(2 * 3_600_000);
    for _ in 0..10 {
        release.send(()).unwrap();
    }
    drained(worker).await;
    let starts = starts.load(Ordering::Relaxed);
    assert_eq!(starts, 5, "three at once, and the two that fell due by the jump");
    assert_eq!(fixture.job_counts().await, Default::default());
    fixture.remove().await;
    server.shutdown().await;
}

/// Its lease was given by the clock as it was before.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_died_before_the_clock_was_set_back_is_lost_after_its_lease_all_the_same() {
    const DAY: i64 = 86_400_000;
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "set_back", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let mut dead = WorkerSession::register(&fixture).await; // for a minute
    assert_eq!(dead.claim(3).await.len(), 3);
    server.faults().set_clock(-DAY);
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert_eq!(fixture.job_counts().await.claimed, 3, "not before its lease has run out");
    // (In steps: a gap of more than half a lease would count as an outage, which says nothing about a lease.)
    for ms in [20_000, 40_000, 61_000] {
        server.faults().set_clock(-DAY + ms);
        fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    }
    assert_eq!(fixture.job_counts().await.ready, 3);
    fixture.remove().await;
    server.shutdown().await;
}

/// As SQL Server does it when a statement fails that returns rows: a client that stops reading at the first result
/// takes the answer for success.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_columns_and_a_row_is_reported() {
    const ANSWER: &str =
        "\nSELECT number, 1 / (2 - number) AS quotient FROM (VALUES (1), (2)) AS numbers (number);\nRETURN 0;";
    let fixture = fixture("after_rows").await;
    for procedure in ["enqueue", "enqueue_batch", "stats", "pause"] {
        let definition =
            format!("SELECT definition FROM sys.sql_modules WHERE object_id = OBJECT_ID(N'[$(schema)].[{procedure}]')");
        let definition = fixture.sql(&definition).await[0].get::<&str, _>("definition").unwrap().to_owned();
        let (head, body) = definition.split_once("SET NOCOUNT").unwrap();
        let (_, head) = head.split_once("PROCEDURE").unwrap();
        fixture.sql(&format!("ALTER PROCEDURE {head}SET NOCOUNT ON;{ANSWER}SET NOCOUNT{body}")).await;
    }
    let is_reported = |error: Error| assert!(matches!(error, Error::Sql { number: 8134, .. }), "{error:?}");
    is_reported(fixture.queue.enqueue(&NewJob::text("x")).await.unwrap_err());
    is_reported(fixture.queue.enqueue_many(&numbers(2)).await.unwrap_err());
    is_reported(fixture.queue.admin().stats(None).await.unwrap_err());
    is_reported(fixture.queue.admin().pause().await.unwrap_err());
    let mut session = fixture.session().await;
    let jobs = [NewJob::text("x"), NewJob::text("y")];
    for jobs in [&jobs[..1], &jobs] {
        let enqueued = readpast::transaction::enqueue_in(&mut session.client, fixture.schema(), "work", jobs).await;
        is_reported(enqueued.unwrap_err());
    }
    fixture.remove().await;
}
