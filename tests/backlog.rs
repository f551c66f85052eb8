//! The number that an autoscaler gets: how many workers what waits in a queue is work for.

use std::time::Duration;

use readpast::admin::{ClaimOrder, QueueOptions, Rate, Schedule};
use readpast::{Needs, NewJob};

use crate::kind_history::note;
use crate::support::{Fixture, WorkerSession, number, numbers};

/// The procedure's answer with these parameters after the queue's name.
async fn backlog(fixture: &Fixture, parameters: &str) -> i64 {
    let call = format!("EXEC [$(schema)].[backlog] @queue = N'work'{parameters}");
    let row = fixture.session().await.row(&call).await;
    // An autoscaler takes a row of one column, and no other.
    assert_eq!(row.len(), 1);
    number(&row, 0)
}

/// Run times as `note_history` would have written them so many minutes ago.
async fn ran(fixture: &Fixture, minutes_ago: u32, times: &str) {
    let insert = format!(
        "INSERT [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled, workers, oldest_ready_ms, done,
                                       failed, died, times)
         VALUES (1, DATEADD(MINUTE, -{minutes_ago}, SYSUTCDATETIME()), 1, 0, 0, 0, 0, 0, 0, 1, NULL, 0, 0, 0, '{times}')"
    );
    fixture.sql(&insert).await;
}

