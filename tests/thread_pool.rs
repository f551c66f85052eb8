//! The threads on which jobs run: how many jobs are on one stack, and how workers share them.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use readpast::admin::QueueOptions;
use readpast::config::WorkerConfig;
use readpast::{Error, Handlers, NewJob, Queue, Worker};

use crate::support::counted::drained;
use crate::support::{Fixture, changed, dev_server, numbers, until};

thread_local! {
    static JOBS_ON_STACK: Cell<u32> = const { Cell::new(0) };
    /// When the last job of this thread ended.
    static ENDED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn spin(time: Duration) {
    let started_at = Instant::now();
    while started_at.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Every job waits in rayon for pieces that others may have taken, and a thread that waits takes what there is.
#[tokio::test(flavor = "multi_thread")]
async fn at_most_two_jobs_are_on_one_stack() {
    let fixture = Fixture::new("depth").await;
    let deepest = Arc::new(AtomicU32::new(0));
    let seen = deepest.clone();
    fixture.queue.enqueue_many(&numbers(400)).await.unwrap();
    let handlers = Handlers::any(move |_, _| {
        let depth = JOBS_ON_STACK.get() + 1;
        JOBS_ON_STACK.set(depth);
        seen.fetch_max(depth, Ordering::AcqRel);
        (0..8_u32).into_par_iter().with_max_len(1).for_each(|piece| spin(Duration::from_micros(100) * piece));
        JOBS_ON_STACK.set(depth - 1);
        Ok(())
    });
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 4;
        worker.look_ahead = 16;
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    assert_eq!(drained(worker).await.stats.done, 400);
    // That there are two is for the next test, which leaves nothing to the threads' speed.
    assert!(deepest.load(Ordering::Acquire) <= 2, "one waits for its pieces, and one runs meanwhile");
    fixture.remove().await;
}

/// Something that happens once.
#[derive(Clone, Default)]
struct Event(Arc<AtomicBool>);

impl Event {
    fn happens(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn has_happened(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Waits without taking anything else from the pool.
    fn wait(&self) {
        while !self.has_happened() {
            std::thread::yield_now();
        }
    }
}

/// Three threads: the first has two jobs on its stack, each of which waits for a piece that another thread has. It
/// takes the third job, and gives it back; the second thread, whose piece ends then, must get it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_waiting_thread_cannot_take_is_run_by_an_idle_one() {
    let fixture = Fixture::new("given_back").await;
    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap());
    let [third_is_free, third_job_ran] = [(); 2].map(|()| Event::default());
    let [pieces_begun, pieces_may_end] = [(); 2].map(|()| [(); 2].map(|()| Event::default()));
    let handlers = {
        let (pieces_begun, pieces_may_end, third_job_ran) =
            (pieces_begun.clone(), pieces_may_end.clone(), third_job_ran.clone());
        Handlers::any(move |job, _| {
            let number: usize = job.json()?;
            if number == 2 {
                third_job_ran.happens();
                return Ok(());
            }
            let piece = || {
                pieces_begun[number].happens();
                pieces_may_end[number].wait();
            };
            rayon::join(|| pieces_begun[number].wait(), piece);
            Ok(())
        })
    };
    let busy = third_is_free.clone();
    threads.spawn(move || busy.wait());
    let worker = Worker::builder(&fixture.queue, handlers).thread_pool(threads).start().await.unwrap();
    fixture.queue.enqueue(&NewJob::text("0")).await.unwrap();
    until("the second thread has a piece of the first job", || pieces_begun[0].has_happened()).await;
    fixture.queue.enqueue(&NewJob::text("1")).await.unwrap();
    until("the first thread runs the second job as well", || worker.stats().running == 2).await;
    third_is_free.happens();
    until("the third thread has a piece of the second job", || pieces_begun[1].has_happened()).await;
    fixture.queue.enqueue(&NewJob::text("2")).await.unwrap();
    until("the third job waits", || worker.stats().buffered == 1).await;
    // Until the first thread has looked at it, which it does within microseconds.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!third_job_ran.has_happened(), "two jobs are on the first thread's stack");
    pieces_may_end[0].happens();
    until("the second thread runs the third job", || third_job_ran.has_happened()).await;
    pieces_may_end[1].happens();
    assert_eq!(drained(worker).await.stats.done, 3);
    fixture.remove().await;
}

async fn queue(fixture: &Fixture, name: &str) -> Queue {
    let mut config = fixture.config.clone();
    config.queue.name = name.to_string();
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue
}

/// How long a worker has had threads for its jobs, in microseconds: what passes between two jobs of a thread is the
/// second one's.
#[derive(Clone, Default)]
struct RunTime {
    total: Arc<AtomicU64>,
    longest: Arc<AtomicU64>,
}

impl RunTime {
    fn add(&self, run: Duration) {
        self.total.fetch_add(run.as_micros() as u64, Ordering::AcqRel);
        self.longest.fetch_max(run.as_micros() as u64, Ordering::AcqRel);
    }

    fn total(&self) -> i64 {
        self.total.load(Ordering::Acquire) as i64
    }

    fn longest(&self) -> i64 {
        self.longest.load(Ordering::Acquire) as i64
    }
}

/// A worker whose jobs keep a thread busy for so long, or longer where the machine has others to serve.
async fn busy(queue: &Queue, threads: &Arc<rayon::ThreadPool>, weight: u32, job: Duration) -> (Worker, RunTime) {
    let run_time = RunTime::default();
    let measured = run_time.clone();
    let handlers = Handlers::any(move |_, context| {
        if context.is_stopping() {
            return Ok(());
        }
        let started_at = ENDED_AT.take().unwrap_or_else(Instant::now);
        spin(job);
        let ended_at = Instant::now();
        measured.add(ended_at - started_at);
        ENDED_AT.set(Some(ended_at));
        Ok(())
    });
    // All in memory, so that nothing depends on how fast claims are.
    let config = changed(WorkerConfig::default(), |worker| worker.buffer = 4_000);
    let builder = Worker::builder(queue, handlers).config(&config).thread_pool(threads.clone()).weight(weight);
    (builder.start().await.unwrap(), run_time)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_their_threads_by_weight_however_long_their_jobs_are() {
    let fixture = Fixture::new("shares").await;
    let (short, long) = (queue(&fixture, "short").await, queue(&fixture, "long").await);
    short.enqueue_many(&numbers(4_000)).await.unwrap();
    long.enqueue_many(&numbers(400)).await.unwrap();
    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let (first, of_short) = busy(&short, &threads, 3, Duration::from_millis(2)).await;
    let (second, of_long) = busy(&long, &threads, 1, Duration::from_millis(30)).await;
    until("all are claimed", || first.stats().buffered > 2_000 && second.stats().buffered > 200).await;
    let (short_before, long_before) = (of_short.total(), of_long.total());
    let since = || (of_short.total() - short_before, of_long.total() - long_before);
    until("four seconds of the threads' time are spent", || since().0 + since().1 > 4_000_000).await;
    let (short, long) = since();
    assert!(first.stats().buffered > 0 && second.stats().buffered > 0, "both had jobs all the time");
    // Whatever the threads were kept waiting for, theirs was the same time by weight, but for the jobs that ran at the
    // beginning and at the end, and for the one that makes good for another.
    let longest = of_short.longest().max(of_long.longest());
    let apart = (short / 3 - long).abs();
    assert!(apart < 6 * longest, "three times {long} us is not {short} us; the longest job took {longest} us");
    let (first, second) = tokio::join!(first.shutdown(), second.shutdown());
    assert!(first.unwrap().ended_in_order && second.unwrap().ended_in_order);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_neighbour_fills_the_pool_gets_the_next_thread_that_is_free() {
    let fixture = Fixture::new("starving").await;
    let (full, late) = (queue(&fixture, "full").await, queue(&fixture, "late").await);
    full.enqueue_many(&numbers(200)).await.unwrap();
    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let (first, of_full) = busy(&full, &threads, 1, Duration::from_millis(50)).await;
    until("it is under way", || of_full.total() > 0).await;
    let (second, of_late) = busy(&late, &threads, 1, Duration::from_millis(1)).await;
    late.enqueue_many(&numbers(1)).await.unwrap();
    let monitor = second.monitor();
    until("its job waits", || monitor.stats().buffered > 0 || of_late.total() > 0).await;
    let before = of_full.total();
    until("it has run", || of_late.total() > 0).await;
    let between = of_full.total() - before;
    assert!(between <= 3 * of_full.longest(), "the other had {between} us before it");
    let (first, second) = tokio::join!(first.shutdown(), second.shutdown());
    assert!(first.unwrap().ended_in_order && second.unwrap().ended_in_order);
    fixture.remove().await;
}

/// The dev server counts calls, whatever `READPAST_URL` says.
async fn counted(test_name: &str) -> (Fixture, Arc<AtomicU64>, Arc<AtomicU64>) {
    let fixture = Fixture::on_dev_server(test_name, QueueOptions::default()).await;
    let [claims, heartbeats] = [(); 2].map(|()| Arc::<AtomicU64>::default());
    for (procedure, calls) in [("claim", &claims), ("heartbeat", &heartbeats)] {
        let calls = calls.clone();
        dev_server().await.faults().on_call(&fixture.procedure_to_fail(procedure), move |call| {
            calls.store(call, Ordering::Release);
            None
        });
    }
    (fixture, claims, heartbeats)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_beside_a_neighbours_long_ones_is_claimed_once() {
    let long = Fixture::new("long_jobs").await;
    let (short, claims, heartbeats) = counted("waits_beside").await;
    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let may_end = Event::default();
    let gate = may_end.clone();
    let handlers = Handlers::any(move |_, _| {
        gate.wait();
        Ok(())
    });
    long.queue.enqueue_many(&numbers(2)).await.unwrap();
    let neighbour = Worker::builder(&long.queue, handlers).thread_pool(threads.clone()).start().await.unwrap();
    until("the neighbour has all threads", || neighbour.stats().running == 2).await;

    short.queue.enqueue_many(&numbers(50)).await.unwrap();
    let config = changed(short.config.worker.clone(), |worker| worker.heartbeat_interval = Duration::from_millis(300));
    let worker = Worker::builder(&short.queue, Handlers::any(|_, _| Ok(()))).config(&config).thread_pool(threads);
    let worker = worker.start().await.unwrap();
    until("one of its jobs waits", || worker.stats().buffered == 1).await;
    // For much longer than the second after which what was claimed too far ahead is given back.
    let so_far = heartbeats.load(Ordering::Acquire);
    until("the lease was renewed ten times", || heartbeats.load(Ordering::Acquire) >= so_far + 10).await;
    assert_eq!((worker.stats().buffered, worker.stats().released, claims.load(Ordering::Acquire)), (1, 0, 1));
    may_end.happens();
    assert_eq!(drained(worker).await.stats.done, 50);
    assert_eq!(drained(neighbour).await.stats.done, 2);
    short.remove().await;
    long.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_may_use_of_its_stack_can_be_set() {
    fn uses(bytes: usize) -> u8 {
        let page = std::hint::black_box([1_u8; 4096]);
        if bytes <= page.len() { page[bytes - 1] } else { page[0] + uses(bytes - page.len()) - 1 }
    }
    let fixture = Fixture::new("stack").await;
    fixture.queue.enqueue_many(&numbers(1)).await.unwrap();
    let handlers = || {
        Handlers::any(|_, _| {
            assert_eq!(uses(12 << 20), 1);
            Ok(())
        })
    };
    let worker = Worker::builder(&fixture.queue, handlers()).stack_size(64 << 20).start().await.unwrap();
    assert_eq!(drained(worker).await.stats.done, 1);

    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    for (builder, said) in [
        (
            Worker::builder(&fixture.queue, handlers()).thread_pool(threads.clone()).stack_size(1 << 20),
            "stack_size is 1048576; it must be unset if thread_pool or start_threads_with is set",
        ),
        (
            Worker::builder(&fixture.queue, handlers()).thread_pool(threads).weight(0),
            "weight is 0; it must be 1 to 1000",
        ),
    ] {
        let error = builder.start().await.err().expect("it is refused");
        assert!(matches!(error, Error::Config { .. }));
        assert_eq!(error.to_string(), said);
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_are_called_around_each_run() {
    let fixture = Fixture::new("hooks").await;
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let (seen, said) = std::sync::mpsc::channel();
    let ended = seen.clone();
    let handlers = Handlers::any(|job, _| if job.json::<u32>()? == 3 { Err("three".into()) } else { Ok(()) });
    let config = changed(fixture.config.worker.clone(), |worker| worker.retry.base = Duration::from_secs(3_600));
    let worker = Worker::builder(&fixture.queue, handlers)
        .config(&config)
        .on_start(move |job| seen.send((job.id(), "start".to_string())).unwrap())
        .on_end(move |job, outcome, _| ended.send((job.id(), format!("{outcome:?}"))).unwrap())
        .start()
        .await
        .unwrap();
    worker.drain_until(Duration::ZERO).await.unwrap();
    let said: Vec<(readpast::JobId, String)> = said.try_iter().collect();
    let count = |what: &str| said.iter().filter(|(_, said)| said.contains(what)).count();
    assert_eq!((count("start"), count("Done"), count("three")), (10, 9, 1));
    for (job_id, _) in &said {
        let of_job: Vec<&String> = said.iter().filter(|(id, _)| id == job_id).map(|(_, said)| said).collect();
        assert!(of_job.len() == 2 && of_job[0] == "start", "{of_job:?}");
    }
    fixture.remove().await;
}
