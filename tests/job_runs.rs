//! Handlers that end the runs of their jobs themselves, and work on several at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use readpast::admin::{CompletionPolicy, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Handlers, JobError, JobRun, NewJob, Output, Worker};
use tokio::sync::Semaphore;

use crate::support::{Fixture, changed, numbers, until};

/// Done jobs stay.
async fn fixture(test_name: &str) -> Fixture {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    Fixture::with(test_name, options).await
}

fn on_one_thread(fixture: &Fixture) -> WorkerConfig {
    changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 1;
        worker.buffer = 50; // so that jobs wait from the first claim on
        worker.heartbeat_interval = Duration::from_millis(100);
    })
}

/// The first run and up to this many further ones.
fn take<'a>(first: JobRun<'a>, further: usize) -> Vec<JobRun<'a>> {
    let mut runs = vec![first];
    while runs.len() <= further
        && let Some(next) = runs[0].next_job()
    {
        runs.push(next);
    }
    runs
}

/// Runs with `act` in pairs, the second first. Returns how many calls had two.
async fn drain_by_pairs(fixture: &Fixture, act: impl Fn(JobRun<'_>) + Send + Sync + 'static) -> u32 {
    let pairs = Arc::new(AtomicU32::new(0));
    let counted = pairs.clone();
    let handlers = Handlers::new().otherwise_runs(move |first| {
        let runs = take(first, 1);
        counted.fetch_add(runs.len() as u32 - 1, Ordering::Relaxed);
        runs.into_iter().rev().for_each(&act);
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&on_one_thread(fixture)).start().await.unwrap();
    worker.drain().await.unwrap();
    pairs.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_has_its_own_outcome() {
    let fixture = fixture("run_outcomes").await;
    let texts = ["done", "retry", "dead", "snooze", "dropped"];
    let jobs: Vec<_> = texts.iter().cycle().take(50).map(|text| NewJob::text(*text)).collect();
    let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let pairs = drain_by_pairs(&fixture, |run| {
        let job = run.context().job();
        let text = if job.fence().0 == 1 { job.text().unwrap().into_owned() } else { String::new() };
        if text == "dropped" {
            return drop(run);
        }
        run.end(match text.as_str() {
            "done" => Ok(Output::bytes("output")),
            "retry" => Err(JobError::retry_in(Duration::ZERO, "later").into()),
            "dead" => Err(JobError::dead("never").into()),
            "snooze" => Err(JobError::snooze(Duration::ZERO, "not now").into()),
            _ => Ok(Output::default()),
        });
    })
    .await;
    assert!(pairs > 0);
    let dropped = "the handler dropped the run without ending it";
    for (place, enqueued) in jobs.iter().enumerate() {
        let row = fixture.queue.admin().job(enqueued.job_id, None).await.unwrap().unwrap();
        let (state, attempt, error) = match texts[place % texts.len()] {
            "done" => (JobState::Done, 1, None),
            "retry" => (JobState::Done, 2, Some("later")),
            "dead" => (JobState::Dead, 1, Some("never")),
            "snooze" => (JobState::Done, 1, Some("not now")),
            _ => (JobState::Done, 2, Some(dropped)),
        };
        assert_eq!((row.state, row.attempt, row.error.as_deref()), (state, attempt, error), "{place}");
    }
    fixture.remove().await;
}

/// A worker on one thread whose handler holds three of ten jobs until the gate opens.
async fn holding_three(fixture: &Fixture) -> (Worker, Arc<Semaphore>, Arc<AtomicU32>) {
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let (gate, held) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let (opened, counted) = (gate.clone(), held.clone());
    let handlers = Handlers::new().otherwise_runs(move |first| {
        let runs = take(first, 2);
        counted.fetch_add(runs.len() as u32, Ordering::Release);
        while opened.available_permits() == 0 && !runs[0].context().is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        runs.into_iter().for_each(|run| run.end(Ok(())));
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&on_one_thread(fixture)).start().await.unwrap();
    until("the handler has its jobs", || held.load(Ordering::Acquire) >= 1).await;
    (worker, gate, held)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_open_runs_and_gives_back_the_other_jobs() {
    let fixture = fixture("stopped_runs").await;
    let (worker, gate, held) = holding_three(&fixture).await;
    let (stop, monitor) = (worker.stop_handle(), worker.monitor());
    let running = tokio::spawn(worker.run());
    stop.stop();
    until("the others are given back", || monitor.stats().buffered == 0).await;
    let held = u64::from(held.load(Ordering::Acquire));
    assert_eq!(monitor.stats().running as u64, held);
    assert!(!running.is_finished());
    gate.add_permits(1);
    let summary = running.await.unwrap().unwrap();
    assert_eq!((summary.stats.done, summary.stats.lost), (held, 0));
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert!(ready.len() as u64 == 10 - held && ready.iter().all(|job| job.attempt == 0), "{ready:?}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_open_runs() {
    let fixture = fixture("drained_runs").await;
    let (worker, gate, _) = holding_three(&fixture).await;
    let draining = tokio::spawn(worker.drain());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!draining.is_finished());
    gate.add_permits(1);
    assert_eq!(draining.await.unwrap().unwrap().stats.done, 10);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_of_a_lost_lease_are_told_so_and_change_nothing() {
    let fixture = fixture("lost_runs").await;
    let (worker, gate, held) = holding_three(&fixture).await;
    let first_held = u64::from(held.load(Ordering::Acquire));
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    // The handler ends its runs because they are cancelled, and gets the jobs again, under a new registration.
    until("the jobs run again", || u64::from(held.load(Ordering::Acquire)) > first_held).await;
    gate.add_permits(1);
    let summary = worker.drain().await.unwrap();
    assert!(summary.stats.lost >= first_held, "{summary:?}");
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().done, 10);
    fixture.remove().await;
}