async fn with_jobs(test_name: &str, jobs: u32, options: QueueOptions) -> Fixture {
    let fixture = Fixture::with(test_name, options).await;
    fixture.queue.enqueue_many(&numbers(jobs)).await.unwrap();
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_queue_needs_nobody_and_one_job_one_worker() {
    let fixture = Fixture::new("backlog_empty").await;
    assert_eq!(backlog(&fixture, "").await, 0);
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    assert_eq!(backlog(&fixture, ", @threads = 64, @target_s = 86400").await, 1);
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    assert_eq!(backlog(&fixture, "").await, 1, "its worker may be lost");
    worker.finish(&[job.done()]).await;
    assert_eq!(backlog(&fixture, "").await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_was_measured_a_job_is_a_second() {
    let fixture = with_jobs("backlog_second", 600, QueueOptions::default()).await;
    assert_eq!(backlog(&fixture, ", @threads = 1, @target_s = 60").await, 10);
    assert_eq!(backlog(&fixture, ", @threads = 4, @target_s = 60").await, 3, "2.5");
    assert_eq!(backlog(&fixture, ", @threads = 1, @target_s = 1").await, 600);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_times_of_the_last_minutes_count() {
    let fixture = with_jobs("backlog_measured", 600, QueueOptions::default()).await;
    // From 4 to 8 s, and another queue's are not its.
    ran(&fixture, 3, r#"{"w20":9,"r13":10}"#).await;
    fixture.sql("UPDATE [$(schema)].[history] SET queue_id = 2").await;
    assert_eq!(backlog(&fixture, "").await, 10);
    ran(&fixture, 3, r#"{"w20":9,"r13":10}"#).await;
    assert_eq!(backlog(&fixture, "").await, 62, "600 jobs of 6.144 s in a minute: 61.4");
    // As many again that took no time: half of it.
    ran(&fixture, 2, r#"{"w0":10,"r0":10}"#).await;
    assert_eq!(backlog(&fixture, "").await, 31, "30.7");
    // Minutes in which nothing ran say nothing, and neither does what is long ago.
    ran(&fixture, 1, r#"{"w0":10}"#).await;
    ran(&fixture, 8 * 24 * 60, r#"{"r25":1000000}"#).await;
    assert_eq!(backlog(&fixture, "").await, 31);
    // Of sixty minutes with runs the older ones do not count.
    for minute in 4..64 {
        ran(&fixture, minute, r#"{"r0":1}"#).await;
    }
    ran(&fixture, 100, r#"{"r25":1000000}"#).await;
    assert_eq!(backlog(&fixture, "").await, 8, "7.9");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_kind_count_with_its_own_run_times() {
    let fixture = Fixture::new("backlog_kinds").await;
    let jobs = |kind, jobs: u32| (0..jobs).map(move |_| NewJob::text("x").kind(kind));
    fixture.queue.enqueue_many(&jobs("scan", 60).chain(jobs("mail", 600)).collect::<Vec<_>>()).await.unwrap();
    // From 4 to 8 s for all kinds together.
    ran(&fixture, 3, r#"{"r13":10}"#).await;
    assert_eq!(backlog(&fixture, "").await, 68, "660 jobs of 6.144 s in a minute: 67.6");
    let mut session = fixture.session().await;
    assert!(note(&mut session, "('mail', 1, 29, 98, 980000, 10000), ('mail', 2, 29, 2, 20000, 10000)").await);
    assert_eq!(backlog(&fixture, "").await, 7, "600 of 10 ms are 0.1, 60 of 6.144 s are 6.1");
    assert!(note(&mut session, "('scan', 3, 49, 2, 40000000, 20000000), ('', 1, 55, 1, 90000000, 90000000)").await);
    assert_eq!(backlog(&fixture, "").await, 21, "60 of 20 s are 20");
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    assert_eq!(backlog(&fixture, "").await, 24, "those without a kind take longer than the minute");
    fixture.sql("DELETE [$(schema)].[jobs] WHERE kind IS NULL").await;
    // Older hours of a kind do not count, nor does anything older than a day.
    session.sql("UPDATE [$(schema)].[kind_history] SET hour = DATEADD(HOUR, -2, hour)").await;
    assert!(note(&mut session, "('scan', 1, 45, 1, 5000000, 5000000)").await);
    assert_eq!(backlog(&fixture, "").await, 6, "60 of 5 s are 5, 600 of 10 ms are 0.1");
    let limited = QueueOptions::default().rate(Rate::new(1, Duration::from_secs(1)));
    fixture.queue.admin().create(limited).await.unwrap();
    assert_eq!(backlog(&fixture, "").await, 1, "of 0.46 s on average, one starts in a second");
    session.sql("UPDATE [$(schema)].[kind_history] SET hour = DATEADD(DAY, -1, hour)").await;
    assert_eq!(backlog(&fixture, "").await, 7, "of 6.144 s");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_s_job_is_not_done_sooner_by_many_workers() {
    let fixture = with_jobs("backlog_long", 10, QueueOptions::default()).await;
    ran(&fixture, 3, r#"{"r22":10}"#).await;
    assert_eq!(backlog(&fixture, ", @threads = 1, @target_s = 60").await, 10);
    assert_eq!(backlog(&fixture, ", @threads = 4, @target_s = 60").await, 3, "ten jobs are on the threads of three");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_take_the_threads_and_the_memory_that_they_need() {
    let fixture = Fixture::new("backlog_needs").await;
    ran(&fixture, 3, r#"{"r22":10}"#).await;
    let with = async |jobs: usize, job: NewJob| {
        fixture.sql("DELETE [$(schema)].[jobs]").await;
        fixture.queue.enqueue_many(&vec![job; jobs]).await.unwrap();
    };
    with(3, NewJob::text("x").needs(Needs::new().threads(4))).await;
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 3, "three hour-long jobs that take a worker each");
    assert_eq!(backlog(&fixture, ", @threads = 7").await, 3, "no two of them fit into one worker");
    assert_eq!(backlog(&fixture, ", @threads = 8").await, 2, "two of them do");
    assert_eq!(backlog(&fixture, ", @threads = 2").await, 1, "no number of workers helps, but one says so");
    with(9, NewJob::text("x").needs(Needs::new().memory(3 << 30))).await;
    assert_eq!(backlog(&fixture, ", @threads = 9").await, 1);
    assert_eq!(backlog(&fixture, ", @threads = 9, @memory = 9663676416").await, 3, "three times 9 GiB");
    assert_eq!(backlog(&fixture, ", @threads = 9, @memory = 5368709120").await, 9, "one in 5 GiB");
    with(4, NewJob::text("x").kind("render").needs(Needs::new().memory(1 << 30))).await;
    let kinds = r#", @threads = 4, @kinds = N'
        {"other": {}, "render": {"threads": 2, "memory": 4294967296, "gpu": 1}}'"#;
    assert_eq!(backlog(&fixture, kinds).await, 2, "as its kind");
    assert_eq!(backlog(&fixture, &format!("{kinds}, @memory = 2147483648")).await, 2, "its own memory counts");
    let twice = r#", @threads = 4, @kinds = N'{"render": {"threads": 2}, "other": {}, "render": {"threads": 2}}'"#;
    assert_eq!(backlog(&fixture, twice).await, 2, "a kind that is stated twice is one");
    fixture.remove().await;
}

/// In particular, they do not appear in the measured run times before they have ended.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_have_run_for_long_keep_their_threads() {
    let fixture = with_jobs("backlog_running", 4, QueueOptions::default()).await;
    ran(&fixture, 3, r#"{"r0":1000}"#).await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.claim(4).await;
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 1);
    fixture.sql("UPDATE [$(schema)].[jobs] SET claimed_at = DATEADD(HOUR, -1, claimed_at) WHERE state = 2").await;
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 2, "the worker has no thread for the others");
    fixture.remove().await;
}

/// An autoscaler that is told of fewer stops some of them.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_hold_a_job_are_counted_whatever_jobs_take() {
    let fixture = with_jobs("backlog_holders", 3, QueueOptions::default()).await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        let mut worker = WorkerSession::register(&fixture).await;
        let job = worker.claim_one().await;
        workers.push((worker, job));
    }
    let idle = WorkerSession::register(&fixture).await;
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 3, "nothing was measured");
    ran(&fixture, 3, r#"{"r0":1000}"#).await;
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 3, "others took no time");
    fixture.queue.enqueue_many(&numbers(200)).await.unwrap();
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 3);
    // One has ended its job, and one is lost: what it held is given to another.
    let (worker, job) = &mut workers[0];
    worker.finish(&[job.done()]).await;
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 2);
    let lost =
        format!("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME() WHERE worker_id = '{}'", workers[1].0.id);
    fixture.sql(&lost).await;
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 1);
    fixture.queue.admin().pause().await.unwrap();
    assert_eq!(backlog(&fixture, ", @threads = 4").await, 1);
    drop((workers, idle));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_due_soon_has_a_worker_started() {
    let fixture = Fixture::new("backlog_due").await;
    fixture.queue.enqueue(&NewJob::text("x").delay(Duration::from_secs(600))).await.unwrap();
    assert_eq!(backlog(&fixture, "").await, 0);
    assert_eq!(backlog(&fixture, ", @due_within_s = 601").await, 1);
    fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -10, SYSUTCDATETIME())").await;
    assert_eq!(backlog(&fixture, ", @due_within_s = 0").await, 1, "it is overdue: nobody makes it ready");
    fixture.remove().await;
}

/// Nobody but a worker fires it.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_to_be_fired_has_a_worker_started() {
    let fixture = Fixture::new("backlog_schedule").await;
    fixture.queue.admin().set_schedule(&Schedule::new("yearly", "@yearly", NewJob::text("x"))).await.unwrap();
    let soon = "UPDATE [$(schema)].[schedules] SET look_at = DATEADD(SECOND, 20, SYSUTCDATETIME())";
    fixture.sql("UPDATE [$(schema)].[schedules] SET look_at = DATEADD(DAY, 1, SYSUTCDATETIME())").await;
    assert_eq!(backlog(&fixture, "").await, 0);
    fixture.sql(soon).await;
    assert_eq!(backlog(&fixture, "").await, 1);
    assert_eq!(backlog(&fixture, ", @due_within_s = 5").await, 0);
    fixture.queue.admin().pause_schedule("yearly").await.unwrap();
    fixture.sql(soon).await;
    assert_eq!(backlog(&fixture, "").await, 0);
    fixture.remove().await;
}

/// Those behind the first of a group cannot run beside it; but while there is a turn to be given, somebody must come.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_group_as_many_count_as_may_run() {
    let fixture = Fixture::new("backlog_groups").await;
    let jobs: Vec<NewJob> = (0..50).map(|_| NewJob::text("x").group_key("g")).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    assert_eq!(backlog(&fixture, ", @target_s = 1").await, 1);
    fixture.sql("UPDATE [$(schema)].[jobs] SET state = 6 WHERE state = 0").await;
    assert_eq!(backlog(&fixture, "").await, 0, "behind a job that is scheduled for later, for example");
    fixture.sql("INSERT [$(schema)].[group_events] (queue_id, group_key, ended) VALUES (1, N'g', 0)").await;
    assert_eq!(backlog(&fixture, "").await, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_paused_queue_what_runs_counts() {
    let fixture = with_jobs("backlog_paused", 500, QueueOptions::default()).await;
    let mut worker = WorkerSession::register(&fixture).await;
    worker.claim(100).await;
    fixture.queue.admin().pause().await.unwrap();
    assert_eq!(backlog(&fixture, ", @target_s = 10").await, 10);
    fixture.queue.admin().resume().await.unwrap();
    assert_eq!(backlog(&fixture, ", @target_s = 10").await, 50);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_s_own_limits_are_kept() {
    let fixture = with_jobs("backlog_limits", 1_000, QueueOptions::default().max_running(20)).await;
    assert_eq!(backlog(&fixture, ", @threads = 8, @target_s = 1").await, 3, "20 at once");
    fixture.remove().await;
    let rate = QueueOptions::default().rate(Rate::new(30, Duration::from_secs(10)));
    let fixture = with_jobs("backlog_rate", 1_000, rate).await;
    assert_eq!(backlog(&fixture, ", @threads = 1, @target_s = 1").await, 3, "three a second, of a second each");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_deep_queue_the_sampled_depth_counts() {
    let fixture = with_jobs("backlog_deep", 1_000, QueueOptions::default()).await;
    let few = ", @most = 100, @target_s = 10";
    assert_eq!(backlog(&fixture, few).await, 10, "at least so many");
    fixture.sql("EXEC [$(schema)].[sample] @queue = N'work'").await;
    assert_eq!(backlog(&fixture, few).await, 100);
    fixture.sql("UPDATE [$(schema)].[samples] SET sampled_at = DATEADD(MINUTE, -2, SYSUTCDATETIME())").await;
    assert_eq!(backlog(&fixture, few).await, 10, "nobody has looked for two minutes");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_stand_for_others_of_their_state_only() {
    let fixture = with_jobs("backlog_states", 2_000, QueueOptions::default()).await;
    let due = NewJob::text("").needs(Needs::new().threads(4)).delay(Duration::from_secs(5));
    fixture.queue.enqueue_many(&vec![due; 60]).await.unwrap();
    assert_eq!(backlog(&fixture, ", @threads = 4, @target_s = 60").await, 10, "(2,000 + 60 * 4) / (4 * 60)");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifo_queues_and_jobs_that_go_out_alone_count() {
    let fixture = with_jobs("backlog_lifo", 30, QueueOptions::default().claim_order(ClaimOrder::Lifo)).await;
    assert_eq!(backlog(&fixture, ", @target_s = 10").await, 3);
    fixture.sql("UPDATE [$(schema)].[jobs] SET alone = 1").await;
    assert_eq!(backlog(&fixture, ", @target_s = 10").await, 3);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_nobody() {
    let fixture = with_jobs("backlog_nolock", 3, QueueOptions::default()).await;
    let mut holder = fixture.session().await;
    holder.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[jobs] SET priority = 1; UPDATE [$(schema)].[queues] SET keep_done_s = 9").await;
    let mut session = fixture.session().await;
    session.sql("SET LOCK_TIMEOUT 0; EXEC [$(schema)].[backlog] @queue = N'work'").await;
    holder.sql("ROLLBACK TRANSACTION").await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused() {
    let fixture = Fixture::new("backlog_refused").await;
    let mut session = fixture.session().await;
    let unknown = session.refusal("EXEC [$(schema)].[backlog] @queue = N'nobody'").await;
    assert_eq!(unknown.0, 58001, "{unknown:?}");
    for parameter in [
        "threads = 0",
        "threads = 1025",
        "threads = NULL",
        "target_s = 0",
        "target_s = 86401",
        "target_s = NULL",
        "due_within_s = -1",
        "due_within_s = 86401",
        "due_within_s = NULL",
        "most = 0",
        "most = NULL",
        "memory = 0",
        "kinds = N'[]'",
        r#"kinds = N' [{"threads": 2}]'"#,
        r#"kinds = N'{"render": {"threads": null}}'"#,
        r#"kinds = N'{"render": 4}'"#,
        r#"kinds = N'{"render": {"memory": "3 GiB"}}'"#,
        r#"kinds = N'{"render": {"threads": "4"}}'"#,
        r#"kinds = N'{"render": {"memory": 9223372036854775807}}'"#,
    ] {
        let refused = session.refusal(&format!("EXEC [$(schema)].[backlog] @queue = N'work', @{parameter}")).await;
        assert_eq!(refused.0, 58003, "{parameter}: {refused:?}");
    }
    fixture.remove().await;
}
