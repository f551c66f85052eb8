//! How the jobs of each kind end and what they use: each run counts once, whatever is repeated, late or too much.

use std::time::Duration;

use readpast::admin::KindRow;
use readpast::{BoxError, Context, Handlers, Job, JobError, NewJob, Usage, Worker};

use crate::support::{Fixture, Session, changed};

const HOUR: Duration = Duration::from_secs(60 * 60);

async fn rows(fixture: &Fixture) -> Vec<KindRow> {
    fixture.queue.admin().kinds(HOUR).await.unwrap()
}

/// The call of `note_kinds` with these rows: kind, measure, bucket, jobs, total, largest.
fn noting(rows: &str) -> String {
    format!(
        "DECLARE @kinds [$(schema)].[kind_list]; INSERT @kinds (kind, measure, bucket, jobs, total, largest) VALUES {rows};
         EXEC [$(schema)].[note_kinds] @queue = N'work', @kinds = @kinds"
    )
}

pub(crate) async fn note(session: &mut Session, rows: &str) -> bool {
    session.row(&noting(rows)).await.get("noted").unwrap()
}

fn handler(job: &Job, context: &Context) -> Result<(), BoxError> {
    context.report_usage(Usage { cpu: Some(Duration::from_secs(2)), peak_memory: Some(3 << 30) });
    match &*job.text()? {
        "fails" if context.job().attempt() == 1 => Err("once".into()),
        "dies" => Err(JobError::dead("for good").into()),
        _ => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_has_reported_each_run_of_each_kind() {
    let fixture = Fixture::new("kind_history").await;
    let jobs = [("scan", "x"), ("scan", "fails"), ("scan", "dies"), ("mail", "x")]
        .map(|(kind, text)| NewJob::text(text).kind(kind));
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.retry.base = Duration::ZERO;
        worker.retry.max = Duration::ZERO;
    });
    // Only one of the kinds has a handler of its own.
    let handlers = Handlers::any(handler).kind("mail", handler);
    Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap().drain().await.unwrap();
    let later = NewJob::text("x").kind("later").delay(HOUR);
    fixture.queue.enqueue_many(&[later, NewJob::text("x").kind("mail")]).await.unwrap();

    let rows = rows(&fixture).await;
    let counts: Vec<_> =
        rows.iter().map(|row| (row.label(), row.ready, row.scheduled, [row.done, row.failed, row.died])).collect();
    let expected =
        [("(none)", 0, 0, [1, 0, 0]), ("later", 0, 1, [0; 3]), ("mail", 1, 0, [1, 0, 0]), ("scan", 0, 0, [2, 1, 1])];
    assert_eq!(counts, expected);
    let scan = &rows[3];
    let two = Some(Duration::from_secs(2));
    assert_eq!([scan.cpu_p50, scan.cpu_p95, scan.cpu_max, scan.cpu], [two, two, two, Some(Duration::from_secs(8))]);
    assert_eq!([scan.peak_memory_p50, scan.peak_memory_p95, scan.peak_memory_max], [Some(3 << 30); 3]);
    assert!(scan.run_mean <= scan.run_p95 && scan.run_p95.is_some() && !scan.is_partial);
    assert_eq!((rows[1].run_mean, rows[1].cpu, rows[1].peak_memory_max), (None, None, None), "it has not run");
    fixture.remove().await;
}

/// A killed worker loses at most about a minute of counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_worker_reports_within_two_minutes() {
    let fixture = Fixture::new("kind_history_minute").await;
    fixture.queue.enqueue(&NewJob::text("x").kind("mail")).await.unwrap();
    let handlers = Handlers::any(handler);
    let worker = Worker::builder(&fixture.queue, handlers).config(&fixture.config.worker).start().await.unwrap();
    let reported = async {
        while !rows(&fixture).await.iter().any(|row| row.done == 1) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(100), reported).await.expect("a report");
    worker.shutdown().await.unwrap();
    assert_eq!(rows(&fixture).await[0].done, 1, "it counts once");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_add_up_and_percentiles_are_of_all_of_them() {
    let fixture = Fixture::new("kind_history_sums").await;
    let mut session = fixture.session().await;
    // Of 100 runs, 94 take 3 us, 5 take 1,000 us and one 2,000 us.
    assert!(
        note(
            &mut session,
            "('scan', 1, 5, 90, 180, 3), ('scan', 1, 21, 5, 5000, 1000), ('scan', 5, 21, 1, 1000, 1000)"
        )
        .await
    );
    assert!(note(&mut session, "('scan', 2, 5, 4, 20, 3), ('scan', 3, 23, 1, 2000, 2000)").await);
    let [scan] = &rows(&fixture).await[..] else { panic!("one kind") };
    assert_eq!([scan.done, scan.failed, scan.died], [95, 4, 1]);
    let us = |us| Some(Duration::from_micros(us));
    assert_eq!([scan.run_mean, scan.run_p95], [us(72), us(1_000)], "{scan:?}");
    assert_eq!([scan.peak_memory_p50, scan.peak_memory_max], [Some(1_000); 2]);
    // An hour that is over is added up with this one, and one before it is not.
    session.sql("UPDATE [$(schema)].[kind_history] SET hour = DATEADD(HOUR, -1, hour)").await;
    assert!(note(&mut session, "('scan', 1, 5, 1, 3, 3)").await);
    assert_eq!(rows(&fixture).await[0].done, 96);
    session.sql("UPDATE [$(schema)].[kind_history] SET hour = DATEADD(HOUR, -1, hour)").await;
    assert_eq!(rows(&fixture).await[0].done, 1);
    assert_eq!(fixture.queue.admin().kinds(2 * HOUR).await.unwrap()[0].done, 96);
    fixture.remove().await;
}

