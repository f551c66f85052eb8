//! A handler that acknowledges its job in a transaction of its own: what it writes there and the acknowledgement are
//! committed together, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use readpast::admin::{Delivery, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::transaction::{Finished, finish_in};
use readpast::{BoxError, Context, Error, Handlers, IntoOutput, Job, NewJob, Output, Worker};
use readpast_devserver::SqlError;

use crate::support::{Fixture, JobCounts, Session, changed, dev_server, number, until};

async fn prepared(test_name: &str, options: QueueOptions) -> Arc<Fixture> {
    let fixture = Fixture::with(test_name, options).await;
    fixture.sql("CREATE TABLE [$(schema)].[booked] (job_id bigint NOT NULL)").await;
    Arc::new(fixture)
}

async fn booked(fixture: &Fixture) -> Vec<i64> {
    let mut rows: Vec<i64> =
        fixture.sql("SELECT job_id FROM [$(schema)].[booked]").await.iter().map(|row| number(row, 0)).collect();
    rows.sort_unstable();
    rows
}

async fn remove(fixture: Arc<Fixture>) {
    until("the worker's handler is gone", || Arc::strong_count(&fixture) == 1).await;
    let fixture = Arc::into_inner(fixture).expect("nobody else has it");
    fixture.sql("DROP TABLE [$(schema)].[booked]").await;
    fixture.remove().await;
}

async fn book(session: &mut Session, job: &Job) {
    session.client.begin_transaction().await.unwrap();
    session.sql(&format!("INSERT [$(schema)].[booked] VALUES ({})", job.id())).await;
}

async fn worker(fixture: &Arc<Fixture>, handlers: Handlers) -> Worker {
    let config = changed(WorkerConfig::default(), |worker| worker.promote_interval = Duration::from_millis(10));
    Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_s_writes_and_its_acknowledgement_are_committed_together() {
    let fixture = prepared("handler_commits", QueueOptions::default()).await;
    let ids = fixture.queue.enqueue_many(&crate::support::numbers(20)).await.unwrap();
    let inside = fixture.clone();
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Finished, BoxError> {
        let follow_up = NewJob::text("follow-up").delay(std::time::Duration::from_secs(3_600));
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            let output = Output::default().enqueue("work", follow_up);
            let finished = finish_in(&mut session.client, context, output).await?;
            if job.json::<u32>()? == 7 && job.attempt() == 1 {
                return Err("it thinks again".into()); // and drops the client
            }
            session.client.commit_transaction().await?;
            Ok(finished)
        })
    });
    let stats = worker(&fixture, handlers).await.drain_until(std::time::Duration::from_secs(5)).await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (20, 1, 0));
    assert_eq!(booked(&fixture).await, ids.iter().map(|enqueued| enqueued.job_id.0).collect::<Vec<_>>());
    assert_eq!(fixture.job_counts().await, JobCounts { scheduled: 20, ..JobCounts::default() });
    remove(fixture).await;
}

/// The call that should find nothing left is repeated after one that left open whether it was carried out.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_its_handler_has_acknowledged_is_done_also_after_a_lost_answer() {
    let fixture = Fixture::on_dev_server("handler_open", QueueOptions::default()).await;
    fixture.sql("CREATE TABLE [$(schema)].[booked] (job_id bigint NOT NULL)").await;
    let fixture = Arc::new(fixture);
    let finish = fixture.procedure_to_fail("finish");
    let away = || SqlError::new(40501, "The service is currently busy.").severity(20);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    dev_server().await.faults().on_call(&finish, move |call| {
        counted.store(call, Ordering::Release);
        (call == 2).then(away) // the first is of finish_in
    });
    let id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let inside = fixture.clone();
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Finished, BoxError> {
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            let finished = finish_in(&mut session.client, context, Output::default()).await?;
            session.client.commit_transaction().await?;
            Ok(finished)
        })
    });
    let stats = worker(&fixture, handlers).await.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (1, 0, 0));
    assert_eq!(calls.load(Ordering::Acquire), 3, "it was repeated");
    assert_eq!(booked(&fixture).await, [id.0]);
    remove(fixture).await;
}

