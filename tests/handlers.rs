//! What a handler may do to a worker: panic, fail, be given garbage, use rayon. None of it is more than one job's
//! matter.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rayon::prelude::*;
use readpast::admin::{CompletionPolicy, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, JobError, Json, NewJob, Output, Worker};

use crate::support::{Fixture, changed, numbers, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_one_failed_job() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("panics", options).await;
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    let handlers = Handlers::any(|job, _| {
        let number: u32 = job.json()?;
        assert_ne!(number, 7, "seven is not liked");
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.dead, summary.stats.lost), (19, 1, 0));
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    let error = dead[0].error.as_deref().unwrap();
    assert!(error.contains("panicked") && error.contains("seven is not liked"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_does_not_parse_is_one_dead_job_after_one_attempt() {
    let fixture = Fixture::new("garbage").await;
    let mut jobs = numbers(3);
    jobs.insert(1, NewJob::bytes(vec![0xFF, 0x00, 0x7B]));
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let handlers = Handlers::any(|job, _| {
        let _: u32 = job.json()?;
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.dead, summary.stats.retried), (3, 1, 0));
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    assert_eq!(dead[0].attempt, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_use_rayon_inside_and_other_threads_of_the_pool_help() {
    let fixture = Fixture::new("nested").await;
    fixture.queue.enqueue(&NewJob::bytes("")).await.unwrap();
    let mut config = fixture.config.worker.clone();
    config.threads = 2;
    let names = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    let seen = names.clone();
    let handlers = Handlers::any(move |_, _| {
        // The first piece waits for the second: only another thread of the pool can run it.
        let (first, second) = std::sync::mpsc::sync_channel::<()>(0);
        let (first, second) = (Mutex::new(first), Mutex::new(second));
        [0, 1].par_iter().for_each(|piece| {
            seen.lock().insert(std::thread::current().name().unwrap_or_default().to_owned());
            match piece {
                0 => first.lock().send(()).unwrap(),
                _ => second.lock().recv_timeout(Duration::from_secs(30)).unwrap(),
            }
        });
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 1);
    assert_eq!(names.lock().iter().cloned().collect::<Vec<_>>(), ["readpast-0", "readpast-1"]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_and_the_run_time_are_stored() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("outputs", options).await;
    let enqueued = fixture.queue.enqueue(&NewJob::json(&20).unwrap()).await.unwrap();
    let handlers = Handlers::any(|job, _| {
        let number: u32 = job.json()?;
        Ok(Json(number * 2))
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    worker.drain().await.unwrap();
    let done = fixture.queue.admin().list(&JobState::Done.into(), None, 10).await.unwrap().jobs;
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].job_id, enqueued.job_id);
    assert_eq!(done[0].output.as_deref(), Some(b"40".as_slice()));
    assert!(done[0].run.is_some());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_verdict_is_obeyed_whatever_the_attempts() {
    let fixture = Fixture::new("verdict").await;
    fixture.queue.enqueue(&NewJob::bytes("x")).await.unwrap();
    let handlers = Handlers::any(|_, _| Err::<(), _>(JobError::dead("not worth a second try ☠").into()));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.dead, summary.stats.retried), (1, 0));
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    assert_eq!(dead[0].error.as_deref(), Some("not worth a second try ☠"));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_any_library_goes_by_the_question_mark_and_a_verdict_is_found_in_it() {
    fn price(text: &str) -> anyhow::Result<u32> {
        if text == "junk" {
            return Err(JobError::dead("it is junk").into());
        }
        anyhow::Context::context(text.parse(), "cannot price the trade")
    }
    let options = QueueOptions::default().max_attempts(2);
    let fixture = Fixture::with("anyhow", options).await;
    fixture.queue.enqueue_many(&["7", "junk", "seven"].map(NewJob::text)).await.unwrap();
    let mut config = fixture.config.worker.clone();
    (config.retry.base, config.retry.max) = (Duration::ZERO, Duration::ZERO);
    let handlers = Handlers::any(|job, _| Ok(Json(price(&job.text()?)?)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.retried), (1, 2, 1));
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    let mut ends: Vec<_> = dead.iter().map(|job| (job.attempt, job.error.as_deref().unwrap())).collect();
    ends.sort_unstable();
    assert_eq!(ends, [(1, "it is junk"), (2, "cannot price the trade: invalid digit found in string")]);
    fixture.remove().await;
}

/// Nothing of the worker runs while the program's only thread is blocked, but the handler's future does.
#[tokio::test(flavor = "current_thread")]
async fn block_on_goes_on_while_the_program_blocks_its_runtime() {
    let fixture = Fixture::new("blocked").await;
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    let (starts, started) = tokio::sync::oneshot::channel();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (sender, ended) = std::sync::mpsc::channel();
    let (starts, gate) = (Mutex::new(Some(starts)), Mutex::new(gate));
    let handlers = Handlers::any(move |_, context| {
        starts.lock().take().map(|starts| starts.send(()));
        gate.lock().recv()?;
        let slept = context.block_on(async {
            tokio::spawn(async { tokio::time::sleep(Duration::from_millis(5)).await }).await.is_ok()
        });
        sender.send(slept)?;
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    started.await.unwrap();
    go.send(()).unwrap();
    assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(true)); // blocks the runtime
    assert_eq!(worker.drain().await.unwrap().stats.done, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_whose_payload_panics_too_is_one_failed_job() {
    struct Vicious;
    impl Drop for Vicious {
        fn drop(&mut self) {
            panic!("and again");
        }
    }
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("vicious", options).await;
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let handlers = Handlers::any(|job, _| {
        if job.json::<u32>()? == 4 {
            std::panic::panic_any(Vicious);
        }
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.dead), (9, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_outlasts_its_time_limit_is_reported_once_and_its_context_says_cancelled() {
    let fixture = Fixture::new("overdue").await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let config = changed(WorkerConfig::default(), |worker| {
        worker.threads = 3;
        worker.job_time_limit = Duration::from_millis(50);
    });
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let handlers = Handlers::any(move |job, context| {
        if job.json::<u32>()? != 1 {
            return Ok(());
        }
        assert!(!context.is_cancelled());
        gate.lock().recv_timeout(Duration::from_secs(60))?;
        assert!(context.is_cancelled() && context.time_left() == Some(Duration::ZERO));
        Err(JobError::dead("too late").into())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the one that hangs is reported", || worker.stats().overdue == 1).await;
    until("the others are done", || worker.stats().done == 2).await;
    release.send(()).unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.overdue), (2, 1, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_and_errors_of_any_size_and_contents_are_stored_or_cut() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(1);
    let fixture = Fixture::with("any_output", options).await;
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    let handlers = Handlers::any(|job, _| match job.json::<u32>()? {
        0 => Ok(Output::bytes(vec![0xFF; 20 << 20])),
        1 => Ok(Output::bytes([])),
        2 => Ok(Output::bytes([0xD8, 0x00, 0x27])),
        3 => Err(JobError::dead("☠\0'; DROP TABLE jobs; --".repeat(100_000)).into()),
        _ => {
            // Memory that is given back again is nobody's business.
            let hog = vec![1_u8; 256 << 20];
            Ok(Output::bytes([hog[hog.len() - 1]]))
        }
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead), (4, 1));
    let mut done = fixture.queue.admin().list(&JobState::Done.into(), None, 10).await.unwrap().jobs;
    done.sort_by_key(|job| job.job_id);
    let lengths: Vec<usize> = done.iter().map(|job| job.output.as_ref().unwrap().len()).collect();
    assert_eq!(lengths, [20 << 20, 0, 3, 1]);
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    let kept = dead[0].error.as_deref().unwrap();
    assert!(kept.starts_with("☠\0'; DROP TABLE jobs; --☠") && kept.encode_utf16().count() == 4_000, "{kept:.100}");
    fixture.remove().await;
}

/// As a client for HTTP that blocks has one. Where async code runs, dropping it panics.
struct OwnsRuntime {
    runtime: Option<tokio::runtime::Runtime>,
    dropped: std::sync::mpsc::Sender<bool>,
}

impl Drop for OwnsRuntime {
    fn drop(&mut self) {
        let runtime = self.runtime.take();
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(runtime)));
        self.dropped.send(dropped.is_ok()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_own_a_runtime_however_its_worker_ends() {
    let fixture = Fixture::new("owns_runtime").await;
    let (dropped, was_dropped) = std::sync::mpsc::channel();
    let ends = [
        "not started",
        "refused",
        "dropped",
        "drained",
        "shut down",
        "stopped at once",
        "failed",
        "its future dropped",
    ];
    for end in ends {
        let owns = || OwnsRuntime { runtime: Some(tokio::runtime::Runtime::new().unwrap()), dropped: dropped.clone() };
        let owned = owns();
        let handlers = Handlers::any(move |_, _| {
            owned.runtime.as_ref().expect("it is there until it is dropped").block_on(async {});
            Ok(())
        });
        let handlers = handlers.state(owns());
        let builder = Worker::builder(&fixture.queue, handlers).config(&fixture.config.worker);
        match end {
            "not started" => drop(builder),
            "refused" => assert!(builder.weight(0).start().await.is_err()),
            "failed" => {
                fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
                let worker = builder.on_end(|_, _, _| panic!("a hook's defect")).start().await.unwrap();
                assert!(worker.run().await.is_err());
            }
            _ => {
                let worker = builder.start().await.unwrap();
                match end {
                    "dropped" => drop(worker),
                    "drained" => drop(worker.drain().await.unwrap()),
                    "shut down" => drop(worker.shutdown().await.unwrap()),
                    "stopped at once" => {
                        worker.stop_handle().stop_now();
                        worker.run().await.unwrap();
                    }
                    _ => {
                        let ended = tokio::time::timeout(Duration::ZERO, worker.run()).await;
                        assert!(ended.is_err(), "nothing stops it");
                    }
                }
            }
        }
        for _ in ["by a closure", "as state"] {
            assert_eq!(was_dropped.recv_timeout(Duration::from_secs(30)), Ok(true), "{end}");
        }
    }
    fixture.remove().await;
}
