//! Jobs of one key run one at a time, in the order in which they were enqueued, whatever happens to them and to their
//! workers; as many at once as the queue's limit says; and nobody else notices.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use readpast::admin::{ClaimOrder, CompletionPolicy, Delivery, JobChange, JobFilter, JobState, QueueOptions};
use readpast::{Error, Handlers, JobId, NewJob, Output, Worker};

use readpast_devserver::DevServer;

use crate::support::child::{ChildWorker, Event, Ledger};
use crate::support::{Claimed, Fixture, WorkerSession, changed, number, numbers, until};

/// The next promote looks at everything, as it does once a minute.
const LOOK_SOON: &str = "UPDATE [$(schema)].[duties] SET looked_at = '00010101'";

/// Enqueues jobs of these keys; returns their ids.
pub(crate) async fn enqueue(fixture: &Fixture, keys: &[&str]) -> Vec<i64> {
    let jobs: Vec<NewJob> = keys.iter().map(|key| NewJob::text("x").group_key(*key)).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id.0).collect()
}

fn ids(claimed: &[Claimed]) -> Vec<i64> {
    claimed.iter().map(|job| job.job_id).collect()
}

async fn promote(fixture: &Fixture) {
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
}

async fn state(fixture: &Fixture, job_id: i64) -> JobState {
    fixture.queue.admin().job(JobId(job_id), None).await.unwrap().unwrap().state
}

async fn waiting(fixture: &Fixture) -> u64 {
    fixture.queue.admin().stats(None).await.unwrap().waiting
}

