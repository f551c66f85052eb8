//! Text with half of a surrogate pair, such as `LEFT(N'a😀', 2)`, and whatever else SQL Server keeps and Rust cannot
//! read: it is refused where it would come in, and where it is there already it is one job's fault and no worker's.

use std::time::Duration;

use std::sync::atomic::{AtomicU64, Ordering};

use readpast::admin::{Delivery, JobState, QueueOptions};
use readpast::config::WorkerConfig;
use readpast::{Error, Handlers, NewJob, Output, Queue, Summary, Worker};
use readpast_devserver::SqlError;

use crate::support::counted::drained;
use crate::support::{Fixture, JobCounts, WorkerSession, changed, dev_server, numbers};

/// The first half of a pair, in whatever collation. (NCHAR makes one only where the collation has no supplementary
/// characters.)
const HALF: &str = "CAST(0x61003DD8 AS nvarchar(2))";

async fn echo(queue: &Queue) -> Summary {
    let config = changed(WorkerConfig::default(), |worker| {
        worker.retry.base = Duration::from_millis(1);
        worker.retry.max = Duration::from_millis(1);
        worker.promote_interval = Duration::from_millis(10);
    });
    let handlers = Handlers::any(|job, _| Ok(Output::bytes(job.payload())));
    drained(Worker::builder(queue, handlers).config(&config).start().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_character_is_refused_wherever_text_is_kept() {
    let fixture = Fixture::new("halves_refused").await;
    let mut session = fixture.session().await;
    let list = "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list];";
    let job = "INSERT @jobs (ordinal, payload) VALUES (1, 0x61);";
    let enqueue_batch = "EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details";
    for call in [
        "EXEC [$(schema)].[create_queue] @queue = @half".to_owned(),
        "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = @half".to_owned(),
        "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = @half".to_owned(),
        "DECLARE @headers nvarchar(1301) = CONCAT(N'{\"a\":\"', @half, N'\"}');
         EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @headers = @headers"
            .to_owned(),
        format!("{list} INSERT @jobs (ordinal, payload, dedup_key) VALUES (1, 0x61, N'k'), (2, 0x61, @half); {enqueue_batch}"),
        format!("{list} {job} INSERT @details (ordinal, group_key) VALUES (1, @half); {enqueue_batch}"),
        format!("{list} {job} INSERT @details (ordinal, headers) VALUES (1, CONCAT(N'{{\"a\":\"', @half, N'\"}}')); {enqueue_batch}"),
        "EXEC [$(schema)].[create_batch] @queue = N'work', @name = @half".to_owned(),
        "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = @half, @cron = '* * * * *', @text = N'x'".to_owned(),
        "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N'x', @cron = '* * * * *', @text = N'x', @dedup_key = @half".to_owned(),
        "EXEC [$(schema)].[cancel] @queue = N'work', @job_id = 1, @why = @half".to_owned(),
        "DECLARE @id uniqueidentifier = NEWID();
         EXEC [$(schema)].[register_worker] @queue = N'work', @worker_id = @id, @name = @half, @lease_ms = 1000"
            .to_owned(),
        "EXEC [$(schema)].[begin_audit] @who = @half, @action = 'x'".to_owned(),
    ] {
        // At the end, at the beginning, the wrong way round; a pair and its halves' neighbours are none.
        for half in [HALF, "CAST(0x00DE6100 AS nvarchar(2))", "CAST(0x00DE3DD8 AS nvarchar(2))"] {
            let (number, message) = session.refusal(&format!("DECLARE @half nvarchar(2) = {half}; {call}")).await;
            assert_eq!(number, 58003, "{call}: {message}");
            assert!(message.contains("has half of a surrogate pair"), "{call}: {message}");
        }
    }
    for whole in ["CAST(0x3DD800DE AS nvarchar(2))", "CAST(0xFFD700E0 AS nvarchar(2))"] {
        let enqueue =
            "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = @whole, @group_key = @whole";
        session.sql(&format!("DECLARE @whole nvarchar(2) = {whole}; {enqueue}")).await;
    }
    drop(session);
    fixture.remove().await;
}

/// An error that a program has cut must not cost its job the acknowledgement. The other errors of a list stay as they are.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_character_in_an_error_or_a_note_is_mended() {
    let fixture = Fixture::new("halves_mended").await;
    let ids = fixture.queue.enqueue_many(&numbers(7)).await.unwrap();
    let ids: Vec<i64> = ids.iter().map(|job| job.job_id.0).collect();
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(7).await.len(), 7);
    let id = worker.id;
    let session = &mut worker.session;
    let note = format!(
        "DECLARE @notes [$(schema)].[progress_list];
         INSERT @notes (job_id, fence, text) VALUES ({}, 1, {HALF}), ({}, 1, CAST(0x3DD800DE AS nvarchar(2)));
         EXEC [$(schema)].[note_progress] @worker_id = '{id}', @notes = @notes",
        ids[5], ids[6]
    );
    session.sql(&note).await;
    // As LEFT(..., 4000) cuts; the first of a list; a whole one; none.
    let finish = |call: &str, values: String| {
        format!(
            "DECLARE @jobs [$(schema)].[finish_list];
             INSERT @jobs (job_id, fence, outcome, error) VALUES {values};
             EXEC [$(schema)].[{call}] @queue = N'work', @worker_id = '{id}', @jobs = @jobs"
        )
    };
    let long = format!("CONCAT(REPLICATE(N'x', 3998), {HALF})");
    let list = format!(
        "({}, 1, 2, {long}), ({}, 1, 2, CAST(0x3DD800DE AS nvarchar(2))), ({}, 1, 0, NULL)",
        ids[0], ids[1], ids[2]
    );
    assert_eq!(session.sql(&finish("finish", list)).await.len(), 0);
    let before = "CAST(0x00DE6100 AS nvarchar(2))"; // a second half at the beginning
    assert_eq!(session.sql(&finish("finish_with", format!("({}, 1, 2, {before})", ids[3]))).await.len(), 0);
    let one = format!(
        "DECLARE @error nvarchar(4000) = {HALF};
         EXEC [$(schema)].[finish_one] @queue = N'work', @worker_id = '{id}', @job_id = {}, @fence = 1, @outcome = 2, @error = @error",
        ids[4]
    );
    assert_eq!(session.sql(&one).await.len(), 0);

    // In the rows themselves: the driver would mend what it reads.
    let replacement = "0x6100FDFF";
    let kept = |table: &str, column: &str, job_id: i64, expected: &str| {
        format!(
            "SELECT COUNT(*) FROM [$(schema)].[{table}]
             WHERE job_id = {job_id} AND CAST({column} AS varbinary(8000)) = {expected}"
        )
    };
    let cut = format!("CAST(CONCAT(REPLICATE(N'x', 3998), CAST({replacement} AS nvarchar(2))) AS varbinary(8000))");
    for table in ["jobs", "attempts"] {
        for (job_id, expected) in
            [(ids[0], cut.as_str()), (ids[1], "0x3DD800DE"), (ids[3], "0xFDFF6100"), (ids[4], replacement)]
        {
            assert_eq!(session.number(&kept(table, "error", job_id, expected)).await, 1, "{table} {job_id}");
        }
    }
    assert_eq!(session.number(&kept("progress", "text", ids[5], replacement)).await, 1);
    assert_eq!(session.number(&kept("progress", "text", ids[6], "0x3DD800DE")).await, 1);

    let set = "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N's', @cron = '* * * * *', @text = N'x'";
    session.sql(set).await;
    let fail = format!(
        "DECLARE @error nvarchar(2048) = {HALF};
         EXEC [$(schema)].[fail_schedule] @queue = N'work', @name = N's', @revision = 1, @error = @error"
    );
    session.sql(&fail).await;
    let failed = "SELECT COUNT(*) FROM [$(schema)].[schedules] WHERE CAST(error AS varbinary(8000)) = 0x6100FDFF";
    assert_eq!(session.number(failed).await, 1);
    drop(worker);
    fixture.remove().await;
}

