//! What became of a queue, minute by minute: each job counts once, whatever is late, repeated, lost or done twice at a
//! time.

use std::time::{Duration, SystemTime};

use readpast::admin::{DurationHistogram, HistoryRow, JobChange, QueueOptions};
use readpast::{Error, Handlers, JobError, NewJob, Worker};

use tokio::task::JoinSet;

use crate::support::{Fixture, Session, WorkerSession, changed, numbers, until};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The whole minutes that have passed since 2000, by the server's clock.
async fn this_minute(session: &mut Session) -> i64 {
    session.number("SELECT DATEDIFF(MINUTE, '20000101', SYSUTCDATETIME())").await
}

/// A queue whose depth was sampled once.
async fn sampled(test_name: &str) -> Fixture {
    let fixture = Fixture::new(test_name).await;
    fixture.sql("EXEC [$(schema)].[sample] N'work', 0").await;
    fixture
}

/// Has the last sample be so many minutes old, and takes another, which writes the history of that minute.
async fn noted(session: &mut Session, minutes: i64) {
    let minute = this_minute(session).await - minutes;
    noted_of(session, minute, 5_000).await;
}

/// The same of a minute since 2000, by somebody who samples at twice this interval.
async fn noted_of(session: &mut Session, minute: i64, max_age_ms: u32) {
    session
        .sql(&format!(
            "UPDATE [$(schema)].[samples] SET begun_at = '20000101', sampled_at = {};
             EXEC [$(schema)].[sample] N'work', {max_age_ms}",
            half_past(minute)
        ))
        .await;
}

/// In the middle of a minute since 2000.
fn half_past(minute: i64) -> String {
    format!("DATEADD(SECOND, 30, DATEADD(MINUTE, {minute}, CAST('20000101' AS datetime2(3))))")
}

/// A report of a worker, so that it is not too soon after the one before.
async fn report(session: &mut Session, worker: &WorkerSession, numbers: &str) {
    session
        .sql(&format!(
            "UPDATE [$(schema)].[workers] SET reported_at = DATEADD(SECOND, -10, reported_at), \
                 registered_at = DATEADD(SECOND, -10, registered_at);
             EXEC [$(schema)].[heartbeat] @worker_id = '{}'{numbers}",
            worker.id
        ))
        .await;
}

/// Jobs done, failed and died, and how many have waited and run.
type Counts = [u64; 5];

fn counts(row: &HistoryRow) -> Counts {
    [row.done, row.failed, row.died, row.wait.count(), row.run.count()]
}

/// Of each row, from the first on.
async fn rows(fixture: &Fixture) -> Vec<Counts> {
    fixture.queue.admin().history(24 * HOUR).await.unwrap().iter().map(counts).collect()
}

async fn total(fixture: &Fixture) -> Counts {
    let mut total = Counts::default();
    for row in rows(fixture).await {
        total.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
    }
    total
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_has_what_was_reported_since_the_one_before() {
    let fixture = sampled("history_reports").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    let first = r#", @done = 5, @failed = 2, @dead = 1, @times = '{"w0":6,"w3":2,"r0":7}', @report_no = 1"#;
    report(&mut session, &worker, first).await;
    noted(&mut session, 9).await;
    let second = r#", @done = 8, @failed = 2, @dead = 1, @times = '{"w0":6,"w3":3,"w25":4,"r0":9}', @report_no = 2"#;
    report(&mut session, &worker, second).await;
    noted(&mut session, 8).await;
    noted(&mut session, 7).await;
    assert_eq!(rows(&fixture).await, [[5, 2, 1, 8, 7], [3, 0, 0, 5, 2], [0; 5]]);
    let history = fixture.queue.admin().history(HOUR).await.unwrap();
    assert_eq!(history[0].wait.percentile(1.0), Some(Duration::from_millis(8)));
    assert_eq!(history[1].wait.percentile(1.0), Some(Duration::from_millis(1 << 24)));
    assert_eq!(history[2].run, DurationHistogram::default());
    fixture.remove().await;
}

/// Two heartbeats can be under way at once, and arrive in any order.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_late_or_repeated_counts_nothing_twice() {
    let fixture = sampled("history_late").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    let of = |number: u64, done: u64, ran: u64| {
        format!(
            r#", @done = {done}, @failed = 0, @dead = 0, @times = '{{"w0":{ran},"r0":{ran}}}', @report_no = {number}"#
        )
    };
    let reports = [(1, 3, 3), (3, 9, 12), (2, 9, 11), (3, 9, 12), (4, 10, 12)];
    for (minutes, (number, done, ran)) in (0..9).rev().zip(reports) {
        report(&mut session, &worker, &of(number, done, ran)).await;
        noted(&mut session, minutes).await;
    }
    let expected = [[3, 0, 0, 3, 3], [6, 0, 0, 9, 9], [0; 5], [0; 5], [1, 0, 0, 0, 0]];
    assert_eq!(rows(&fixture).await, expected);
    fixture.remove().await;
}