/// For less time than a call may take: nobody waits for the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_a_handler_leaves_open_holds_up_no_other_job() {
    let fixture = prepared("handler_leaves_open", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&crate::support::numbers(200)).await.unwrap();
    let left_open = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (inside, keeps) = (fixture.clone(), left_open.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Output, BoxError> {
        if job.json::<u32>()? % 50 != 7 || job.attempt() > 1 {
            return Ok(Output::default());
        }
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            let finished = finish_in(&mut session.client, context, Output::default()).await?;
            keeps.lock().push(session);
            finished.into_output()
        })
    });
    let config = changed(WorkerConfig::default(), |worker| worker.finish_batch_size = 20);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("all others are acknowledged", || worker.stats().done == 196).await;
    assert_eq!(left_open.lock().len(), 4);
    left_open.lock().clear();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (200, 4, 0));
    remove(fixture).await;
}

/// Of a hundred jobs that all acknowledge themselves, two keep their row locked: those others are acknowledged in few
/// calls. (That a lock which is not granted within LOCK_TIMEOUT is error 1222:
/// https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql.)
#[tokio::test(flavor = "multi_thread")]
async fn jobs_beside_those_that_a_handler_keeps_locked_go_on_in_lists() {
    let fixture = Fixture::on_dev_server("handler_lists", QueueOptions::default()).await;
    fixture.sql("CREATE TABLE [$(schema)].[booked] (job_id bigint NOT NULL)").await;
    let fixture = Arc::new(fixture);
    let (lists, alone) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for (procedure, calls) in [("finish", lists.clone()), ("finish_one", alone.clone())] {
        dev_server().await.faults().on_call(&fixture.procedure_to_fail(procedure), move |call| {
            calls.store(call, Ordering::Release);
            None
        });
    }
    fixture.queue.enqueue_many(&crate::support::numbers(100)).await.unwrap();
    let left_open = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (inside, keeps) = (fixture.clone(), left_open.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Finished, BoxError> {
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            let finished = finish_in(&mut session.client, context, Output::default()).await?;
            match job.json::<u32>()? {
                10 | 60 if job.attempt() == 1 => keeps.lock().push(session),
                _ => session.client.commit_transaction().await?,
            }
            Ok(finished)
        })
    });
    let config = changed(WorkerConfig::default(), |worker| worker.finish_linger = Duration::from_secs(1));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("all others are acknowledged", || worker.stats().done == 98).await;
    assert_eq!(alone.load(Ordering::Acquire), 100, "those of the handlers");
    let calls = lists.load(Ordering::Acquire) - 100; // finish_one calls finish
    assert!(calls <= 50, "{calls} calls: two for each doubling and locked row, some at once, some later");
    left_open.lock().clear();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (100, 2, 0));
    remove(fixture).await;
}

/// Its checkpoint waits for the lock of its row. The next attempt finds it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn notes_of_a_job_that_a_handler_keeps_locked_hold_up_neither_results_nor_the_notes_of_others() {
    let fixture = prepared("handler_notes", QueueOptions::default()).await;
    let ids = fixture.queue.enqueue_many(&crate::support::numbers(40)).await.unwrap();
    let (left_open, found) = (Arc::new(parking_lot::Mutex::new(None)), Arc::new(parking_lot::Mutex::new(None)));
    let may_end = Arc::new(AtomicBool::new(false));
    let (inside, keeps, finds, ends) = (fixture.clone(), left_open.clone(), found.clone(), may_end.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Output, BoxError> {
        match job.json::<u32>()? {
            0 if job.attempt() == 1 => context.block_on(async {
                context.checkpoint("so far")?;
                let mut session = inside.session().await;
                book(&mut session, job).await;
                let finished = finish_in(&mut session.client, context, Output::default()).await?;
                *keeps.lock() = Some(session);
                finished.into_output()
            }),
            0 => {
                *finds.lock() = job.checkpoint().map(<[u8]>::to_vec);
                Ok(Output::default())
            }
            1 => {
                while keeps.lock().is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                context.progress(0.5, "half of it");
                while !ends.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(Output::default())
            }
            _ => Ok(Output::default()),
        }
    });
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.promote_interval = Duration::from_millis(10);
        worker.finish_linger = Duration::from_secs(1); // they end in one list
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let other = ids[1].job_id;
    // In less time than a call may take.
    let go_on = async {
        until("all others are acknowledged", || worker.stats().done == 38).await;
        while fixture.queue.admin().progress_of(&[other]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), go_on).await.expect("the others go on");
    may_end.store(true, Ordering::Release);
    *left_open.lock() = None;
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (40, 1, 0));
    assert_eq!(found.lock().as_deref(), Some(&b"so far"[..]));
    remove(fixture).await;
}