/// Producers choose the kinds.
#[tokio::test(flavor = "multi_thread")]
async fn however_many_kinds_there_are_fifty_of_an_hour_have_a_name() {
    let fixture = Fixture::new("kind_history_bound").await;
    let mut session = fixture.session().await;
    let of = |numbers: std::ops::Range<u32>, jobs| {
        numbers.map(|number| format!("('kind{number:03}', 1, 5, {jobs}, 3, 3)")).collect::<Vec<_>>().join(", ")
    };
    assert!(
        note(&mut session, &format!("{}, ('', 1, 5, 1, 3, 3), (' other kinds', 1, 5, 1, 3, 3)", of(0..40, 1))).await
    );
    assert!(note(&mut session, &format!("{}, {}", of(100..120, 1), of(120..130, 2))).await);
    assert!(note(&mut session, &of(35..40, 3)).await);
    let stored = session.number("SELECT COUNT(*) FROM [$(schema)].[kind_history]").await;
    assert_eq!(stored, 52);
    // The depth may name others, of which the largest have a name.
    let jobs: Vec<NewJob> = (0..10).map(|_| NewJob::text("x").kind("waiting")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let rows = rows(&fixture).await;
    assert_eq!((rows.len(), rows.iter().map(|row| row.done).sum::<u64>()), (52, 40 + 2 + 40 + 15));
    let others = rows.last().unwrap();
    assert!(others.is_other && others.kind.is_none() && others.done == 22, "{others:?}");
    assert!(rows.iter().any(|row| row.kind.as_deref() == Some("waiting") && row.ready == 10));
    assert!(
        rows.iter().filter(|row| row.label() > "kind119" && !row.is_other).all(|row| row.done != 1),
        "most jobs first"
    );
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_another_session_reports_nothing_is_written() {
    let fixture = Fixture::new("kind_history_busy").await;
    let (mut one, mut other) = (fixture.session().await, fixture.session().await);
    one.sql("BEGIN TRANSACTION").await;
    assert!(note(&mut one, "('scan', 1, 5, 1, 3, 3)").await);
    assert!(!note(&mut other, "('scan', 1, 5, 1, 3, 3)").await);
    one.sql("COMMIT TRANSACTION").await;
    assert!(note(&mut other, "('scan', 1, 5, 1, 3, 3)").await);
    assert_eq!(rows(&fixture).await[0].done, 2);
    drop((one, other));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_go_after_a_week_and_with_their_queue() {
    let fixture = Fixture::new("kind_history_end").await;
    let mut session = fixture.session().await;
    assert!(note(&mut session, "('scan', 1, 5, 1, 3, 3), ('old', 1, 5, 1, 3, 3)").await);
    session
        .sql(
            "UPDATE [$(schema)].[kind_history] SET hour = DATEADD(DAY, -8, hour) WHERE kind = 'old';
             EXEC [$(schema)].[expire] @queue = N'work'",
        )
        .await;
    let left = "SELECT COUNT(*) FROM [$(schema)].[kind_history]";
    assert_eq!(session.number(left).await, 1);
    // While the queue is being deleted, nothing is written: it may be gone or stay.
    let mut other = fixture.session().await;
    other.sql("BEGIN TRANSACTION; DELETE [$(schema)].[queues]").await;
    assert_eq!(session.refusal(&noting("('late', 1, 5, 1, 3, 3)")).await.0, 1222);
    assert_eq!(session.number(left).await, 1);
    other.sql("ROLLBACK TRANSACTION").await;
    for impossible in ["6, 5, 1, 3, 3", "1, 102, 1, 3, 3", "1, 5, 0, 3, 3", "1, 5, 1, -1, 3", "1, 5, 1, 3, -1"] {
        let (number, message) = session.refusal(&noting(&format!("('x', {impossible})"))).await;
        assert!(number == 58003 && message.contains("bucket 0 to 101"), "{impossible}: {message}");
    }
    fixture.queue.admin().delete(false).await.unwrap();
    assert_eq!(session.number(left).await, 0);
    assert_eq!(session.refusal(&noting("('late', 1, 5, 1, 3, 3)")).await.0, 58001);
    drop((session, other));
    fixture.remove().await;
}
