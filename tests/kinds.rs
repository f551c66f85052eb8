//! Kinds of jobs: each goes to its handler, one that a worker does not know is left to another, and a kind may have
//! limits of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, Delivery, JobChange, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{BoxError, Context, Error, Handlers, Job, JobError, Json, KindOptions, NewJob, TypedJob, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::support::{Fixture, changed, until};

#[derive(Serialize, Deserialize)]
struct Add {
    a: u32,
    b: u32,
}

impl TypedJob for Add {
    const KIND: &'static str = "add";
    type Output = Json<u32>;

    fn run(self, context: &Context) -> Result<Json<u32>, BoxError> {
        assert_eq!((context.job().kind(), context.attempt()), (Some("add"), 1));
        Ok(Json(self.a + self.b))
    }
}

fn nothing(_: &Job, _: &Context) -> Result<(), BoxError> {
    Ok(())
}

fn of_kind(kind: &str, count: usize) -> Vec<NewJob> {
    (0..count).map(|_| NewJob::text("").kind(kind)).collect()
}

/// Settings under which what is put off comes back soon.
fn soon() -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.unknown_kind_delay = Duration::from_millis(100);
        worker.promote_interval = Duration::from_millis(10);
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_goes_to_its_handler_and_the_rest_to_the_one_for_the_rest() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("by_kind", options).await;
    let jobs = [
        NewJob::of(&Add { a: 3, b: 4 }).unwrap(),
        NewJob::text("to be").kind("words"),
        NewJob::text("?").kind("words/v2"),
        NewJob::text("??"),
    ];
    let ids = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let handlers = Handlers::new()
        .job::<Add>()
        .kind("words", |job, _| Ok(Json(job.text()?.split(' ').count())))
        .otherwise(|job, _| Ok(Json(format!("{:?}", job.kind()))));
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 4);
    let mut done = fixture.queue.admin().list(&JobState::Done.into(), None, 10).await.unwrap().jobs;
    done.sort_by_key(|job| job.job_id);
    assert_eq!(
        done.iter().map(|job| job.job_id).collect::<Vec<_>>(),
        ids.iter().map(|job| job.job_id).collect::<Vec<_>>()
    );
    let outputs: Vec<_> = done.iter().map(|job| String::from_utf8(job.output.clone().unwrap()).unwrap()).collect();
    assert_eq!(outputs, ["7", "2", r#""Some(\"words/v2\")""#, r#""None""#]);
    fixture.remove().await;
}

#[derive(Serialize, Deserialize)]
struct Count;

struct Counted(AtomicUsize);

impl TypedJob for Count {
    const KIND: &'static str = "count";
    type Output = ();

    fn run(self, context: &Context) -> Result<(), BoxError> {
        context.state::<Arc<Counted>>().0.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_jobs_share_the_program_s_state_and_one_that_is_missing_fails_the_attempt() {
    let fixture = Fixture::with("state", QueueOptions::default().max_attempts(1)).await;
    let counted = Arc::new(Counted(AtomicUsize::new(0)));
    for _ in 0..3 {
        fixture.queue.enqueue(&NewJob::of(&Count).unwrap()).await.unwrap();
    }
    fixture.queue.enqueue(&NewJob::text("").kind("other")).await.unwrap();
    let handlers = Handlers::new().state(counted.clone()).job::<Count>().otherwise(|_, context| {
        context.state::<Counted>();
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, counted.0.load(Ordering::Acquire)), (3, 1, 3));
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    let error = dead[0].error.as_deref().unwrap();
    assert!(
        error.contains("there is no state of type ") && error.ends_with("Counted; give it to Handlers::state"),
        "{error}"
    );
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_that_cannot_work_are_refused_at_the_start() {
    let fixture = Fixture::new("refused").await;
    for handlers in [
        Handlers::new(),
        Handlers::new().kind("two words", nothing),
        Handlers::new().job::<Add>().kind("add", nothing),
        Handlers::new().kind("add", nothing).options("addd", KindOptions::new().at_most(1)),
    ] {
        let error = Worker::builder(&fixture.queue, handlers).start().await.err().expect("they are refused");
        assert!(matches!(error, Error::Config { .. }), "{error}");
    }
    fixture.remove().await;
}

/// A rolling deployment: the old worker does not know the kind, the new one comes later.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_a_worker_does_not_know_waits_for_one_that_does_and_no_attempt_is_counted() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("rolling", options).await;
    let mut jobs = of_kind("new", 3);
    jobs.extend(of_kind("old", 3));
    jobs.push(NewJob::text("")); // without a kind
    fixture.queue.enqueue_many(&jobs).await.unwrap();

    let handlers = Handlers::new().kind("old", nothing);
    let old = Worker::builder(&fixture.queue, handlers).config(&soon()).start().await.unwrap();
    until("the old worker has put each off three times", || old.stats().unknown_kind >= 12).await;
    assert_eq!(old.stats().done, 3);
    let stats = old.shutdown().await.unwrap().stats;
    assert!(stats.snoozed + stats.released >= 12 && stats.dead + stats.retried + stats.lost == 0, "{stats:?}");
    let mut waiting = fixture.queue.admin().list(&JobState::Scheduled.into(), None, 10).await.unwrap().jobs;
    waiting.extend(fixture.queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs);
    assert_eq!(waiting.len(), 4);
    for job in waiting {
        assert_eq!(job.attempt, 0);
        let said = job.error.unwrap();
        let expected = match job.kind {
            Some(_) => "the worker has no handler for jobs of kind 'new'",
            None => "the worker has no handler for jobs without a kind",
        };
        assert_eq!(said, expected);
    }

    let handlers = Handlers::new().kind("new", |_, context| {
        assert_eq!(context.attempt(), 1);
        Ok(())
    });
    let new = Worker::builder(&fixture.queue, handlers.otherwise(nothing)).config(&soon()).start().await.unwrap();
    let stats = new.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.snoozed, stats.unknown_kind), (4, 0, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_nobody_knows_is_dead_after_a_time_and_its_error_names_it() {
    let fixture = Fixture::new("nobody").await;
    fixture.queue.enqueue(&NewJob::text("").kind("misspelt")).await.unwrap();
    let config = changed(soon(), |worker| worker.unknown_kind_keep = Duration::from_secs(2));
    let handlers = Handlers::new().kind("known", nothing);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert!(stats.dead == 1 && stats.snoozed >= 1 && stats.unknown_kind == stats.snoozed + 1, "{stats:?}");
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    let error = dead[0].error.as_deref().unwrap();
    assert!(
        error.starts_with("the worker has no handler for jobs of kind 'misspelt'; it first postponed this job "),
        "{error}"
    );
    fixture.remove().await;
}

/// An old worker sees it first long after it was enqueued: because it was delayed, or dead and requeued, or because
/// there was no worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_unknown_kind_has_its_time_however_long_ago_it_was_enqueued() {
    let fixture = Fixture::new("late").await;
    let handlers = || Handlers::new().kind("old", nothing);
    fixture.queue.enqueue_many(&of_kind("new", 1)).await.unwrap();
    let at_once = changed(soon(), |worker| worker.unknown_kind_keep = Duration::ZERO);
    let hasty = Worker::builder(&fixture.queue, handlers()).config(&at_once).start().await.unwrap();
    assert_eq!(hasty.drain().await.unwrap().stats.dead, 1);
    let kinds = fixture.queue.admin().kinds(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(kinds, [], "a job that has not run counts as no run of its kind");
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    fixture.queue.enqueue_many(&of_kind("new", 1)).await.unwrap();
    let long_ago =
        "UPDATE [$(schema)].[jobs] SET enqueued_at = DATEADD(DAY, -3, enqueued_at), due_at = DATEADD(DAY, -3, due_at)";
    fixture.sql(long_ago).await;
    let old = Worker::builder(&fixture.queue, handlers()).config(&soon()).start().await.unwrap();
    until("both have been put off", || old.stats().unknown_kind >= 6).await;
    assert_eq!(old.shutdown().await.unwrap().stats.dead, 0);
    fixture.remove().await;
}

/// There is no row that it could be put back to.
#[tokio::test(flavor = "multi_thread")]
async fn of_an_at_most_once_queue_a_job_of_an_unknown_kind_is_dead_at_once() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("once_unknown", options).await;
    fixture.queue.enqueue_many(&of_kind("new", 2)).await.unwrap();
    let handlers = Handlers::new().kind("old", nothing);
    let worker = Worker::builder(&fixture.queue, handlers).config(&soon()).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.dead, stats.snoozed, stats.unknown_kind), (2, 0, 2));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snoozed_job_runs_again_as_often_as_it_likes_and_its_attempt_never_counts() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("snooze", options).await;
    fixture.queue.enqueue_many(&of_kind("patient", 2)).await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handlers = Handlers::new().kind("patient", move |job, context| {
        assert!(context.attempt() == 1 && job.is_last_attempt());
        if counted.fetch_add(1, Ordering::AcqRel) < 8 {
            return Err(JobError::snooze(Duration::from_millis(10), "not yet").into());
        }
        Ok(())
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&soon()).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.snoozed, stats.retried, stats.dead), (2, 8, 0, 0));
    assert_eq!(runs.load(Ordering::Acquire), 10);
    fixture.remove().await;
}

