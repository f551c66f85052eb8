//! SQL Server's clock jumps, in both directions: while a call waits for a lock, over the days that something is kept,
//! and while nobody works. (Schedules: `schedules.rs`; sweeps: `ghosts.rs`; workers at work: `server_errors.rs`.)

use std::sync::Arc;

use readpast::NewJob;
use readpast::admin::{JobChange, QueueOptions, Schedule};
use readpast_devserver::DevServer;

use crate::support::{Fixture, Session, WorkerSession, number, numbers};

const DAY: i64 = 86_400_000;

const LEASES_LEFT: &str =
    "SELECT COUNT(*) FROM [$(schema)].[workers] WHERE lost_at IS NULL AND lease_until > SYSUTCDATETIME()";

/// Runs `call` in `caller` while another session holds what `lock` locks, and sets the clock so many milliseconds ahead
/// as soon as the call waits.
async fn jump_while_it_waits(
    server: &DevServer,
    fixture: &Fixture,
    mut caller: Session,
    call: String,
    lock: &str,
    meanwhile: impl AsyncFnOnce(),
) -> Session {
    let mut holder = fixture.session().await;
    holder.sql(&format!("BEGIN TRANSACTION; {lock}")).await;
    let calling = tokio::spawn(async move {
        caller.sql(&call).await;
        caller
    });
    let waiting = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = @@SPID";
    while holder.number(waiting).await == 0 {
        assert!(!calling.is_finished(), "the call waits for the lock");
    }
    server.faults().set_clock(2 * DAY);
    meanwhile().await;
    holder.sql("COMMIT TRANSACTION").await;
    calling.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_given_after_the_clock_jumped_ahead_has_not_run_out() {
    for call in [
        "EXEC [$(schema)].[heartbeat] @worker_id = '{id}'",
        "EXEC [$(schema)].[register_worker] @queue = N'work', @worker_id = '{id}', @name = N'a test', @lease_ms = 60000",
    ] {
        let server = DevServer::start().await.unwrap();
        let fixture = Fixture::on(&server, "late_lease", QueueOptions::default()).await;
        let worker = WorkerSession::register(&fixture).await;
        let call = call.replace("{id}", &worker.id.to_string());
        let lock = "UPDATE [$(schema)].[workers] SET name = name";
        let mut session = jump_while_it_waits(&server, &fixture, worker.session, call.clone(), lock, async || {}).await;
        assert_eq!(session.number(LEASES_LEFT).await, 1, "{call}");
        server.shutdown().await;
    }
}

/// promote begins at the retries that are due since two seconds ago, but for a look each minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_has_waited_for_its_row_is_due_after_that() {
    for groups in [false, true] {
        let server = DevServer::start().await.unwrap();
        let fixture = Fixture::on(&server, "late_retry", QueueOptions::default()).await;
        let jobs = numbers(2).into_iter().map(|job| if groups { job.group_key("a") } else { job });
        fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
        let mut worker = WorkerSession::register(&fixture).await;
        let job = worker.claim_one().await;
        let finish = format!(
            "DECLARE @jobs [$(schema)].[finish_list];
             INSERT @jobs (job_id, fence, outcome, retry_ms) VALUES ({}, {}, 1, 60000);
             EXEC [$(schema)].[finish] @queue = N'work', @worker_id = '{}', @jobs = @jobs",
            job.job_id, job.fence, worker.id
        );
        let lock = format!("UPDATE [$(schema)].[jobs] SET priority = priority WHERE job_id = {}", job.job_id);
        let mut session = jump_while_it_waits(&server, &fixture, worker.session, finish, &lock, async || {}).await;
        let due = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 1 AND due_at > SYSUTCDATETIME()";
        assert_eq!(session.number(due).await, 1, "{groups}");
        server.shutdown().await;
    }
}

/// So it is behind a sink that takes long.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_beside_a_result_is_due_after_the_sink_has_taken_it() {
    let server = Arc::new(DevServer::start().await.unwrap());
    let fixture = Fixture::on(&server, "slow_sink", QueueOptions::default()).await;
    fixture
        .sql("CREATE PROCEDURE [$(schema)].[sink] @done [$(schema)].[sink_list] READONLY AS EXEC [$(schema)].[slow]")
        .await;
    fixture.sql("CREATE PROCEDURE [$(schema)].[slow] AS RETURN 0").await;
    fixture.queue.admin().create(QueueOptions::default().sink(format!("{}.sink", fixture.schema()))).await.unwrap();
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(2).await;
    let jumping = Arc::downgrade(&server);
    server.faults().on_call(&format!("{}.slow", fixture.schema()), move |_| {
        if let Some(server) = jumping.upgrade() {
            server.faults().set_clock(2 * DAY);
        }
        None
    });
    assert_eq!(worker.finish(&[claimed[0].done(), claimed[1].retry(60_000, "busy")]).await, []);
    let due = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE state = 1 AND due_at > SYSUTCDATETIME()";
    assert_eq!(worker.session.number(due).await, 1);
    Arc::into_inner(server).unwrap().shutdown().await;
}

