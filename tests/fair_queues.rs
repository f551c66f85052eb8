//! In a fair queue, groups share the workers by their weights, however many jobs wait in each.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::{ClaimOrder, Delivery, JobChange, QueueOptions, Rate};
use readpast::{BoxError, Context, Error, Handlers, Job, JobError, JobId, NewJob, OnDead, Worker};

use crate::groups::enqueue;
use crate::support::counted::drained;
use crate::support::{Claimed, Fixture, WorkerSession, number};

const NONE: [i64; 0] = [];

async fn fair(test_name: &str) -> Fixture {
    Fixture::with(test_name, QueueOptions::default().fair(true)).await
}

/// Enqueues so many jobs of a group.
async fn flood(fixture: &Fixture, group: &str, count: usize) -> Vec<i64> {
    enqueue(fixture, &vec![group; count]).await
}

fn ids(claimed: &[Claimed]) -> Vec<i64> {
    claimed.iter().map(|job| job.job_id).collect()
}

/// How many of the jobs are of each group.
fn by_group(claimed: &[Claimed]) -> BTreeMap<String, usize> {
    let mut groups = BTreeMap::new();
    for job in claimed {
        *groups.entry(job.group_key.clone().expect("it has a group")).or_default() += 1;
    }
    groups
}

fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(group, count)| (group.to_owned(), count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_few_jobs_does_not_wait_behind_one_with_many() {
    let fixture = fair("fair").await;
    let many = flood(&fixture, "a", 100).await;
    let few = flood(&fixture, "b", 6).await;
    // A higher priority is no larger share.
    fixture.sql("UPDATE [$(schema)].[jobs] SET priority = -1 WHERE job_id % 2 = 0 AND group_key = N'a'").await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim(10).await;
    assert_eq!(ids(&first), [&many[..5], &few[..5]].concat(), "in their order");
    assert_eq!(by_group(&worker.claim(10).await), counts([("a", 9), ("b", 1)]), "what one leaves, the others get");
    assert_eq!(ids(&worker.claim(50).await), many[14..64], "alone, it gets all");
    flood(&fixture, "b", 1).await;
    assert_eq!(by_group(&worker.claim(2).await), counts([("a", 1), ("b", 1)]), "and shares again");
    fixture.remove().await;
}

/// Small claims of several workers go on where the one before has stopped.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_go_on_from_claim_to_claim() {
    let fixture = fair("fair_rounds").await;
    for group in ["a", "b", "c", "d", "e"] {
        flood(&fixture, group, 20).await;
    }
    let mut workers = [WorkerSession::register(&fixture).await, WorkerSession::register(&fixture).await];
    let mut claimed = Vec::new();
    for (turn, max) in [1, 2, 1, 3, 3, 1, 1, 2, 4, 7].into_iter().enumerate() {
        claimed.extend(workers[turn % 2].claim(max).await);
    }
    assert_eq!(by_group(&claimed), counts([("a", 5), ("b", 5), ("c", 5), ("d", 5), ("e", 5)]));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_divide_the_claims_also_of_jobs_that_wait() {
    let fixture = fair("fair_weights").await;
    let admin = fixture.queue.admin();
    for group in ["a", "b", "c"] {
        flood(&fixture, group, 100).await;
    }
    admin.set_group_weight("b", 3).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(by_group(&worker.claim(50).await), counts([("a", 10), ("b", 30), ("c", 10)]));
    // Claims that are smaller than a group's weight.
    let mut claimed = Vec::new();
    for _ in 0..10 {
        claimed.extend(worker.claim(2).await);
    }
    assert_eq!(by_group(&claimed), counts([("a", 4), ("b", 12), ("c", 4)]));
    admin.set_group_weight("b", 1).await.unwrap();
    admin.set_group_weight("c", 2).await.unwrap();
    assert_eq!(by_group(&worker.claim(40).await), counts([("a", 10), ("b", 10), ("c", 20)]));

    let groups = admin.groups(None, 1_000).await.unwrap();
    let shown: Vec<_> =
        groups.iter().map(|row| (row.group_key.as_str(), row.weight, row.in_turn, row.waiting)).collect();
    assert_eq!(shown, [("a", 1, 0, 76), ("b", 1, 0, 48), ("c", 2, 0, 66)]);
    assert_eq!(admin.groups(Some("b"), 1_000).await.unwrap().len(), 1);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_groups_than_a_claim_takes_share_over_several_claims() {
    let fixture = fair("fair_many").await;
    let jobs: Vec<NewJob> = (0..270).map(|n| NewJob::text("x").group_key(format!("g{:03}", n % 90))).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    for round in 0..3 {
        let mut claimed = Vec::new();
        for _ in 0..6 {
            claimed.extend(worker.claim(15).await);
        }
        let groups = by_group(&claimed);
        assert_eq!((groups.len(), claimed.len()), (90, 90), "round {round}");
    }
    assert_eq!(ids(&worker.claim(15).await), NONE);
    assert_eq!(fixture.session().await.number("SELECT COUNT(*) FROM [$(schema)].[groups]").await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_get_several_jobs_at_once_while_rounds_are_short() {
    let fixture = fair("fair_quantum").await;
    let jobs: Vec<NewJob> = (0..3_200).map(|n| NewJob::text("x").group_key(format!("g{:03}", n % 400))).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(by_group(&worker.claim(100).await).len(), 100);
    let round = async |set: &str| {
        fixture.sql(&format!("UPDATE [$(schema)].[group_rounds] SET {set}")).await;
    };
    round("quantum = 4, began_at = SYSUTCDATETIME()").await;
    // The group of the last claim gets three more.
    let groups = by_group(&worker.claim(103).await);
    assert_eq!((groups.len(), groups.values().filter(|jobs| **jobs == 4).count()), (26, 25), "{groups:?}");
    assert_eq!(by_group(&worker.claim(50).await).len(), 50, "a small claim");
    round("quantum = 4, began_at = DATEADD(SECOND, -10, SYSUTCDATETIME())").await;
    assert_eq!(by_group(&worker.claim(100).await).len(), 100, "the round takes too long");
    // After a quick round, each group gets two.
    let mut groups = BTreeMap::new();
    for _ in 0..4 {
        round("began_at = SYSUTCDATETIME()").await;
        groups = by_group(&worker.claim(200).await);
        if groups.values().any(|jobs| *jobs == 2) {
            break;
        }
    }
    assert!(groups.values().filter(|jobs| **jobs == 2).count() > 50, "{groups:?}");
    fixture.remove().await;
}

/// Of few groups, each gets its weight, however small the claims are.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_served_by_many_claims_counts_once_in_its_round() {
    let fixture = fair("fair_seen").await;
    let admin = fixture.queue.admin();
    let jobs: Vec<NewJob> = (0..60).map(|n| NewJob::text("x").group_key(["a", "b"][n % 2])).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    for group in ["a", "b"] {
        admin.set_group_weight(group, 10).await.unwrap();
    }
    let mut worker = WorkerSession::register(&fixture).await;
    let mut claimed = Vec::new();
    for _ in 0..20 {
        claimed.extend(worker.claim(1).await);
    }
    assert_eq!(by_group(&claimed), counts([("a", 10), ("b", 10)]));
    worker.claim(1).await;
    assert_eq!(fixture.session().await.number("SELECT last_seen FROM [$(schema)].[group_rounds]").await, 2);
    fixture.remove().await;
}

/// Whatever brings a job back to its group: claims find it there, in its place.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_come_back_wait_in_their_group_again() {
    let fixture = fair("fair_back").await;
    let admin = fixture.queue.admin();
    let jobs = enqueue(&fixture, &["a", "a", "a", "a", "a", "a", "b"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(7).await;
    assert_eq!(claimed.len(), 7);
    worker.release([&claimed[1], &claimed[0]]).await;
    assert_eq!(ids(&worker.claim(1).await), jobs[..1]);
    assert_eq!(ids(&worker.claim(7).await), jobs[1..2]);
    worker.finish(&[claimed[2].retry(0, "again"), claimed[3].snooze(0, "later"), claimed[4].dead("no")]).await;
    assert_eq!(fixture.job_counts().await.ready, 0, "they go ahead of nobody");
    let again = worker.claim(7).await;
    assert_eq!((ids(&again), again[0].attempt, again[1].attempt), (jobs[2..4].to_vec(), 2, 1));
    worker.finish(&[again[0].retry(3_600_000, "much later")]).await;
    assert_eq!(ids(&worker.claim(7).await), NONE);
    admin.change(&JobChange::Promote, JobId(jobs[2])).await.unwrap();
    admin.change(&JobChange::Requeue, JobId(jobs[4])).await.unwrap();
    assert_eq!(ids(&worker.claim(7).await), [jobs[2], jobs[4]]);
    worker.lose(&fixture).await;
    let mut other = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&other.claim(7).await), jobs);
    other.lose(&fixture).await;
    fixture.remove().await;
}

/// A job that may have killed its workers goes to a worker that holds nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_must_run_alone_does() {
    let fixture = Fixture::with("fair_alone", QueueOptions::default().fair(true).max_attempts(1)).await;
    let jobs = enqueue(&fixture, &["a", "a", "b"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&worker.claim(1).await), jobs[..1]);
    worker.lose(&fixture).await;
    let mut other = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&other.claim(10).await), jobs[1..]);
    assert_eq!(ids(&other.claim(10).await), NONE);
    let alone = other.claim_alone(10).await;
    assert_eq!((ids(&alone), alone[0].attempt), (jobs[..1].to_vec(), 1));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_a_group_go_first_and_parents_before_their_children() {
    let fixture = fair("fair_without").await;
    let parent = flood(&fixture, "a", 1).await[0];
    let child = NewJob::text("x").group_key("a").after([JobId(parent)]).on_dead(OnDead::Run);
    let child = fixture.queue.enqueue(&child).await.unwrap().job_id.0;
    let second = flood(&fixture, "a", 1).await[0];
    let plain = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id.0;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&worker.claim(1).await), [plain]);
    let claimed = worker.claim(10).await;
    assert_eq!(ids(&claimed), [parent, second]);
    worker.finish(&[claimed[0].done()]).await;
    assert_eq!(ids(&worker.claim(10).await), [child]);
    fixture.remove().await;
}

