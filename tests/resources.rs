//! Jobs with needs run when what they need is free: memory, threads and tokens of their worker.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rayon::prelude::*;
use readpast::admin::{Check, Delivery, JobState, QueueOptions};
use readpast::config::{MemorySize, WorkerConfig};
use readpast::{Bottleneck, BoxError, Context, Handlers, Job, KindOptions, Needs, NewJob, Output, Usage, Worker};
use tokio::sync::Semaphore;

use crate::kind_history::note;
use crate::support::{Fixture, changed, until};

const GIB: u64 = 1 << 30;

/// A worker with eight GiB, whose postponed jobs come back soon.
fn eight_gib(threads: usize) -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.threads = threads;
        worker.resources.memory = MemorySize::Bytes(8 * GIB);
        worker.unknown_kind_delay = Duration::from_millis(100);
        worker.promote_interval = Duration::from_millis(10);
    })
}

fn of_kind(kind: &str, count: usize) -> Vec<NewJob> {
    (0..count).map(|_| NewJob::text("").kind(kind)).collect()
}

fn needs(needs: Needs) -> KindOptions {
    KindOptions::new().needs(needs)
}

/// How much of something running jobs use, and the most that they ever did.
#[derive(Default)]
struct Used {
    now: AtomicU64,
    most: AtomicU64,
}

impl Used {
    fn while_it_runs<T>(&self, amount: u64, run: impl FnOnce() -> T) -> T {
        self.most.fetch_max(self.now.fetch_add(amount, Ordering::SeqCst) + amount, Ordering::SeqCst);
        let result = run();
        self.now.fetch_sub(amount, Ordering::SeqCst);
        result
    }

    fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }
}

/// A handler whose jobs use this much, for a moment.
fn uses(used: &Arc<Used>, amount: u64) -> impl Fn(&Job, &Context) -> Result<(), BoxError> + Send + Sync + use<> {
    let used = used.clone();
    move |_, _| {
        used.while_it_runs(amount, || std::thread::sleep(Duration::from_millis(2)));
        Ok(())
    }
}

/// A handler that waits for a permit.
fn gated(gate: &Arc<Semaphore>) -> impl Fn(&Job, &Context) -> Result<(), BoxError> + Send + Sync + use<> {
    let gate = gate.clone();
    move |_, context| {
        context.block_on(gate.acquire())?.forget();
        Ok(())
    }
}

/// Jobs of which each returns only after the next one has started, so that one runs at each moment. If others are kept from
/// starting, it returns in the end.
#[derive(Default)]
struct Overlap {
    starts: Mutex<u64>,
    has_started: Condvar,
}