/// reap shortens leases that were given before the clock was set back. Those that were renewed after it jumped ahead
/// only look like that to a call that has read the clock before.
#[tokio::test(flavor = "multi_thread")]
async fn a_reap_that_has_waited_over_a_jump_ahead_shortens_no_lease() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "late_reap", QueueOptions::default()).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let renewal = format!("EXEC [$(schema)].[heartbeat] @worker_id = '{}'", worker.id);
    // Held by somebody, so that the heartbeat leaves them alone.
    let duties = "UPDATE [$(schema)].[duties] SET until = DATEADD(SECOND, 2 * 86400 + 5, SYSUTCDATETIME())";
    let reap = "EXEC [$(schema)].[reap] @queue = N'work'";
    let reaper = fixture.session().await;
    let mut reaper = jump_while_it_waits(&server, &fixture, reaper, reap.to_string(), duties, async || {
        worker.session.sql(&renewal).await;
    })
    .await;
    assert_eq!(reaper.number(LEASES_LEFT).await, 1);
    reaper.sql(reap).await;
    assert_eq!(reaper.number(LEASES_LEFT).await, 1, "nor does the next one call it lost");
    server.shutdown().await;
}

/// A claim of a lost worker that was under way: it commits a day later by the clock, and a moment later in truth.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_not_committed_keeps_the_row_of_its_lost_worker() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "late_claim", QueueOptions::default()).await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    // Ends the queue's connection, too.
    fixture.sql("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut other = fixture.session().await;
    worker.session.sql("BEGIN TRANSACTION").await;
    worker.claim_one().await;
    other.sql("UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()").await;
    server.faults().set_clock(2 * DAY);
    let reap = "EXEC [$(schema)].[reap] @queue = N'work'";
    other.sql(reap).await;
    worker.session.sql("COMMIT TRANSACTION").await;
    other.sql(reap).await;
    assert_eq!(fixture.job_counts().await.ready, 1, "given back");
    other.sql(reap).await;
    assert_eq!(other.number("SELECT COUNT(*) FROM [$(schema)].[workers]").await, 0, "nothing keeps it any more");
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_told_of_its_cancellation_though_the_clock_has_made_that_old() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "old_cancellation", QueueOptions::default()).await;
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim_one().await;
    fixture.queue.admin().change(&JobChange::cancel("never mind"), job.job_id).await.unwrap();
    server.faults().set_clock(2 * DAY);
    let mut other = fixture.session().await;
    let reap = "EXEC [$(schema)].[reap] @queue = N'work'";
    other.sql(reap).await;
    let told = worker.session.row(&format!("EXEC [$(schema)].[heartbeat] @worker_id = '{}'", worker.id)).await;
    assert_eq!(number(&told, "job_id"), claimed.job_id);
    worker.finish(&[claimed.done()]).await;
    other.sql(reap).await;
    assert_eq!(other.number("SELECT COUNT(*) FROM [$(schema)].[cancellations]").await, 0);
    server.shutdown().await;
}

/// Their leases end in some days: they count as workers for as long nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_died_before_the_clock_was_set_back_are_not_shown_as_alive() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "dead_and_back", QueueOptions::default()).await;
    let alive = async || {
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        let listed = fixture
            .queue
            .admin()
            .workers(std::time::Duration::MAX)
            .await
            .unwrap()
            .iter()
            .filter(|worker| worker.is_live())
            .count();
        let sampled = fixture.sql("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0").await;
        (stats.workers, listed, number(&sampled[0], "workers"))
    };
    let _dead = WorkerSession::register(&fixture).await;
    assert_eq!(alive().await, (1, 1, 1));
    server.faults().set_clock(-3 * DAY);
    assert_eq!(alive().await, (0, 0, 0));
    let _new = WorkerSession::register(&fixture).await;
    assert_eq!(alive().await, (1, 1, 1));
    server.shutdown().await;
}

/// An autoscaler starts a worker by what `backlog` says. From before the clock was set back nothing counts.
#[tokio::test(flavor = "multi_thread")]
async fn no_depth_and_no_schedule_of_a_false_time_misleads_the_autoscaler() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "false_backlog", QueueOptions::default()).await;
    let mut session = fixture.session().await;
    let backlog = "EXEC [$(schema)].[backlog] @queue = N'work', @target_s = 1, @most = 2";
    fixture.queue.enqueue_many(&numbers(100)).await.unwrap();
    session.sql("EXEC [$(schema)].[sample] @queue = N'work'").await;
    assert_eq!(session.number(backlog).await, 100, "sampled a moment ago");
    server.faults().set_clock(-3 * DAY);
    assert_eq!(session.number(backlog).await, 2, "counted");

    session.sql("DELETE [$(schema)].[jobs]").await;
    assert_eq!(session.number(backlog).await, 0);
    server.faults().set_clock(3 * DAY);
    fixture.queue.admin().set_schedule(&Schedule::new("hourly", "0 * * * *", NewJob::text("x"))).await.unwrap();
    let next =
        "EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N'hourly', @revision = 1, @next_at = '2199-01-01'";
    session.sql(next).await;
    assert_eq!(session.number(backlog).await, 0);
    server.faults().set_clock(0);
    assert_eq!(session.number(backlog).await, 1, "a worker must look at it again");
    server.shutdown().await;
}
