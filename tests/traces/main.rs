//! A job's spans continue its producer's trace, where the program uses OpenTelemetry.

use std::time::Duration;

use std::sync::OnceLock;

use opentelemetry::trace::{SpanId, TraceContextExt, TraceId, TracerProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use readpast::admin::{JobState, QueueOptions};
use readpast::{BoxError, Config, Context, Handlers, Job, NewJob, Output, Queue, Worker};
use readpast_devserver::DevServer;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

/// It ends with the program.
static DEV_SERVER: OnceCell<DevServer> = OnceCell::const_new();

/// What all spans of the program are exported to.
static EXPORTER: OnceLock<InMemorySpanExporter> = OnceLock::new();

/// An empty queue of this name.
async fn queue(name: &str) -> Queue {
    EXPORTER.get_or_init(|| {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("traces"));
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).expect("the only one");
        exporter
    });
    let server = DEV_SERVER.get_or_init(|| async { DevServer::start().await.expect("the dev server starts") }).await;
    let mut config = Config::default();
    config.connection.url = server.connection_string().into();
    config.connection.schema = format!("traces_{name}");
    config.queue.name = name.to_string();
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().install().await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    queue
}

/// The spans of this name that have ended, in the order in which they began.
fn spans(trace: TraceId, name: &str) -> Vec<SpanData> {
    let mut spans = EXPORTER.get().unwrap().get_finished_spans().unwrap();
    spans.retain(|span| span.name == name && span.span_context.trace_id() == trace);
    spans.sort_by_key(|span| span.start_time);
    spans
}

fn id(span: &SpanData) -> SpanId {
    span.span_context.span_id()
}

/// The producer's span, which has this name and has ended.
fn producer(name: &str) -> SpanData {
    let spans = EXPORTER.get().unwrap().get_finished_spans().unwrap();
    spans.into_iter().find(|span| span.name == name).expect("it has ended")
}

async fn drain(queue: &Queue, handler: impl Fn(&Job, &Context) -> Result<Output, BoxError> + Send + Sync + 'static) {
    let mut config = Config::default().worker;
    (config.retry.base, config.retry.max) = (Duration::from_millis(1), Duration::from_millis(1));
    Worker::builder(queue, Handlers::any(handler)).config(&config).start().await.unwrap().drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn producer_attempts_and_follow_up_are_one_trace() {
    let queue = queue("one_trace").await;
    let jobs = [NewJob::text("first"), NewJob::text("own").header("tenant", "acme")];
    let enqueueing = async {
        queue.enqueue_many(&jobs).await.unwrap();
        queue.enqueue(&NewJob::text("single")).await.unwrap();
    };
    enqueueing.instrument(tracing::info_span!("order")).await;
    let producer = producer("order");
    drain(&queue, |job, _| {
        let _own = tracing::info_span!("in the handler").entered();
        match (job.text()?.as_ref(), job.attempt()) {
            ("first", 1) => Err("not yet".into()),
            ("first", _) => Ok(Output::default().enqueue("one_trace", NewJob::text("follow-up"))),
            ("own", _) if job.header("tenant") != Some("acme") => Err("its own headers are gone".into()),
            _ => Ok(Output::default()),
        }
    })
    .await;

    let trace = producer.span_context.trace_id();
    let runs = spans(trace, "job");
    // Two attempts, the job with headers of its own, and the one that was enqueued by itself.
    let of_producer: Vec<_> = runs.iter().filter(|run| run.parent_span_id == id(&producer)).collect();
    assert_eq!((runs.len(), of_producer.len()), (5, 4), "{runs:#?}");
    let follow_up = runs.iter().find(|run| run.parent_span_id != id(&producer)).unwrap();
    let inside = spans(trace, "in the handler");
    assert_eq!(inside.len(), 5);
    assert!(inside.iter().all(|span| runs.iter().any(|run| id(run) == span.parent_span_id)), "{inside:#?}");
    // Where the handler was when it said so.
    let origin = inside.iter().find(|span| id(span) == follow_up.parent_span_id).expect("the follow-up is its child");
    assert!(of_producer.iter().any(|run| id(run) == origin.parent_span_id), "{runs:#?}");
}

/// Their jobs share calls, which none of them makes itself.
#[tokio::test(flavor = "multi_thread")]
async fn producers_that_enqueue_at_the_same_time_keep_their_traces_apart() {
    const NAMES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let queue = queue("traces_apart").await;
    let mut producers = JoinSet::new();
    for name in NAMES {
        let queue = queue.clone();
        let span = tracing::info_span!("producer", otel.name = format!("producer {name}"));
        producers.spawn(async move { queue.enqueue(&NewJob::text(name)).await.unwrap() }.instrument(span));
    }
    producers.join_all().await;
    drain(&queue, |job, _| {
        let name = job.text()?;
        let _own = tracing::info_span!("run", otel.name = format!("run {name}")).entered();
        Ok(Output::default())
    })
    .await;
    for name in NAMES {
        let producer = producer(&format!("producer {name}"));
        let trace = producer.span_context.trace_id();
        assert_eq!(spans(trace, "job").len(), 1);
        assert_eq!(spans(trace, &format!("run {name}")).len(), 1, "the job of this producer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_span_a_job_goes_without_headers_and_is_the_worker_s() {
    let queue = queue("no_span").await;
    queue.enqueue_many(&[NewJob::text("a"), NewJob::text("b")]).await.unwrap();
    queue.enqueue(&NewJob::text("c")).await.unwrap();
    let listed = queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs;
    assert!(listed.iter().all(|job| job.headers.is_none()), "{listed:?}");
    let (sender, traces) = std::sync::mpsc::channel();
    drain(&queue, move |_, _| {
        sender.send(opentelemetry::Context::current().span().span_context().trace_id())?;
        Ok(Output::default())
    })
    .await;
    let runs = spans(traces.recv().unwrap(), "job");
    assert_eq!(runs.len(), 3, "one trace, the worker's");
    assert!(runs.iter().all(|run| run.parent_span_id == runs[0].parent_span_id && !run.parent_span_is_remote));
    assert_ne!(runs[0].parent_span_id, SpanId::INVALID);
}

/// A job that is passed on, or a message whose trace comes from elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_the_producer_gives_wins() {
    let queue = queue("given").await;
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let given = NewJob::text("").header("traceparent", format!("00-{trace}-{parent}-01"));
    queue.enqueue(&given).instrument(tracing::info_span!("passes it on")).await.unwrap();
    // Not refused either: these are the producer's words, whatever they mean.
    queue.enqueue(&NewJob::text("").header("traceparent", "nonsense")).await.unwrap();
    drain(&queue, |_, _| Ok(Output::default())).await;
    let runs = spans(TraceId::from_hex(trace).unwrap(), "job");
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].parent_span_id, SpanId::from_hex(parent).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_for_which_there_is_no_room_refuses_no_job() {
    let queue = queue("no_room").await;
    let full = NewJob::text("").header("x", "y".repeat(1_292));
    let room = NewJob::text("").header("x", "y".repeat(1_200));
    queue.enqueue_many(&[full, room]).instrument(tracing::info_span!("long headers")).await.unwrap();
    let listed = queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs;
    let traced: Vec<_> = listed.iter().map(|job| job.headers.as_ref().unwrap().contains_key("traceparent")).collect();
    assert_eq!(traced, [false, true]);
}