impl Overlap {
    fn returns_after_the_next_start(&self) {
        let mut starts = self.starts.lock().unwrap();
        *starts += 1;
        self.has_started.notify_all();
        let own = *starts;
        let is_last = |starts: &mut u64| *starts == own;
        drop(self.has_started.wait_timeout_while(starts, Duration::from_millis(300), is_last).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_large_and_small_jobs_no_more_run_than_memory_is_declared_for() {
    let fixture = Fixture::new("needs_memory").await;
    let mut jobs = Vec::new();
    for _ in 0..40 {
        jobs.extend(of_kind("large", 1));
        jobs.extend(of_kind("small", 3));
        jobs.extend(of_kind("middle", 1));
    }
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let used = Arc::new(Used::default());
    let handlers = Handlers::new()
        .kind("large", uses(&used, 5))
        .options("large", needs(Needs::new().memory(5 * GIB)))
        .kind("middle", uses(&used, 3))
        .options("middle", needs(Needs::new().memory(3 * GIB)))
        .kind("small", uses(&used, 1))
        .options("small", needs(Needs::new().memory(GIB)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&eight_gib(6)).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.dead, stats.lost), (200, 0, 0, 0));
    assert!(used.most() <= 8, "{} GiB of eight", used.most());
    assert!(used.most() > 5, "they run beside each other");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_job_is_not_starved_by_a_stream_of_small_ones() {
    let fixture = Fixture::new("needs_stream").await;
    fixture.queue.enqueue_many(&of_kind("small", 20)).await.unwrap();
    fixture.queue.enqueue_many(&of_kind("large", 1)).await.unwrap();
    let has_run = Arc::new(AtomicBool::new(false));
    let ran = has_run.clone();
    let starts = Overlap::default();
    let handlers = Handlers::new()
        .kind("small", move |_, _| {
            starts.returns_after_the_next_start();
            Ok(Output::bytes(Vec::new()).enqueue("work", NewJob::text("").kind("small")))
        })
        .options("small", needs(Needs::new().memory(3 * GIB)))
        .kind("large", move |_, _| {
            ran.store(true, Ordering::Release);
            Ok(())
        })
        .options("large", needs(Needs::new().memory(8 * GIB)));
    let config = changed(eight_gib(4), |worker| worker.resources.reserve_after = Duration::from_millis(200));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the large one has run", || has_run.load(Ordering::Acquire)).await;
    let done = worker.stats().done;
    until("the small ones go on", || worker.stats().done > done + 20).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

/// Four threads: while a job runs whose pieces use all of them, no other job does.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_four_threads_have_them_for_their_pieces_beside_jobs_of_one() {
    let fixture = Fixture::new("needs_threads").await;
    let mut jobs = Vec::new();
    for _ in 0..10 {
        jobs.extend(of_kind("parallel", 1));
        jobs.extend(of_kind("single", 10));
    }
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let threads = Arc::new(Used::default());
    let (single, parallel) = (threads.clone(), threads.clone());
    let pieces = Arc::new(AtomicUsize::new(0));
    let counted = pieces.clone();
    let handlers = Handlers::new()
        .kind("single", move |_, _| {
            single.while_it_runs(1, || std::thread::sleep(Duration::from_millis(1)));
            Ok(())
        })
        .kind("parallel", move |_, _| {
            parallel.while_it_runs(4, || {
                (0..8).into_par_iter().for_each(|_| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(1));
                });
            });
            Ok(())
        })
        .options("parallel", needs(Needs::new().threads(4)));
    let config = changed(eight_gib(4), |worker| worker.resources.reserve_after = Duration::from_millis(50));
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, pieces.load(Ordering::Relaxed)), (110, 80));
    assert_eq!(threads.most(), 4);
    fixture.remove().await;
}