/// Claims the one job that is ready, which must be this one.
async fn claim_only(worker: &mut WorkerSession, job_id: i64) -> Claimed {
    let claimed = worker.claim(10).await;
    assert_eq!(ids(&claimed), [job_id]);
    claimed.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_of_each_key_is_ready_and_the_others_wait_for_its_end() {
    let fixture = Fixture::new("turns").await;
    let mut jobs = enqueue(&fixture, &["a", "a", "b", "a", "b", "A"]).await;
    jobs.extend(fixture.queue.enqueue(&NewJob::text("plain")).await.map(|job| job.job_id.0));
    assert_eq!(waiting(&fixture).await, 3);
    let listed = fixture.queue.admin().list(&JobState::Waiting.into(), None, 10).await.unwrap().jobs;
    assert_eq!(listed.iter().map(|job| job.job_id.0).collect::<Vec<_>>(), [jobs[1], jobs[3], jobs[4]]);

    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    assert_eq!(ids(&claimed), [jobs[0], jobs[2], jobs[5], jobs[6]]);
    assert_eq!(claimed[0].details["group_key"], "a");
    assert_eq!(worker.claim(10).await, []);
    worker.finish(&[claimed[0].done(), claimed[3].done()]).await;
    let next = claim_only(&mut worker, jobs[1]).await;
    assert!(next.waited_ms < next.age_ms + 1, "it waits since it has the turn");
    worker.finish(&[claimed[1].done(), next.done()]).await;
    assert_eq!(ids(&worker.claim(10).await), [jobs[3], jobs[4]]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_completion_policy_and_a_dead_job_let_the_next_go() {
    for completion in [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("lets_go", QueueOptions::default().completion(completion)).await;
        let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
        let mut worker = WorkerSession::register(&fixture).await;
        let first = claim_only(&mut worker, jobs[0]).await;
        worker.finish(&[first.done()]).await;
        let second = claim_only(&mut worker, jobs[1]).await;
        worker.finish(&[second.dead("broken")]).await;
        let third = claim_only(&mut worker, jobs[2]).await;
        worker.finish(&[third.done()]).await;
        // Nothing remains that only groups have.
        let left =
            "SELECT (SELECT COUNT(*) FROM [$(schema)].[groups]) + (SELECT COUNT(*) FROM [$(schema)].[group_events])";
        assert_eq!(fixture.session().await.number(left).await, 0);
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_comes_back_keeps_its_turn() {
    let fixture = Fixture::new("keeps").await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.retry(3_600_000, "later")]).await;
    promote(&fixture).await;
    assert_eq!(worker.claim(10).await, [], "those behind it wait for its next attempt");
    assert!(fixture.queue.admin().change(&JobChange::Promote, JobId(jobs[0])).await.unwrap().changed > 0);
    let again = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[again.retry(0, "at once")]).await;
    let again = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[again.snooze(0, "too early")]).await;

    // Given back, and lost with its worker.
    let again = claim_only(&mut worker, jobs[0]).await;
    worker.release([&again]).await;
    claim_only(&mut worker, jobs[0]).await;
    worker.lose(&fixture).await;
    let mut other = WorkerSession::register(&fixture).await;
    let again = claim_only(&mut other, jobs[0]).await;
    other.finish(&[again.done()]).await;
    claim_only(&mut other, jobs[1]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_retries_pass_a_job_that_comes_back_gets_the_next_turn() {
    let fixture = Fixture::with("passes", QueueOptions::default().retry_passes(true)).await;
    let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.retry(3_600_000, "later")]).await;
    let second = claim_only(&mut worker, jobs[1]).await;
    assert!(fixture.queue.admin().change(&JobChange::Promote, JobId(jobs[0])).await.unwrap().changed > 0);
    assert_eq!(state(&fixture, jobs[0]).await, JobState::Waiting, "another has the turn");
    assert_eq!(worker.claim(10).await, []);
    worker.finish(&[second.snooze(3_600_000, "later")]).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    // At once, it is due before those behind it.
    worker.finish(&[first.retry(0, "at once")]).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.done()]).await;
    let third = claim_only(&mut worker, jobs[2]).await;
    worker.finish(&[third.done()]).await;
    fixture.queue.admin().change(&JobChange::Promote, JobId(jobs[1])).await.unwrap();
    claim_only(&mut worker, jobs[1]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_gives_its_turn_away_whatever_its_state() {
    let fixture = Fixture::new("cancelled").await;
    let jobs = enqueue(&fixture, &["a"; 7]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let change = JobChange::cancel("");
    let cancel = |job_id: i64| fixture.queue.admin().change(&change, JobId(job_id));
    cancel(jobs[0]).await.unwrap(); // ready
    cancel(jobs[2]).await.unwrap(); // waiting
    let second = claim_only(&mut worker, jobs[1]).await;
    cancel(jobs[1]).await.unwrap(); // running
    assert_eq!(worker.claim(10).await, [], "it still runs");
    worker.finish(&[second.retry(0, "cancelled")]).await;
    let fourth = claim_only(&mut worker, jobs[3]).await;
    worker.finish(&[fourth.retry(3_600_000, "later")]).await;
    cancel(jobs[3]).await.unwrap(); // scheduled, with the turn
    // Given back, or lost with its worker, it is cancelled, too.
    let fifth = claim_only(&mut worker, jobs[4]).await;
    cancel(jobs[4]).await.unwrap();
    worker.release([&fifth]).await;
    claim_only(&mut worker, jobs[5]).await;
    cancel(jobs[5]).await.unwrap();
    worker.lose(&fixture).await;
    let mut other = WorkerSession::register(&fixture).await;
    claim_only(&mut other, jobs[6]).await;
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().cancelled, 6);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_dead_of_its_workers_lets_the_next_go() {
    let fixture = Fixture::with("killer", QueueOptions::default().max_attempts(1)).await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    claim_only(&mut worker, jobs[0]).await;
    worker.lose(&fixture).await;
    let mut alone = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&alone.claim_alone(1).await), [jobs[0]], "once more, alone");
    alone.lose(&fixture).await;
    assert_eq!(state(&fixture, jobs[0]).await, JobState::Dead);
    let mut other = WorkerSession::register(&fixture).await;
    claim_only(&mut other, jobs[1]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn purged_jobs_leave_their_groups() {
    let fixture = Fixture::new("purged").await;
    let jobs = enqueue(&fixture, &["a", "a", "b", "b", "b"]).await;
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap().changed, 2);
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    assert_eq!(ids(&claimed), [jobs[1], jobs[3]], "the purged heads have let the next go");
    // As a DBA calls it.
    let mut session = fixture.session().await;
    let purge = "EXEC [$(schema)].[purge] @queue = N'work', @state = 'waiting'";
    assert_eq!(session.number(&format!("{purge}, @older_than_s = 3600")).await, 0);
    assert_eq!(session.number(purge).await, 1);
    assert_eq!(waiting(&fixture).await, 0);
    // As the library does.
    enqueue(&fixture, &["b"]).await;
    let an_hour_old = JobFilter::from(JobState::Waiting).older_than(Duration::from_secs(3_600));
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, an_hour_old).await.unwrap().changed, 0);
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Waiting).await.unwrap().changed, 1);
    assert_eq!(waiting(&fixture).await, 0);
    // One that is to be tried again has the turn, and gives it away.
    let more = enqueue(&fixture, &["a"]).await;
    worker.finish(&[claimed[0].retry(3_600_000, "later"), claimed[1].done()]).await;
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Scheduled).await.unwrap().changed, 1);
    claim_only(&mut worker, more[0]).await;
    // A finished one has given it away before.
    let more = enqueue(&fixture, &["b", "b"]).await;
    let head = claim_only(&mut worker, more[0]).await;
    worker.finish(&[head.dead("broken")]).await;
    claim_only(&mut worker, more[1]).await;
    let last = enqueue(&fixture, &["b"]).await;
    assert_eq!(fixture.queue.admin().change(&JobChange::Purge, JobState::Dead).await.unwrap().changed, 1);
    assert_eq!(worker.claim(10).await, [], "the turn is still the second's");
    assert_eq!(state(&fixture, last[0]).await, JobState::Waiting);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_and_expires_gives_no_turn_away_twice() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("retention", options).await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @keep_done_s = 1, @keep_dead_s = 1").await;
    let jobs = enqueue(&fixture, &["a", "a", "a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.done()]).await;
    let second = claim_only(&mut worker, jobs[1]).await;
    worker.finish(&[second.dead("broken")]).await;
    claim_only(&mut worker, jobs[2]).await;
    fixture.sql("UPDATE [$(schema)].[jobs] SET finished_at = DATEADD(SECOND, -9, finished_at) WHERE ended = 1").await;
    let expired = fixture.sql("EXEC [$(schema)].[expire] @queue = N'work'").await;
    assert_eq!(number(&expired[0], "expired"), 2);
    promote(&fixture).await;
    assert_eq!(worker.claim(10).await, [], "the third has the turn");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_changes_when_a_job_is_claimed_but_not_when_it_gets_its_turn() {
    let fixture = Fixture::new("priority").await;
    let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
    let id_list = |job_id: i64| {
        format!(
            "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs VALUES ({job_id});
             EXEC [$(schema)].[set_priority] @queue = N'work', @jobs = @jobs, @priority = -5"
        )
    };
    assert_eq!(number(&fixture.sql(&id_list(jobs[2])).await[0], "changed"), 1);
    let mut worker = WorkerSession::register(&fixture).await;
    for (job_id, priority) in [(jobs[0], 0), (jobs[1], 0), (jobs[2], -5)] {
        let job = claim_only(&mut worker, job_id).await;
        assert_eq!(job.priority, priority);
        worker.finish(&[job.done()]).await;
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_the_queue_is_not_the_groups() {
    for claim_order in [ClaimOrder::Lifo, ClaimOrder::Any] {
        let fixture = Fixture::with("orders", QueueOptions::default().claim_order(claim_order)).await;
        let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
        let mut worker = WorkerSession::register(&fixture).await;
        for job_id in jobs {
            let job = claim_only(&mut worker, job_id).await;
            worker.finish(&[job.done()]).await;
        }
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_job_waits_for_its_turn() {
    let fixture = Fixture::new("requeued").await;
    let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.dead("broken")]).await;
    let second = claim_only(&mut worker, jobs[1]).await;
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    assert_eq!(state(&fixture, jobs[0]).await, JobState::Waiting);
    assert_eq!(worker.claim(10).await, []);
    worker.finish(&[second.done()]).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.dead("broken")]).await;
    let third = claim_only(&mut worker, jobs[2]).await;
    worker.finish(&[third.done()]).await;
    // Where nobody has the turn, it gets it at once: with another payload, too, and a cancelled one.
    assert!(fixture.queue.admin().requeue_with(JobId(jobs[0]), "y").await.unwrap());
    fixture.queue.admin().change(&JobChange::cancel(""), JobId(jobs[0])).await.unwrap();
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobId(jobs[0])).await.unwrap().changed, 1);
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.done()]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_joins_its_group_when_it_is_due() {
    let fixture = Fixture::new("delayed").await;
    let later = NewJob::text("later").group_key("a").delay(Duration::from_secs(3_600));
    let later: Vec<i64> =
        fixture.queue.enqueue_many(&[later.clone(), later]).await.unwrap().iter().map(|job| job.job_id.0).collect();
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    fixture.sql(&format!("UPDATE [$(schema)].[jobs] SET due_at = enqueued_at WHERE job_id = {}", later[0])).await;
    promote(&fixture).await;
    assert!(fixture.queue.admin().change(&JobChange::Promote, JobId(later[1])).await.unwrap().changed > 0);
    assert_eq!(worker.claim(10).await, []);
    worker.finish(&[first.done()]).await;
    for job_id in [later[0], later[1], jobs[1]] {
        let job = claim_only(&mut worker, job_id).await;
        worker.finish(&[job.done()]).await;
    }
    fixture.remove().await;
}