/// Who only asks whether there is one does not pay for thousands.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_halves_are_mended_than_asked() {
    let fixture = Fixture::new("halves_counted").await;
    let mut session = fixture.session().await;
    for (most, expected) in [("DEFAULT", "0xFDFFFDFFFDFF"), ("2", "0xFDFFFDFF3DD8"), ("0", "0x3DD83DD83DD8")] {
        let mend = format!(
            "DECLARE @text nvarchar(max) = CAST(0x3DD83DD83DD8 AS nvarchar(3));
             EXEC [$(schema)].[mend_text] @text OUTPUT, {most};
             SELECT CASE WHEN CAST(@text AS varbinary(10)) = {expected} THEN 1 ELSE 0 END"
        );
        assert_eq!(session.number(&mend).await, 1, "{most}");
    }
    drop(session);
    fixture.remove().await;
}

/// They came in before, or into an adopted table.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_half_a_character_in_its_key_runs_and_so_do_its_neighbours() {
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let fixture = Fixture::with("halves_read", QueueOptions::default().delivery(delivery)).await;
        let ids = fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
        let headers = format!("CONCAT(N'{{\"a\":\"', {HALF}, N'\"}}')");
        let job_id = ids[7].job_id;
        let set = format!("dedup_key = {HALF}, headers = {headers}, plain = NULL");
        fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET {set} WHERE job_id = {job_id}")).await;
        let shown = fixture.queue.admin().job(job_id, None).await.unwrap().unwrap();
        assert_eq!(shown.dedup_key.as_deref(), Some("a\u{FFFD}"));
        let summary = echo(&fixture.queue).await;
        assert_eq!((summary.stats.done, summary.stats.dead), (20, 0));
        fixture.remove().await;
    }
}

