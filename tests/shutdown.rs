//! How a worker ends: in order, by its deadline, or at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::{Delivery, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Context, Error, Handlers, Job, NewJob, Output, Queue, Summary, Worker};
use readpast_devserver::SqlError;
use tokio::sync::Semaphore;

use crate::support::blocked::{BlockedWorker, blocked_worker};
use crate::support::child::{ChildWorker, Ledger};
use crate::support::counted::{assert_each_once, counting_worker, drained};
use crate::support::panicking_recorder::PanickingRecorder;
use crate::support::proxy::Proxy;
use crate::support::{Fixture, changed, dev_server, numbers, until};

async fn blocked(fixture: &Fixture, shutdown_deadline_ms: u64) -> BlockedWorker {
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.shutdown_deadline = Duration::from_millis(shutdown_deadline_ms)
    });
    blocked_worker(fixture, &fixture.queue, config).await
}

#[tokio::test(flavor = "multi_thread")]
async fn unstarted_jobs_are_ready_again_at_once_and_their_attempt_is_not_counted() {
    let fixture = Fixture::new("give_back").await;
    let BlockedWorker { worker, gate, .. } = blocked(&fixture, 60_000).await;
    let monitor = worker.monitor();
    let ending = tokio::spawn(worker.shutdown());
    until("the nine are given back while the first still runs", || monitor.stats().released == 9).await;
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert_eq!(ready.len(), 9);
    assert!(ready.iter().all(|job| job.attempt == 0));
    gate.add_permits(1);
    let summary: Summary = ending.await.unwrap().unwrap();
    assert_eq!((summary.stats.done, summary.stats.released, summary.stats.lost), (1, 9, 0));
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.ready, stats.claimed, stats.workers), (9, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(target_os = "linux")]
async fn a_worker_whose_process_is_too_large_stops_in_order() {
    let fixture = Fixture::new("recycled").await;
    let run = async |recycle_above| {
        let job = fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap().job_id;
        let config = changed(fixture.config.worker.clone(), |worker| worker.recycle_above = recycle_above);
        let handlers = Handlers::any(|_: &Job, _: &Context| Ok(()));
        let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
        let stop = worker.stop_handle();
        let ended = tokio::spawn(worker.run());
        fixture.queue.wait(job, Duration::from_secs(30)).await.unwrap();
        (stop, ended)
    };
    let (_stop, ended) = run(1 << 20).await;
    let summary = ended.await.unwrap().unwrap();
    assert_eq!((summary.recycled, summary.ended_in_order, summary.stats.done), (true, true, 1));
    let (stop, ended) = run(1 << 40).await;
    tokio::time::sleep(Duration::from_secs(2)).await; // two looks
    assert!(!ended.is_finished());
    stop.stop();
    assert!(!ended.await.unwrap().unwrap().recycled);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_request_stops_at_once_and_the_running_job_is_told() {
    let fixture = Fixture::new("at_once").await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let (told, was_told) = std::sync::mpsc::channel();
    let (let_it_end, may_end) = std::sync::mpsc::channel::<()>();
    let may_end = Mutex::new(may_end);
    let handlers = Handlers::any(move |_, context| {
        while !context.is_cancelled() {
            std::thread::yield_now();
        }
        told.send(()).unwrap();
        // Its result must not be there in time to be acknowledged all the same.
        let _ = may_end.lock().unwrap().recv();
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let monitor = worker.monitor();
    until("the job runs", || monitor.stats().running == 1).await;
    let stop = worker.stop_handle();
    let ending = tokio::spawn(worker.run());
    stop.stop();
    stop.stop_now();
    ending.await.unwrap().unwrap();
    was_told.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().claimed, 1, "its row waits for the reaper");
    drop(let_it_end);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_still_runs_at_the_deadline_is_ready_again_at_once_and_its_late_result_changes_nothing() {
    let fixture = Fixture::new("deadline").await;
    let BlockedWorker { worker, gate, .. } = blocked(&fixture, 200).await;
    let ended = tokio::time::timeout(Duration::from_secs(30), worker.shutdown()).await;
    let summary = ended.expect("the deadline ends it").unwrap();
    assert_eq!((summary.ended_in_order, summary.cut_off, summary.stats.released), (false, 1, 10));
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert_eq!(ready.len(), 10);
    assert!(ready.iter().all(|job| job.attempt == 0), "nobody is charged an attempt: {ready:?}");
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.claimed, stats.workers), (0, 0), "nothing waits for the reaper");

    // Another worker runs it, and the first one's handler returns only then.
    let (second, runs) = counting_worker(&fixture.queue, &fixture.config.worker).await;
    assert_eq!(drained(second).await.stats.done, 10);
    assert_each_once(&runs, 10);
    gate.add_permits(1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cut_off_is_told_and_one_that_has_failed_keeps_its_attempt() {
    let fixture = Fixture::new("cut_off").await;
    fixture.queue.enqueue_many(&[NewJob::text("fails"), NewJob::text("runs on")]).await.unwrap();
    let (told, was_told) = std::sync::mpsc::channel();
    let handler = move |job: &readpast::Job, context: &readpast::Context| {
        if job.text()? == "fails" {
            return Err("as it does".into());
        }
        while !context.is_cancelled() {
            std::thread::yield_now();
        }
        told.send(()).unwrap();
        Ok(())
    };
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 2;
        worker.shutdown_deadline = Duration::from_millis(100);
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("one has failed and one runs", || monitor.stats().retried == 1 && monitor.stats().running == 1).await;
    let summary = worker.shutdown().await.unwrap();
    assert_eq!((summary.ended_in_order, summary.cut_off, summary.stats.retried), (false, 1, 1));
    was_told.recv_timeout(Duration::from_secs(30)).unwrap();
    let scheduled = fixture.queue.admin().list(&JobState::Scheduled.into(), None, 10).await.unwrap().jobs;
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs;
    assert_eq!((scheduled.len(), scheduled[0].attempt, ready.len(), ready[0].attempt), (1, 1, 1, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_end_is_told_apart() {
    let fixture = Fixture::new("in_order").await;
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    let (worker, _) = counting_worker(&fixture.queue, &fixture.config.worker).await;
    let summary = drained(worker).await;
    assert_eq!((summary.ended_in_order, summary.cut_off), (true, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_at_once_no_job_starts_although_it_has_no_row_any_more() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("at_most_once", options).await;
    let BlockedWorker { worker, gate, starts } = blocked(&fixture, 60_000).await;
    worker.stop_handle().stop_now();
    gate.add_permits(10);
    until("the one that ran has ended, and the others are dropped", || {
        worker.stats().running + worker.stats().buffered == 0
    })
    .await;
    assert_eq!(starts.load(Ordering::Relaxed), 1);
    let summary = worker.run().await.unwrap();
    assert!(!summary.ended_in_order && summary.cut_off >= 9, "{summary:?}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_died_is_reaped_and_its_jobs_are_run_by_another() {
    let fixture = Fixture::new("died").await;
    let BlockedWorker { worker, gate, .. } = blocked(&fixture, 60_000).await;
    drop(worker); // nothing is given back, as if the process had been killed
    gate.add_permits(1);
    fixture.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())").await;
    let mut config = fixture.config.worker.clone();
    config.reap_interval = Duration::from_millis(100);
    let second = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    assert_eq!(drained(second).await.stats.done, 10);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_full_load_every_job_is_done_or_ready_again_without_a_counted_attempt() {
    let fixture = Fixture::new("full_load").await;
    fixture.queue.enqueue_many(&numbers(5_000)).await.unwrap();
    let (worker, runs) = counting_worker(&fixture.queue, &WorkerConfig::default()).await;
    until("it is under way", || worker.stats().done > 200).await;
    let summary = worker.shutdown().await.unwrap();
    assert_eq!((summary.stats.buffered, summary.stats.running, summary.stats.awaiting_finish), (0, 0, 0));
    assert_eq!(summary.stats.lost, 0);
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 5_000).await.unwrap().jobs;
    assert_eq!(ready.len() as u64 + summary.stats.done, 5_000);
    assert_eq!(runs.lock().len() as u64, summary.stats.done, "what has run is acknowledged");
    assert!(ready.iter().all(|job| job.attempt == 0));
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.claimed, stats.workers), (0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(unix), ignore = "sends signals by kill")]
async fn a_first_signal_waits_for_the_running_job_and_a_second_does_not() {
    let fixture = Fixture::new("signals").await;
    fixture.queue.enqueue_many(&[NewJob::text("3600000000"), NewJob::text("0"), NewJob::text("0")]).await.unwrap();
    let ledger = Ledger::new();
    let settings = [("WORKER_THREADS", "1"), ("WORKER_BUFFER", "10"), ("WORKER_SHUTDOWN_DEADLINE_MS", "3600000")];
    let worker = ChildWorker::start(&fixture, &ledger, &settings).await;
    until("the long job runs", || ledger.lines() == 1).await;
    worker.signal("TERM");
    // (Both figures: a claim of the others may have been under way.)
    let given_back = async {
        loop {
            let stats = fixture.queue.admin().stats(None).await.unwrap();
            if (stats.ready, stats.claimed) == (2, 1) {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(30), given_back).await;
    in_time.expect("the others are ready again at once, and the first signal waits");
    tokio::time::sleep(Duration::from_millis(150)).await; // one that comes within 100 ms is the same
    worker.signal("INT");
    let did = tokio::time::timeout(Duration::from_secs(30), worker.ended()).await.expect("the second does not");
    // How many were released it may not have heard: the second signal may have come before the answer.
    assert_eq!(did.done, 0);
    // Its row, and what a claim that was under way may have got before the second signal.
    let claimed = fixture.queue.admin().stats(None).await.unwrap().claimed;
    assert!((1..=3).contains(&claimed), "its row waits for the reaper, of {claimed}");
    fixture.remove().await;
}

/// As `timeout` of the GNU coreutils sends it: to the process, and at once to its group.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(unix), ignore = "sends signals by kill")]
async fn two_signals_at_once_are_one() {
    let fixture = Fixture::new("two_signals").await;
    fixture.queue.enqueue(&NewJob::text("1000000")).await.unwrap();
    let ledger = Ledger::new();
    let worker = ChildWorker::start(&fixture, &ledger, &[]).await;
    until("the job runs", || ledger.lines() == 1).await;
    worker.signal_twice("TERM");
    let did = tokio::time::timeout(Duration::from_secs(30), worker.ended()).await.expect("it ends");
    assert_eq!((did.done, did.lost), (1, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_the_deadline_on_nothing_starts_with_a_row_or_without() {
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let options = QueueOptions::default().delivery(delivery);
        let fixture = Fixture::on_dev_server("no_starts", options).await;
        dev_server().await.faults().on_call(&fixture.procedure_to_fail("unregister_worker"), |_| {
            std::thread::sleep(Duration::from_millis(500)); // a slow server: there is time for another job
            None
        });
        fixture.queue.enqueue_many(&numbers(50)).await.unwrap();
        let starts = Arc::new(AtomicU32::new(0));
        let counted = starts.clone();
        let handler = move |_: &readpast::Job, context: &readpast::Context| {
            counted.fetch_add(1, Ordering::Relaxed);
            while !context.is_stopping() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(200)); // the next could start only after the deadline
            Ok(())
        };
        let config = changed(fixture.config.worker.clone(), |worker| {
            worker.threads = 1;
            worker.buffer = 100;
            worker.shutdown_deadline = Duration::ZERO;
        });
        let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).config(&config).start().await.unwrap();
        let monitor = worker.monitor();
        until("one runs and the others wait", || monitor.stats().running == 1 && monitor.stats().buffered == 49).await;
        let summary = worker.shutdown().await.unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(starts.load(Ordering::Relaxed), 1, "{delivery:?}");
        let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
        if delivery == Delivery::AtLeastOnce {
            assert_eq!(ready.len() as u64 + summary.stats.done, 50);
            assert!(ready.len() >= 49 && ready.iter().all(|job| job.attempt == 0));
        } else {
            assert!(!summary.ended_in_order && summary.cut_off >= 49, "{summary:?}");
        }
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        assert_eq!((stats.claimed, stats.workers), (0, 0));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_back_at_the_deadline_is_repeated_and_a_refusal_of_it_does_not_keep_the_worker_registered() {
    // A deadlock that passes, and a permission that does not come back.
    for (number, severity, failures, given_back) in [(1205, 13, 2, 1), (229, 14, u64::MAX, 0)] {
        let fixture = Fixture::on_dev_server("give_back_fails", QueueOptions::default()).await;
        fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
        let release = fixture.procedure_to_fail("release");
        let error = move |call| {
            (call <= failures).then(|| SqlError::new(number, "raised by a test".to_owned()).severity(severity))
        };
        dev_server().await.faults().on_call(&release, error);
        if given_back == 1 {
            dev_server().await.faults().on_call(&fixture.procedure_to_fail("unregister_worker"), error);
        }
        let handler = |_: &readpast::Job, context: &readpast::Context| {
            while !context.is_cancelled() {
                std::thread::yield_now();
            }
            Ok(())
        };
        let config =
            changed(fixture.config.worker.clone(), |worker| worker.shutdown_deadline = Duration::from_millis(50));
        let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).config(&config).start().await.unwrap();
        let monitor = worker.monitor();
        until("the job runs", || monitor.stats().running == 1).await;
        let summary = worker.shutdown().await.unwrap();
        assert_eq!((summary.cut_off, summary.stats.released), (1, given_back));
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        assert_eq!((stats.ready as u64, stats.workers), (given_back, 0), "after {number}");
        fixture.remove().await;
    }
}

/// Until the job is given back, SQL Server says of its acknowledgement what leaves open whether it was carried out.
/// That it was given back the worker does not hear, so that there are seconds for another acknowledgement.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_back_at_the_deadline_is_not_counted_as_done() {
    let fixture = Fixture::on_dev_server("not_done", QueueOptions::default()).await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.worker.shutdown_deadline = Duration::ZERO;
    let queue = Queue::connect(&config).await.unwrap();
    queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let (refused, given_back) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (counted, is_back) = (refused.clone(), given_back.clone());
    let faults = dev_server().await.faults();
    faults.on_call(&fixture.procedure_to_fail("finish"), move |_| {
        counted.fetch_add(1, Ordering::AcqRel);
        let is_open = is_back.load(Ordering::Acquire) == 0;
        is_open.then(|| SqlError::new(40_197, "raised by a test").severity(17))
    });
    faults.on_call(&fixture.procedure_to_fail("release"), move |_| {
        given_back.fetch_add(1, Ordering::AcqRel);
        None
    });
    proxy.stall_answer("release", 0);
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config.worker).start().await.unwrap();
    until("the job has run", || refused.load(Ordering::Acquire) > 0).await;
    let summary = worker.shutdown().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.lost, summary.cut_off), (0, 0, 1));
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs;
    assert_eq!((ready.len(), ready[0].attempt), (1, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_on_its_way_at_the_deadline_is_waited_for() {
    let fixture = Fixture::on_dev_server("on_its_way", QueueOptions::default()).await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let (calls, under_way) = std::sync::mpsc::channel();
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("finish"), move |_| {
        calls.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(300)); // a slow server
        None
    });
    let config = changed(fixture.config.worker.clone(), |worker| worker.shutdown_deadline = Duration::ZERO);
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    under_way.recv_timeout(Duration::from_secs(30)).unwrap();
    let summary = worker.shutdown().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.released, summary.cut_off), (1, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_whose_result_is_not_acknowledged_in_time_keeps_its_attempt() {
    let fixture = Fixture::on_dev_server("failed", QueueOptions::default()).await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let (calls, refused) = std::sync::mpsc::channel();
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("finish"), move |_| {
        let _ = calls.send(());
        Some(SqlError::new(1205, "raised by a test").severity(13))
    });
    let config = changed(fixture.config.worker.clone(), |worker| worker.shutdown_deadline = Duration::ZERO);
    let handlers = Handlers::any(|_, _| -> Result<(), readpast::BoxError> { Err("as it does".into()) });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    refused.recv_timeout(Duration::from_secs(30)).unwrap();
    let summary = worker.shutdown().await.unwrap();
    assert_eq!((summary.stats.retried, summary.stats.released, summary.cut_off), (0, 0, 1));
    let claimed = fixture.queue.admin().list(&JobState::Claimed.into(), None, 10).await.unwrap().jobs;
    assert_eq!((claimed.len(), claimed[0].attempt), (1, 1), "its row waits for the reaper");
    fixture.remove().await;
}

/// The claim takes longer than the worker waits before it gives back what it has. When it is answered, the only thread
/// still has a job, or could start one.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_slow_claim_brings_after_the_stop_is_given_back_whether_a_thread_is_free_or_not() {
    for thread_is_free in [false, true] {
        a_slow_claim_at_the_stop(thread_is_free).await;
    }
}

async fn a_slow_claim_at_the_stop(thread_is_free: bool) {
    let fixture = Fixture::on_dev_server("slow_claim", QueueOptions::default()).await;
    let [is_slow, has_begun] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (holds, begins) = (is_slow.clone(), has_begun.clone());
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("claim"), move |_| {
        while holds.load(Ordering::Acquire) {
            begins.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    });
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 1;
        worker.buffer = 8; // more are claimed when two are left
        worker.shutdown_deadline = Duration::from_secs(60);
    });
    let (gate, starts) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let (handler_gate, counted, runtime) = (gate.clone(), starts.clone(), tokio::runtime::Handle::current());
    let handlers = Handlers::any(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        runtime.block_on(handler_gate.acquire())?.forget();
        Ok(())
    });
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("one job runs and two wait", || worker.stats().running == 1 && worker.stats().buffered == 2).await;
    is_slow.store(true, Ordering::Release);
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    until("a claim is under way", || has_begun.load(Ordering::Acquire)).await;
    let monitor = worker.monitor();
    let ending = tokio::spawn(worker.shutdown());
    until("what it had is given back", || monitor.stats().released == 2).await;
    if thread_is_free {
        gate.add_permits(20);
        until("the job has ended", || monitor.stats().done == 1).await;
        is_slow.store(false, Ordering::Release);
    } else {
        is_slow.store(false, Ordering::Release);
        until("what the claim has brought is given back as well", || monitor.stats().released > 2).await;
        assert_eq!(monitor.stats().running, 1);
        gate.add_permits(1);
    }
    let summary = ending.await.unwrap().unwrap();
    assert_eq!((summary.ended_in_order, summary.stats.done), (true, 1));
    assert_eq!((starts.load(Ordering::Relaxed), fixture.job_counts().await.ready), (1, 7));
    fixture.remove().await;
}

/// Panics when an acknowledgement is recorded, which ends the task that acknowledges.
static PANICS_AT_FINISH: PanickingRecorder = PanickingRecorder("readpast_finished_jobs_total");

#[tokio::test]
async fn a_panic_while_the_worker_ends_is_reported_and_what_it_leaves_behind_is_not_waited_for() {
    let _recording = metrics::set_default_local_recorder(&PANICS_AT_FINISH);
    // One job for each session, one after the other, and one that nobody is left to acknowledge; one alone, whose
    // session nobody else waits for; and one whose output goes by the session of large ones.
    for (jobs, output_bytes, unacknowledged) in [(3, 0, 1), (1, 0, 0), (1, 100_000, 0)] {
        let fixture = Fixture::new("late_panic").await;
        fixture.queue.enqueue_many(&numbers(jobs)).await.unwrap();
        let handler = move |job: &readpast::Job, context: &readpast::Context| {
            while !context.is_stopping() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(300) * job.json::<u32>()?);
            Ok((output_bytes > 0).then(|| Output::bytes(vec![7; output_bytes])))
        };
        let config = changed(fixture.config.worker.clone(), |worker| {
            worker.threads = 3;
            worker.shutdown_deadline = Duration::from_secs(3_600);
        });
        let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).config(&config).start().await.unwrap();
        let monitor = worker.monitor();
        until("all run", || monitor.stats().running == jobs as usize).await;
        let ended = tokio::time::timeout(Duration::from_secs(30), worker.shutdown()).await.expect("it does not wait");
        assert!(matches!(ended, Err(Error::Panicked { .. })), "{ended:?}");
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        assert_eq!((stats.ready, stats.claimed, stats.workers), (unacknowledged, 0, 0));
        fixture.remove().await;
    }
}

#[tokio::test]
async fn a_panic_is_reported_although_the_worker_was_stopped_at_once_before_anybody_looked() {
    let _recording = metrics::set_default_local_recorder(&PANICS_AT_FINISH);
    for _ in 0..4 {
        let fixture = Fixture::new("panic_at_once").await;
        fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = has_run.clone();
        let handler = move |_: &readpast::Job, _: &readpast::Context| {
            runs.store(true, Ordering::Release);
            Ok(())
        };
        let builder = Worker::builder(&fixture.queue, Handlers::any(handler)).config(&fixture.config.worker);
        let worker = builder.start().await.unwrap();
        let monitor = worker.monitor();
        until("its session has panicked", || {
            let has_run = has_run.load(Ordering::Acquire);
            let stats = monitor.stats();
            has_run && stats.buffered + stats.running + stats.awaiting_finish == 0
        })
        .await;
        worker.stop_handle().stop_now();
        assert!(matches!(worker.run().await, Err(Error::Panicked { .. })));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_back_at_the_deadline_is_counted_although_the_answer_was_lost() {
    let fixture = Fixture::new("answer_lost").await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.worker.shutdown_deadline = Duration::from_millis(50);
    let queue = Queue::connect(&config).await.unwrap();
    queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let handler = |_: &readpast::Job, context: &readpast::Context| {
        while !context.is_cancelled() {
            std::thread::yield_now();
        }
        Ok(())
    };
    let worker = Worker::builder(&queue, Handlers::any(handler)).config(&config.worker).start().await.unwrap();
    let monitor = worker.monitor();
    until("it runs", || monitor.stats().running == 1).await;
    proxy.reset_answer("release", 0);
    let summary = worker.shutdown().await.unwrap();
    assert!(proxy.has_sprung());
    assert_eq!((summary.stats.released, summary.cut_off, fixture.job_counts().await.ready), (1, 1, 1));
    fixture.remove().await;
}