/// A queue with a sink for jobs that end beside one whose handler keeps its row locked: job 0. The handler of job 1
/// rolls back, and has its output acknowledged as usual.
async fn beside_a_locked_row(test_name: &str, sink: &str, command_timeout_ms: u64) -> (Arc<Fixture>, Worker, LeftOpen) {
    let mut fixture = Fixture::new(test_name).await;
    fixture.config.connection.command_timeout = std::time::Duration::from_millis(command_timeout_ms);
    fixture.queue = fixture.connect().await;
    fixture.sql("CREATE TABLE [$(schema)].[booked] (job_id bigint NOT NULL)").await;
    fixture.sql("INSERT [$(schema)].[booked] VALUES (-1)").await;
    let create = "CREATE PROCEDURE [$(schema)].[sink] @done [$(schema)].[sink_list] READONLY AS
                  IF EXISTS (SELECT 1 FROM @done WHERE output = 0x626164)";
    fixture.sql(&format!("{create} {sink}")).await;
    fixture.queue.admin().create(QueueOptions::default().sink(format!("{}.sink", fixture.schema()))).await.unwrap();
    fixture.queue.enqueue_many(&crate::support::numbers(3)).await.unwrap();
    let (fixture, left_open) = (Arc::new(fixture), LeftOpen::default());
    let (inside, keeps) = (fixture.clone(), left_open.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Output, BoxError> {
        if job.attempt() > 1 {
            return Ok(Output::default());
        }
        context.block_on(async {
            let mut session = inside.session().await;
            session.client.begin_transaction().await?;
            let finished = finish_in(&mut session.client, context, Output::default()).await?;
            match job.json::<u32>()? {
                0 => keeps.lock().push(session),
                1 => {
                    session.client.rollback_transaction().await?;
                    return Ok(Output::bytes("bad"));
                }
                _ => session.client.commit_transaction().await?,
            }
            finished.into_output()
        })
    });
    let config = changed(WorkerConfig::default(), |worker| {
        worker.finish_linger = Duration::from_secs(1);
        worker.promote_interval = Duration::from_millis(10);
        worker.retry.base = Duration::from_millis(1);
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    (fixture, worker, left_open)
}

type LeftOpen = Arc<parking_lot::Mutex<Vec<Session>>>;

async fn all_end(fixture: Arc<Fixture>, worker: Worker, left_open: LeftOpen) {
    left_open.lock().clear();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.lost), (3, 0));
    fixture.sql("DROP PROCEDURE [$(schema)].[sink]").await;
    remove(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_beside_a_locked_row_that_the_sink_refuses_fails_its_attempt_only() {
    let (fixture, worker, left_open) =
        beside_a_locked_row("beside_refused", "THROW 50001, N'not that', 1", 30_000).await;
    until("the refused one is done at its second attempt", || worker.stats().done == 2).await;
    assert_eq!(worker.stats().retried, 1);
    all_end(fixture, worker, left_open).await;
}

/// A lock that is not granted within LOCK_TIMEOUT is error 1222, in whatever procedure the session waits:
/// https://learn.microsoft.com/sql/t-sql/statements/set-lock-timeout-transact-sql.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_waits_for_a_lock_holds_up_no_job_that_its_handler_has_acknowledged() {
    let (fixture, worker, left_open) =
        beside_a_locked_row("beside_waiting", "UPDATE [$(schema)].[booked] SET job_id = -1", 30_000).await;
    let mut holder = fixture.session().await;
    holder.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[booked] SET job_id = -1").await;
    until("the one whose handler committed is done", || worker.stats().done == 1).await;
    holder.sql("ROLLBACK TRANSACTION").await;
    drop(holder);
    all_end(fixture, worker, left_open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_takes_too_long_holds_up_no_job_that_its_handler_has_acknowledged() {
    let (fixture, worker, left_open) = beside_a_locked_row("beside_slow", "WAITFOR DELAY '00:00:03'", 1_000).await;
    until("the slow one is done at its second attempt", || worker.stats().done == 2).await;
    assert_eq!(worker.stats().retried, 1);
    all_end(fixture, worker, left_open).await;
}

/// The row of one job is locked for a while. Later comes another, whose checkpoint cannot be written.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_no_longer_locked_is_not_kept_waiting_by_another_that_is_tried_again_and_again() {
    let fixture = Fixture::on_dev_server("handler_starves", QueueOptions::default()).await;
    fixture.sql("CREATE TABLE [$(schema)].[booked] (job_id bigint NOT NULL)").await;
    let note_progress = fixture.procedure_to_fail("note_progress");
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    dev_server().await.faults().on_call(&note_progress, move |call| {
        counted.store(call, Ordering::Release);
        Some(SqlError::new(40501, "The service is currently busy.").severity(16))
    });
    fixture.queue.enqueue_many(&crate::support::numbers(2)).await.unwrap();
    let (fixture, left_open, may_end) = (Arc::new(fixture), LeftOpen::default(), Arc::new(AtomicBool::new(false)));
    let (inside, keeps, ends) = (fixture.clone(), left_open.clone(), may_end.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Output, BoxError> {
        if job.attempt() > 1 {
            return Ok(Output::default());
        }
        let is_first = job.json::<u32>()? == 0;
        while !is_first && !ends.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            let finished = finish_in(&mut session.client, context, Output::default()).await?;
            if is_first {
                keeps.lock().push(session);
            } else {
                session.client.rollback_transaction().await?;
                context.checkpoint("so far")?;
            }
            finished.into_output()
        })
    });
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 2;
        worker.promote_interval = Duration::from_millis(10);
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the first has run", || worker.stats().awaiting_finish == 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await; // until it is known to be locked
    may_end.store(true, Ordering::Release);
    until("the other is tried again and again", || calls.load(Ordering::Acquire) >= 5).await;
    left_open.lock().clear();
    until("the end of the first is reported", || worker.stats().retried == 1).await;
    dev_server().await.faults().clear(&note_progress);
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (2, 2, 0));
    remove(fixture).await;
}