/// Delayed and moved jobs join their group when they come; jobs of an open transaction when it commits.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_join_their_group_when_they_come() {
    let fixture = fair("fair_join").await;
    let delayed = NewJob::text("x").group_key("a").delay(Duration::from_secs(3_600));
    let delayed = fixture.queue.enqueue(&delayed).await.unwrap().job_id.0;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&worker.claim(10).await), NONE);
    fixture
        .sql("UPDATE [$(schema)].[jobs] SET due_at = SYSUTCDATETIME(); EXEC [$(schema)].[promote] @queue = N'work'")
        .await;
    assert_eq!(ids(&worker.claim(10).await), [delayed]);

    let mut producer = fixture.session().await;
    producer.client.begin_transaction().await.unwrap();
    let call = "DECLARE @job_id bigint;
                EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'a', @job_id = @job_id OUTPUT;
                SELECT @job_id";
    let early = producer.number(call).await;
    let late = flood(&fixture, "a", 1).await;
    assert_eq!(ids(&worker.claim(10).await), late, "an uncommitted one is skipped");
    let later = flood(&fixture, "a", 2).await;
    assert_eq!(ids(&worker.claim(1).await), later[..1]);
    producer.client.commit_transaction().await.unwrap();
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    assert_eq!(ids(&worker.claim(10).await), [early, later[1]]);

    let other = fixture.queue.named("other").unwrap();
    other.admin().create(QueueOptions::default()).await.unwrap();
    other.enqueue(&NewJob::text("x").group_key("b")).await.unwrap();
    let mut mover = WorkerSession::register_for(&fixture, "other").await;
    let moved = mover.claim_one().await;
    mover.move_jobs(&[(&moved, "work")], &[]).await;
    assert_eq!(ids(&worker.claim(10).await), [moved.job_id]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_jobs_are_left_out_and_found_later() {
    let fixture = fair("fair_locked").await;
    let jobs = enqueue(&fixture, &["a", "a", "b", "b"]).await;
    let mut holder = fixture.session().await;
    holder.client.begin_transaction().await.unwrap();
    holder
        .sql(&format!(
            "UPDATE [$(schema)].[jobs] SET error = N'x' WHERE job_id IN ({}, {}, {})",
            jobs[0], jobs[2], jobs[3]
        ))
        .await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&worker.claim(10).await), jobs[1..2]);
    assert_eq!(ids(&worker.claim(10).await), NONE);
    holder.client.rollback_transaction().await.unwrap();
    assert_eq!(ids(&worker.claim(10).await), [jobs[0], jobs[2], jobs[3]]);

    // An operator's open transaction keeps claims of groups waiting, and these give up.
    let jobs = flood(&fixture, "a", 2).await;
    holder.client.begin_transaction().await.unwrap();
    let cancel = format!(
        "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs (job_id) VALUES ({});
         EXEC [$(schema)].[cancel] @queue = N'work', @jobs = @jobs",
        jobs[0]
    );
    holder.sql(&cancel).await;
    assert_eq!(ids(&worker.claim(10).await), NONE);
    holder.client.rollback_transaction().await.unwrap();
    assert_eq!(ids(&worker.claim(10).await), jobs);
    fixture.remove().await;
}

