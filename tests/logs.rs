//! What a worker logs: one line for each event that an operator must know of, none for each job, with fields to search
//! by.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use readpast::admin::QueueOptions;
use readpast::{Config, Handlers, Job, JobError, NewJob, Queue, Worker};
use readpast_devserver::SqlError;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::proxy::Proxy;
use crate::support::{Fixture, WorkerSession, dev_server, numbers, server_url, until};

/// One event, with its own fields and those of the spans around it.
#[derive(Debug, Clone)]
struct Line {
    level: Level,
    fields: BTreeMap<String, String>,
}

impl Line {
    fn message(&self) -> &str {
        &self.fields["message"]
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no field {name} in {self:?}"))
    }
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_string(), value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_string(), format!("{value:?}"));
    }
}

/// What the driver says on this thread.
#[derive(Clone, Default)]
struct Driver(Arc<Mutex<Vec<(Level, String)>>>);

impl<S: Subscriber> Layer<S> for Driver {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("tiberius") {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let message = fields.0.remove("message").unwrap_or_default();
            self.0.lock().unwrap().push((*event.metadata().level(), message));
        }
    }
}

#[test]
fn the_driver_s_warnings_of_each_connection_are_dropped_and_its_errors_are_not() {
    let driver = Driver::default();
    // Of two subscribers, tracing asks both whether they listen, on whatever thread an event comes by first.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::registry().with(driver.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let url = server_url().await;
            for url in [url.clone(), format!("{url};Encrypt=false"), format!("{url};Password=wrong")] {
                let mut config = Config::default();
                config.connection.url = url.into();
                let _ = Queue::connect(&config).await;
            }
        });
    });
    let said = driver.0.lock().unwrap();
    let of_level = |level| said.iter().filter(|line| line.0 == level).map(|line| line.1.as_str()).collect::<Vec<_>>();
    assert_eq!((of_level(Level::WARN), of_level(Level::INFO)), (vec![], vec![]));
    assert!(of_level(Level::ERROR).iter().any(|error| error.contains("Login failed")), "{said:?}");
    assert!(of_level(Level::DEBUG).iter().any(|line| line.contains("sending login")), "it is there for those who ask");
}

/// Everything from level info on that the crate or a handler of these tests says; the driver has its say elsewhere.
static LINES: OnceLock<Arc<Mutex<Vec<Line>>>> = OnceLock::new();

struct Capture(Arc<Mutex<Vec<Line>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).expect("it has just been made").extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        // Another test's subscriber may ask for more than this one's hint; and the driver has its say elsewhere.
        if *metadata.level() > Level::INFO || metadata.target().starts_with("tiberius") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                for (name, value) in &outer.0 {
                    fields.0.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        self.0.lock().unwrap().push(Line { level: *event.metadata().level(), fields: fields.0 });
    }
}

/// Begins to capture; tests are told apart by the names of their queues.
fn capture() {
    LINES.get_or_init(|| {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(Capture(lines.clone()));
        tracing::subscriber::set_global_default(subscriber).expect("no other test captures");
        lines
    });
}

/// What was said about a queue so far.
fn lines_of(queue: &str) -> Vec<Line> {
    let lines = LINES.get().expect("capturing").lock().unwrap();
    lines.iter().filter(|line| line.fields.get("queue").is_some_and(|of| of == queue)).cloned().collect()
}

fn messages(queue: &str) -> Vec<String> {
    lines_of(queue).iter().map(|line| line.message().to_string()).collect()
}

fn line(queue: &str, message: &str) -> Line {
    let lines = lines_of(queue);
    lines
        .iter()
        .find(|line| line.message() == message)
        .unwrap_or_else(|| panic!("no '{message}' in {lines:#?}"))
        .clone()
}

async fn logged(queue: &str, message: &str) -> Line {
    until(message, || messages(queue).iter().any(|line| line == message)).await;
    line(queue, message)
}