/// What runs at the deadline is given back although another's row is locked, with what it noted last.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_a_handler_leaves_open_keeps_no_other_job_from_being_given_back() {
    let fixture = prepared("handler_shutdown", QueueOptions::default()).await;
    let ids = fixture.queue.enqueue_many(&crate::support::numbers(20)).await.unwrap();
    let left_open = LeftOpen::default();
    let (running, runs) = std::sync::mpsc::channel();
    let (inside, keeps) = (fixture.clone(), left_open.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Output, BoxError> {
        let number = job.json::<u32>()?;
        context.checkpoint("so far")?;
        if number > 0 {
            running.send(())?;
            while !context.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            return Ok(Output::default());
        }
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            let finished = finish_in(&mut session.client, context, Output::default()).await?;
            keeps.lock().push(session);
            finished.into_output()
        })
    });
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 1;
        worker.shutdown_deadline = Duration::ZERO;
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    runs.recv_timeout(Duration::from_secs(30)).unwrap();
    let summary = worker.shutdown().await.unwrap();
    assert_eq!(summary.cut_off, 2);
    let mut session = fixture.session().await;
    let state = format!("SELECT state FROM [$(schema)].[jobs] WITH (NOLOCK) WHERE job_id = {}", ids[1].job_id);
    assert_eq!(session.number(&state).await, 0, "it is ready again");
    let noted = format!("SELECT COUNT(*) FROM [$(schema)].[progress] WHERE job_id = {}", ids[1].job_id);
    assert_eq!(session.number(&noted).await, 1);
    drop(session);
    left_open.lock().clear();
    remove(fixture).await;
}