/// It is told of the stop while it runs, and gives the job back with what it has.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_job_hears_of_a_stop_in_time_and_snoozes() {
    let fixture = Fixture::new("stopping").await;
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let begins = begun.clone();
    let handlers = Handlers::any(move |_, context| {
        assert!(!context.is_stopping());
        begins.fetch_add(1, Ordering::AcqRel);
        let started_at = Instant::now();
        while !context.is_stopping() {
            assert!(started_at.elapsed() < Duration::from_secs(60), "nobody told it");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!context.is_cancelled());
        // Later than a claim that was under way when the stop came.
        Err::<(), _>(JobError::snooze(Duration::from_secs(3600), "saved half of it").into())
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    until("it runs", || begun.load(Ordering::Acquire) == 1).await;
    assert_eq!(worker.shutdown().await.unwrap().stats.snoozed, 1);
    let later = fixture.queue.admin().list(&JobState::Scheduled.into(), None, 10).await.unwrap().jobs;
    assert_eq!((later.len(), later[0].attempt, later[0].error.as_deref()), (1, 0, Some("saved half of it")));
    fixture.remove().await;
}

/// Runs jobs that wait for a permit each, and notes how many run at once.
struct Gated {
    gate: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Gated {
    fn new() -> Gated {
        Gated { gate: Arc::new(Semaphore::new(0)), running: Arc::default(), most: Arc::default() }
    }

    fn handler(&self) -> impl Fn(&Job, &Context) -> Result<(), BoxError> + Send + Sync + use<> {
        let (gate, running, most) = (self.gate.clone(), self.running.clone(), self.most.clone());
        move |_, context| {
            most.fetch_max(running.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            context.block_on(gate.acquire())?.forget();
            running.fetch_sub(1, Ordering::AcqRel);
            Ok(())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_over_its_limit_neither_holds_a_thread_nor_keeps_others_waiting() {
    let fixture = Fixture::new("at_most").await;
    // The limited ones stand before the others, and are more than would be held in memory.
    let mut jobs = of_kind("slow", 40);
    jobs.extend(of_kind("fast", 50));
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let gated = Gated::new();
    let handlers = Handlers::new()
        .kind("slow", gated.handler())
        .options("slow", KindOptions::new().at_most(2))
        .kind("fast", nothing);
    let config = changed(soon(), |worker| (worker.threads, worker.batch_size) = (3, 10));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the fast ones are done, past the slow ones", || worker.stats().done == 50).await;
    let stats = worker.stats();
    assert!(stats.running == 2 && stats.snoozed > 0, "{stats:?}");
    assert!(stats.buffered <= 20, "few of those that wait are held: {stats:?}");
    gated.gate.add_permits(40);
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.dead, stats.lost), (90, 0, 0, 0));
    assert_eq!(gated.most.load(Ordering::Acquire), 2);
    fixture.remove().await;
}

/// Two queues, the same kind and another one: all share the two places, on one pool and on two.
#[tokio::test(flavor = "multi_thread")]
async fn clones_of_options_share_their_places_over_kinds_and_workers() {
    for shares_pool in [true, false] {
        let mut fixture = Fixture::new("shared_places").await;
        let first = fixture.queue.clone();
        fixture.config.queue.name = "second".to_owned();
        let second = fixture.connect().await;
        second.admin().create(QueueOptions::default()).await.unwrap();
        for queue in [&first, &second] {
            queue.enqueue_many(&of_kind("slow", 10)).await.unwrap();
            queue.enqueue_many(&of_kind("slower", 10)).await.unwrap();
        }
        let gated = Gated::new();
        let options = KindOptions::new().at_most(2);
        let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap());
        let config = changed(soon(), |worker| worker.threads = 4);
        let start = async |queue| {
            let handlers = Handlers::new()
                .kind("slow", gated.handler())
                .options("slow", options.clone())
                .kind("slower", gated.handler())
                .options("slower", options.clone());
            let worker = Worker::builder(queue, handlers).config(&config);
            let worker = if shares_pool { worker.thread_pool(threads.clone()) } else { worker };
            worker.start().await.unwrap()
        };
        let (one, other) = (start(&first).await, start(&second).await);
        let (first, second) = (one.monitor(), other.monitor());
        until("two run and both have some that wait", || {
            let (one, other) = (first.stats(), second.stats());
            one.running + other.running == 2 && one.buffered > 0 && other.buffered > 0
        })
        .await;
        gated.gate.add_permits(40);
        let done = [one.drain().await.unwrap().stats.done, other.drain().await.unwrap().stats.done];
        assert_eq!((done, gated.most.load(Ordering::Acquire)), ([20, 20], 2), "one pool: {shares_pool}");
        fixture.remove().await;
    }
}

/// Jobs that are much shorter than the time that a job takes to come back from SQL Server wait in memory, or the limit
/// would not be used.
#[tokio::test(flavor = "multi_thread")]
async fn short_jobs_of_a_limited_kind_follow_one_another_without_a_pause() {
    let fixture = Fixture::new("at_most_short").await;
    fixture.queue.enqueue_many(&of_kind("short", 1_000)).await.unwrap();
    let gated = Gated::new();
    gated.gate.add_permits(1_000);
    let handlers = Handlers::new().kind("short", gated.handler()).options("short", KindOptions::new().at_most(1));
    let config = changed(WorkerConfig::default(), |worker| worker.threads = 4);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, gated.most.load(Ordering::Acquire)), (1_000, 1));
    assert!(stats.snoozed < 200, "{stats:?}");
    fixture.remove().await;
}

/// Of a long backlog, not as many are claimed and put off as SQL Server can answer: what the budget has at once, a
/// claim and what is in the buffer, and five hundred a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_that_cannot_run_is_not_claimed_and_put_off_without_end() {
    let unlimited = KindOptions::new();
    for (kind, options) in [("slow", KindOptions::new().at_most(1)), ("unknown", unlimited)] {
        let fixture = Fixture::new("churn").await;
        fixture.queue.enqueue_many(&of_kind(kind, 3_000)).await.unwrap();
        let gated = Gated::new();
        let handlers = Handlers::new().kind("slow", gated.handler()).options("slow", options);
        let config = changed(WorkerConfig::default(), |worker| {
            (worker.threads, worker.batch_size, worker.finish_batch_size) = (4, 100, 100);
        });
        let started_at = Instant::now();
        let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
        let monitor = worker.monitor();
        let is_bounded = || {
            let put_off = monitor.stats().snoozed;
            let most = 1_400.0 + 500.0 * started_at.elapsed().as_secs_f64();
            assert!(put_off as f64 <= most, "{kind}: {put_off} put off after {:?}", started_at.elapsed());
            put_off >= 2_000
        };
        until("many are put off", is_bounded).await;
        gated.gate.add_permits(10);
        worker.shutdown().await.unwrap();
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_others_of_its_kind_is_given_back_by_a_shutdown() {
    let fixture = Fixture::new("at_most_stop").await;
    fixture.queue.enqueue_many(&of_kind("slow", 5)).await.unwrap();
    let gated = Gated::new();
    let handlers = Handlers::new().kind("slow", gated.handler()).options("slow", KindOptions::new().at_most(1));
    let config = changed(soon(), |worker| (worker.threads, worker.buffer) = (2, 20));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("one runs and one waits for it", || (monitor.stats().running, monitor.stats().buffered) == (1, 1)).await;
    let ending = tokio::spawn(worker.shutdown());
    until("the one that waited is given back", || monitor.stats().released >= 1).await;
    gated.gate.add_permits(1);
    let stats = ending.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.buffered, stats.running, stats.lost), (1, 0, 0, 0));
    let mut left = fixture.queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs;
    left.extend(fixture.queue.admin().list(&JobState::Scheduled.into(), None, 10).await.unwrap().jobs);
    assert!(left.len() == 4 && left.iter().all(|job| job.attempt == 0), "{left:?}");
    fixture.remove().await;
}