/// Two workers share four threads. One's jobs need all, the other's one, of which some run at each moment.
#[tokio::test(flavor = "multi_thread")]
async fn threads_are_kept_over_all_workers_of_a_pool() {
    let mut fixture = Fixture::new("needs_shared").await;
    let first = fixture.queue.clone();
    fixture.config.queue.name = "second".to_owned();
    let second = fixture.connect().await;
    second.admin().create(QueueOptions::default()).await.unwrap();
    first.enqueue_many(&of_kind("wide", 3)).await.unwrap();
    second.enqueue_many(&of_kind("narrow", 40)).await.unwrap();
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap());
    let used = Arc::new(Used::default());
    let (wide_left, starts) = (Arc::new(AtomicUsize::new(3)), Overlap::default());
    let (left, of_wide, of_narrow) = (wide_left.clone(), used.clone(), used.clone());
    let wide = Handlers::new()
        .kind("wide", move |_, _| {
            of_wide.while_it_runs(4, || std::thread::sleep(Duration::from_millis(2)));
            left.fetch_sub(1, Ordering::AcqRel);
            Ok(())
        })
        .options("wide", needs(Needs::new().threads(4).token("gpu", 1)));
    let narrow = Handlers::new().kind("narrow", move |_, _| {
        of_narrow.while_it_runs(1, || starts.returns_after_the_next_start());
        let output = Output::bytes(Vec::new());
        let goes_on = wide_left.load(Ordering::Acquire) > 0;
        Ok(if goes_on { output.enqueue("second", NewJob::text("").kind("narrow")) } else { output })
    });
    let config = changed(eight_gib(0), |worker| {
        worker.resources.reserve_after = Duration::from_millis(50);
        worker.resources.tokens = [("gpu".to_owned(), 2)].into();
    });
    let wide = Worker::builder(&first, wide).config(&config).thread_pool(pool.clone()).start().await.unwrap();
    let narrow = Worker::builder(&second, narrow).config(&config).thread_pool(pool).start().await.unwrap();
    let (wide, narrow) = tokio::join!(wide.drain(), narrow.drain());
    assert_eq!(wide.unwrap().stats.done, 3);
    assert!(narrow.unwrap().stats.done >= 40);
    assert_eq!(used.most(), 4);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_is_for_one_job_at_a_time_and_waiting_jobs_hold_no_thread() {
    let fixture = Fixture::new("needs_token").await;
    fixture.queue.enqueue_many(&of_kind("gpu", 3)).await.unwrap();
    fixture.queue.enqueue_many(&of_kind("plain", 50)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let handlers = Handlers::new()
        .kind("gpu", gated(&gate))
        .options("gpu", needs(Needs::new().token("gpu", 1)))
        .kind("plain", |_, _| Ok(()));
    let config = changed(eight_gib(3), |worker| worker.resources.tokens = [("gpu".to_owned(), 1)].into());
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("the others have passed", || monitor.stats().done == 50).await;
    assert_eq!(monitor.stats().running, 1);
    until("it is seen what they wait for", || monitor.stats().limited_by == Bottleneck::Resources).await;
    gate.add_permits(3);
    assert_eq!(worker.drain().await.unwrap().stats.done, 53);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_a_worker_has_and_what_jobs_use_of_it() {
    let fixture = Fixture::new("needs_shown").await;
    let gate = Arc::new(Semaphore::new(0));
    let config = changed(eight_gib(4), |worker| {
        worker.resources.tokens = [("gpu".to_owned(), 1), ("disk".to_owned(), 2)].into();
        worker.heartbeat_interval = Duration::from_millis(100);
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(gated(&gate))).config(&config).start().await.unwrap();
    let shown = async |expected: &str| {
        let give_up = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let row = fixture.queue.admin().workers(Duration::ZERO).await.unwrap().remove(0);
            let shown: Vec<String> = row.resources_in_use().iter().map(ToString::to_string).collect();
            if shown.join(", ") == expected {
                return row;
            }
            assert!(tokio::time::Instant::now() < give_up, "{expected}: {row:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let needs = Needs::new().threads(2).memory(3 * GIB).token("gpu", 1);
    fixture.queue.enqueue(&NewJob::text("").needs(needs)).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("")).await.unwrap();
    shown("3/4 threads, 3 GiB/8 GiB memory, 0/2 disk, 1/1 gpu").await;
    gate.add_permits(2);
    let row = shown("0/4 threads, 0/2 disk, 0/1 gpu").await;
    assert_eq!(row.in_use, None, "without such jobs, heartbeats carry nothing");
    assert_eq!(row.resources, Some(Needs::new().threads(4).memory(8 * GIB).token("gpu", 1).token("disk", 2)));
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_gives_back_what_the_job_had() {
    let fixture = Fixture::new("needs_panic").await;
    let jobs = of_kind("defect", 5).into_iter().map(|job| job.max_attempts(1));
    fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
    let handlers = Handlers::new()
        .kind("defect", |_, _| -> Result<(), BoxError> { panic!("a defect") })
        .options("defect", needs(Needs::new().memory(8 * GIB).threads(2)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&eight_gib(2)).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.dead, 5);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_too_large_for_one_worker_is_run_by_another_or_dead_in_the_end() {
    let fixture = Fixture::new("needs_too_much").await;
    let handlers = || {
        Handlers::new()
            .kind("large", |_, _| Ok(()))
            .options("large", needs(Needs::new().memory(9 * GIB)))
            .kind("huge", |_, _| Ok(()))
            .options("huge", needs(Needs::new().memory(100 * GIB).token("gpu", 1)))
    };
    fixture.queue.enqueue_many(&of_kind("large", 1)).await.unwrap();
    let small = Worker::builder(&fixture.queue, handlers()).config(&eight_gib(2)).start().await.unwrap();
    until("it is postponed", || small.stats().snoozed > 0).await;
    let shown = async || {
        let findings = fixture.queue.admin().findings().await;
        findings.into_iter().find_map(|finding| finding.note.filter(|_| finding.check == Check::Queue)).unwrap()
    };
    let expected = "work; of up to 1000 jobs due next, 1 postponed, such as job 1: \
                    the worker has less than the job needs: it needs 9 GiB of memory, the worker has 8 GiB";
    // It is claimed again and again.
    let told = async {
        while !shown().await.starts_with(expected) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), told).await.expect(expected);
    let config = changed(eight_gib(2), |worker| worker.resources.memory = MemorySize::Bytes(16 * GIB));
    let larger = Worker::builder(&fixture.queue, handlers()).config(&config).start().await.unwrap();
    assert_eq!(larger.drain().await.unwrap().stats.done, 1);
    small.shutdown().await.unwrap();

    fixture.queue.enqueue_many(&of_kind("huge", 1)).await.unwrap();
    let config = changed(eight_gib(2), |worker| worker.unknown_kind_keep = Duration::from_secs(4));
    let small = Worker::builder(&fixture.queue, handlers()).config(&config).start().await.unwrap();
    assert_eq!(small.drain().await.unwrap().stats.dead, 1);
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap().jobs;
    let error = dead[0].error.clone().unwrap();
    assert!(
        error.starts_with(
            "the worker has less than the job needs: it needs 1 gpu, 100 GiB of memory, the worker has 8 GiB of memory, \
             2 threads; it first postponed"
        ),
        "{error}"
    );
    assert!(
        error
            .ends_with("; the largest amounts on any worker of the queue in the last day: 16 GiB of memory, 2 threads"),
        "{error}"
    );
    fixture.remove().await;
}

/// More large jobs than wait in memory are postponed, and each comes when it is its turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_keeps_few_jobs_that_it_cannot_start() {
    let fixture = Fixture::new("needs_wave").await;
    let mut jobs = of_kind("large", 60);
    jobs.extend(of_kind("plain", 100));
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let handlers = Handlers::new()
        .kind("large", gated(&gate))
        .options("large", needs(Needs::new().memory(4 * GIB)))
        .kind("plain", |_, _| Ok(()));
    let config = changed(eight_gib(3), |worker| worker.batch_size = 10);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("the others are done, behind the large ones", || worker.stats().done == 100).await;
    let stats = worker.stats();
    assert!(stats.running == 2 && stats.buffered <= 12 && stats.snoozed > 0, "{stats:?}");
    gate.add_permits(60);
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.dead, stats.lost), (160, 0, 0, 0));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_at_most_once_queue_jobs_that_do_not_fit_wait_in_memory() {
    let options = QueueOptions::default().delivery(Delivery::AtMostOnce);
    let fixture = Fixture::with("needs_at_most_once", options).await;
    fixture.queue.enqueue_many(&of_kind("large", 30)).await.unwrap();
    let used = Arc::new(Used::default());
    let handlers = Handlers::new().kind("large", uses(&used, 4)).options("large", needs(Needs::new().memory(4 * GIB)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&eight_gib(4)).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.snoozed), (30, 0));
    assert!(used.most() <= 8);
    fixture.remove().await;
}

/// A kind has a limit and needs: its place is not held by a job that waits for memory.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_kinds_and_needs_do_not_block_each_other() {
    let fixture = Fixture::new("needs_and_limit").await;
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.extend(of_kind("limited", 1));
        jobs.extend(of_kind("sharing", 1));
        jobs.extend(of_kind("large", 1));
    }
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let (memory, places) = (Arc::new(Used::default()), Arc::new(Used::default()));
    let options = KindOptions::new().at_most(1);
    let limited = {
        let (memory, places) = (memory.clone(), places.clone());
        move |_: &Job, _: &Context| {
            places.while_it_runs(1, || memory.while_it_runs(4, || std::thread::sleep(Duration::from_millis(2))));
            Ok(())
        }
    };
    let handlers = Handlers::new()
        .kind("limited", limited)
        .options("limited", options.clone().needs(Needs::new().memory(4 * GIB)))
        .kind("sharing", uses(&places, 1))
        .options("sharing", options)
        .kind("large", uses(&memory, 5))
        .options("large", needs(Needs::new().memory(5 * GIB)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&eight_gib(4)).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.retried, stats.dead, stats.lost), (60, 0, 0, 0));
    assert!(memory.most() <= 8 && places.most() == 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_run_have_needs_each() {
    let fixture = Fixture::new("needs_run").await;
    let jobs: Vec<NewJob> =
        (0..40).map(|number| NewJob::text("").kind("large").group_key(format!("{}", number % 4))).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let used = Arc::new(Used::default());
    let handlers = Handlers::new().kind("large", uses(&used, 3)).options("large", needs(Needs::new().memory(3 * GIB)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&eight_gib(4)).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 40);
    assert!(used.most() <= 8);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_gives_back_what_waits_for_resources() {
    let fixture = Fixture::new("needs_stop").await;
    fixture.queue.enqueue_many(&of_kind("large", 3)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let handlers = Handlers::new().kind("large", gated(&gate)).options("large", needs(Needs::new().memory(8 * GIB)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&eight_gib(3)).start().await.unwrap();
    until("one runs and one waits", || worker.stats().running == 1 && worker.stats().buffered > 0).await;
    let monitor = worker.monitor();
    let ending = tokio::spawn(worker.shutdown());
    until("what waits is given back", || monitor.stats().released > 0).await;
    gate.add_permits(1);
    let summary = ending.await.unwrap().unwrap();
    assert_eq!((summary.stats.done, summary.ended_in_order), (1, true));
    fixture.remove().await;
}

/// A petabyte is free nowhere.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn without_free_memory_nothing_is_claimed_or_started() {
    let fixture = Fixture::new("needs_free_memory").await;
    fixture.queue.enqueue_many(&of_kind("plain", 5)).await.unwrap();
    let config = changed(eight_gib(2), |worker| worker.resources.min_free_memory = MemorySize::Bytes(1 << 50));
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("it is seen", || monitor.stats().limited_by == Bottleneck::Memory).await;
    let stats = monitor.stats();
    assert_eq!((stats.done, stats.running, stats.buffered, stats.released), (0, 0, 0, 0));
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn without_free_memory_a_drain_of_an_empty_queue_ends() {
    let fixture = Fixture::new("needs_free_memory_drain").await;
    let config = changed(eight_gib(2), |worker| worker.resources.min_free_memory = MemorySize::Bytes(1 << 50));
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 0);
    fixture.remove().await;
}

/// What the configuration file says of a kind applies to a handler for all kinds.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_states_the_needs_of_kinds() {
    let mut fixture = Fixture::new("needs_in_file").await;
    let text =
        "[worker]\nthreads = 4\n[worker.resources]\nmemory = '8 GiB'\n[kinds.large]\nneeds = { memory = '5 GiB' }\n";
    let of_file = readpast::Config::from_toml(text).unwrap();
    (fixture.config.worker, fixture.config.kinds) = (of_file.worker, of_file.kinds);
    let queue = fixture.connect().await;
    queue.enqueue_many(&of_kind("large", 20)).await.unwrap();
    let used = Arc::new(Used::default());
    let worker = Worker::builder(&queue, Handlers::any(uses(&used, 5))).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 20);
    assert_eq!(used.most(), 5, "one at a time");
    fixture.remove().await;
}

/// Adds runs of a kind to its history: how many, and their peak memory.
async fn has_used(fixture: &Fixture, kind: &str, peaks: &[(u64, u64)]) {
    let rows: Vec<_> = (1..)
        .zip(peaks)
        .map(|(bucket, (runs, peak))| format!("('{kind}', 5, {bucket}, {runs}, {}, {peak})", runs * peak))
        .collect();
    assert!(note(&mut fixture.session().await, &rows.join(", ")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_a_stated_need_of_memory_need_what_their_kind_has_used() {
    let fixture = Fixture::new("needs_learned").await;
    has_used(&fixture, "render", &[(19, 5 * GIB), (1, 20 * GIB)]).await;
    has_used(&fixture, "huge", &[(1, 100 * GIB)]).await;
    has_used(&fixture, "", &[(1, 5 * GIB)]).await;
    let mut jobs = [of_kind("render", 8), of_kind("huge", 2)].concat();
    jobs.extend((0..4).map(|_| NewJob::text("")));
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let used = Arc::new(Used::default());
    let handlers =
        Handlers::any(uses(&used, 5)).kind("huge", uses(&used, 8)).options("huge", needs(Needs::new().threads(2)));
    let config = changed(eight_gib(4), |worker| worker.resources.learn_memory = true);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead), (14, 0), "none is refused for what others have used");
    assert!(used.most() <= 8, "{} GiB of eight", used.most());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stated_need_of_memory_takes_precedence_over_what_the_kind_has_used() {
    let fixture = Fixture::new("needs_stated").await;
    has_used(&fixture, "render", &[(1, 8 * GIB)]).await;
    fixture.queue.enqueue_many(&of_kind("render", 2)).await.unwrap();
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(Used::default()));
    let (opens, runs) = (gated(&gate), running.clone());
    let handlers = Handlers::new()
        .kind("render", move |job, context| runs.while_it_runs(1, || opens(job, context)))
        .options("render", needs(Needs::new().memory(4 * GIB)));
    let config = changed(eight_gib(2), |worker| worker.resources.learn_memory = true);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    until("both run", || running.most() == 2).await;
    gate.add_permits(2);
    assert_eq!(worker.drain().await.unwrap().stats.done, 2);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_kind_without_history_needs_is_known_once_its_first_job_has_ended() {
    let fixture = Fixture::new("needs_first").await;
    let used = Arc::new(Used::default());
    let uses = uses(&used, 8);
    let handlers = Handlers::any(move |job, context| {
        context.report_usage(Usage { cpu: None, peak_memory: Some(8 * GIB) });
        uses(job, context)
    });
    let config = changed(eight_gib(4), |worker| worker.resources.learn_memory = true);
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    fixture.queue.enqueue_many(&of_kind("render", 1)).await.unwrap();
    until("the first one has ended", || worker.stats().done == 1).await;
    fixture.queue.enqueue_many(&of_kind("render", 12)).await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 13);
    assert_eq!(used.most(), 8, "GiB of eight");
    fixture.remove().await;
}

/// The first worker is the elected one: it makes postponed jobs ready, and learns of it before all others.
#[tokio::test(flavor = "multi_thread")]
async fn the_elected_worker_leaves_a_job_that_it_cannot_run_to_another_soon() {
    let fixture = Fixture::new("needs_others").await;
    let start = async |config: WorkerConfig| {
        let handlers = Handlers::any(|_, _| Ok(()));
        Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap()
    };
    let small = start(changed(eight_gib(2), |worker| worker.resources.memory = MemorySize::Bytes(GIB))).await;
    let large = start(eight_gib(2)).await;
    let jobs: Vec<_> = (0..20).map(|_| NewJob::text("").needs(Needs::new().memory(2 * GIB))).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    until("the large worker has run them", || large.stats().done == 20).await;
    let postponed = small.stats().snoozed;
    assert!(postponed <= 60, "the small worker has postponed them {postponed} times");
    small.shutdown().await.unwrap();
    large.shutdown().await.unwrap();
    fixture.remove().await;
}

/// The first worker is full, and makes the jobs ready that it has postponed.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_worker_leaves_what_it_has_postponed_to_one_with_room() {
    let fixture = Fixture::new("resources_leave").await;
    let (gate, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(100)));
    let start = async |gate: &Arc<Semaphore>| {
        let handlers = Handlers::any(gated(gate)).otherwise_options(needs(Needs::new().memory(6 * GIB)));
        Worker::builder(&fixture.queue, handlers).config(&eight_gib(4)).start().await.unwrap()
    };
    let full = start(&gate).await;
    fixture.queue.enqueue_many(&of_kind("large", 20)).await.unwrap();
    until("it runs one and has postponed most", || full.stats().running == 1 && full.stats().snoozed >= 15).await;
    let other = start(&open).await;
    let held = full.stats().running + 2;
    until("the other has run all but those that the first holds", || other.stats().done >= 20 - held as u64).await;
    let postponed = full.stats().snoozed;
    assert!(postponed <= 40, "the full worker has postponed 20 jobs {postponed} times");
    gate.add_permits(20);
    full.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postponed_job_is_recalled_when_it_fits() {
    let fixture = Fixture::new("resources_recall").await;
    fixture.queue.enqueue_many(&of_kind("large", 8)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let handlers = Handlers::new().kind("large", gated(&gate)).options("large", needs(Needs::new().memory(6 * GIB)));
    let worker = Worker::builder(&fixture.queue, handlers).config(&eight_gib(4)).start().await.unwrap();
    until("one runs, and five are postponed", || worker.stats().running == 1 && worker.stats().snoozed >= 5).await;
    // They would not come by themselves.
    fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(HOUR, 1, due_at) WHERE state = 1").await;
    gate.add_permits(8);
    until("all are done", || worker.stats().done == 8).await;
    fixture.remove().await;
}
