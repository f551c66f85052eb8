//! Panics outside of a handler: the worker ends with an error, nothing stays counted, and what it held runs elsewhere.

use std::sync::Arc;

use readpast::admin::{CompletionPolicy, JobState, QueueOptions};
use readpast::{Error, Handlers, Worker, WorkerBuilder};
use tracing::{Subscriber, span, span::Attributes};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::panicking_recorder::PanickingRecorder;
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
    let left = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!(left.ready + left.done, 20, "what is not done is given back");
    assert_eq!((left.claimed, left.workers), (0, 0));
    let ready = fixture.queue.admin().list(&JobState::Ready.into(), None, 100).await.unwrap().jobs;
    assert!(ready.iter().all(|job| job.attempt == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_panics_ends_the_worker_with_an_error() {
    for hook in ["on_start", "on_end"] {
        let fixture = fixture(hook).await;
        let builder = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(())));
        let builder = match hook {
            "on_start" => builder.on_start(|_| panic!("a hook's defect")),
            _ => builder.on_end(|_, _, _| panic!("a hook's defect")),
        };
        ends_with_an_error(&fixture, builder, "a hook's defect").await;
        fixture.remove().await;
    }
}

/// Panics where it hears of a job's span.
#[derive(Clone, Copy)]
struct PanicsAt(&'static str);

impl PanicsAt {
    fn hears(self, what: &str, name: Option<&str>) {
        assert!(self.0 != what || name != Some("job"), "the subscriber's defect");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for PanicsAt {
    fn on_new_span(&self, span: &Attributes<'_>, _: &span::Id, _: Context<'_, S>) {
        self.hears("begins", Some(span.metadata().name()));
    }

    fn on_enter(&self, id: &span::Id, context: Context<'_, S>) {
        self.hears("is entered", context.metadata(id).map(|metadata| metadata.name()));
    }

    fn on_exit(&self, id: &span::Id, context: Context<'_, S>) {
        self.hears("is left", context.metadata(id).map(|metadata| metadata.name()));
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        self.hears("ends", context.metadata(&id).map(|metadata| metadata.name()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_panics_ends_the_worker_with_an_error_and_fails_no_job() {
    for what in ["begins", "is entered", "is left", "ends"] {
        let fixture = fixture("subscriber").await;
        let subscribe = move |_| {
            let subscriber = tracing_subscriber::registry().with(PanicsAt(what));
            std::mem::forget(tracing::subscriber::set_default(subscriber)); // until the thread ends
        };
        let threads = rayon::ThreadPoolBuilder::new().num_threads(2).start_handler(subscribe).build().unwrap();
        let builder = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).thread_pool(Arc::new(threads));
        ends_with_an_error(&fixture, builder, "the subscriber's defect").await;
        fixture.remove().await;
    }
}

/// In two of the tasks that speak with SQL Server.
#[tokio::test]
async fn a_recorder_that_panics_ends_the_worker_with_an_error() {
    for counter in ["readpast_claims_total", "readpast_finished_jobs_total"] {
        let fixture = fixture("recorder").await;
        let recorder = PanickingRecorder(counter);
        let _recording = metrics::set_default_local_recorder(&recorder);
        let builder = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(())));
        ends_with_an_error(&fixture, builder, "the recorder's defect").await;
        fixture.remove().await;
    }
}

/// In a job's thread, where it counts that the worker has no handler for the job's kind.
#[tokio::test]
async fn a_recorder_that_panics_in_a_job_s_thread_loses_no_job() {
    let fixture = fixture("recorder_thread").await;
    let recorder = PanickingRecorder("readpast_deferred_jobs_total");
    let _recording = metrics::set_default_local_recorder(&recorder);
    let builder = Worker::builder(&fixture.queue, Handlers::new().kind("another", |_, _| Ok(())));
    ends_with_an_error(&fixture, builder, "the recorder's defect").await;
    fixture.remove().await;
}

/// Its queue has a name of its own: the gauge is the sum over the workers of all queues of that name.
#[tokio::test]
async fn a_recorder_that_panics_at_a_worker_s_end_panics_in_no_drop() {
    let mut fixture = fixture("recorder_end").await;
    fixture.config.queue.name = "panics: end".to_owned();
    let queue = fixture.connect().await;
    queue.admin().create(QueueOptions::default()).await.unwrap();
    let recorder = PanickingRecorder("readpast_run_threads");
    let _recording = metrics::set_default_local_recorder(&recorder);
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(worker)));
    assert!(dropped.is_ok());
    drop(queue);
    fixture.remove().await;
}