/// They cannot be put off: all that are claimed wait, and no more than the limit run, also after the worker was told to
/// stop.
#[tokio::test(flavor = "multi_thread")]
async fn of_an_at_most_once_queue_a_limited_kind_waits_in_memory_and_all_of_it_runs() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("at_most_once_limit", options).await;
    fixture.queue.enqueue_many(&of_kind("slow", 20)).await.unwrap();
    let gated = Gated::new();
    let handlers = Handlers::new().kind("slow", gated.handler()).options("slow", KindOptions::new().at_most(1));
    let config = changed(soon(), |worker| (worker.threads, worker.buffer) = (2, 20));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("one runs and all others wait", || (monitor.stats().running, monitor.stats().buffered) == (1, 19)).await;
    let ending = tokio::spawn(worker.shutdown());
    gated.gate.add_permits(20);
    let stats = ending.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.snoozed, gated.most.load(Ordering::Acquire)), (20, 0, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_limited_kind_makes_room_for_the_next() {
    let options = QueueOptions::default().max_attempts(1);
    let fixture = Fixture::with("at_most_panic", options).await;
    fixture.queue.enqueue_many(&of_kind("bad", 20)).await.unwrap();
    let handlers = Handlers::new()
        .kind("bad", |_, _| -> Result<(), BoxError> { panic!("a panic of a test") })
        .options("bad", KindOptions::new().at_most(1));
    let worker = Worker::builder(&fixture.queue, handlers).config(&soon()).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.dead, 20);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_has_its_own_time_limit_and_retry_policy() {
    let options = QueueOptions::default().max_attempts(2);
    let fixture = Fixture::with("own_policy", options).await;
    fixture.queue.enqueue_many(&of_kind("limited", 1)).await.unwrap();
    fixture.queue.enqueue_many(&of_kind("plain", 1)).await.unwrap();
    let until_cancelled = |_: &Job, context: &Context| {
        assert!(context.time_left().is_some());
        let started_at = Instant::now();
        while !context.is_cancelled() {
            assert!(started_at.elapsed() < Duration::from_secs(60), "nobody told it");
            std::thread::sleep(Duration::from_millis(1));
        }
        Err::<(), _>("too late".into())
    };
    let limited = KindOptions::new().time_limit(Duration::from_millis(20)).retry(Duration::ZERO, Duration::ZERO);
    let handlers =
        Handlers::new().kind("limited", until_cancelled).options("limited", limited).kind("plain", |_, context| {
            match context.time_left() {
                None => Err::<(), _>("again in an hour".into()),
                Some(_) => Err(JobError::dead("it has the other's time limit").into()),
            }
        });
    let config = changed(soon(), |worker| {
        (worker.retry.base, worker.retry.max) = (Duration::from_secs(3_600), Duration::from_secs(3_600))
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the limited one is dead after two attempts", || worker.stats().dead == 1).await;
    until("the other waits for its second", || worker.stats().retried == 2).await;
    worker.shutdown().await.unwrap();
    let counts = fixture.job_counts().await;
    assert_eq!((counts.dead, counts.scheduled), (1, 1));
    fixture.remove().await;
}

/// The first jobs are slow: by their pace most of the others are put off for longer than the rest takes, so that the
/// worker has nothing to run meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_of_what_is_due_waits_for_jobs_that_were_put_off_for_others_of_their_kind() {
    let fixture = Fixture::new("drained_turns").await;
    let jobs: Vec<NewJob> = (0..50).map(|number: u32| NewJob::json(&number).unwrap().kind("uneven")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let uneven = |job: &Job, _: &Context| {
        let pause = if job.json::<u32>()? < 3 { 100 } else { 1 };
        std::thread::sleep(Duration::from_millis(pause));
        Ok(())
    };
    let handlers = Handlers::new().kind("uneven", uneven).options("uneven", KindOptions::new().at_most(1));
    let config = changed(WorkerConfig::default(), |worker| worker.promote_interval = Duration::from_millis(50));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let drained = worker.drain_until(Duration::ZERO).await.unwrap();
    assert!(drained.stats.snoozed > 0, "some had to wait: {drained:?}");
    assert_eq!(drained.stats.done, 50);
    fixture.remove().await;
}