/// A tab as it is in a JSON string.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_details_are_no_json_for_rust_is_dead_and_its_neighbours_run() {
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let fixture = Fixture::with("no_json", QueueOptions::default().delivery(delivery)).await;
        let ids = fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
        let job_id = ids[7].job_id;
        let set = "headers = CONCAT(N'{\"a\":\"', NCHAR(9), N'\"}'), plain = NULL";
        fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET {set} WHERE job_id = {job_id}")).await;
        let summary = echo(&fixture.queue).await;
        assert_eq!((summary.stats.done, summary.stats.dead, summary.stats.retried), (19, 1, 0));
        if delivery == Delivery::AtLeastOnce {
            let job = fixture.queue.admin().job(job_id, None).await.unwrap().unwrap();
            let error = job.error.unwrap();
            assert_eq!(job.state, JobState::Dead);
            assert!(error.starts_with("its details cannot be read: control character"), "{error}");
        }
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_sink_with_half_a_character_fails_its_job_and_no_other() {
    // As readpast sends it, and as it comes where nothing mends it: a trigger's, or an adopted table's.
    for is_mended in [true, false] {
        let fixture = Fixture::with("half_error", QueueOptions::default().max_attempts(2)).await;
        if !is_mended {
            let mend = "ALTER PROCEDURE [$(schema)].[mend_text] @text nvarchar(max) OUTPUT, @most int = 0 AS RETURN 0";
            fixture.sql(mend).await;
        }
        let refuse = format!(
            "CREATE PROCEDURE [$(schema)].[sink] @done [$(schema)].[sink_list] READONLY AS
             DECLARE @message nvarchar(100) = CONCAT(N'it says ', {HALF});
             IF EXISTS (SELECT 1 FROM @done WHERE output = 0x626164) THROW 50001, @message, 1;"
        );
        fixture.sql(&refuse).await;
        fixture.queue.admin().create(QueueOptions::default().sink(format!("{}.sink", fixture.schema()))).await.unwrap();
        let jobs: Vec<_> = (0..50).map(|n| NewJob::text(if n == 23 { "bad" } else { "good" })).collect();
        let ids = fixture.queue.enqueue_many(&jobs).await.unwrap();
        let summary = echo(&fixture.queue).await;
        assert_eq!((summary.stats.done, summary.stats.retried, summary.stats.dead), (49, 1, 1), "{is_mended}");
        let error = fixture.queue.admin().job(ids[23].job_id, None).await.unwrap().unwrap().error.unwrap();
        let expected = if is_mended { "it says a\u{FFFD}" } else { "cannot read text in" };
        assert!(error.contains(expected), "{error}");
        fixture.sql("DROP PROCEDURE [$(schema)].[sink]").await;
        fixture.remove().await;
    }
}