/// The client outlives the handler, as one of a pool does.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_fails_and_leaves_its_transaction_open_holds_up_no_other_job() {
    let fixture = prepared("handler_fails_open", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&crate::support::numbers(200)).await.unwrap();
    let left_open = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (inside, keeps) = (fixture.clone(), left_open.clone());
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Output, BoxError> {
        if job.json::<u32>()? % 50 != 7 || job.attempt() > 1 {
            return Ok(Output::default());
        }
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            let _ = finish_in(&mut session.client, context, Output::default()).await?;
            keeps.lock().push(session);
            Err("it thinks again".into())
        })
    });
    let config = changed(WorkerConfig::default(), |worker| {
        worker.finish_batch_size = 20;
        worker.promote_interval = Duration::from_millis(10);
        worker.retry.base = Duration::ZERO;
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("all others are acknowledged", || worker.stats().done == 196).await;
    left_open.lock().clear();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.lost), (200, 4, 0));
    remove(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_was_not_committed_is_noticed() {
    let fixture = prepared("handler_forgets", QueueOptions::default().max_attempts(1)).await;
    let id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let inside = fixture.clone();
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Finished, BoxError> {
        context.block_on(async {
            let mut session = inside.session().await;
            book(&mut session, job).await;
            Ok(finish_in(&mut session.client, context, Output::default()).await?)
        })
    });
    let stats = worker(&fixture, handlers).await.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.lost), (0, 1, 0));
    let job = fixture.queue.admin().job(id, None).await.unwrap().unwrap();
    assert_eq!(job.state, JobState::Dead);
    assert_eq!(job.error.unwrap(), "the handler finished the job in a transaction that was not committed");
    assert_eq!(booked(&fixture).await, Vec::<i64>::new());
    remove(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_lost_cannot_be_acknowledged() {
    let fixture = prepared("handler_late", QueueOptions::default()).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let inside = fixture.clone();
    let handlers = Handlers::any(move |job: &Job, context: &Context| -> Result<Finished, BoxError> {
        context.block_on(async {
            let mut session = inside.session().await;
            if job.fence().0 == 1 {
                session.sql("UPDATE [$(schema)].[jobs] SET state = 0, worker_id = NULL").await; // as a reap does
            }
            book(&mut session, job).await;
            match finish_in(&mut session.client, context, Output::default()).await {
                Ok(finished) => {
                    session.client.commit_transaction().await?;
                    Ok(finished)
                }
                Err(error) => {
                    assert!(matches!(error, Error::LeaseLost), "{error}");
                    session.client.rollback_transaction().await?;
                    Err(error.into())
                }
            }
        })
    });
    let stats = worker(&fixture, handlers).await.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.lost), (1, 1));
    assert_eq!(booked(&fixture).await.len(), 1);
    remove(fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_acknowledgement_is_refused_before_anything_is_sent() {
    let fixture = prepared("handler_refused", QueueOptions::default().delivery(Delivery::AtMostOnce)).await;
    let mut session = fixture.session().await;
    let context = Context::for_test(Job::for_test(NewJob::text("x")));
    let error = finish_in(&mut session.client, &context, Output::default()).await.unwrap_err();
    assert!(error.to_string().contains("the context of a job that a worker is running"), "{error}");

    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let inside = fixture.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let handlers = Handlers::any(move |_: &Job, context: &Context| -> Result<(), BoxError> {
        context.block_on(async {
            let mut session = inside.session().await;
            let error = finish_in(&mut session.client, context, Output::default()).await.unwrap_err();
            sender.send(error.to_string())?;
            Ok(())
        })
    });
    worker(&fixture, handlers).await.drain().await.unwrap();
    assert!(receiver.recv().unwrap().contains("a queue with delivery at_most_once"));
    drop(session);
    remove(fixture).await;
}