/// A row whose index entry is not locked, as by a reader with UPDLOCK: the claim finds the job, and cannot take it.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_ends_although_it_finds_only_a_job_that_it_cannot_lock() {
    let fixture = fair("fair_updlock").await;
    let jobs = enqueue(&fixture, &["a", "b"]).await;
    let mut holder = fixture.session().await;
    holder.client.begin_transaction().await.unwrap();
    holder.sql(&format!("SELECT payload FROM [$(schema)].[jobs] WITH (UPDLOCK) WHERE job_id = {}", jobs[0])).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&worker.claim(1).await), jobs[1..]);
    assert_eq!(ids(&worker.claim(10).await), NONE);
    holder.client.rollback_transaction().await.unwrap();
    assert_eq!(ids(&worker.claim(1).await), jobs[..1]);
    fixture.remove().await;
}

/// Groups whose jobs were cancelled or purged do not stay, so that no claim has to go through them.
#[tokio::test(flavor = "multi_thread")]
async fn groups_without_jobs_do_not_stay() {
    let fixture = fair("fair_emptied").await;
    let admin = fixture.queue.admin();
    let jobs: Vec<NewJob> = (0..1_500).map(|n| NewJob::text("x").group_key(format!("g{n}"))).collect();
    let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
    let last = flood(&fixture, "z", 1).await;
    let mut session = fixture.session().await;
    let groups = "SELECT COUNT(*) FROM [$(schema)].[groups]";
    assert_eq!(session.number(groups).await, 1_501);
    let cancelled: Vec<JobId> = jobs[..1_000].iter().map(|job| job.job_id).collect();
    assert_eq!(admin.change(&JobChange::cancel(""), &cancelled).await.unwrap().changed, 1_000);
    let purged: Vec<JobId> = jobs[1_000..].iter().map(|job| job.job_id).collect();
    assert_eq!(admin.change(&JobChange::Purge, &purged).await.unwrap().changed, 500);
    assert_eq!(session.number(groups).await, 1);
    // Nor do those that somebody has emptied by hand.
    fixture
        .queue
        .enqueue_many(&(0..1_500).map(|n| NewJob::text("x").group_key(format!("g{n}"))).collect::<Vec<_>>())
        .await
        .unwrap();
    session.sql(&format!("DELETE [$(schema)].[jobs] WHERE state = 6 AND job_id <> {}", last[0])).await;
    let mut worker = WorkerSession::register(&fixture).await;
    assert_eq!(ids(&worker.claim(1).await), last);
    assert!(session.number(groups).await < 1_000);
    fixture.remove().await;
}