/// A queue of its own name, and the configuration that leads to it.
async fn logged_queue(fixture: &Fixture, name: &str) -> (Config, Queue) {
    capture();
    let mut config = fixture.config.clone();
    config.queue.name = name.to_string();
    config.worker.name = "night-shift".to_string();
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(QueueOptions::default()).await.unwrap();
    (config, queue)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_and_a_stop_are_a_line_each_and_jobs_are_none() {
    let fixture = Fixture::new("start_stop").await;
    let (_, queue) = logged_queue(&fixture, "logs: start and stop").await;
    queue.enqueue_many(&numbers(50)).await.unwrap();
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    worker.drain().await.unwrap();
    assert_eq!(messages(queue.name()), ["the worker started", "the worker stopped"]);
    let started = line(queue.name(), "the worker started");
    assert_eq!(
        (started.level, started.field("worker"), started.field("batch_size")),
        (Level::INFO, "night-shift", "500")
    );
    assert_eq!(started.field("worker_id").len(), 36);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_runs_in_a_span_with_job_and_attempt() {
    let fixture = Fixture::new("span").await;
    let (mut config, queue) = logged_queue(&fixture, "logs: span").await;
    config.worker.retry.base = Duration::ZERO;
    config.worker.promote_interval = Duration::from_millis(10);
    let job_id = queue.enqueue_many(&numbers(1)).await.unwrap()[0].job_id;
    let handlers = Handlers::any(|job, _| {
        tracing::info!("inside");
        if job.attempt() < 2 {
            Err::<(), _>(JobError::retry("once more").into())
        } else {
            Err(JobError::dead("enough").into())
        }
    });
    let worker = Worker::builder(&queue, handlers).config(&config.worker).start().await.unwrap();
    worker.drain().await.unwrap();
    let lines = lines_of(queue.name());
    let inside: Vec<&Line> = lines.iter().filter(|line| line.message() == "inside").collect();
    let attempts: Vec<&str> = inside.iter().map(|line| line.field("attempt")).collect();
    assert_eq!(attempts, ["1", "2"]);
    assert!(inside.iter().all(|line| line.field("job_id") == job_id.to_string()));
    assert!(inside.iter().all(|line| line.field("worker") == "night-shift"));

    let dead: Vec<&Line> = lines.iter().filter(|line| line.message() == "a job is dead").collect();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].level, dead[0].field("attempt"), dead[0].field("error")), (Level::WARN, "2", "enough"));
    assert_eq!(dead[0].field("job_id"), job_id.to_string());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_about_a_job_say_its_kind() {
    let fixture = Fixture::new("kind").await;
    let (_, queue) = logged_queue(&fixture, "logs: kind").await;
    queue.enqueue_many(&["known", "unheard-of"].map(|kind| NewJob::text("").kind(kind))).await.unwrap();
    let fail = |_: &Job, _: &readpast::Context| {
        tracing::info!("inside");
        Err::<(), _>(JobError::dead("enough").into())
    };
    let handlers = Handlers::new().kind("known", fail).otherwise(fail);
    let worker = Worker::builder(&queue, handlers).start().await.unwrap();
    worker.drain().await.unwrap();
    let lines = lines_of(queue.name());
    for message in ["inside", "a job is dead"] {
        let about = lines.iter().filter(|line| line.message() == message);
        let mut kinds: Vec<Option<&String>> = about.map(|line| line.fields.get("kind")).collect();
        kinds.sort();
        assert_eq!(kinds, ["known", "unheard-of"].map(str::to_owned).each_ref().map(Some), "{message}");
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_kinds_without_a_handler_are_a_line_a_minute() {
    let fixture = Fixture::new("unknown_kind").await;
    let (_, queue) = logged_queue(&fixture, "logs: unknown kind").await;
    queue.enqueue_many(&(0..50).map(|_| NewJob::text("").kind("unheard-of")).collect::<Vec<_>>()).await.unwrap();
    let handlers = Handlers::new().kind("known", |_, _| Ok(()));
    let worker = Worker::builder(&queue, handlers).start().await.unwrap();
    until("all are put off", || worker.stats().snoozed == 50).await;
    worker.shutdown().await.unwrap();
    let lines = lines_of(queue.name());
    let put_off: Vec<&Line> = lines.iter().filter(|line| line.message().contains("postponed jobs")).collect();
    assert_eq!((put_off.len(), put_off[0].level), (1, Level::WARN));
    assert_eq!(put_off[0].field("error"), "the worker has no handler for jobs of kind 'unheard-of'");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_and_the_new_registration_are_a_line_each() {
    let fixture = Fixture::new("lost").await;
    let (mut config, queue) = logged_queue(&fixture, "logs: lost").await;
    config.worker.heartbeat_interval = Duration::from_millis(100);
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config.worker).start().await.unwrap();
    let first_id = line(queue.name(), "the worker started").field("worker_id").to_string();
    fixture.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    let anew = logged(queue.name(), "the worker registered again").await;
    worker.shutdown().await.unwrap();
    let lost = line(queue.name(), "the worker lost its lease; registering again");
    assert_eq!((lost.level, lost.field("worker_id")), (Level::WARN, first_id.as_str()));
    assert_ne!(anew.field("worker_id"), first_id);
    let lost_lines =
        messages(queue.name()).iter().filter(|line| *line == "the worker lost its lease; registering again").count();
    assert_eq!(lost_lines, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnecting_is_a_line_and_what_failed_before_is_too() {
    let fixture = Fixture::new("reconnect").await;
    let proxy = Proxy::start(fixture.url()).await;
    let (mut config, queue) = logged_queue(&fixture, "logs: reconnect").await;
    config.connection.url = proxy.connection_string().into();
    let through_proxy = Queue::connect(&config).await.unwrap();
    let worker = Worker::builder(&through_proxy, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let monitor = worker.monitor();
    until("a claim is answered", || monitor.stats().last_claim_succeeded).await;
    proxy.block();
    let failed = logged(queue.name(), "SQL Server does not respond; retrying until it does").await;
    assert_eq!((failed.level, failed.field("call").is_empty()), (Level::WARN, false));
    until("calls have failed again and again", || proxy.refused() > 10).await;
    proxy.unblock();
    let again = logged(queue.name(), "reconnected").await;
    assert_eq!(again.level, Level::INFO);
    assert!(!again.field("procedure").is_empty());
    let over = logged(queue.name(), "SQL Server responds again").await;
    assert!(over.level == Level::INFO && over.field("failed").parse::<u64>().unwrap() >= 3, "{over:?}");
    let warnings: Vec<Line> = lines_of(queue.name()).into_iter().filter(|line| line.level == Level::WARN).collect();
    assert_eq!(warnings.len(), 1, "an outage of less than a minute is one warning: {warnings:#?}");
    worker.shutdown().await.unwrap();
    let end = line(queue.name(), "the worker stopped");
    assert_eq!((end.field("done"), end.fields.get("stats")), ("0", None));
    drop(through_proxy);
    fixture.remove().await;
}

/// Its job's row stays locked, which is no outage.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_a_handler_leaves_open_is_a_line_and_no_outage() {
    let fixture = Arc::new(Fixture::new("left_open").await);
    let (config, queue) = logged_queue(&fixture, "logs: left open").await;
    let job_id = queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let left_open = Arc::new(Mutex::new(None));
    let (inside, keeps) = (fixture.clone(), left_open.clone());
    let handlers = Handlers::any(move |job: &Job, context: &readpast::Context| {
        if job.attempt() > 1 {
            return Ok(readpast::Output::default());
        }
        context.block_on(async {
            let mut session = inside.session().await;
            session.client.begin_transaction().await?;
            let finished =
                readpast::transaction::finish_in(&mut session.client, context, readpast::Output::default()).await?;
            *keeps.lock().unwrap() = Some(session);
            readpast::IntoOutput::into_output(finished)
        })
    });
    let worker = Worker::builder(&queue, handlers).config(&config.worker).start().await.unwrap();
    let is_about = |line: &Line| line.message().starts_with("cannot finish a job while an open transaction");
    until("it is said", || lines_of(queue.name()).iter().any(is_about)).await;
    left_open.lock().unwrap().take();
    worker.drain().await.unwrap();
    let lines = lines_of(queue.name());
    let warnings: Vec<&Line> = lines.iter().filter(|line| line.level == Level::WARN).collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(is_about(warnings[0]) && warnings[0].field("job_id") == job_id.to_string());
    until("the worker's handler is gone", || Arc::strong_count(&fixture) == 1).await;
    Arc::into_inner(fixture).expect("nobody else has it").remove().await;
}

/// Twice its result is not answered in time: in the list of all, and alone. Then it goes by another connection.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_over_in_the_log_when_another_connection_has_delivered_the_result() {
    let fixture = Fixture::on_dev_server("log_over", QueueOptions::default()).await;
    let (mut config, queue) = logged_queue(&fixture, "logs: over").await;
    dev_server().await.faults().on_call(&fixture.procedure_to_fail("finish"), |call| {
        if call <= 2 {
            std::thread::sleep(Duration::from_secs(2));
        }
        (call <= 2).then(|| SqlError::new(40501, "busy").severity(16))
    });
    config.connection.command_timeout = Duration::from_secs(1);
    let hurried = Queue::connect(&config).await.unwrap();
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    let handlers = Handlers::any(|_, _| Ok(readpast::Output::bytes("an output")));
    let worker = Worker::builder(&hurried, handlers).config(&config.worker).start().await.unwrap();
    until("it is done", || worker.stats().done == 1).await;
    until("each outage has an end", || {
        let lines = messages(queue.name());
        let count = |message| lines.iter().filter(|line| *line == message).count();
        let begun = count("SQL Server does not respond; retrying until it does");
        begun > 0 && begun == count("SQL Server responds again")
    })
    .await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_reaped_worker_is_a_line() {
    let fixture = Fixture::new("reaped").await;
    capture();
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let mut gone = WorkerSession::register(&fixture).await;
    assert_eq!(gone.claim(3).await.len(), 3);
    let idle = WorkerSession::register(&fixture).await;
    fixture.sql("UPDATE [$(schema)].[workers] SET lease_until = DATEADD(MINUTE, -1, SYSUTCDATETIME())").await;
    let mut config = fixture.config.worker.clone();
    config.name = format!("reaper of {}", fixture.schema());
    config.reap_interval = Duration::from_millis(100);
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 3);
    let of_reaper = |message: &str| -> Vec<Line> {
        let lines = lines_of("work").into_iter();
        // Other tests' queues have this name too, and not every line is a worker's.
        let is_reaper = |line: &Line| line.fields.get("worker").is_some_and(|worker| *worker == config.name);
        lines.filter(|line| is_reaper(line) && line.message() == message).collect()
    };
    let lost = of_reaper("a worker was lost: its lease expired");
    let mut ids: Vec<&str> = lost.iter().map(|line| line.field("lost_worker_id")).collect();
    let mut expected = [gone.id.to_string(), idle.id.to_string()];
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
    assert!(lost.iter().all(|line| line.level == Level::WARN && line.field("lost_worker") == "a test"), "{lost:?}");
    let given_back = of_reaper("returned the jobs of lost workers to the queue");
    assert_eq!(given_back.len(), 1, "{given_back:?}");
    assert_eq!((given_back[0].level, given_back[0].field("ready")), (Level::WARN, "3"));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_sql_server_is_logged_with_its_number() {
    let fixture = Fixture::new("number").await;
    let (mut config, queue) = logged_queue(&fixture, "logs: number").await;
    config.worker.heartbeat_interval = Duration::from_millis(100);
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config.worker).start().await.unwrap();
    fixture
        .sql(
            "CREATE OR ALTER PROCEDURE [$(schema)].[heartbeat] @worker_id uniqueidentifier, @running int, @done bigint, @failed bigint,
                 @limited_by varchar(16), @dead bigint, @times varchar(1400), @report_no bigint, @yields bit = 0
             AS THROW 50001, N'closed for repairs', 1",
        )
        .await;
    let ended = tokio::time::timeout(Duration::from_secs(30), worker.run()).await.expect("the worker ends");
    assert_eq!(ended.unwrap_err().sql_number(), Some(50001));
    let failed = line(queue.name(), "the worker is stopping because of an error");
    assert_eq!((failed.level, failed.field("sql_error")), (Level::ERROR, "50001"));
    fixture.remove().await;
}

/// A program may start a worker under a subscriber of one thread, while the pool's threads have the program's.
#[test]
fn a_worker_of_another_subscriber_runs_its_jobs() {
    capture();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Its registry has spans that the other's has not, whatever other tests have made there.
    let registry = tracing_subscriber::registry();
    let done = tracing::subscriber::with_default(registry, || {
        let spans: Vec<_> = (0..10_000).map(|_| tracing::info_span!("one of many")).collect();
        let done = runtime.block_on(async {
            let fixture = Fixture::new("other_subscriber").await;
            fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
            let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
            let drained = tokio::time::timeout(Duration::from_secs(30), worker.drain()).await.expect("every job ends");
            fixture.remove().await;
            drained.unwrap().stats.done
        });
        drop(spans);
        done
    });
    assert_eq!(done, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_says_what_it_waits_for() {
    let fixture = Fixture::new("drain_log").await;
    let (_, queue) = logged_queue(&fixture, "drain_log").await;
    queue.enqueue(&NewJob::text("tomorrow").delay(Duration::from_secs(86_400))).await.unwrap();
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(())));
    let worker = worker.start().await.unwrap();
    let stop = worker.stop_handle();
    let draining = tokio::spawn(worker.drain());
    let line = logged("drain_log", "the queue is not drained yet").await;
    assert_eq!(line.field("waits_for"), "jobs that are scheduled");
    assert!(line.field("next_due_s").contains("86"), "{line:?}");
    stop.stop();
    draining.await.unwrap().unwrap();
    fixture.remove().await;
}