/// Most databases' collations take such keys for equal: two that differ in case, any two emoji.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_promoted_by_hand_join_their_own_groups() {
    let fixture = Fixture::new("alike").await;
    let keys = ["k", "K", "\u{1f600}", "\u{1f680}"];
    let delayed: Vec<NewJob> =
        keys.iter().map(|key| NewJob::text("x").group_key(*key).delay(Duration::from_secs(3_600))).collect();
    let jobs: Vec<JobId> = fixture.queue.enqueue_many(&delayed).await.unwrap().iter().map(|job| job.job_id).collect();
    assert_eq!(fixture.queue.admin().change(&JobChange::Promote, &jobs).await.unwrap().changed, 4);
    let mut worker = WorkerSession::register(&fixture).await;
    let mut claimed = ids(&worker.claim(10).await);
    claimed.sort_unstable();
    assert_eq!(claimed, jobs.iter().map(|job| job.0).collect::<Vec<_>>());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_s_transaction_enqueues_all_or_nothing_and_the_next_promote_gives_the_turn() {
    let fixture = Fixture::new("callers").await;
    let mut caller = fixture.session().await;
    let enqueue_two = "BEGIN TRANSACTION;
         EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'a';
         EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'y', @group_key = N'a';";
    let traces = "SELECT (SELECT COUNT(*) FROM [$(schema)].[jobs]) + (SELECT COUNT(*) FROM [$(schema)].[groups])
                       + (SELECT COUNT(*) FROM [$(schema)].[group_events]) + (SELECT COUNT(*) FROM [$(schema)].[linked_queues])";
    caller.sql(enqueue_two).await;
    caller.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(caller.number(traces).await, 0);

    caller.sql(enqueue_two).await;
    promote(&fixture).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(worker.claim(10).await, [], "it is not committed");
    caller.sql("COMMIT TRANSACTION").await;
    assert_eq!(waiting(&fixture).await, 2);
    promote(&fixture).await;
    assert_eq!(worker.claim(10).await.len(), 1);
    assert_eq!(waiting(&fixture).await, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_of_one_key_do_not_wait_for_each_other() {
    let fixture = Fixture::new("producers").await;
    let mut slow = fixture.session().await;
    slow.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'slow', @group_key = N'a'")
        .await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    slow.sql("COMMIT TRANSACTION").await;
    promote(&fixture).await;
    assert_eq!(worker.claim(10).await, [], "one has the turn");
    worker.finish(&[first.done()]).await;
    claim_only(&mut worker, jobs[0] - 1).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_without_what_follows_it_is_made_up_for_by_the_next_promote() {
    let fixture = Fixture::new("died").await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    // In a transaction of the caller's, finish gives no turns: as if its session had died after the commit.
    worker.session.sql("BEGIN TRANSACTION").await;
    worker.finish(&[first.done()]).await;
    promote(&fixture).await;
    worker.session.sql("COMMIT TRANSACTION").await;
    assert_eq!(worker.claim(10).await, []);
    promote(&fixture).await;
    claim_only(&mut worker, jobs[1]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_locked_for_a_moment_gets_its_turn_later() {
    let fixture = Fixture::new("locked").await;
    let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    let mut other = fixture.session().await;
    other.sql("BEGIN TRANSACTION").await;
    other.sql(&format!("SELECT 1 FROM [$(schema)].[jobs] WITH (UPDLOCK, ROWLOCK) WHERE job_id = {}", jobs[1])).await;
    worker.finish(&[first.done()]).await;
    assert_eq!(worker.claim(10).await, [], "nobody passes it");
    other.sql("ROLLBACK TRANSACTION").await;
    promote(&fixture).await;
    claim_only(&mut worker, jobs[1]).await;
    fixture.remove().await;
}

/// A producer's transaction may be long, and have jobs of many groups: nothing is written for them until it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_that_is_not_committed_has_nothing_written_again_and_again() {
    for commits in [true, false] {
        let fixture = Fixture::new("idle_group").await;
        let jobs = enqueue(&fixture, &["a", "a"]).await;
        let (mut producer, mut observer) = (fixture.session().await, fixture.session().await);
        let add = "BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'a'";
        producer.sql(add).await;
        let mut worker = WorkerSession::register(&fixture).await;
        for job in jobs {
            let claimed = claim_only(&mut worker, job).await;
            worker.finish(&[claimed.done()]).await;
        }
        let events = "SELECT COUNT(*) FROM [$(schema)].[group_events] WITH (READPAST)";
        let left = "SELECT COUNT(*) FROM [$(schema)].[groups]";
        for _ in 0..3 {
            assert_eq!((observer.number(left).await, observer.number(events).await), (1, 0));
            observer.sql("EXEC [$(schema)].[advance_groups] 1").await;
        }
        if commits {
            producer.sql("COMMIT TRANSACTION").await;
            promote(&fixture).await;
            let last = worker.claim_one().await;
            worker.finish(&[last.done()]).await;
        } else {
            producer.sql("ROLLBACK TRANSACTION").await;
            fixture.sql(LOOK_SOON).await;
            promote(&fixture).await;
        }
        assert_eq!((observer.number(left).await, observer.number(events).await), (0, 0), "{commits}");
        drop((worker, producer, observer));
        fixture.remove().await;
    }
}

/// Somebody's own T-SQL has held it and changed nothing: there is no event of that.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_held_by_hand_gets_its_turn_within_a_minute_of_that() {
    let fixture = Fixture::new("held_by_hand").await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    let mut other = fixture.session().await;
    other.sql("BEGIN TRANSACTION").await;
    other.sql(&format!("UPDATE [$(schema)].[jobs] SET group_key = N'b' WHERE job_id = {}", jobs[1])).await;
    other.sql(&format!("UPDATE [$(schema)].[jobs] SET group_key = N'a' WHERE job_id = {}", jobs[1])).await;
    worker.finish(&[first.done()]).await;
    assert_eq!(worker.claim(10).await, []);
    other.sql("ROLLBACK TRANSACTION").await;
    fixture.sql(LOOK_SOON).await;
    promote(&fixture).await;
    claim_only(&mut worker, jobs[1]).await;
    drop((worker, other));
    fixture.remove().await;
}

/// Of the queue's row of `duties`, which promote and heartbeats need.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_seldom_moves_the_place_where_events_begin_and_never_over_promote_s() {
    let fixture = Fixture::new("events_from").await;
    let mut session = fixture.session().await;
    let events_from = "SELECT events_from FROM [$(schema)].[duties]";
    let mut worker = WorkerSession::register(&fixture).await;
    for _ in 0..10 {
        enqueue(&fixture, &["a", "b"]).await;
        let claimed: Vec<_> = worker.claim(10).await.iter().map(Claimed::done).collect();
        worker.finish(&claimed).await;
    }
    assert_eq!(session.number(events_from).await, 0);
    let many = "INSERT [$(schema)].[group_events] (queue_id, group_key, ended)
                SELECT TOP (300) 1, N'none', 0
                FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18)) AS a (x)
                CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18)) AS b (x)";
    session.sql(many).await;
    session.sql("EXEC [$(schema)].[advance_groups] 1").await;
    let raised = session.number(events_from).await;
    assert!(raised > 300, "{raised}");

    // promote has found an event far below, between this call's look and its end.
    session
        .sql(
            "ALTER PROCEDURE [$(schema)].[lower_marks] @queue_id int, @job_id bigint AS
             UPDATE [$(schema)].[duties] SET events_from = 1",
        )
        .await;
    session.sql(many).await;
    enqueue(&fixture, &["c"]).await;
    assert_eq!(session.number(events_from).await, 1);
    drop((worker, session));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_locked_keep_nobody_waiting() {
    let fixture = Fixture::new("events").await;
    let jobs = enqueue(&fixture, &["a", "a", "b", "b"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    // The end of a's first job is not committed.
    worker.session.sql("BEGIN TRANSACTION").await;
    worker.finish(&[claimed[0].done()]).await;
    let mut operator = fixture.session().await;
    operator.sql("SET LOCK_TIMEOUT 0").await;
    let second = &claimed[1];
    let finish = format!(
        "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES ({}, {}, 0);
         EXEC [$(schema)].[finish] @queue = N'work', @worker_id = '{}', @jobs = @jobs",
        second.job_id, second.fence, worker.id
    );
    operator.sql(&finish).await;
    worker.session.sql("COMMIT TRANSACTION").await;
    claim_only(&mut worker, jobs[3]).await;
    promote(&fixture).await;
    claim_only(&mut worker, jobs[1]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_s_open_transaction_delays_turns_but_no_acknowledgement_fails() {
    let fixture = Fixture::new("operator").await;
    let jobs = enqueue(&fixture, &["a", "a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    let mut operator = fixture.session().await;
    operator
        .sql(&format!("BEGIN TRANSACTION; EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", jobs[1]))
        .await;
    assert_eq!(worker.finish(&[first.done()]).await, []);
    assert_eq!(worker.claim(10).await, [], "the second may come back, the third may not pass it");
    operator.sql("ROLLBACK TRANSACTION").await;
    promote(&fixture).await;
    claim_only(&mut worker, jobs[1]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_of_a_key_run_at_once_as_the_queue_says() {
    let fixture = Fixture::with("limit", QueueOptions::default().group_limit(3)).await;
    let jobs = enqueue(&fixture, &["a"; 10]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut held = worker.claim(10).await;
    assert_eq!(ids(&held), jobs[..3]);
    worker.finish(&[held.remove(1).done()]).await;
    held.push(claim_only(&mut worker, jobs[3]).await);

    // A lower limit holds when so many have ended, a higher one with the next end.
    fixture.queue.admin().create(QueueOptions::default().group_limit(2)).await.unwrap();
    worker.finish(&[held.remove(0).done()]).await;
    assert_eq!(worker.claim(10).await, []);
    worker.finish(&[held.remove(0).done()]).await;
    held.push(claim_only(&mut worker, jobs[4]).await);
    fixture.queue.admin().create(QueueOptions::default().group_limit(4)).await.unwrap();
    worker.finish(&[held.remove(0).done()]).await;
    held.extend(worker.claim(10).await);
    assert_eq!(ids(&held), jobs[4..8]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_turns_than_one_transaction_gives_are_given_by_one_call() {
    let fixture = Fixture::with("many", QueueOptions::default().group_limit(400)).await;
    // Two events a transaction, and three of them.
    let keys: Vec<&str> = ["a", "b", "c"].repeat(300);
    enqueue(&fixture, &keys).await;
    assert_eq!(waiting(&fixture).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_takes_no_place_in_a_group() {
    let fixture = Fixture::new("duplicates").await;
    let job = |key: &str| NewJob::text("x").group_key("a").dedup_key(key);
    let enqueued = fixture.queue.enqueue_many(&[job("1"), job("2"), job("1")]).await.unwrap();
    assert!(enqueued[2].duplicate);
    assert!(fixture.queue.enqueue(&job("2")).await.unwrap().duplicate, "a waiting job is unfinished");
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, enqueued[0].job_id.0).await;
    worker.finish(&[first.dead("broken")]).await;
    let second = claim_only(&mut worker, enqueued[1].job_id.0).await;
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap().changed, 1);
    assert!(fixture.queue.enqueue(&job("1")).await.unwrap().duplicate, "the requeued one waits");
    worker.finish(&[second.done()]).await;
    claim_only(&mut worker, enqueued[0].job_id.0).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_gives_turns_but_no_jobs() {
    let fixture = Fixture::new("paused").await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    fixture.queue.admin().pause().await.unwrap();
    worker.finish(&[first.done()]).await;
    assert_eq!(worker.claim(10).await, []);
    assert_eq!(state(&fixture, jobs[1]).await, JobState::Ready);
    fixture.queue.admin().resume().await.unwrap();
    claim_only(&mut worker, jobs[1]).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_without_acknowledgements_have_no_groups() {
    let fixture = Fixture::with("at_most_once", QueueOptions::default().delivery(Delivery::AtMostOnce)).await;
    for job in [NewJob::text("x").group_key("a"), NewJob::text("x").group_key("a").dedup_key("k")] {
        let one = fixture.queue.enqueue(&job).await;
        assert!(matches!(one, Err(Error::Refused { .. })), "{one:?}");
        let many = fixture.queue.enqueue_many(&[job.clone(), job]).await;
        assert!(matches!(many, Err(Error::Refused { .. })), "{many:?}");
    }
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    fixture.remove().await;

    let fixture = Fixture::new("had_groups").await;
    enqueue(&fixture, &["a"]).await;
    let changed = fixture.queue.admin().create(QueueOptions::default().delivery(Delivery::AtMostOnce)).await;
    assert!(matches!(changed, Err(Error::Refused { .. })), "{changed:?}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_settings_that_are_not_allowed_are_refused() {
    let fixture = Fixture::new("refused").await;
    for key in ["", " a", "a ", &"k".repeat(129)] {
        let refused = fixture.queue.enqueue(&NewJob::text("x").group_key(key)).await;
        assert!(matches!(refused, Err(Error::InvalidJob { .. })), "{refused:?}");
        let mut session = fixture.session().await;
        let call = format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'{key}'");
        assert_eq!(session.refusal(&call).await.0, 58003);
    }
    enqueue(&fixture, &[&"k".repeat(128), "]'\u{1F600}\""]).await;
    assert_eq!(WorkerSession::register(&fixture).await.claim(10).await.len(), 2);
    for limit in [0, 1_001] {
        let refused = fixture.queue.admin().create(QueueOptions::default().group_limit(limit)).await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_the_jobs_behind_those_that_run() {
    let fixture = Fixture::new("drained").await;
    enqueue(&fixture, &["a", "a", "b", "b"]).await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, 4);

    // Nothing but a job that waits, because nobody may give turns for a while.
    let mut other = fixture.session().await;
    let lock = "BEGIN TRANSACTION; DECLARE @granted bit; EXEC [$(schema)].[lock_groups] 1, NULL, @granted OUTPUT";
    other.sql(lock).await;
    let in_transaction = "BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'a'; COMMIT TRANSACTION";
    fixture.sql(in_transaction).await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let (looked, mut enough) = tokio::sync::mpsc::unbounded_channel();
    let draining = tokio::spawn(worker.drain_with(Duration::from_millis(1), move |progress| {
        if progress.unfinished == Some(1) {
            let _ = looked.send(());
        }
    }));
    for _ in 0..3 {
        enough.recv().await;
    }
    other.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(draining.await.unwrap().unwrap().stats.done, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_starts_the_next_job_of_a_group_when_the_last_one_has_ended() {
    let fixture = Fixture::new("prompt").await;
    // Whoever waits for any of these does not come to the fourth job in half a minute.
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.poll_min = Duration::from_secs(60);
        worker.poll_max = Duration::from_secs(60);
        worker.finish_linger = Duration::from_secs(10);
    });
    let keys = ["a", "b"].repeat(20);
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    let monitor = worker.monitor();
    until("the first claim was answered", || monitor.stats().last_claim_succeeded).await;
    enqueue(&fixture, &keys).await;
    until("all are done", || monitor.stats().done == 40).await;
    worker.shutdown().await.unwrap();
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_gets_its_turn_is_found_however_far_claims_have_come() {
    let fixture = Fixture::new("marks").await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim(10).await.remove(0);
    let mark = "UPDATE [$(schema)].[marks] SET job_id = 1000000; SELECT lowered FROM [$(schema)].[marks]";
    let lowered = worker.session.number(mark).await;
    worker.finish(&[first.done()]).await;
    claim_only(&mut worker, jobs[1]).await;
    // Claims that have read the mark before must not raise it now, though it was low enough.
    let jobs = enqueue(&fixture, &["b", "b"]).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    worker.finish(&[first.done()]).await;
    assert!(worker.session.number("SELECT lowered FROM [$(schema)].[marks]").await > lowered + 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_with_follow_ups_gives_turns_in_each_queue() {
    let fixture = Fixture::new("finish_with").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'other'").await;
    let jobs = enqueue(&fixture, &["a", "a"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = claim_only(&mut worker, jobs[0]).await;
    fixture
        .sql(&format!(
            "DECLARE @jobs [$(schema)].[finish_list], @follow_ups [$(schema)].[follow_up_list];
             INSERT @jobs (job_id, fence, outcome) VALUES ({id}, {fence}, 0);
             INSERT @follow_ups (ordinal, job_id, queue, payload, group_key)
             VALUES (1, {id}, N'work', 0x, N'b'), (2, {id}, N'other', 0x, N'b'), (3, {id}, N'other', 0x, N'b');
             EXEC [$(schema)].[finish_with] @queue = N'work', @worker_id = '{worker}', @jobs = @jobs, @follow_ups = @follow_ups",
            id = first.job_id,
            fence = first.fence,
            worker = worker.id,
        ))
        .await;
    let claimed = worker.claim(10).await;
    assert_eq!(claimed.iter().map(|job| job.details["group_key"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    let ready = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE queue_id = 2 AND state = 0";
    assert_eq!(fixture.session().await.number(ready).await, 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_joins_a_group_with_the_acknowledgement() {
    let fixture = Fixture::new("follow_up").await;
    fixture.queue.enqueue(&NewJob::text("first").group_key("a")).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler_seen = seen.clone();
    let handler = move |job: &readpast::Job, _: &readpast::Context| {
        let text = job.text()?.into_owned();
        handler_seen.lock().push((text.clone(), job.group_key().map(str::to_string)));
        let next = |text: &str| NewJob::text(text).group_key("a");
        Ok(match text.as_str() {
            "first" => Output::default().enqueue("work", next("second")).enqueue("work", next("third")),
            _ => Output::default(),
        })
    };
    let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).start().await.unwrap();
    worker.drain().await.unwrap();
    let key = || Some("a".to_string());
    assert_eq!(*seen.lock(), [("first".into(), key()), ("second".into(), key()), ("third".into(), key())]);
    fixture.remove().await;
}

/// Short times, so that a lost lease is noticed soon, and a failed job comes back soon.
const SHORT: [(&str, &str); 9] = [
    ("WORKER_THREADS", "3"),
    ("WORKER_LEASE_MS", "3000"),
    ("WORKER_HEARTBEAT_INTERVAL_MS", "300"),
    ("WORKER_REAP_INTERVAL_MS", "100"),
    ("WORKER_POLL_MAX_MS", "100"),
    ("WORKER_RETRY_BASE_MS", "1"),
    ("WORKER_RETRY_MAX_MS", "20"),
    ("CONNECTION_CONNECT_TIMEOUT_MS", "3000"),
    ("CONNECTION_COMMAND_TIMEOUT_MS", "3000"),
];

/// Each key's first starts come in the order of enqueueing, and no two of its jobs run at once. A job that succeeds (one
/// of `good`) starts again only because its end was not confirmed: then no end of a later job of its key was, and those
/// that have started before start again after it.
fn check_order(events: &[Event], keys: &HashMap<i64, usize>, good: &HashSet<i64>) {
    let (mut running, mut newest) = (HashMap::new(), HashMap::new());
    let (mut started, mut run_again) = (HashSet::<i64>::new(), HashSet::new());
    for event in events {
        match event {
            Event::Start { job_id, worker } => {
                let key = keys[job_id];
                let beside = running.insert(key, (*job_id, worker));
                assert_eq!(beside, None, "runs while job {job_id} of its key starts");
                run_again.remove(job_id);
                if started.insert(*job_id) {
                    let before = newest.insert(key, *job_id);
                    assert!(before < Some(*job_id), "job {job_id} has started after {before:?}");
                } else if good.contains(job_id) {
                    run_again.extend(started.iter().copied().filter(|later| later > job_id && keys[later] == key));
                }
            }
            Event::End { job_id, .. } => {
                let run = running.remove(&keys[job_id]);
                assert_eq!(run.map(|(running, _)| running), Some(*job_id), "job {job_id} ended that did not run");
            }
            Event::Killed { worker } => running.retain(|_, (_, runs_on)| *runs_on != worker),
        }
    }
    assert_eq!(run_again, HashSet::new(), "an earlier job of their key has run again");
}

/// Four worker processes, of which one after the other is killed, run jobs of `keys` keys that fail, panic and die,
/// while others are requeued.
async fn keep_their_order(jobs: usize, keys: usize, kills: usize, retry_passes: bool) {
    // So many attempts that no job dies of the kills, whichever it meets.
    let options = QueueOptions::default().max_attempts(1_000).retry_passes(retry_passes);
    let fixture = Fixture::with("order", options).await;
    let payloads = ["0", "500", "2000", "fail 2", "panic 1", "dead"];
    let (mut key_of, mut good) = (HashMap::new(), HashSet::new());
    let mut enqueue_some = async |count: usize| {
        let new: Vec<(usize, &str)> =
            (0..count).map(|_| (fastrand::usize(..keys), payloads[fastrand::usize(..payloads.len())])).collect();
        let jobs = new.iter().map(|(key, payload)| NewJob::text(*payload).group_key(key.to_string()));
        let enqueued = fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
        for (job, (key, payload)) in enqueued.iter().zip(new) {
            key_of.insert(job.job_id.0, key);
            if payload.parse::<u64>().is_ok() {
                good.insert(job.job_id.0);
            }
        }
    };
    let ledger = Ledger::new();
    let (mut workers, mut names) = (Vec::new(), Vec::new());
    for number in 0..4 {
        let name = format!("worker {number}");
        let settings: Vec<_> = SHORT.iter().copied().chain([("WORKER_NAME", name.as_str())]).collect();
        workers.push(ChildWorker::start(&fixture, &ledger, &settings).await);
        names.push(name);
    }
    for kill in 0..kills {
        enqueue_some(jobs / kills).await;
        let lines = ledger.lines();
        until("some more jobs have run", || ledger.lines() >= lines + jobs / kills).await;
        let victim = kill % 4;
        workers[victim].kill().await;
        ledger.note_killed(&names[victim]);
        fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
        let name = format!("worker {}", 4 + kill);
        let settings: Vec<_> = SHORT.iter().copied().chain([("WORKER_NAME", name.as_str())]).collect();
        workers[victim] = ChildWorker::start(&fixture, &ledger, &settings).await;
        names[victim] = name;
    }
    let give_up = Instant::now() + Duration::from_secs(120);
    loop {
        let stats = fixture.queue.admin().stats(None).await.unwrap();
        if stats.ready + stats.scheduled + stats.claimed + stats.waiting == 0 {
            break;
        }
        assert!(Instant::now() < give_up, "jobs are left: {stats:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for worker in workers {
        worker.stop().await;
    }
    let events = ledger.events();
    if retry_passes {
        good.clear();
    }
    check_order(&events, &key_of, &good);
    let start = |event: &Event| if let Event::Start { job_id, .. } = event { Some(*job_id) } else { None };
    let started: HashSet<i64> = events.iter().filter_map(start).collect();
    assert_eq!(started.len(), key_of.len(), "every job has run");
    let left = "SELECT (SELECT COUNT(*) FROM [$(schema)].[groups]) + (SELECT COUNT(*) FROM [$(schema)].[group_events])";
    assert_eq!(fixture.session().await.number(left).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_keep_their_order_while_jobs_fail_and_workers_are_killed() {
    keep_their_order(400, 12, 4, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_keep_the_order_of_first_starts_where_retries_pass() {
    keep_their_order(400, 12, 2, true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn keys_keep_their_order_for_long() {
    for retry_passes in [false, true] {
        keep_their_order(20_000, 100, 20, retry_passes).await;
    }
}

fn start(job_id: i64) -> Event {
    Event::Start { job_id, worker: "worker 0".to_string() }
}

fn end(job_id: i64) -> Event {
    Event::End { job_id, failed: false }
}

#[test]
#[should_panic(expected = "an earlier job of their key has run again")]
fn the_check_of_the_order_sees_a_job_that_runs_again_after_a_later_one_was_confirmed() {
    let events = [start(1), end(1), start(2), end(2), start(1), end(1)];
    check_order(&events, &HashMap::from([(1, 0), (2, 0)]), &HashSet::from([1, 2]));
}

#[test]
#[should_panic(expected = "runs while job 2 of its key starts")]
fn two_at_once_would_be_found() {
    check_order(&[start(1), start(2)], &HashMap::from([(1, 0), (2, 0)]), &HashSet::new());
}

#[test]
#[should_panic(expected = "job 1 has started after Some(2)")]
fn a_wrong_order_would_be_found() {
    check_order(&[start(2), end(2), start(1)], &HashMap::from([(1, 0), (2, 0)]), &HashSet::new());
}

/// Enqueues `batches` times a thousand jobs, each with this key (an expression over `n`, the job's number).
fn thousands(batches: u32, key: &str) -> String {
    thousands_of(0, batches, key)
}

fn thousands_of(from: u32, to: u32, key: &str) -> String {
    format!(
        "SET NOCOUNT ON;
         DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list], @batch int = {from};
         INSERT @jobs (ordinal, payload) SELECT value, 0x78 FROM GENERATE_SERIES(1, 1000);
         WHILE @batch < {to}
         BEGIN
             DELETE @details;
             INSERT @details (ordinal, group_key)
             SELECT numbered.ordinal, {key} FROM (SELECT ordinal, ordinal + 1000 * @batch AS n FROM @jobs) AS numbered;
             EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details, @report = 0;
             SET @batch = @batch + 1;
         END"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_reads_more_because_more_jobs_wait() {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "reads", QueueOptions::default()).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut seen: Vec<[u64; 4]> = Vec::new();
    for batches in [0, 1, 3] {
        fixture.sql(&thousands(batches, "N'a'")).await;
        fixture.sql(&thousands(batches, "CONCAT(N'k', n % 500)")).await;
        enqueue(&fixture, &["a", "a"]).await;
        let keys = worker.claim(1_000).await;
        let done: Vec<_> = keys[1..].iter().map(Claimed::done).collect();
        let head = &keys[0];
        let mut reads = [0; 4];
        let before = server.entries_read();
        enqueue(&fixture, &["a"]).await;
        reads[0] = server.entries_read() - before;
        let before = server.entries_read();
        worker.finish(&[head.done()]).await;
        reads[1] = server.entries_read() - before;
        let before = server.entries_read();
        let next = worker.claim_one().await;
        reads[2] = server.entries_read() - before;
        let before = server.entries_read();
        promote(&fixture).await;
        reads[3] = server.entries_read() - before;
        seen.push(reads);
        worker.finish(&[next.done()]).await;
        worker.finish(&done).await;
    }
    let most = seen[0].iter().max().unwrap() + 20;
    assert!(seen.iter().flatten().all(|reads| *reads <= most), "{seen:?}");
    fixture.remove().await;
}

/// `cargo test --release --test tests -- --ignored --nocapture how_fast_groups_are`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: for a quiet machine and a release build"]
async fn how_fast_groups_are() {
    const MILLION: u32 = 1_000;
    // (What the queue has before, what is worked off.)
    for (name, before) in [
        ("plain", None),
        ("beside 1,000,000 waiting jobs of one key", Some("N'a'")),
        ("among 1,000,000 plain jobs", Some("NULL")),
        ("among 1,000,000 keys with one job each", Some("CONVERT(nvarchar(20), n)")),
    ] {
        let fixture = Fixture::new("speed").await;
        let mut session = fixture.session().await;
        session.sql("SET LOCK_TIMEOUT -1").await;
        let filled_at = Instant::now();
        // In pieces, each of which is answered in time.
        for from in (0..MILLION).step_by(100) {
            if let Some(key) = before {
                session.sql(&thousands_of(from, from + 100, key)).await;
            }
        }
        let filled = filled_at.elapsed();
        if !name.starts_with("among") {
            session.sql(&thousands(50, "NULL")).await;
        }
        let mut worker = WorkerSession::register(&fixture).await;
        let (mut claiming, mut finishing) = (Vec::new(), Vec::new());
        for _ in 0..90 {
            let started_at = Instant::now();
            let claimed = worker.claim(500).await;
            claiming.push(started_at.elapsed());
            assert_eq!(claimed.len(), 500);
            let started_at = Instant::now();
            worker.finish(&claimed.iter().map(Claimed::done).collect::<Vec<_>>()).await;
            finishing.push(started_at.elapsed());
        }
        claiming.sort_unstable();
        finishing.sort_unstable();
        let (claim, finish) = (claiming[45], finishing[45]);
        eprintln!("{name}: claim of 500 {claim:?}, finish of 500 {finish:?} (medians of 90; filled in {filled:?})");
        drop((session, worker));
        fixture.remove().await;
    }
    for (name, batches, key) in [
        ("50,000 plain jobs", 50, "NULL"),
        ("50,000 jobs of 1,000 keys", 50, "CONCAT(N'k', n % 1000)"),
        ("5,000 jobs of one key", 5, "N'a'"),
    ] {
        let fixture = Fixture::new("speed").await;
        fixture.sql(&thousands(batches, key)).await;
        let started_at = Instant::now();
        let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
        let done = worker.drain().await.unwrap().stats.done;
        assert_eq!(done, u64::from(batches) * 1_000);
        eprintln!("{name}: {:.0} jobs a second", done as f64 / started_at.elapsed().as_secs_f64());
        fixture.remove().await;
    }
}