/// Claims of one group at the same time wait for each other, and none comes back empty while jobs wait.
#[tokio::test(flavor = "multi_thread")]
async fn claims_at_the_same_time_all_get_jobs() {
    let fixture = fair("fair_at_once").await;
    let jobs = flood(&fixture, "a", 400).await;
    let mut claims = Vec::new();
    for _ in 0..4 {
        let mut worker = WorkerSession::register(&fixture).await;
        claims.push(tokio::spawn(async move {
            let mut claimed = Vec::new();
            for _ in 0..10 {
                let some = worker.claim(10).await;
                assert_eq!(some.len(), 10);
                claimed.extend(ids(&some));
            }
            claimed
        }));
    }
    let mut claimed = Vec::new();
    for claim in claims {
        claimed.extend(claim.await.unwrap());
    }
    claimed.sort_unstable();
    assert_eq!(claimed, jobs);
    fixture.remove().await;
}

/// Large claims of many groups take several jobs of each while rounds are quick; a claim is full as long as jobs wait.
#[tokio::test(flavor = "multi_thread")]
async fn large_claims_of_many_groups_are_full() {
    let fixture = fair("fair_large").await;
    fixture.queue.admin().set_group_weight("g7", 1_000).await.unwrap();
    let jobs: Vec<NewJob> = (0..2_000).map(|n| NewJob::text("x").group_key(format!("g{}", n % 500))).collect();
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    for claim in 0..10 {
        assert_eq!(worker.claim(200).await.len(), 200, "claim {claim}");
    }
    assert_eq!(ids(&worker.claim(200).await), NONE);
    fixture.remove().await;
}