/// The acknowledgement is committed, and its answer cannot be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_sink_with_half_a_character_fails_no_job() {
    for jobs in [1, 50] {
        let fixture = Fixture::new("half_message").await;
        let create = "CREATE PROCEDURE [$(schema)].[sink] @done [$(schema)].[sink_list] READONLY AS";
        fixture.sql(&format!("{create} DECLARE @message nvarchar(100) = {HALF}; PRINT @message;")).await;
        fixture.queue.admin().create(QueueOptions::default().sink(format!("{}.sink", fixture.schema()))).await.unwrap();
        fixture.queue.enqueue_many(&numbers(jobs)).await.unwrap();
        let stats = echo(&fixture.queue).await.stats;
        assert_eq!((stats.done, stats.retried, stats.dead, stats.lost), (u64::from(jobs), 0, 0, 0));
        fixture.sql("DROP PROCEDURE [$(schema)].[sink]").await;
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_ends_the_worker_at_a_claim_leaves_no_job_claimed_and_counts_no_attempt() {
    let fixture = Fixture::on_dev_server("claim_fails", QueueOptions::default()).await;
    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET checkpointed = 1, plain = NULL").await;
    // A claim asks for checkpoints when it has claimed.
    let checkpoints = fixture.procedure_to_fail("checkpoints");
    let calls = std::sync::Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    dev_server().await.faults().on_call(&checkpoints, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Some(SqlError::new(8134, "Divide by zero error encountered.").severity(16))
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let error = worker.drain().await.unwrap_err();
    assert!(matches!(error, Error::Sql { number: 8134, .. }), "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let mut session = fixture.session().await;
    let [back, all] = ["AND fence = 1", ""]
        .map(|more| format!("SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 0 AND attempt = 0 {more}"));
    assert!(session.number(&back).await > 0, "some were claimed");
    assert_eq!(session.number(&all).await, 20);
    drop(session);
    fixture.remove().await;
}

/// As where somebody's code that runs in a claim cuts a text of that job, and says it in a message: the answer has the
/// job, and cannot be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_claim_has_an_answer_that_cannot_be_read_is_dead_and_the_others_run() {
    let fixture = Fixture::new("claim_unreadable").await;
    claims_say_half_a_character(&fixture, "kind = 'bad'").await;
    let kind = |place| if place == 12 { "bad" } else { "good" };
    let jobs: Vec<_> = (0..30).map(|place| NewJob::text(place.to_string()).kind(kind(place))).collect();
    let bad = fixture.queue.enqueue_many(&jobs).await.unwrap()[12].job_id;
    let summary = echo(&fixture.queue).await;
    assert_eq!((summary.stats.done, summary.stats.dead, summary.stats.lost), (29, 1, 0));
    let job = fixture.queue.admin().job(bad, None).await.unwrap().unwrap();
    assert_eq!(job.state, JobState::Dead);
    let error = job.error.unwrap();
    assert!(error.starts_with("it cannot be read: cannot read text in SQL Server's response"), "{error}");
    fixture.remove().await;
}

/// As where a trigger's text is the same for each job: not one of them is to blame.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_none_of_whose_claims_can_be_read_ends_before_its_queue_is_dead() {
    let fixture = Fixture::new("claims_unreadable").await;
    claims_say_half_a_character(&fixture, "1 = 1").await;
    fixture.queue.enqueue_many(&numbers(30)).await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let error = worker.drain().await.unwrap_err();
    assert!(matches!(error, Error::UnreadableText { .. }), "{error}");
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 28, dead: 2, ..JobCounts::default() });
    fixture.remove().await;
}

/// Has claims that bring a job with `condition` say something that cannot be read.
async fn claims_say_half_a_character(fixture: &Fixture, condition: &str) {
    let says = format!(
        "BEGIN
             IF EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE worker_id = @worker_id AND state = 2 AND {condition} AND claimed_at >= @now)
                 PRINT @half;
             RETURN @alone_waits;
         END;"
    );
    let claim = crate::support::shipped::file("sql/230_claim.sql");
    assert!(claim.contains("RETURN @alone_waits;"));
    let claim = claim.replace("RETURN @alone_waits;", &says);
    let begin = "SET NOCOUNT, XACT_ABORT ON;";
    let declare = format!("{begin} DECLARE @half nvarchar(2) = {HALF};");
    fixture.session().await.script(&claim.replace(begin, &declare)).await.unwrap();
}