/// The worker that had the duties ended, and another comes within the minute; or the clock was set back.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_for_a_minute_that_is_written_is_added_to_it() {
    let fixture = sampled("history_added").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    let minute = this_minute(&mut session).await - 5;
    for number in 1..=3 {
        let times = format!(r#"{{"w0":{number},"r0":{number}}}"#);
        let numbers = format!(", @done = {number}, @failed = 0, @dead = 0, @times = '{times}', @report_no = {number}");
        report(&mut session, &worker, &numbers).await;
        noted_of(&mut session, minute, 5_000).await;
    }
    assert_eq!(rows(&fixture).await, [[3, 0, 0, 3, 3]]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_worker_s_last_report_is_written_at_once_and_counts_once() {
    let fixture = sampled("history_unregister").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    report(&mut session, &worker, r#", @done = 4, @failed = 0, @dead = 0, @times = '{"r0":4}', @report_no = 1"#).await;
    let unregister = format!(
        r#"EXEC [$(schema)].[unregister_worker] @queue = N'work', @worker_id = '{}', @done = 6, @failed = 1, @dead = 1,
           @times = '{{"r0":7}}', @report_no = 2"#,
        worker.id
    );
    session.sql(&unregister).await;
    assert_eq!(total(&fixture).await, [6, 1, 1, 0, 7], "though nobody has sampled since");
    session.sql(&unregister).await;
    noted(&mut session, 5).await;
    assert_eq!(total(&fixture).await, [6, 1, 1, 0, 7]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_another_worker_lives_the_one_that_ends_leaves_the_history_to_it() {
    let fixture = sampled("history_others").await;
    let (first, _second) = (WorkerSession::register(&fixture).await, WorkerSession::register(&fixture).await);
    let mut session = fixture.session().await;
    let unregister = format!(
        "EXEC [$(schema)].[unregister_worker] @queue = N'work', @worker_id = '{}', @done = 6, @report_no = 1",
        first.id
    );
    session.sql(&unregister).await;
    assert_eq!(rows(&fixture).await, [] as [Counts; 0]);
    noted(&mut session, 5).await;
    assert_eq!(total(&fixture).await[0], 6);
    fixture.remove().await;
}

/// As a release before calls them.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_say_how_long_jobs_took_is_counted_all_the_same() {
    let fixture = sampled("history_before").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    report(&mut session, &worker, ", @running = 1, @done = 5, @failed = 1, @limited_by = 'busy'").await;
    report(&mut session, &worker, ", @running = 1, @done = 4, @failed = 1, @limited_by = 'busy'").await;
    noted(&mut session, 5).await;
    report(&mut session, &worker, "").await;
    session.sql(&format!("EXEC [$(schema)].[unregister_worker] N'work', '{}'", worker.id)).await;
    noted(&mut session, 4).await;
    assert_eq!(total(&fixture).await, [5, 1, 0, 0, 0]);
    assert!(fixture.queue.admin().workers(std::time::Duration::MAX).await.unwrap()[0].lost_at.is_some());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_worker_had_reported_is_counted() {
    let fixture = sampled("history_killed").await;
    let killed = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    report(&mut session, &killed, r#", @done = 7, @failed = 0, @dead = 0, @times = '{"r2":7}', @report_no = 1"#).await;
    session
        .sql(
            "UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME());
             EXEC [$(schema)].[reap] N'work'",
        )
        .await;
    assert!(fixture.queue.admin().workers(std::time::Duration::MAX).await.unwrap()[0].lost_at.is_some());
    noted(&mut session, 5).await;
    assert_eq!(total(&fixture).await, [7, 0, 0, 0, 7]);
    fixture.remove().await;
}

/// A fleet that has ended while nobody could write its last reports, and a worker that comes days later and has the
/// dead ones' jobs given back before it takes its first sample.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_written_yet_stays_until_it_is() {
    let fixture = sampled("history_weekend").await;
    let lost = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    report(&mut session, &lost, r#", @done = 7, @failed = 0, @dead = 0, @times = '{"r2":7}', @report_no = 1"#).await;
    session
        .sql(
            "UPDATE [$(schema)].[workers] SET lost_at = DATEADD(DAY, -3, SYSUTCDATETIME());
             EXEC [$(schema)].[reap] N'work'",
        )
        .await;
    noted(&mut session, 5).await;
    assert_eq!(total(&fixture).await, [7, 0, 0, 0, 7]);
    session.sql("EXEC [$(schema)].[reap] N'work'").await;
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[workers]").await, 0);
    fixture.remove().await;
}

/// Numbers of a worker, times among them, that are no JSON, or go down.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_counts_nothing_and_keeps_nobody_from_sampling() {
    let fixture = sampled("history_nonsense").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    let said = [
        ("5", "no JSON"),
        ("5", r#"[1, 2]"#),
        ("2", r#"{"w0":"x","w1":3,"w100":4,"x1":1,"r1":{"a":1}}"#),
        ("2", r#"{"w1":-9223372036854775808,"w26":1,"w3":99999999999999}"#),
        ("2", r#"{"w1":1}"#),
    ];
    let minute = this_minute(&mut session).await - 5;
    for (number, (done, times)) in (1..).zip(said) {
        let numbers = format!(", @done = {done}, @failed = 0, @dead = 0, @times = '{times}', @report_no = {number}");
        report(&mut session, &worker, &numbers).await;
        noted_of(&mut session, minute, 5_000).await;
    }
    assert_eq!(total(&fixture).await, [5, 0, 0, 1, 0], "a sum that went down is taken from what the minute had");
    for numbers in ["@done = -1", "@done = 1, @failed = 1000000000000001", "@dead = 9223372036854775807"] {
        for call in ["heartbeat] ", "unregister_worker] @queue = N'work', "] {
            let call = format!("EXEC [$(schema)].[{call}@worker_id = '{}', {numbers}, @report_no = 9", worker.id);
            assert_eq!(session.refusal(&call).await.0, 58003, "{call}");
        }
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_write_at_once_count_everything_once() {
    const REPORTS: u64 = 40;
    let fixture = sampled("history_races").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    let mut writers = JoinSet::new();
    for _ in 0..3 {
        let mut writer = fixture.session().await;
        writers.spawn(async move {
            for _ in 0..100 {
                writer.sql("EXEC [$(schema)].[note_history] 1").await;
            }
        });
    }
    for number in 1..=REPORTS {
        let times = format!(r#"{{"w0":{number},"r0":{number}}}"#);
        let numbers = format!(", @done = {number}, @failed = 0, @dead = 0, @times = '{times}', @report_no = {number}");
        report(&mut session, &worker, &numbers).await;
    }
    writers.join_all().await;
    noted(&mut session, 5).await;
    assert_eq!(total(&fixture).await, [REPORTS, 0, 0, REPORTS, REPORTS]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_now_is_written_the_next_time() {
    let fixture = sampled("history_locked").await;
    let worker = WorkerSession::register(&fixture).await;
    let (mut session, mut holder) = (fixture.session().await, fixture.session().await);
    let minute = this_minute(&mut session).await - 5;
    noted_of(&mut session, minute, 5_000).await;
    report(&mut session, &worker, ", @done = 3, @failed = 0, @dead = 0, @report_no = 1").await;
    // The row of the minute is locked: the writer has taken the worker's numbers by then, and puts them back.
    holder.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[history] SET ready = 77").await;
    noted_of(&mut session, minute, 5_000).await;
    holder.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(total(&fixture).await[0], 0);
    noted(&mut session, 4).await;
    assert_eq!(rows(&fixture).await, [[0; 5], [3, 0, 0, 0, 0]]);
    fixture.remove().await;
}

/// It may be renewing its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_row_is_locked_is_counted_the_next_time_and_waited_for_by_nobody() {
    let fixture = sampled("history_heartbeat").await;
    let (locked, free) = (WorkerSession::register(&fixture).await, WorkerSession::register(&fixture).await);
    let (mut session, mut holder) = (fixture.session().await, fixture.session().await);
    report(&mut session, &locked, ", @done = 3, @failed = 0, @dead = 0, @report_no = 1").await;
    report(&mut session, &free, ", @done = 20, @failed = 0, @dead = 0, @report_no = 1").await;
    let lock =
        format!("BEGIN TRANSACTION; UPDATE [$(schema)].[workers] SET unserved = 0 WHERE worker_id = '{}'", locked.id);
    holder.sql(&lock).await;
    noted(&mut session, 5).await;
    holder.sql("ROLLBACK TRANSACTION").await;
    noted(&mut session, 4).await;
    assert_eq!(rows(&fixture).await, [[20, 0, 0, 0, 0], [3, 0, 0, 0, 0]]);
    fixture.remove().await;
}

/// It would keep the workers locked until its end.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_transaction_of_the_caller_s_nothing_is_written() {
    let fixture = sampled("history_transaction").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    report(&mut session, &worker, ", @done = 3, @failed = 0, @dead = 0, @report_no = 1").await;
    session.sql("BEGIN TRANSACTION").await;
    noted(&mut session, 5).await;
    session.sql("COMMIT TRANSACTION").await;
    assert_eq!(rows(&fixture).await, [] as [Counts; 0]);
    noted(&mut session, 4).await;
    assert_eq!(total(&fixture).await[0], 3);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_depth_is_that_of_the_last_sample_of_the_minute() {
    let fixture = Fixture::with("history_depth", QueueOptions::default().max_attempts(1)).await;
    let jobs = [numbers(4), vec![NewJob::text("later").delay(HOUR), NewJob::text("cancelled")]].concat();
    let enqueued = fixture.queue.enqueue_many(&jobs).await.unwrap();
    fixture.queue.admin().change(&JobChange::cancel(""), enqueued[5].job_id).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    worker.finish(&[job.dead("no")]).await;
    worker.claim_one().await;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -40, due_at) WHERE state = 0").await;
    session.sql("EXEC [$(schema)].[sample] N'work', 0").await;
    // What comes after it is the next minute's.
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    session
        .sql(
            "UPDATE [$(schema)].[samples] SET sampled_at = DATEADD(MINUTE, -1, sampled_at), oldest_due_at = DATEADD(MINUTE, -1, oldest_due_at);
             EXEC [$(schema)].[sample] N'work', 0",
        )
        .await;
    let history = fixture.queue.admin().history(HOUR).await.unwrap();
    let row = &history[0];
    assert_eq!(history.len(), 1, "{history:?}");
    assert_eq!(
        (row.ready, row.scheduled, row.waiting, row.claimed, row.dead, row.cancelled, row.workers),
        (2, 1, 0, 1, 1, 1, 1)
    );
    let oldest = row.oldest_ready.unwrap();
    assert!((HOUR / 90..HOUR).contains(&oldest), "{oldest:?}");
    assert_eq!((row.queue.as_str(), row.length), ("work", HOUR / 60));
    let since_epoch = row.at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(since_epoch.as_nanos() % HOUR.as_nanos() * 60 % HOUR.as_nanos(), 0, "whole minutes");

    let json = serde_json::to_value(row).unwrap();
    assert_eq!((&json["queue"], &json["length_s"], &json["ready"]), (&"work".into(), &60.into(), &2.into()));
    assert!(json["at"].as_str().unwrap().ends_with(":00.000Z"), "{json}");
    assert_eq!(json["wait"], serde_json::json!([]));
    drop((session, worker));
    fixture.remove().await;
}

/// A slow sample may end after one that was begun later.
#[tokio::test(flavor = "multi_thread")]
async fn a_sample_does_not_replace_one_that_was_begun_later() {
    let fixture = sampled("history_late_sample").await;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[samples] SET sampled_at = DATEADD(SECOND, 30, sampled_at), ready = 7").await;
    let row = session.row("EXEC [$(schema)].[sample] N'work', 0").await;
    assert_eq!(row.get::<i64, _>("ready"), Some(7));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_go_on_where_the_clock_was_set_back() {
    let fixture = sampled("history_set_back").await;
    let mut session = fixture.session().await;
    let ahead = "DATEADD(HOUR, 1, SYSUTCDATETIME())";
    session.sql(&format!("UPDATE [$(schema)].[samples] SET begun_at = {ahead}, sampled_at = {ahead}, ready = 7")).await;
    let row = session.row("EXEC [$(schema)].[sample] N'work', 0").await;
    assert_eq!(row.get::<i64, _>("ready"), Some(0));
    fixture.remove().await;
}

/// Once in five minutes, and nobody for three hours.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_as_long_as_it_is_from_sample_to_sample_unless_nobody_was_there() {
    let fixture = sampled("history_length").await;
    let mut session = fixture.session().await;
    for (minutes, every_ms) in
        [(180, 5_000), (150, 150_000), (60, 1_800_000), (12, 1_800_000), (5, 150_000), (3, 5_000)]
    {
        let minute = this_minute(&mut session).await - minutes;
        noted_of(&mut session, minute, every_ms).await;
    }
    let history = fixture.queue.admin().history(24 * HOUR).await.unwrap();
    let minutes: Vec<u64> = history.iter().map(|row| row.length.as_secs() / 60).collect();
    assert_eq!(minutes, [1, 1, 10, 10, 5, 1]);
    fixture.remove().await;
}

/// A real worker, whose heartbeats say it.
#[tokio::test(flavor = "multi_thread")]
async fn every_run_of_a_worker_is_in_the_history_when_it_has_ended() {
    let fixture = Fixture::with("history_worker", QueueOptions::default().max_attempts(2)).await;
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.heartbeat_interval = Duration::from_millis(100);
        worker.promote_interval = Duration::from_millis(10);
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
    });
    fixture.queue.enqueue_many(&numbers(30)).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -70, due_at)").await;
    let handlers = Handlers::any(|job, _| match job.json::<u32>()? {
        0..10 => Err(JobError::retry("no").into()),
        _ => Ok::<_, readpast::BoxError>(()),
    });
    let worker = Worker::builder(&fixture.queue, handlers).config(&config).start().await.unwrap();
    let mut session = fixture.session().await;
    // The elected worker has sampled once when the depth is known; from then on minutes may pass.
    while session.number("SELECT COUNT(*) FROM [$(schema)].[samples] WHERE sampled_at IS NOT NULL").await == 0 {}
    noted(&mut session, 5).await;
    let monitor = worker.monitor();
    until("all have ended", || (monitor.stats().done, monitor.stats().dead) == (20, 10)).await;
    worker.stop_handle().stop();
    worker.run().await.unwrap();
    assert_eq!(total(&fixture).await, [20, 20, 10, 40, 40]);
    let mut wait = DurationHistogram::default();
    fixture.queue.admin().history(HOUR).await.unwrap().iter().for_each(|row| wait += &row.wait);
    assert!(wait.percentile(0.7).unwrap() > Duration::from_secs(60), "since they were due: {wait:?}");
    drop(session);
    fixture.remove().await;
}

/// What it had done before counts with its old registration, what it does later with its new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_lease_counts_everything_once() {
    let fixture = sampled("history_lost").await;
    // No heartbeat but by its refused claims: nothing was reported when the lease is lost.
    let config = changed(fixture.config.worker.clone(), |worker| worker.heartbeat_interval = Duration::from_secs(10));
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
    until("five are done", || monitor.stats().done == 5).await;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    until("three more are done", || monitor.stats().done == 8).await;
    noted(&mut session, 5).await;
    assert_eq!(total(&fixture).await[0], 5, "it was said when the worker registered anew");
    worker.stop_handle().stop();
    worker.run().await.unwrap();
    assert_eq!(total(&fixture).await, [8, 0, 0, 8, 8]);
    drop(session);
    fixture.remove().await;
}

/// Rows of one queue, as `note_history` would have written them: how many minutes ago, and the jobs done.
async fn wrote(session: &mut Session, rows: &[(i64, i64)]) {
    // Whole ten minutes, so that it is known which belong together.
    let now = this_minute(session).await / 10 * 10;
    for (minutes, done) in rows {
        let at = format!("DATEADD(MINUTE, {}, CAST('20000101' AS datetime2(0)))", now - minutes);
        session
            .sql(&format!(
                "INSERT [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled, workers,
                     oldest_ready_ms, done, failed, died, times)
                 VALUES (1, {at}, 1, {done}, 1, 2, 3, 4, 5, 6, {done} * 1000, {done}, 1, 1,
                         CASE WHEN {done} > 0 THEN '{{\"w2\":{done},\"r0\":1}}' END)"
            ))
            .await;
    }
}

const DAY_MINUTES: i64 = 24 * 60;

#[tokio::test(flavor = "multi_thread")]
async fn after_a_day_ten_minutes_become_one_row_with_their_sums_and_greatest_depths() {
    let fixture = Fixture::new("history_thinned").await;
    let mut session = fixture.session().await;
    let day = DAY_MINUTES;
    // The first is the last minute of the ten that end a day before.
    wrote(&mut session, &[(day + 1, 1), (day + 5, 70), (day + 10, 3), (day + 11, 5), (day - 1, 9), (day + 40, 0)])
        .await;
    session.sql("EXEC [$(schema)].[expire] N'work'").await;
    let history = fixture.queue.admin().history(48 * HOUR).await.unwrap();
    let of = |row: &HistoryRow| (row.length.as_secs() / 60, row.ready, counts(row));
    assert_eq!(
        history.iter().map(of).collect::<Vec<_>>(),
        [(10, 0, [0, 1, 1, 0, 0]), (10, 5, [5, 1, 1, 5, 1]), (10, 70, [74, 3, 3, 74, 3]), (1, 9, [9, 1, 1, 9, 1])]
    );
    let merged = &history[2];
    assert_eq!((merged.scheduled, merged.workers, merged.oldest_ready), (1, 6, Some(Duration::from_secs(70))));
    let ten_minutes = merged.at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 600;
    assert_eq!(merged.at, SystemTime::UNIX_EPOCH + Duration::from_secs(600) * ten_minutes as u32);
    session.sql("EXEC [$(schema)].[expire] N'work'").await;
    assert_eq!(fixture.queue.admin().history(48 * HOUR).await.unwrap(), history, "again, it changes nothing");
    fixture.remove().await;
}

/// A queue was not served for a day, and its last minute is written when it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_minute_that_comes_late_is_added_to_its_ten_minutes() {
    let fixture = Fixture::new("history_late_minute").await;
    let mut session = fixture.session().await;
    let day = DAY_MINUTES;
    wrote(&mut session, &[(day + 10, 3), (day + 9, 4)]).await;
    session.sql("EXEC [$(schema)].[expire] N'work'").await;
    wrote(&mut session, &[(day + 5, 100)]).await;
    session.sql("EXEC [$(schema)].[expire] N'work'").await;
    let history = fixture.queue.admin().history(48 * HOUR).await.unwrap();
    assert_eq!(history.iter().map(counts).collect::<Vec<_>>(), [[107, 3, 3, 107, 3]]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_thins_an_hour_and_leaves_the_rest_to_the_next() {
    let fixture = Fixture::new("history_bounded").await;
    let mut session = fixture.session().await;
    let eight: Vec<_> = (1..=8).map(|ten| (DAY_MINUTES + ten * 10, ten)).collect();
    wrote(&mut session, &eight).await;
    let left = "SELECT COUNT(*) FROM [$(schema)].[history] WHERE minutes = 1";
    for minutes in [2, 0] {
        session.sql("EXEC [$(schema)].[expire] N'work'").await;
        assert_eq!(session.number(left).await, minutes);
    }
    assert_eq!(total_of(&mut session).await, 36);
    fixture.remove().await;
}

async fn total_of(session: &mut Session) -> i64 {
    session.number("SELECT SUM(done) FROM [$(schema)].[history]").await
}

/// Between the deletion of the minutes and the ten minutes' row.
#[tokio::test(flavor = "multi_thread")]
async fn thinning_that_breaks_off_loses_nothing() {
    let fixture = Fixture::new("history_broken").await;
    let mut session = fixture.session().await;
    wrote(&mut session, &[(DAY_MINUTES + 10, 3), (DAY_MINUTES + 9, 4)]).await;
    // What cannot be added up.
    session.sql(r#"UPDATE [$(schema)].[history] SET times = '{"w1":"x"}' WHERE done = 4"#).await;
    assert_eq!(session.refusal("EXEC [$(schema)].[expire] N'work'").await.0, 8114);
    session.sql("UPDATE [$(schema)].[history] SET times = NULL WHERE done = 4").await;
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[history]").await, 2);
    session.sql("EXEC [$(schema)].[expire] N'work'").await;
    assert_eq!((total_of(&mut session).await, fixture.queue.admin().history(48 * HOUR).await.unwrap().len()), (7, 1));
    fixture.remove().await;
}

/// They are somebody's who looks at them for long.
#[tokio::test(flavor = "multi_thread")]
async fn minutes_that_are_locked_are_thinned_the_next_time() {
    let fixture = Fixture::new("history_thin_locked").await;
    let (mut session, mut holder) = (fixture.session().await, fixture.session().await);
    wrote(&mut session, &[(DAY_MINUTES + 10, 3), (DAY_MINUTES + 9, 4)]).await;
    holder.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[history] SET ready = 1 WHERE done = 4").await;
    session.sql("EXEC [$(schema)].[expire] N'work'").await;
    holder.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(session.number("SELECT COUNT(*) FROM [$(schema)].[history]").await, 2);
    session.sql("EXEC [$(schema)].[expire] N'work'").await;
    assert_eq!((total_of(&mut session).await, fixture.queue.admin().history(48 * HOUR).await.unwrap().len()), (7, 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_ninety_days_it_is_gone() {
    let fixture = Fixture::new("history_gone").await;
    let mut session = fixture.session().await;
    wrote(&mut session, &[(90 * DAY_MINUTES + 20, 1), (89 * DAY_MINUTES, 2)]).await;
    // It keeps nothing from going.
    session.sql("UPDATE [$(schema)].[history] SET times = 'no JSON' WHERE done = 2").await;
    session.sql("EXEC [$(schema)].[expire] N'work'; EXEC [$(schema)].[expire] N'work'").await;
    assert_eq!(total_of(&mut session).await, 2);
    assert_eq!(fixture.queue.admin().history(Duration::MAX).await.unwrap().len(), 1, "all that there is");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_shown_by_queue_and_time_as_far_back_as_is_asked() {
    let fixture = Fixture::new("history_shown").await;
    let mut session = fixture.session().await;
    session.sql("EXEC [$(schema)].[create_queue] @queue = N'alone'").await;
    wrote(&mut session, &[(10, 1), (20, 2), (200, 3)]).await;
    session.sql("UPDATE [$(schema)].[history] SET queue_id = 2 WHERE done = 2").await;
    let shown =
        |rows: Vec<HistoryRow>| -> Vec<(String, u64)> { rows.into_iter().map(|row| (row.queue, row.done)).collect() };
    let row = |queue: &str, done| (queue.to_string(), done);
    assert_eq!(shown(fixture.queue.admin().history(24 * HOUR).await.unwrap()), [row("work", 3), row("work", 1)]);
    assert_eq!(shown(fixture.queue.admin().history(HOUR).await.unwrap()), [row("work", 1)]);
    assert_eq!(shown(fixture.queue.admin().history(Duration::ZERO).await.unwrap()), [] as [(String, u64); 0]);
    let all = fixture.queue.admin().all_history(24 * HOUR).await.unwrap();
    assert_eq!(shown(all), [row("alone", 2), row("work", 3), row("work", 1)]);

    let nowhere = changed(fixture.config.clone(), |config| config.queue.name = "nowhere".to_string());
    let nowhere = readpast::Queue::connect(&nowhere).await.unwrap();
    assert!(matches!(nowhere.admin().history(HOUR).await.unwrap_err(), Error::UnknownQueue { .. }));
    assert_eq!(nowhere.admin().all_history(HOUR).await.unwrap().len(), 2);
    for minutes in ["0", "129601", "NULL"] {
        let refused = session.refusal(&format!("EXEC [$(schema)].[list_history] @minutes = {minutes}")).await;
        assert_eq!(refused.0, 58003);
    }
    let until = "DECLARE @until datetime2(3) = DATEADD(MINUTE, -100, SYSUTCDATETIME());
                 EXEC [$(schema)].[list_history] @minutes = 200, @until = @until";
    assert_eq!(session.sql(until).await.len(), 1);
    drop(nowhere);
    fixture.remove().await;
}

/// Somebody has locked all that it reads.
#[tokio::test(flavor = "multi_thread")]
async fn showing_history_waits_for_nobody() {
    let fixture = Fixture::new("history_nolock").await;
    let (mut session, mut holder) = (fixture.session().await, fixture.session().await);
    wrote(&mut session, &[(10, 1)]).await;
    holder
        .sql(
            "BEGIN TRANSACTION; UPDATE [$(schema)].[history] SET ready = 1; UPDATE [$(schema)].[queues] SET paused = 1",
        )
        .await;
    let rows = session.sql("SET LOCK_TIMEOUT 0; EXEC [$(schema)].[list_history]").await;
    assert_eq!(rows.len(), 1);
    holder.sql("ROLLBACK TRANSACTION").await;
    drop((session, holder));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_queue_takes_its_history_along() {
    let fixture = Fixture::new("history_deleted").await;
    let mut session = fixture.session().await;
    session.sql("EXEC [$(schema)].[create_queue] @queue = N'other'").await;
    let minutes: Vec<_> = (0..30).map(|minute| (minute * 3, 1)).collect();
    wrote(&mut session, &minutes).await;
    session.sql("UPDATE TOP (1) [$(schema)].[history] SET queue_id = 2").await;
    fixture.queue.admin().delete(false).await.unwrap();
    assert_eq!(session.numbers("SELECT DISTINCT queue_id FROM [$(schema)].[history]").await, [2]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sees_everything_sees_history_and_nobody_else() {
    let fixture = Fixture::new("history_roles").await;
    for (role, may) in [("producer", false), ("worker", false), ("operator", true), ("monitor", true)] {
        let login = fixture.create_login(Some(role)).await;
        let queue = fixture.connect_as(&login).await;
        match queue.admin().history(HOUR).await {
            Ok(rows) => assert!(may && rows.is_empty(), "{role}"),
            Err(error) => assert!(!may && matches!(error, Error::PermissionDenied { .. }), "{role}: {error}"),
        }
        drop(queue);
        fixture.drop_login(&login).await;
    }
    fixture.remove().await;
}

/// A monitor's look at the depth writes history too, which it may not touch itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_sample_by_a_monitor_writes_history() {
    let fixture = sampled("history_monitor").await;
    let login = fixture.create_login(Some("monitor")).await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    report(&mut session, &worker, r#", @done = 3, @failed = 0, @dead = 0, @times = '{"r0":3}', @report_no = 1"#).await;
    let sampled_at = half_past(this_minute(&mut session).await - 5);
    session.sql(&format!("UPDATE [$(schema)].[samples] SET begun_at = '20000101', sampled_at = {sampled_at}")).await;
    let mut monitor = fixture.session_as(&login).await;
    monitor.sql("EXEC [$(schema)].[sample] N'work'").await;
    assert_eq!(total(&fixture).await, [3, 0, 0, 0, 3]);
    drop((monitor, session, worker));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}