/// A claim inside a transaction would keep all others waiting; and what waits there is found without advance_groups.
#[tokio::test(flavor = "multi_thread")]
async fn claims_find_new_groups_by_themselves_and_run_in_no_transaction() {
    let fixture = fair("fair_events").await;
    let mut session = fixture.session().await;
    session.client.begin_transaction().await.unwrap();
    session.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'a'").await;
    session.client.commit_transaction().await.unwrap();
    let look = "EXEC [$(schema)].[await_jobs] @queue = N'work', @least_ms = 10, @most_ms = 10, @wait_ms = 100";
    assert_eq!(session.number(look).await, 1);
    let mut worker = WorkerSession::register(&fixture).await;
    worker.session.client.begin_transaction().await.unwrap();
    let refused = worker.try_claim(1).await.unwrap_err().to_string();
    assert!(refused.contains("inside a transaction"), "{refused}");
    assert_eq!(worker.claim(1).await.len(), 1);
    fixture.remove().await;
}

/// In metrics, and where an operator looks for what is wrong, these jobs are ready.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_count_as_ready_where_it_matters() {
    let fixture = fair("fair_counts").await;
    let admin = fixture.queue.admin();
    let jobs = flood(&fixture, "a", 3).await;
    let child = NewJob::text("x").group_key("a").after([JobId(jobs[0])]);
    fixture.queue.enqueue(&child).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -100, due_at)").await;
    let mut session = fixture.session().await;
    let row = session.row("EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0").await;
    assert_eq!((number(&row, "ready"), number(&row, "waiting")), (3, 1));
    assert!(number(&row, "oldest_ready_ms") >= 100_000);
    let stats = admin.stats(None).await.unwrap();
    assert_eq!((stats.ready, stats.waiting, stats.claimable()), (0, 4, 4));
    assert!(stats.oldest_ready.unwrap() >= Duration::from_secs(100));
    assert_eq!(admin.groups(None, 10).await.unwrap()[0].waiting, 3, "a child waits for its parent");
    let left = session.row("EXEC [$(schema)].[unfinished] @queue = N'work', @due_within_ms = 0").await;
    assert_eq!(left.get::<bool, _>("ready"), Some(true));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_is_told_and_an_autoscaler_counts() {
    let fixture = fair("fair_look").await;
    let mut session = fixture.session().await;
    let look = "EXEC [$(schema)].[await_jobs] @queue = N'work', @least_ms = 10, @most_ms = 10, @wait_ms = 100";
    assert_eq!(session.number(look).await, 0);
    flood(&fixture, "a", 120).await;
    assert_eq!(session.number(look).await, 1);
    let backlog = "EXEC [$(schema)].[backlog] @queue = N'work', @threads = 1, @target_s = 60";
    assert_eq!(session.number(backlog).await, 2, "a second each");
    assert_eq!(session.number(&format!("{backlog}, @most = 60")).await, 1, "not more than @most are counted");
    let mut worker = WorkerSession::register(&fixture).await;
    let mut left = 120;
    while left > 0 {
        left -= worker.claim(40).await.len();
    }
    assert_eq!(session.number(look).await, 0);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_combined_is_refused() {
    let fixture = Fixture::new("fair_refused").await;
    let admin = fixture.queue.admin();
    let fair = || QueueOptions::default().fair(true);
    let minute = Duration::from_secs(60);
    for options in [
        fair().claim_order(ClaimOrder::Lifo),
        fair().delivery(Delivery::AtMostOnce),
        fair().max_running(3),
        fair().rate(Rate::new(3, minute)),
        fair().age_after(minute),
        fair().halt_groups(true),
        fair().group_limit(2),
    ] {
        let refused = admin.create(options.clone()).await;
        assert!(
            matches!(&refused, Err(Error::Refused { message, .. }) if message.contains("a fair queue")),
            "{refused:?}"
        );
    }
    admin.create(fair()).await.unwrap();
    let limited = admin.create(QueueOptions::default().max_running(3)).await;
    assert!(matches!(limited, Err(Error::Refused { .. })));
    assert!(admin.stats(None).await.unwrap().fair);
    for (group, weight, named) in
        [("", 2, "group_key"), ("a\u{1}", 2, "group_key"), ("a", 0, "weight"), ("a", 1_001, "weight")]
    {
        let refused = admin.set_group_weight(group, weight).await;
        assert!(matches!(&refused, Err(Error::Refused { message, .. }) if message.contains(named)), "{refused:?}");
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_becomes_fair_or_no_longer_is_loses_no_job() {
    let fixture = Fixture::new("fair_changed").await;
    let admin = fixture.queue.admin();
    let jobs = enqueue(&fixture, &["a", "a", "a", "a", "b", "b"]).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let first = worker.claim(10).await;
    assert_eq!(ids(&first), [jobs[0], jobs[4]], "a turn each");
    admin.create(QueueOptions::default().fair(true)).await.unwrap();
    let second = worker.claim(2).await;
    assert_eq!(ids(&second), [jobs[1], jobs[5]]);
    worker.finish(&first.iter().chain(&second).map(Claimed::done).collect::<Vec<_>>()).await;

    admin.create(QueueOptions::default().fair(false)).await.unwrap();
    fixture.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    // As it comes within a minute.
    fixture
        .sql("UPDATE [$(schema)].[duties] SET looked_at = '20000101'; EXEC [$(schema)].[promote] @queue = N'work'")
        .await;
    let third = worker.claim(10).await;
    assert_eq!(ids(&third), jobs[2..3], "one turn at a time");
    worker.finish(&[third[0].done()]).await;
    assert_eq!(ids(&worker.claim(10).await), jobs[3..4]);
    fixture.remove().await;
}

/// A worker, with failures: each job is done once, in the shares of the groups, and the drain ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_drains_a_fair_queue() {
    let fixture = fair("fair_drain").await;
    fixture.queue.admin().set_group_weight("heavy", 4).await.unwrap();
    let jobs: Vec<NewJob> = (0..400)
        .map(|n| NewJob::text("x").group_key(if n < 200 { "many".to_owned() } else { format!("few {}", n % 20) }))
        .chain((0..40).map(|_| NewJob::text("x").group_key("heavy")))
        .collect();
    let ids: Vec<JobId> = fixture.queue.enqueue_many(&jobs).await.unwrap().iter().map(|job| job.job_id).collect();
    let (runs, order) = (Arc::new(Mutex::new(HashMap::<JobId, u32>::new())), Arc::new(Mutex::new(Vec::new())));
    let (counted, started, failures) = (runs.clone(), order.clone(), AtomicU32::new(0));
    let handlers = Handlers::any(move |job: &Job, _: &Context| -> Result<(), BoxError> {
        if job.attempt() == 1 && failures.fetch_add(1, Ordering::Relaxed) % 7 == 0 {
            return Err(JobError::retry_in(Duration::ZERO, "sometimes").into());
        }
        *counted.lock().entry(job.id()).or_default() += 1;
        started.lock().push(job.id());
        Ok(())
    });
    drained(Worker::builder(&fixture.queue, handlers).start().await.unwrap()).await;
    let runs = runs.lock().clone();
    assert!(ids.iter().all(|id| runs.get(id) == Some(&1)), "each once");
    assert_eq!(runs.len(), 440);
    // Of the first half, "many" has had about one of 25 jobs in a round, although retries come in between, and "heavy" all of
    // its own.
    let order = order.lock().clone();
    let first_half = |jobs: &[JobId]| order[..220].iter().filter(|id| jobs.contains(id)).count();
    let (many, heavy) = (first_half(&ids[..200]), first_half(&ids[400..]));
    assert!(many < 30 && heavy > 20, "{many} {heavy}");
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.unfinished(), stats.dead), (0, 0));
    fixture.remove().await;
}
