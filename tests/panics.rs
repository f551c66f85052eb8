//! Panics outside of a handler: the worker ends with an error, nothing stays counted, and what it held runs elsewhere.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use readpast::{CompletionPolicy, Error, Handlers, JobState, QueueOptions, Worker, WorkerBuilder};

use crate::support::{Fixture, numbers};

/// Done jobs stay, so that they can be counted.
async fn fixture(test_name: &str) -> Fixture {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    Fixture::with(test_name, options).await
}

async fn ends_with_an_error(fixture: &Fixture, builder: WorkerBuilder, said: &str) {
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    let worker = builder.start().await.unwrap();
    let monitor = worker.monitor();
    let error = worker.run().await.expect_err("it cannot go on");
    assert!(matches!(&error, Error::Panicked { message, .. } if message.contains(said)), "{error}");
    let stats = monitor.stats();
    assert_eq!((stats.buffered, stats.running, stats.awaiting_finish, stats.held_bytes), (0, 0, 0, 0));
    let left = fixture.queue.stats().await.unwrap();
    assert_eq!(left.ready + left.done, 20, "what is not done is given back");
    assert_eq!((left.claimed, left.workers), (0, 0));
    let ready = fixture.queue.list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert!(ready.iter().all(|job| job.attempt == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_panics_ends_the_worker_with_an_error() {
    let fixture = fixture("hook").await;
    let builder = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(())));
    let builder = builder.on_end(|_, _, _| panic!("a hook's defect"));
    ends_with_an_error(&fixture, builder, "a hook's defect").await;
    fixture.remove().await;
}

/// Panics when a histogram of one name is recorded.
struct Panicking(&'static str);

struct Panic;

impl HistogramFn for Panic {
    fn record(&self, _: f64) {
        panic!("the recorder's defect");
    }
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() == self.0 { Histogram::from_arc(Arc::new(Panic)) } else { Histogram::noop() }
    }
}

/// One that a job's thread records, and two of tasks that speak with SQL Server.
#[tokio::test]
async fn a_recorder_that_panics_ends_the_worker_with_an_error() {
    for histogram in ["readpast_buffer_wait_seconds", "readpast_claim_seconds", "readpast_finish_seconds"] {
        let fixture = fixture("recorder").await;
        let recorder = Panicking(histogram);
        let _recording = metrics::set_default_local_recorder(&recorder);
        let builder = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(())));
        ends_with_an_error(&fixture, builder, "the recorder's defect").await;
        fixture.remove().await;
    }
}
