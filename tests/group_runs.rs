//! Runs: a claim takes jobs of a group together, and one worker runs them one after the other. Their order holds
//! whatever happens to them, and nobody waits for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{ClaimOrder, CompletionPolicy, JobState, QueueOptions};
use readpast::{Context, Handlers, Job, NewJob, Output, Queue, Worker};

use crate::groups::enqueue;
use crate::support::{Claimed, Fixture, WorkerSession, changed, until};

/// The jobs, each with the first job of its run.
fn runs(claimed: &[Claimed]) -> Vec<(i64, Option<i64>)> {
    claimed.iter().map(|job| (job.job_id, job.head_id)).collect()
}

fn of_one_run(jobs: &[i64]) -> Vec<(i64, Option<i64>)> {
    jobs.iter().map(|job| (*job, Some(jobs[0]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_turn_comes_when_all_jobs_of_a_run_have_ended_in_whatever_order() {
    let fixture = Fixture::new("ends").await;
    let jobs = enqueue(&fixture, &["a"; 5]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_runs(10, 2, 4).await;
    assert_eq!(runs(&claimed), of_one_run(&jobs[..4]));
    assert!(claimed.iter().all(|job| job.attempt == 1 && job.waited_ms <= job.age_ms));
    worker.finish(&[claimed[3].done(), claimed[1].done()]).await;
    assert_eq!(worker.claim_runs(10, 2, 4).await, []);
    worker.finish(&[claimed[0].done()]).await;
    assert_eq!(worker.claim_runs(10, 2, 4).await, []);
    worker.finish(&[claimed[2].dead("broken")]).await;
    let last = worker.claim_runs(10, 2, 4).await;
    assert_eq!(runs(&last), [(jobs[4], None)], "nothing waits behind it");
    worker.finish(&[last[0].done()]).await;
    let left = "SELECT (SELECT COUNT(*) FROM [$(schema)].[groups]) + (SELECT COUNT(*) FROM [$(schema)].[group_events])";
    assert_eq!(fixture.session().await.number(left).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_jobs_come_first_and_runs_fill_the_rest_of_a_claim() {
    let fixture = Fixture::new("fills").await;
    let keys: Vec<String> = (0..6).map(|key| key.to_string()).collect();
    let all: Vec<&str> = (0..10).flat_map(|_| keys.iter().map(String::as_str)).collect();
    enqueue(&fixture, &all).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let lengths = |claimed: &[Claimed]| {
        let mut lengths: HashMap<i64, usize> = HashMap::new();
        claimed.iter().for_each(|job| *lengths.entry(job.head_id.unwrap_or(job.job_id)).or_default() += 1);
        let mut lengths: Vec<usize> = lengths.into_values().collect();
        lengths.sort_unstable();
        lengths
    };
    // Two of six groups share twelve places.
    let claimed = worker.claim_runs(12, 2, 1_000).await;
    assert_eq!(lengths(&claimed), [6, 6]);
    worker.finish(&claimed.iter().map(Claimed::done).collect::<Vec<_>>()).await;
    // Runs of three leave room for all six.
    let claimed = worker.claim_runs(100, 2, 3).await;
    assert_eq!(lengths(&claimed), [3; 6]);
    worker.release(&claimed).await;
    // Plain jobs have no run, and never more come than asked for.
    fixture.queue.enqueue(&NewJob::text("plain").priority(-1)).await.unwrap();
    let claimed = worker.claim_runs(5, 1, 1_000).await;
    assert_eq!(lengths(&claimed), [1, 4]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_starts_again_before_those_behind_it_which_have_no_attempt_counted() {
    for retry_passes in [false, true] {
        let fixture = Fixture::with("failed", QueueOptions::default().retry_passes(retry_passes)).await;
        let jobs = enqueue(&fixture, &["a"; 4]).await;
        let mut worker = WorkerSession::register(&fixture).await;
        let claimed = worker.claim_runs(10, 1, 10).await;
        worker.finish(&[claimed[0].done(), claimed[1].retry(0, "at once")]).await;
        if !retry_passes {
            let again = worker.claim_runs(10, 1, 10).await;
            assert_eq!(runs(&again), [(jobs[1], None)], "the others are still claimed");
            worker.release([&again[0]]).await;
        }
        // One by one, the last first.
        worker.release([&claimed[3]]).await;
        assert_eq!(worker.claim_runs(10, 1, 10).await, []);
        worker.release([&claimed[2]]).await;
        let again = worker.claim_runs(10, 1, 10).await;
        assert_eq!((runs(&again), again[0].attempt), (vec![(jobs[1], None)], 2), "it comes alone");
        worker.finish(&[again[0].done()]).await;
        let again = worker.claim_runs(10, 1, 10).await;
        assert_eq!(runs(&again), of_one_run(&jobs[2..]));
        assert!(again.iter().all(|job| job.attempt == 1));
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_worker_s_run_comes_back_in_order_however_little_of_it_is_reaped_at_once() {
    let fixture = Fixture::new("lost").await;
    let jobs = enqueue(&fixture, &["a"; 5]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_runs(10, 1, 10).await;
    worker.finish(&[claimed[0].done()]).await;
    let run_out = "UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())";
    fixture.sql(run_out).await;
    let mut other = fixture.session().await;
    // The worker, which does not know that it is lost, may still end the last, and then no earlier one may come back.
    other.sql("BEGIN TRANSACTION").await;
    other.sql(&format!("SELECT 1 FROM [$(schema)].[jobs] WITH (UPDLOCK, ROWLOCK) WHERE job_id = {}", jobs[4])).await;
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    let claimed_ones = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (NOLOCK) WHERE state = 2";
    assert_eq!(fixture.session().await.number(claimed_ones).await, 4);
    other.sql("ROLLBACK TRANSACTION").await;
    // The first of them is in the hands of somebody who ends it.
    other.sql("BEGIN TRANSACTION").await;
    other.sql(&format!("SELECT 1 FROM [$(schema)].[jobs] WITH (UPDLOCK, ROWLOCK) WHERE job_id = {}", jobs[1])).await;
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work', @max = 2").await;
    let mut next = WorkerSession::register(&fixture).await;
    assert_eq!(next.claim_runs(10, 1, 10).await, [], "two wait again, and two are still claimed");
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    assert_eq!(next.claim_runs(10, 1, 10).await, [], "one is still claimed");
    other.sql("ROLLBACK TRANSACTION").await;
    fixture.sql("EXEC [$(schema)].[reap] @queue = N'work'").await;
    // Any of them may have killed it: they come alone, so that the next victim takes no others with it.
    for job_id in &jobs[1..] {
        let claimed = next.claim_runs(10, 1, 10).await;
        assert_eq!((runs(&claimed), claimed[0].attempt), (vec![(*job_id, None)], 2));
        next.finish(&[claimed[0].done()]).await;
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_passes_over_no_job_that_somebody_has_locked_added_or_cancelled() {
    let fixture = Fixture::new("gaps").await;
    let jobs = enqueue(&fixture, &["a"; 6]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let lock = format!("SELECT 1 FROM [$(schema)].[jobs] WITH (UPDLOCK, ROWLOCK) WHERE job_id = {}", jobs[2]);
    let change = |from: &str, to: &str| {
        format!(
            "UPDATE [$(schema)].[jobs] SET group_key = N'{to}' WHERE job_id = {} AND group_key = N'{from}'",
            jobs[2]
        )
    };
    let by_hand = format!("{}; {}", change("a", "b"), change("b", "a"));
    let cancel = format!("EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", jobs[2]);
    let purge = "EXEC [$(schema)].[purge] @queue = N'work', @state = 'waiting'".to_string();
    // (Claimed with the first: those before it, or none.)
    for (statement, claims) in [(lock, 2), (by_hand, 2), (cancel, 1), (purge, 1)] {
        let mut other = fixture.session().await;
        other.sql("BEGIN TRANSACTION").await;
        other.sql(&statement).await;
        let claimed = worker.claim_runs(10, 1, 10).await;
        assert_eq!(claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(), jobs[..claims], "{statement}");
        other.sql("ROLLBACK TRANSACTION").await;
        worker.release(&claimed).await;
        let claimed = worker.claim_runs(10, 1, 10).await;
        assert_eq!(runs(&claimed), of_one_run(&jobs), "after {statement}");
        worker.release(&claimed).await;
    }
    // A producer that has not committed a job between them.
    let mut slow = fixture.session().await;
    slow.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'a'").await;
    let later = enqueue(&fixture, &["a"]).await;
    let claimed = worker.claim_runs(10, 1, 10).await;
    assert_eq!(runs(&claimed), of_one_run(&jobs));
    slow.sql("COMMIT TRANSACTION").await;
    worker.release(&claimed).await;
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    let all: Vec<i64> = jobs.iter().copied().chain([later[0] - 1, later[0]]).collect();
    let claimed = worker.claim_runs(10, 1, 10).await;
    assert_eq!(runs(&claimed), of_one_run(&all));
    assert!(claimed.iter().all(|job| job.attempt == 1), "a job that was given back has no attempt counted");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_behind_an_uncommitted_one_are_not_claimed_and_given_back() {
    let fixture = Fixture::new("uncommitted_first").await;
    let before = enqueue(&fixture, &["a"; 2]).await;
    let mut slow = fixture.session().await;
    slow.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'a'").await;
    let later = enqueue(&fixture, &["a"; 5]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    for job in before {
        let claimed = worker.claim_runs(1, 1, 1).await;
        assert_eq!(runs(&claimed), [(job, None)]);
        worker.finish(&[claimed[0].done()]).await;
    }
    // The turn has passed to the first committed job, and the waiting ones begin with the uncommitted one.
    assert_eq!(runs(&worker.claim_runs(10, 1, 10).await), [(later[0], None)]);
    let fences = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (NOLOCK) WHERE state = 6 AND fence > 0";
    assert_eq!(fixture.session().await.number(fences).await, 0);
    slow.sql("ROLLBACK TRANSACTION").await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_before_a_job_that_does_not_fit_or_must_run_alone() {
    let fixture = Fixture::new("special").await;
    let jobs: Vec<NewJob> =
        [1, 1, 100, 1, 1].iter().map(|bytes| NewJob::bytes(vec![0; *bytes]).group_key("a")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let call =
        "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = '$(worker)', @max = 10, @max_payload_bytes = 50,
        @at_once = 1, @run = 10, @passes = 1"
            .replace("$(worker)", &worker.id.to_string());
    let claimed: Vec<i64> = worker.session.numbers(&call).await;
    assert_eq!(claimed, [1, 2]);
    let finish = "DECLARE @jobs [$(schema)].[finish_list];
        INSERT @jobs (job_id, fence, outcome) SELECT job_id, fence, 0 FROM [$(schema)].[jobs] WHERE state = 2;
        EXEC [$(schema)].[finish] @queue = N'work', @worker_id = '$(worker)', @jobs = @jobs"
        .replace("$(worker)", &worker.id.to_string());
    worker.session.sql(&finish).await;
    // Its payload is withheld, and those behind it are not claimed.
    let claimed = worker.session.numbers(&call).await;
    assert_eq!(claimed, [3]);
    worker.session.sql("UPDATE [$(schema)].[jobs] SET alone = 1 WHERE job_id = 5").await;
    worker.session.sql(&finish).await;
    assert_eq!(worker.session.numbers(&call).await, [4]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_single_turn_of_a_group_has_a_run() {
    let options = QueueOptions::default;
    for (options, turns) in
        [(options().group_limit(2), 2), (options().claim_order(ClaimOrder::Lifo), 1), (options().max_running(10), 1)]
    {
        let fixture = Fixture::with("no_runs", options).await;
        enqueue(&fixture, &["a"; 4]).await;
        let mut worker = WorkerSession::register(&fixture).await;
        let claimed = worker.claim_runs(10, 1, 10).await;
        assert_eq!((claimed.len(), claimed[0].head_id), (turns, None));
        // Where the limit was higher before, the other turns must have ended.
        fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @group_limit = 1").await;
        worker.finish(&[claimed[0].retry(0, "again")]).await;
        if turns == 2 {
            let again = worker.claim_runs(10, 1, 10).await;
            assert_eq!((again.len(), again[0].head_id), (1, None));
        }
        fixture.remove().await;
    }
    // A sink could reject the result of a job after the next one has run.
    let fixture = Fixture::new("no_runs").await;
    fixture
        .sql("CREATE PROCEDURE [$(schema)].[check_results] @jobs [$(schema)].[sink_list] READONLY AS RETURN 0")
        .await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @sink = N'$(schema).check_results'").await;
    enqueue(&fixture, &["a"; 4]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim_runs(10, 1, 10).await.len(), 1);
    fixture.remove().await;
}

/// Runs of a worker, as its handler sees them.
#[derive(Default)]
struct Seen {
    /// The job's number, and its attempt.
    starts: Mutex<Vec<(u32, u32)>>,
    overlaps: AtomicBool,
    running: AtomicBool,
}

struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Seen {
    /// A handler that notes each start, does `what`, and sees whether another job runs meanwhile.
    fn handlers(
        self: &Arc<Seen>,
        what: impl Fn(u32, &Job, &Context) -> Result<Option<Output>, readpast::BoxError> + Send + Sync + 'static,
    ) -> Handlers {
        let seen = self.clone();
        Handlers::any(move |job, context| {
            seen.overlaps.fetch_or(seen.running.swap(true, Ordering::AcqRel), Ordering::AcqRel);
            let _running = Running(&seen.running);
            let number: u32 = job.json()?;
            seen.starts.lock().push((number, job.attempt()));
            what(number, job, context)
        })
    }

    fn starts(&self) -> Vec<(u32, u32)> {
        assert!(!self.overlaps.load(Ordering::Acquire), "two jobs of the group have run at once");
        self.starts.lock().clone()
    }
}

async fn enqueue_numbers(fixture: &Fixture, count: u32) {
    let jobs: Vec<NewJob> = (0..count).map(|n| NewJob::json(&n).unwrap().group_key("a")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_a_group_in_order_with_few_calls() {
    let options = QueueOptions::default().completion(CompletionPolicy::Archive);
    let fixture = Fixture::with("few_calls", options).await;
    enqueue_numbers(&fixture, 2_000).await;
    let seen = Arc::<Seen>::default();
    let worker = Worker::builder(&fixture.queue, seen.handlers(|_, _, _| Ok(None)))
        .config(&changed(fixture.config.worker.clone(), |worker| worker.threads = 4))
        .start()
        .await
        .unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 2_000);
    assert_eq!(seen.starts(), (0..2_000).map(|n| (n, 1)).collect::<Vec<_>>());
    let claims = "SELECT COUNT(DISTINCT claimed_at) FROM [$(schema)].[archive]";
    let claims = fixture.session().await.number(claims).await;
    assert!(claims < 100, "{claims} claims");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failure_the_rest_of_a_run_is_handed_back_unstarted() {
    let fixture = Fixture::new("handed_back").await;
    enqueue_numbers(&fixture, 300).await;
    let seen = Arc::<Seen>::default();
    let fails = |number, job: &Job, _: &Context| match (number % 50, job.attempt()) {
        (7, 1) => Err("once".into()),
        (9, 1) => panic!("once"),
        _ => Ok(None),
    };
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 4;
        (worker.retry.base, worker.retry.max) = (Duration::from_millis(1), Duration::from_millis(1));
    });
    let worker = Worker::builder(&fixture.queue, seen.handlers(fails)).config(&config).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead), (300, 0));
    let tries = |n: u32| if matches!(n % 50, 7 | 9) { 2 } else { 1 };
    assert_eq!(
        seen.starts(),
        (0..300).flat_map(|n| (1..=tries(n)).map(move |attempt| (n, attempt))).collect::<Vec<_>>()
    );
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_outputs_and_follow_ups_keep_the_order() {
    let fixture = Fixture::new("apart").await;
    enqueue_numbers(&fixture, 60).await;
    let seen = Arc::<Seen>::default();
    let outputs = |number, _: &Job, _: &Context| {
        Ok(Some(match number % 10 {
            3 => Output::bytes(vec![1; 100_000]),
            6 if number < 60 => Output::default().enqueue("work", NewJob::json(&(number + 60)).unwrap().group_key("a")),
            _ => Output::bytes("small"),
        }))
    };
    let worker = Worker::builder(&fixture.queue, seen.handlers(outputs)).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 66);
    let expected = (0..60).chain((6..60).step_by(10).map(|n| n + 60));
    assert_eq!(seen.starts(), expected.map(|n| (n, 1)).collect::<Vec<_>>());
    fixture.remove().await;
}

/// The finish of one job waits for a lock, and the jobs behind it have run.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_ran_behind_one_whose_row_is_locked_run_again_after_it() {
    let mut fixture = Fixture::new("locked_run").await;
    enqueue_numbers(&fixture, 40).await;
    fixture.config.connection.command_timeout = Duration::from_secs(1);
    let queue = Queue::connect(&fixture.config).await.unwrap();
    let seen = Arc::<Seen>::default();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let waits = move |number, job: &Job, _: &Context| {
        if number == 20 && job.attempt() == 1 {
            let _ = gate.lock().recv();
        }
        Ok(None)
    };
    let worker = Worker::builder(&queue, seen.handlers(waits)).start().await.unwrap();
    until("the run has come to the job that waits", || seen.starts.lock().len() == 21).await;
    let mut other = fixture.session().await;
    other.sql("BEGIN TRANSACTION").await;
    other.sql("SELECT 1 FROM [$(schema)].[jobs] WITH (UPDLOCK, ROWLOCK) WHERE job_id = 21").await;
    drop(open);
    // All but those before it wait: they are claimed, or wait for their turn again.
    let left = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (NOLOCK) WHERE state = 6 AND job_id > 21";
    let give_up = std::time::Instant::now() + Duration::from_secs(60);
    while fixture.session().await.number(left).await < 19 {
        assert!(std::time::Instant::now() < give_up, "they were not released");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let starts = seen.starts().len();
    other.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(worker.drain().await.unwrap().stats.done, 40);
    let numbers = |starts: &[(u32, u32)]| starts.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    assert_eq!(numbers(&seen.starts()[..starts]), (0..starts as u32).collect::<Vec<_>>());
    assert_eq!(numbers(&seen.starts()[starts..]), (21..40).collect::<Vec<_>>());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_hands_back_the_rest_of_its_runs() {
    let fixture = Fixture::new("stops").await;
    enqueue_numbers(&fixture, 200).await;
    let seen = Arc::<Seen>::default();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let waits = move |number, _: &Job, _: &Context| {
        if number == 120 {
            let _ = gate.lock().recv();
        }
        Ok(None)
    };
    let worker = Worker::builder(&fixture.queue, seen.handlers(waits)).start().await.unwrap();
    until("the run has come to the job that waits", || seen.starts.lock().len() == 121).await;
    let stop = worker.stop_handle();
    stop.stop();
    drop(open);
    let stats = worker.run().await.unwrap().stats;
    assert_eq!(stats.done as usize, seen.starts().len());
    let counts = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((counts.ready, counts.waiting, counts.claimed), (1, 199 - stats.done, 0));
    let next = fixture.queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs;
    assert_eq!((next[0].attempt, next.len()), (0, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_key_starts_while_a_run_goes_on() {
    let fixture = Fixture::new("beside").await;
    enqueue_numbers(&fixture, 200).await;
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let (gate, count) = (Mutex::new(gate), Arc::new(Mutex::new(0)));
    let starts = count.clone();
    let handlers = Handlers::any(move |job, _| {
        *starts.lock() += 1;
        if job.group_key() == Some("a") && job.json::<u32>()? == 150 {
            let _ = gate.lock().recv(); // until the other one has run
        }
        Ok(())
    });
    let config = changed(fixture.config.worker.clone(), |worker| worker.threads = 2);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the run has come to the job that waits", || *count.lock() == 151).await;
    let other = fixture.queue.enqueue(&NewJob::text("other").group_key("b")).await.unwrap();
    let ended = fixture.queue.wait(other.job_id, Duration::from_secs(20)).await;
    ended.expect("it does not wait for the run");
    drop(open);
    assert_eq!(worker.drain().await.unwrap().stats.done, 201);
    fixture.remove().await;
}
