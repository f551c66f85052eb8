//! What operators do to queues with many jobs, while others work: pages, single jobs, requeue and purge read no more
//! than they need, and nobody waits for anybody.
//!
//! How much is read is counted by the dev server ([`DevServer::entries_read`]): each entry and row that a scan or seek
//! steps over.

use std::collections::BTreeSet;
use std::time::Duration;

use readpast::admin::{
    Changed, ClaimOrder, CompletionPolicy, JobChange, JobCursor, JobFilter, JobRow, JobState, Keep, MatchingPage,
    QueueOptions,
};
use readpast::{Error, JobId, NewBatch, NewJob, Queue};
use readpast_devserver::DevServer;
use uuid::Uuid;

use crate::support::{Fixture, JobCounts, Session, WorkerSession, changed, number, numbers, text};

const LOCK_TIMED_OUT: u32 = 1222;

/// A server whose counters are this test's own, and a queue on it.
struct Counted {
    server: DevServer,
    fixture: Fixture,
    session: Session,
}

impl Counted {
    async fn new(name: &str) -> Counted {
        let server = DevServer::start().await.unwrap();
        let fixture = Fixture::on(&server, name, QueueOptions::default()).await;
        let session = fixture.session().await;
        Counted { server, fixture, session }
    }

    /// Runs a call that must read `at_most` entries; returns the numbers in its first column.
    async fn numbers(&mut self, what: &str, at_most: u64, call: &str) -> Vec<i64> {
        let before = self.server.entries_read();
        let numbers = self.session.numbers(call).await;
        let read = self.server.entries_read() - before;
        println!("{what}: {read} entries read");
        assert!(read <= at_most, "{what}: {read} entries read");
        numbers
    }

    /// Adds `count` rows to `jobs`. `columns` names some of them and `values` gives theirs, from the row's number
    /// `n.value` (1, 2, …); the ids are `first_id + n.value`.
    async fn add(&mut self, first_id: i64, count: i64, columns: &str, values: &str) {
        for first in (1..=count).step_by(100_000) {
            let last = count.min(first + 99_999);
            let insert = format!(
                "INSERT [$(schema)].[jobs] (job_id, queue_id, payload_utf16, payload, {columns})
                 SELECT {first_id} + n.value, 1, 0, 0x7B7D, {values}
                 FROM GENERATE_SERIES(CAST({first} AS bigint), CAST({last} AS bigint)) AS n"
            );
            self.session.sql(&insert).await;
        }
    }

    /// Dead jobs 1, 2, …; a thousand of them ended in each second from 2020 on. Each `keyed`th has a de-duplication
    /// key.
    async fn add_dead(&mut self, count: i64, keyed: i64) {
        let values = format!(
            "4, 1, 0, '2020-01-01', '2020-01-01', DATEADD(SECOND, n.value / 1000, '2020-01-01'),
             CASE WHEN n.value % {keyed} = 0 THEN CONCAT(N'key ', n.value) END"
        );
        self.add(0, count, "state, ended, priority, enqueued_at, due_at, finished_at, dedup_key", &values).await;
    }
}

/// The call for the page of 100 finished jobs after the one that `add_dead` made `after`th.
fn dead_page(after: i64) -> String {
    format!(
        "DECLARE @time datetime2(3) = DATEADD(SECOND, {after} / 1000, '2020-01-01');
         EXEC [$(schema)].[peek] @queue = N'work', @state = 'dead', @after = {after}, @after_time = @time"
    )
}

/// What the procedures read when there are `count` dead jobs: see the assertions.
async fn read_no_more_than_needed(count: i64) {
    let mut counted = Counted::new("many_dead").await;
    counted.add_dead(count, 7).await;

    let first_page = "EXEC [$(schema)].[peek] @queue = N'work', @state = 'dead'";
    let first = counted.numbers("the first page", 300, first_page).await;
    assert_eq!(first, (1..=100).collect::<Vec<_>>());
    // In the midst of a thousand jobs that ended at one time, and where those end.
    for after in [count / 2 + 500, count / 2 + 950] {
        let page = counted.numbers("a page in the middle", 300, &dead_page(after)).await;
        assert_eq!(page, (after + 1..=after + 100).collect::<Vec<_>>());
    }
    let last = counted.numbers("the last page", 300, &dead_page(count - 60)).await;
    assert_eq!(last, (count - 59..=count).collect::<Vec<_>>());

    // What no index knows is looked for in so many rows, wherever the page begins.
    let filters =
        ", @error = N'rare', @kind = 'resize', @correlation_id = '00000000-0000-0000-0000-000000000001', @scan = 1000";
    for after in [0, count / 2 + 500] {
        let page = format!("{}{filters}", dead_page(after));
        assert_eq!(counted.numbers("a page with filters", 2_100, &page).await, [0_i64; 0]);
    }

    let one = format!("EXEC [$(schema)].[peek] @queue = N'work', @job_id = {}", count / 2);
    assert_eq!(counted.numbers("one job", 5, &one).await, [count / 2]);

    let keyed = count / 2 - (count / 2) % 7;
    for (what, job_id) in [("requeue of a job with a key", keyed), ("requeue of a job without", keyed + 1)] {
        let requeue = format!("EXEC [$(schema)].[requeue] @queue = N'work', @job_id = {job_id}");
        assert_eq!(counted.numbers(what, 20, &requeue).await, [1]);
    }
    let requeue = "EXEC [$(schema)].[requeue] @queue = N'work'";
    assert_eq!(counted.numbers("requeue of 1,000", 6_000, requeue).await, [1_000]);
    let purge = "EXEC [$(schema)].[purge] @queue = N'work', @state = 'dead'";
    assert_eq!(counted.numbers("purge of 1,000", 4_000, purge).await, [1_000]);

    let left = JobCounts { ready: 1_002, dead: count - 2_002, ..JobCounts::default() };
    assert_eq!(counted.fixture.job_counts().await, left);
}

#[tokio::test(flavor = "multi_thread")]
async fn among_many_dead_jobs_nothing_is_read_that_is_not_needed() {
    read_no_more_than_needed(100_000).await;
}

/// `cargo test --test tests -- --ignored among_a_million`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes most of a minute in a debug build"]
async fn among_a_million_dead_jobs_nothing_is_read_that_is_not_needed() {
    read_no_more_than_needed(1_000_000).await;
}

/// Jobs of one priority, and jobs that are due or ended at one time, are as many as a producer enqueues at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_any_state_seeks_past_equal_times_and_priorities() {
    let count = 5_000;
    let mut counted = Counted::new("equal_keys").await;
    let columns = "state, ended, alone, priority, enqueued_at, due_at, finished_at, group_key";
    for (state, alone, first_id) in [(0, 0, 0), (0, 1, 100_000), (1, 0, 200_000), (3, 0, 300_000), (6, 0, 500_000)] {
        let ended = i32::from(state == 3);
        let values = format!("{state}, {ended}, {alone}, 3, '2020-01-01', '2020-01-01', '2020-01-01', N'k'");
        counted.add(first_id, count, columns, &values).await;
    }
    counted
        .session
        .sql(
            "INSERT [$(schema)].[archive] (job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at,
                                          payload_utf16, payload)
             SELECT 100000 + job_id, 1, 3, 1, 1, enqueued_at, due_at, NEWID(), enqueued_at, finished_at, 0, payload
             FROM [$(schema)].[jobs] WHERE state = 3",
        )
        .await;

    let time = "@after_time = '2020-01-01'";
    for (state, first_id, key) in [
        ("ready", 0, "@after_priority = 3, @after_alone = 0"),
        ("ready", 100_000, "@after_priority = 3, @after_alone = 1"),
        ("scheduled", 200_000, time),
        ("done", 300_000, time),
        ("archived", 400_000, time),
        ("waiting", 500_000, "@after_group = N'k'"),
    ] {
        let after = first_id + count / 2;
        let page = format!("EXEC [$(schema)].[peek] @queue = N'work', @state = '{state}', @after = {after}, {key}");
        let ids = counted.numbers(state, 300, &page).await;
        assert_eq!(ids, (after + 1..=after + 100).collect::<Vec<_>>(), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn purge_finds_out_at_once_that_no_ready_job_is_old_enough() {
    let mut counted = Counted::new("none_old").await;
    for (priority, first_id) in [(0, 0), (1, 100_000), (32_767, 200_000)] {
        let values = format!("0, {priority}, DATEADD(SECOND, n.value - 20000, SYSUTCDATETIME()), '2020-01-01'");
        counted.add(first_id, 10_000, "state, priority, enqueued_at, due_at", &values).await;
    }
    let purge = "EXEC [$(schema)].[purge] @queue = N'work', @state = 'ready', @older_than_s = ";
    assert_eq!(counted.numbers("none is old enough", 20, &format!("{purge} 30000")).await, [0]);
    // Of each priority the first hundred, or one less or more as the clock goes on.
    let purged = counted.numbers("some are", 4_000, &format!("{purge} 19900")).await;
    assert!((297..=330).contains(&purged[0]), "{purged:?}");
    let newest = counted.session.number("SELECT MAX(job_id) FROM [$(schema)].[jobs]").await;
    assert_eq!(newest, 210_000);
}

/// All jobs that a filter asks for, page by page.
async fn all_pages(fixture: &Fixture, filter: &JobFilter, max: usize) -> Vec<JobRow> {
    let mut jobs = Vec::new();
    let mut after: Option<JobCursor> = None;
    loop {
        let page = fixture.queue.admin().list(filter, after.as_ref(), max).await.unwrap();
        assert!(page.jobs.len() <= max);
        jobs.extend(page.jobs);
        let Some(next) = page.next else { return jobs };
        // As in a link to the next page.
        after = Some(serde_json::from_str(&serde_json::to_string(&next).unwrap()).unwrap());
    }
}

/// The pages, whatever their size, have each job once, in the order of `sorted`.
async fn pages_have_all(fixture: &Fixture, state: JobState, sorted: &str) {
    let expected = fixture.session().await.numbers(sorted).await;
    assert!(expected.len() > 10, "{state:?}");
    for max in [1, 3, 4, 1_000] {
        let jobs = all_pages(fixture, &state.into(), max).await;
        assert!(jobs.iter().all(|job| job.state == state), "{state}");
        let ids: Vec<i64> = jobs.iter().map(|job| job.job_id.0).collect();
        assert_eq!(ids, expected, "{state}, pages of {max}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_each_job_once_in_the_order_of_its_state() {
    for (order, newest_first) in [(ClaimOrder::Fifo, ""), (ClaimOrder::Lifo, " DESC")] {
        let options = QueueOptions::default().claim_order(order);
        let fixture = Fixture::with("pages", options).await;
        let mut session = fixture.session().await;
        // Twelve of each state, with few different times and priorities.
        for number in 0..84 {
            fixture.queue.enqueue(&NewJob::text("x").priority([-32_768, 0, 32_767][number % 3])).await.unwrap();
        }
        session
            .sql(
                "WITH numbered AS (SELECT *, ROW_NUMBER() OVER (ORDER BY job_id) AS n FROM [$(schema)].[jobs])
                 UPDATE numbered
                 SET state       = CASE WHEN n <= 24 THEN 0 WHEN n <= 36 THEN 1 WHEN n <= 48 THEN 2 WHEN n <= 60 THEN 3
                                        WHEN n <= 72 THEN 4 ELSE 6 END,
                     alone       = CASE WHEN n BETWEEN 13 AND 24 THEN 1 ELSE 0 END,
                     ended       = CASE WHEN n BETWEEN 49 AND 72 THEN 1 ELSE 0 END,
                     group_key   = CONCAT(N'key ', n % 5),
                     worker_id   = NEWID(),
                     claimed_at  = enqueued_at,
                     due_at      = DATEADD(MILLISECOND, n % 3, '2020-01-01'),
                     finished_at = DATEADD(MILLISECOND, n % 4, '2020-01-01');
                 INSERT [$(schema)].[archive] (job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at,
                                               finished_at, payload_utf16, payload)
                 SELECT job_id, queue_id, priority, 1, 1, enqueued_at, due_at, worker_id, claimed_at, finished_at, 0, payload
                 FROM [$(schema)].[jobs] WHERE state = 4",
            )
            .await;

        let by = |condition: &str, order: &str| {
            format!("SELECT job_id FROM [$(schema)].[jobs] WHERE {condition} ORDER BY {order}")
        };
        // Alone first, and those oldest first whatever the queue's order.
        let ready = by(
            "state = 0",
            &format!("alone DESC, priority, CASE WHEN alone = 1 THEN job_id END, job_id{newest_first}"),
        );
        pages_have_all(&fixture, JobState::Ready, &ready).await;
        pages_have_all(&fixture, JobState::Scheduled, &by("state = 1", "due_at, job_id")).await;
        pages_have_all(&fixture, JobState::Claimed, &by("state = 2", "job_id")).await;
        pages_have_all(&fixture, JobState::Done, &by("state = 3", "finished_at, job_id")).await;
        pages_have_all(&fixture, JobState::Dead, &by("state = 4", "finished_at, job_id")).await;
        pages_have_all(&fixture, JobState::Waiting, &by("state = 6", "group_key, job_id")).await;
        let archived = "SELECT job_id FROM [$(schema)].[archive] ORDER BY finished_at, job_id";
        pages_have_all(&fixture, JobState::Archived, archived).await;
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_cannot_begin_after_a_job_of_another_state() {
    let fixture = Fixture::new("other_state").await;
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    let second = fixture.queue.admin().list(&JobState::Ready.into(), None, 1).await.unwrap().next.unwrap();
    let error = fixture.queue.admin().list(&JobState::Dead.into(), Some(&second), 10).await.unwrap_err();
    let expected = "a page of dead jobs cannot start from a cursor of ready jobs";
    assert!(matches!(&error, Error::Refused { message, .. } if message == expected), "{error}");
    // In T-SQL the columns that are missing show it.
    let (number, message) =
        fixture.session().await.refusal("EXEC [$(schema)].[peek] @queue = N'work', @state = 'dead', @after = 1").await;
    assert_eq!(number, 58003);
    assert!(message.contains("after_time"), "{message}");
    fixture.remove().await;
}

/// Jobs in three states; each filter finds its own, and several filters what has everything that is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_kind_correlation_id_and_error() {
    let fixture = Fixture::with("filters", archiving()).await;
    let order = Uuid::from_u128(4_711);
    let mut worker = WorkerSession::register(&fixture).await;
    let add = async |job: NewJob| fixture.queue.enqueue(&job).await.unwrap().job_id;
    let archived = add(NewJob::text("x").kind("mail").correlation_id(order)).await;
    let job = worker.claim_one().await;
    worker.finish(&[job.done()]).await;
    let mut dead = Vec::new();
    for (kind, error) in [("resize", "Out of memory: 7 %"), ("mail", "out of memory"), ("resize", "no such file")] {
        dead.push(add(NewJob::text("x").kind(kind)).await);
        let job = worker.claim_one().await;
        worker.finish(&[job.dead(error)]).await;
    }
    let ready = add(NewJob::text("x").kind("resize").correlation_id(order)).await;
    let plain = add(NewJob::text("x")).await;

    let found = async |filter: JobFilter| {
        for max in [1, 2, 100] {
            let all = all_pages(&fixture, &filter, 100).await;
            assert_eq!(all_pages(&fixture, &filter, max).await, all, "pages of {max}");
        }
        all_pages(&fixture, &filter, 100).await.iter().map(|job| job.job_id).collect::<Vec<_>>()
    };
    assert_eq!(found(JobFilter::all()).await, [ready, plain, dead[0], dead[1], dead[2], archived]);
    assert_eq!(found(JobFilter::all().correlation_id(order)).await, [ready, archived]);
    assert_eq!(found(JobFilter::all().kind("resize")).await, [ready, dead[0], dead[2]]);
    assert_eq!(found(JobFilter::from(JobState::Dead).error("of memory")).await, [dead[0], dead[1]]);
    assert_eq!(found(JobFilter::from(JobState::Dead).error("7 %")).await, [dead[0]], "no pattern");
    assert_eq!(found(JobFilter::from(JobState::Dead).error("")).await, dead);
    assert_eq!(found(JobFilter::all().error("memory").kind("resize")).await, [dead[0]]);
    assert_eq!(found(JobFilter::from(JobState::Archived).kind("mail")).await, [archived]);
    assert_eq!(found(JobFilter::from(JobState::Ready).kind("mail")).await, []);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_by_key_group_batch_and_age() {
    let fixture = Fixture::with("more_filters", archiving()).await;
    let batch = fixture.queue.create_batch(&NewBatch::new()).await.unwrap();
    let add = async |job: NewJob| fixture.queue.enqueue(&job).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    let archived = add(NewJob::text("x").dedup_key("k").group_key("g").batch(batch)).await;
    let job = worker.claim_one().await;
    worker.finish(&[job.done()]).await;
    let dead = add(NewJob::text("x").dedup_key("k").batch(batch)).await;
    let job = worker.claim_one().await;
    worker.finish(&[job.dead("no")]).await;
    let ready = add(NewJob::text("x").dedup_key("k").group_key("g")).await;
    let waiting = add(NewJob::text("x").group_key("g").batch(batch)).await;
    let scheduled = add(NewJob::text("x").delay(Duration::from_secs(900))).await;
    assert_eq!(
        fixture.job_counts().await,
        JobCounts { ready: 1, scheduled: 1, dead: 1, archived: 1, ..JobCounts::default() }
    );

    let found = async |filter: JobFilter| {
        let rows: Vec<JobId> = all_pages(&fixture, &filter, 2).await.iter().map(|job| job.job_id).collect();
        assert_eq!(all_ids(&fixture, &filter, 2).await, rows, "the same without their rows");
        rows
    };
    assert_eq!(found(JobFilter::all().dedup_key("k")).await, [ready, dead, archived]);
    assert_eq!(found(JobFilter::all().dedup_key("K")).await, []);
    assert_eq!(found(JobFilter::all().group_key("g")).await, [ready, waiting, archived]);
    assert_eq!(found(JobFilter::all().batch(batch)).await, [waiting, dead, archived]);
    assert_eq!(found(JobFilter::all().batch(batch).group_key("g").dedup_key("k")).await, [archived]);
    assert_eq!(found(JobFilter::from(JobState::Dead).group_key("g")).await, []);

    // Enqueued an hour ago; what has ended did so half an hour ago.
    let mut session = fixture.session().await;
    for table in ["jobs", "archive"] {
        let age = "enqueued_at = DATEADD(HOUR, -1, SYSUTCDATETIME()), finished_at = DATEADD(MINUTE, -30, finished_at)";
        session.sql(&format!("UPDATE [$(schema)].[{table}] SET {age}")).await;
    }
    let older = |minutes: u64| JobFilter::all().older_than(Duration::from_secs(60 * minutes));
    let all = [ready, scheduled, waiting, dead, archived];
    assert_eq!(found(older(0)).await, all);
    assert_eq!(found(older(29)).await, all);
    assert_eq!(found(older(31)).await, [ready, scheduled, waiting]);
    assert_eq!(found(older(31).group_key("g")).await, [ready, waiting]);
    assert_eq!(found(older(61)).await, []);
    assert_eq!(found(JobFilter::all().older_than(Duration::MAX)).await, []);
    // As purge counts.
    let young = fixture
        .queue
        .admin()
        .change(&JobChange::Purge, JobFilter::from(JobState::Dead).older_than(Duration::from_secs(31 * 60)))
        .await
        .unwrap()
        .changed;
    assert_eq!(
        (
            young,
            fixture
                .queue
                .admin()
                .change(&JobChange::Purge, JobFilter::from(JobState::Dead).older_than(Duration::from_secs(29 * 60)))
                .await
                .unwrap()
                .changed
        ),
        (0, 1)
    );

    // The same filters choose what is done to all.
    let batch_only = JobFilter::all().batch(batch);
    assert_eq!(fixture.queue.admin().change(&JobChange::SetPriority(7), batch_only.clone()).await.unwrap().changed, 1);
    assert_eq!(fixture.queue.admin().job(waiting, None).await.unwrap().unwrap().priority, 7);
    assert_eq!(fixture.queue.admin().change(&JobChange::cancel("old"), older(61)).await.unwrap().changed, 0);
    assert_eq!(
        fixture.queue.admin().change(&JobChange::cancel("old"), older(59).dedup_key("k")).await.unwrap().changed,
        1
    );
    assert_eq!(fixture.queue.admin().job(ready, None).await.unwrap().unwrap().state, JobState::Cancelled);
    drop((session, worker));
    fixture.remove().await;
}

/// A million young jobs behind a few old ones.
#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_ended_jobs_ends_a_page_where_younger_ones_begin() {
    let mut counted = Counted::new("aged").await;
    counted.add_dead(20_000, 7).await;
    counted.session.sql("UPDATE [$(schema)].[jobs] SET finished_at = SYSUTCDATETIME() WHERE job_id > 50").await;
    let page = "EXEC [$(schema)].[peek] @queue = N'work', @state = 'dead', @older_than_ms = 60000";
    assert_eq!(counted.numbers("the old ones", 300, page).await, (1..=50).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_jobs_is_exact_to_the_millisecond() {
    let fixture = Fixture::new("age_ms").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut session = fixture.session().await;
    let mut found = 1;
    for _ in 0..10 {
        session.sql("UPDATE [$(schema)].[jobs] SET enqueued_at = SYSUTCDATETIME()").await;
        let young = JobFilter::from(JobState::Ready).older_than(Duration::from_millis(999));
        found = fixture.queue.admin().list(&young, None, 10).await.unwrap().jobs.len();
        if found == 0 {
            break; // otherwise this machine may have been busy for so long
        }
    }
    assert_eq!(found, 0, "in whole seconds it would be old enough");
    session.sql("UPDATE [$(schema)].[jobs] SET enqueued_at = DATEADD(MILLISECOND, -999, SYSUTCDATETIME())").await;
    let old = JobFilter::from(JobState::Ready).older_than(Duration::from_millis(999));
    assert_eq!(fixture.queue.admin().list(&old, None, 10).await.unwrap().jobs.len(), 1);
    drop(session);
    fixture.remove().await;
}

/// All ids that a filter asks for, page by page.
async fn all_ids(fixture: &Fixture, filter: &JobFilter, max: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    let mut after = None;
    loop {
        let page = fixture.queue.admin().list_ids(filter, after.as_ref(), max).await.unwrap();
        assert!(page.jobs.len() <= max);
        jobs.extend(page.jobs);
        let Some(next) = page.next else { return jobs };
        after = Some(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_jobs_are_cancelled_requeued_moved_and_purged_however_many_they_are() {
    let fixture = Fixture::new("listed").await;
    let queue = &fixture.queue;
    let added = queue.enqueue_many(&numbers(2_200)).await.unwrap();
    let mut listed = all_ids(&fixture, &JobState::Ready.into(), 1_000).await;
    assert_eq!(listed, added.iter().map(|job| job.job_id).collect::<Vec<_>>());
    let rest = listed.split_off(2_100);
    listed.reverse(); // in any order
    listed.extend([JobId(-1), listed[0], JobId(i64::MAX)]); // what is not there or stands twice is passed over

    assert_eq!(queue.admin().change(&JobChange::SetPriority(-3), &listed).await.unwrap().changed, 2_100);
    assert_eq!(queue.admin().change(&JobChange::SetPriority(-3), &listed).await.unwrap().changed, 0);
    assert_eq!(queue.admin().change(&JobChange::cancel("not wanted"), &listed).await.unwrap().changed, 2_100);
    assert_eq!(queue.admin().job(listed[7], None).await.unwrap().unwrap().priority, -3);
    assert_eq!(queue.admin().change(&JobChange::Requeue, &listed).await.unwrap().changed, 2_100);
    assert_eq!(queue.admin().change(&JobChange::Requeue, &listed).await.unwrap().changed, 0);
    assert_eq!(
        queue
            .admin()
            .change(&JobChange::Purge, MatchingPage::new(JobState::Dead, listed.to_vec()))
            .await
            .unwrap()
            .changed,
        0
    );
    assert_eq!(
        queue
            .admin()
            .change(&JobChange::Purge, MatchingPage::new(JobState::Ready, listed.to_vec()))
            .await
            .unwrap()
            .changed,
        2_100
    );
    assert_eq!(all_ids(&fixture, &JobState::Ready.into(), 1_000).await, rest);
    let error =
        queue.admin().change(&JobChange::Purge, MatchingPage::new(JobState::Claimed, rest.to_vec())).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");

    // Of no job, nothing; and nothing of another queue's.
    assert_eq!(queue.admin().change(&JobChange::cancel("x"), Vec::new()).await.unwrap(), Changed::default());
    assert_eq!(
        (
            queue.admin().change(&JobChange::Requeue, Vec::new()).await.unwrap().changed,
            queue
                .admin()
                .change(&JobChange::Purge, MatchingPage::new(JobState::Ready, Vec::new()))
                .await
                .unwrap()
                .changed
        ),
        (0, 0)
    );
    let other = changed(fixture.config.clone(), |config| config.queue.name = "other".to_string());
    let other = Queue::connect(&other).await.unwrap();
    other.admin().create(QueueOptions::default()).await.unwrap();
    assert_eq!(other.admin().change(&JobChange::SetPriority(5), &rest).await.unwrap().changed, 0);
    assert_eq!(
        other
            .admin()
            .change(&JobChange::Purge, MatchingPage::new(JobState::Ready, rest.to_vec()))
            .await
            .unwrap()
            .changed,
        0
    );
    assert_eq!(other.admin().change(&JobChange::cancel("x"), &rest).await.unwrap(), Changed::default());
    queue.admin().change(&JobChange::cancel("x"), &rest).await.unwrap();
    assert_eq!(other.admin().change(&JobChange::Requeue, &rest).await.unwrap().changed, 0);
    assert_eq!(
        other
            .admin()
            .change(&JobChange::Purge, MatchingPage::new(JobState::Cancelled, rest.to_vec()))
            .await
            .unwrap()
            .changed,
        0
    );
    assert_eq!(fixture.job_counts().await, JobCounts { cancelled: 100, ..JobCounts::default() });
    fixture.remove().await;
}

/// Between the page of ids and what is done to them, others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_another_name_is_of_the_same_schema() {
    let fixture = Fixture::new("named").await;
    let other = fixture.queue.named("other").unwrap();
    assert!(matches!(other.admin().stats(None).await.unwrap_err(), Error::UnknownQueue { .. }));
    other.admin().create(QueueOptions::default()).await.unwrap();
    other.enqueue(&NewJob::text("x")).await.unwrap();
    assert_eq!(other.admin().stats(None).await.unwrap().ready, 1);
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().ready, 0);
    let names: Vec<String> =
        fixture.queue.admin().all_stats(None).await.unwrap().into_iter().map(|stats| stats.queue).collect();
    assert_eq!(names, ["other", "work"]);
    assert!(matches!(fixture.queue.named(" other").unwrap_err(), Error::Config { .. }));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_to_all_that_match_leaves_alone_what_comes_meanwhile() {
    let fixture = Fixture::new("matching").await;
    let queue = &fixture.queue;
    queue.enqueue_many(&vec![NewJob::text("x").kind("a"); 1_500]).await.unwrap();
    queue.enqueue_many(&vec![NewJob::text("x").kind("b"); 10]).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, finished_at = enqueued_at").await;
    queue.enqueue(&NewJob::text("x").kind("a").delay(Duration::from_secs(3_600))).await.unwrap();

    let filter = JobFilter::all().kind("a");
    let mut pages = queue.admin().matching(&filter, JobChange::Requeue).unwrap();
    let (mut seen, mut requeued) = (0, 0);
    while let Some(page) = pages.next().await.unwrap() {
        seen += page.jobs.len();
        requeued += queue.admin().change(&JobChange::Requeue, page).await.unwrap().changed;
        // They die again at once, with a later end: they do not come a second time.
        let again = "UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, finished_at = DATEADD(HOUR, 1, SYSUTCDATETIME()) \
                     WHERE state = 0";
        fixture.sql(again).await;
    }
    assert_eq!((seen, requeued), (1_500, 1_500));

    // All states that it fits, in turn; those that have the priority already are no match.
    let change = JobChange::SetPriority(7);
    let mut pages = queue.admin().matching(&filter, change.clone()).unwrap();
    let mut changed = 0;
    while let Some(page) = pages.next().await.unwrap() {
        changed += queue.admin().change(&change, page).await.unwrap().changed;
    }
    assert_eq!(changed, 1, "the scheduled one");
    let error = queue.admin().matching(&JobState::Done.into(), change).unwrap_err();
    assert!(error.to_string().contains("the filter's state is done"), "{error}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_state_has_changed_since_it_was_listed_is_not_purged() {
    let fixture = Fixture::with("changed_since", archiving()).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut jobs = Vec::new();
    for outcome in ["dead", "dead", "dead", "done"] {
        jobs.push(fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id);
        let job = worker.claim_one().await;
        worker.finish(&[if outcome == "dead" { job.dead("no") } else { job.done() }]).await;
    }
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, jobs[0]).await.unwrap().changed, 1);
    let mut holder = fixture.session().await;
    holder
        .sql(&format!("BEGIN TRANSACTION; UPDATE [$(schema)].[jobs] SET priority = 1 WHERE job_id = {}", jobs[1].0))
        .await;
    // One is ready again, one is locked, one is in the archive.
    assert_eq!(
        fixture
            .queue
            .admin()
            .change(&JobChange::Purge, MatchingPage::new(JobState::Dead, jobs.to_vec()))
            .await
            .unwrap()
            .changed,
        1
    );
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, &jobs[..2]).await.unwrap().changed, 0);
    holder.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(fixture.job_counts().await, JobCounts { ready: 1, dead: 1, archived: 1, ..JobCounts::default() });
    let by_other = "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs SELECT job_id FROM [$(schema)].[archive];
                    EXEC [$(schema)].[create_queue] @queue = N'other';
                    EXEC [$(schema)].[purge] @queue = N'other', @state = 'archived', @listed = 1, @jobs = @jobs";
    holder.sql(by_other).await;
    assert_eq!(fixture.job_counts().await.archived, 1);
    assert_eq!(
        fixture
            .queue
            .admin()
            .change(&JobChange::Purge, MatchingPage::new(JobState::Archived, jobs.to_vec()))
            .await
            .unwrap()
            .changed,
        1
    );
    assert_eq!(
        holder.number("SELECT COUNT(*) FROM [$(schema)].[attempts]").await,
        2,
        "those of the jobs that are left"
    );
    drop((holder, worker));
    fixture.remove().await;
}

/// Of jobs with one key, one comes back; a key that is taken keeps all of them where they are.
#[tokio::test(flavor = "multi_thread")]
async fn listed_jobs_with_keys_come_back_as_single_ones_do() {
    let fixture = Fixture::new("listed_keys").await;
    let queue = &fixture.queue;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut dead = Vec::new();
    for key in ["a", "a", "b"] {
        dead.push(queue.enqueue(&NewJob::text("x").dedup_key(key)).await.unwrap().job_id);
        let job = worker.claim_one().await;
        worker.finish(&[job.dead("no")]).await;
    }
    let mut cancelled = Vec::new();
    for _ in 0..2 {
        let job = queue.enqueue(&NewJob::text("x").dedup_key("c").group_key("g")).await.unwrap().job_id;
        queue.admin().change(&JobChange::cancel("x"), job).await.unwrap();
        cancelled.push(job);
    }
    queue.enqueue(&NewJob::text("x").dedup_key("b")).await.unwrap();
    let listed = [&dead[..], &cancelled[..]].concat();
    assert_eq!(queue.admin().change(&JobChange::Requeue, &listed).await.unwrap().changed, 2);
    let state = async |job: JobId| queue.admin().job(job, None).await.unwrap().unwrap().state;
    assert_eq!(
        [state(dead[0]).await, state(dead[1]).await, state(dead[2]).await],
        [JobState::Dead, JobState::Ready, JobState::Dead]
    );
    assert_eq!(
        [state(cancelled[0]).await, state(cancelled[1]).await],
        [JobState::Cancelled, JobState::Ready],
        "the newest"
    );
    fixture.remove().await;
}

/// An empty list must not be taken for none: it would be all jobs.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_in_t_sql_is_no_job_at_all() {
    let fixture = Fixture::new("empty_list").await;
    let mut session = fixture.session().await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    session.sql("UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, finished_at = enqueued_at").await;
    let empty = "DECLARE @jobs [$(schema)].[id_list];";
    for call in ["[requeue] @queue = N'work'", "[purge] @queue = N'work', @state = 'dead'"] {
        let none = session.number(&format!("{empty} EXEC [$(schema)].{call}, @listed = 1, @jobs = @jobs")).await;
        assert_eq!(none, 0, "{call}");
        // Who forgets to say so learns it with the first list that is not empty.
        let (number, _) =
            session.refusal(&format!("{empty} INSERT @jobs VALUES (1); EXEC [$(schema)].{call}, @jobs = @jobs")).await;
        assert_eq!(number, 58003, "{call}");
    }
    assert_eq!(fixture.job_counts().await.dead, 3);
    fixture.remove().await;
}

/// No page reads more rows than `@scan`, and yet the pages have every job that matches.
#[tokio::test(flavor = "multi_thread")]
async fn pages_with_a_filter_go_on_where_the_last_one_has_looked() {
    let mut counted = Counted::new("rare").await;
    let kinds = "CASE WHEN n.value % 700 = 0 THEN 'rare' ELSE 'common' END";
    let values = format!("4, 1, 0, '2020-01-01', '2020-01-01', '2020-01-01', {kinds}");
    counted.add(0, 5_000, "state, ended, priority, enqueued_at, due_at, finished_at, kind", &values).await;
    let mut place = String::new();
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let page = format!(
            "DECLARE @next bigint, @time datetime2(3);
             EXEC [$(schema)].[peek] @queue = N'work', @state = 'dead', @kind = 'rare', @max = 2, @scan = 1000 {place},
                  @next = @next OUTPUT, @next_time = @time OUTPUT;
             SELECT @next AS next, CONVERT(nvarchar(23), @time, 126) AS time"
        );
        let before = counted.server.entries_read();
        let results = counted.session.try_sql(&page).await.unwrap();
        assert!(counted.server.entries_read() - before <= 2_100);
        found.extend(results[0].iter().map(|row| number(row, 0)));
        pages += 1;
        let [row] = results[1].as_slice() else { panic!("one row") };
        let Some(time) = text(row, "time") else { break };
        place = format!(", @after = {}, @after_time = '{time}'", number(row, "next"));
    }
    assert_eq!(found, (1..=7).map(|n| n * 700).collect::<Vec<_>>());
    assert!((6..=7).contains(&pages), "{pages} pages");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_json_for_operators_programs() {
    let fixture = Fixture::with("json", archiving()).await;
    let order = Uuid::from_u128(4_711);
    let job = NewJob::bytes([0xff, 0])
        .kind("resize")
        .dedup_key("k")
        .correlation_id(order)
        .priority(-3)
        .time_limit(Duration::from_millis(2_500));
    let id = fixture.queue.enqueue(&job).await.unwrap().job_id;
    let mut worker = WorkerSession::register(&fixture).await;
    let mut done = worker.claim_one().await.done();
    done.output = Some(b"42".to_vec());
    worker.finish(&[done]).await;
    fixture.sql("UPDATE [$(schema)].[archive] SET run_us = 1500000, enqueued_at = '2026-11-22T01:02:03.004'").await;
    let page = fixture.queue.admin().list(&JobFilter::all(), None, 10).await.unwrap();
    let json = serde_json::to_value(&page).unwrap();
    let job = &json["jobs"][0];
    for (field, expected) in [
        ("job_id", serde_json::json!(id.0)),
        ("state", "archived".into()),
        ("kind", "resize".into()),
        ("priority", (-3).into()),
        ("attempt", 1.into()),
        ("enqueued_at", "2026-11-22T01:02:03.004Z".into()),
        ("run_s", 1.5.into()),
        ("time_limit_s", 2.5.into()),
        ("dedup_key", "k".into()),
        ("correlation_id", order.to_string().into()),
        ("payload_text", serde_json::Value::Null),
        ("payload_hex", "0xFF00".into()),
        ("error", serde_json::Value::Null),
        ("output_text", "42".into()),
        ("output_hex", serde_json::Value::Null),
    ] {
        assert_eq!(job[field], expected, "{field}");
    }
    assert!(job["worker_id"].as_str().is_some_and(|id| Uuid::parse_str(id).is_ok()), "{job}");
    assert_eq!(json["next"], serde_json::Value::Null);

    let stats = serde_json::to_value(fixture.queue.admin().stats(None).await.unwrap()).unwrap();
    for (field, expected) in [
        ("queue", serde_json::json!("work")),
        ("completion", "archive".into()),
        ("delivery", "at_least_once".into()),
        ("archived", 1.into()),
        ("keep_done_s", serde_json::Value::Null),
        ("oldest_ready_s", serde_json::Value::Null),
    ] {
        assert_eq!(stats[field], expected, "{field}");
    }
    fixture.remove().await;
}

fn archiving() -> QueueOptions {
    QueueOptions::default().completion(CompletionPolicy::Archive)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_is_found_whatever_its_state() {
    let fixture = Fixture::with("one_job", archiving()).await;
    let mut worker = WorkerSession::register(&fixture).await;
    let id = fixture.queue.enqueue(&NewJob::text("x").kind("resize/v2")).await.unwrap().job_id;
    let state =
        async || fixture.queue.admin().job(id, None).await.unwrap().map(|job| (job.state, job.job_id, job.kind));
    let expected = |state| Some((state, id, Some("resize/v2".to_string())));
    assert_eq!(state().await, expected(JobState::Ready));
    let job = worker.claim_one().await;
    assert_eq!(state().await, expected(JobState::Claimed));
    worker.finish(&[job.retry(60_000, "later")]).await;
    assert_eq!(state().await, expected(JobState::Scheduled));
    fixture.sql("UPDATE [$(schema)].[jobs] SET state = 0").await;
    let job = worker.claim_one().await;
    worker.finish(&[job.dead("no")]).await;
    assert_eq!(state().await, expected(JobState::Dead));
    assert_eq!(fixture.queue.admin().change(&JobChange::Requeue, id).await.unwrap().changed, 1);
    let job = worker.claim_one().await;
    worker.finish(&[job.done()]).await;
    assert_eq!(state().await, expected(JobState::Archived));
    assert_eq!(fixture.queue.admin().job(JobId(id.0 + 1), None).await.unwrap(), None);

    // Another queue's jobs are not this one's.
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'other'").await;
    let other = format!("EXEC [$(schema)].[peek] @queue = N'other', @job_id = {}", id.0);
    assert!(fixture.sql(&other).await.is_empty());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_and_outputs_are_shown_as_text_where_they_are_text() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("texts", options).await;
    let mut session = fixture.session().await;
    let mut worker = WorkerSession::register(&fixture).await;
    // The bytes, what T-SQL shows, and what Rust shows.
    let cases: [(&[u8], Option<&str>, Option<&str>); 6] = [
        (b"{\"a\": \"]^-[%_\"}\t\r\n", Some("{\"a\": \"]^-[%_\"}\t\r\n"), Some("{\"a\": \"]^-[%_\"}\t\r\n")),
        (b"", Some(""), Some("")),
        ("Zoë".as_bytes(), None, Some("Zoë")),
        (b"a\0b", None, Some("a\0b")),
        (b"\x7f", None, Some("\x7f")),
        (b"\xff", None, None),
    ];
    for (bytes, in_sql, in_rust) in cases {
        let id = fixture.queue.enqueue(&NewJob::bytes(bytes)).await.unwrap().job_id;
        let mut done = worker.claim_one().await.done();
        done.output = Some(bytes.to_vec());
        worker.finish(&[done]).await;
        let row = session.row(&format!("EXEC [$(schema)].[peek] @queue = N'work', @job_id = {}", id.0)).await;
        assert_eq!(text(&row, "payload_text").as_deref(), in_sql, "{bytes:?}");
        assert_eq!(text(&row, "output_text").as_deref(), in_sql, "{bytes:?}");
        let job = fixture.queue.admin().job(id, None).await.unwrap().unwrap();
        assert_eq!((job.payload_text().as_deref(), job.output_text()), (in_rust, in_rust), "{bytes:?}");
        assert_eq!((job.payload.as_slice(), job.output.as_deref()), (bytes, Some(bytes)));
    }
    let id = session
        .number("DECLARE @id bigint; EXEC [$(schema)].[enqueue] N'work', @text = N'Zoë 🦀', @job_id = @id OUTPUT; SELECT @id")
        .await;
    let row = session.row("EXEC [$(schema)].[peek] @queue = N'work', @state = 'ready'").await;
    assert_eq!((text(&row, "payload_text").as_deref(), text(&row, "output_text")), (Some("Zoë 🦀"), None));
    let job = fixture.queue.admin().job(JobId(id), None).await.unwrap().unwrap();
    assert_eq!((job.payload_text().as_deref(), job.output_text()), (Some("Zoë 🦀"), None));
    fixture.remove().await;
}

/// Dead jobs with these de-duplication keys, all of one time. Returns their ids.
async fn dead_jobs(fixture: &Fixture, keys: &[Option<&str>]) -> Vec<i64> {
    let mut ids = Vec::new();
    for key in keys {
        let job = match key {
            Some(key) => NewJob::text("x").dedup_key(*key),
            None => NewJob::text("x"),
        };
        ids.push(fixture.queue.enqueue(&job).await.unwrap().job_id.0);
    }
    fixture.sql("UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, attempt = 5, finished_at = '2020-01-01'").await;
    ids
}

async fn states(fixture: &Fixture, ids: &[i64]) -> Vec<i64> {
    let list: Vec<String> = ids.iter().map(i64::to_string).collect();
    let states = format!("SELECT state FROM [$(schema)].[jobs] WHERE job_id IN ({}) ORDER BY job_id", list.join(", "));
    fixture.session().await.numbers(&states).await
}

const READY: i64 = 0;
const DEAD: i64 = 4;

/// Waits until `session_id` waits for a lock.
async fn until_waiting(session: &mut Session, session_id: i64) {
    let waits = format!(
        "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = {session_id} AND request_status = N'WAIT'"
    );
    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    while session.number(&waits).await == 0 {
        assert!(std::time::Instant::now() < give_up, "it does not wait");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The unique index says no (2601) after requeue has looked for the key in vain.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_enqueued_while_its_dead_job_comes_back_leaves_that_job_dead() {
    let fixture = Fixture::new("requeue_race").await;
    let ids = dead_jobs(&fixture, &[Some("a"), Some("b"), Some("c"), None]).await;
    // Readers may pass this lock, changes may not: requeue finds all four, and then waits for the newest with a key.
    let mut holder = fixture.session().await;
    holder.sql("BEGIN TRANSACTION").await;
    let hold = format!(
        "SELECT job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, INDEX (jobs_pk)) WHERE job_id = {}",
        ids[2]
    );
    holder.sql(&hold).await;
    let mut operator = fixture.session().await;
    let operator_id = operator.number("SELECT @@SPID").await;
    let requeue = tokio::spawn(async move { operator.number("EXEC [$(schema)].[requeue] @queue = N'work'").await });
    until_waiting(&mut fixture.session().await, operator_id).await;

    let enqueued = fixture.queue.enqueue(&NewJob::text("x").dedup_key("b")).await.unwrap();
    assert!(!enqueued.duplicate);
    holder.sql("ROLLBACK TRANSACTION").await;

    assert_eq!(requeue.await.unwrap(), 3);
    assert_eq!(states(&fixture, &ids).await, [READY, DEAD, READY, READY]);
    assert_eq!(states(&fixture, &[enqueued.job_id.0]).await, [READY]);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requeue_does_not_wait_for_a_producer_that_has_not_committed_the_key() {
    let fixture = Fixture::new("requeue_producer").await;
    let ids = dead_jobs(&fixture, &[Some("a"), Some("b")]).await;
    let mut producer = fixture.session().await;
    producer.sql("BEGIN TRANSACTION").await;
    producer.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = N'a'").await;

    let mut operator = fixture.session().await;
    operator.sql("SET LOCK_TIMEOUT 0").await;
    assert_eq!(operator.number("EXEC [$(schema)].[requeue] @queue = N'work'").await, 1);
    assert_eq!(states(&fixture, &ids[1..]).await, [READY]);

    producer.sql("ROLLBACK TRANSACTION").await;
    assert_eq!(operator.number("EXEC [$(schema)].[requeue] @queue = N'work'").await, 1);
    assert_eq!(states(&fixture, &ids).await, [READY, READY]);
    fixture.remove().await;
}

/// Each of these calls in an open transaction, and each of the others beside it.
#[tokio::test(flavor = "multi_thread")]
async fn operators_do_not_wait_for_each_other() {
    let options = QueueOptions::default().keep_dead(Keep::For(Duration::from_secs(1)));
    let calls = ["requeue] @queue = N'work'", "purge] @queue = N'work', @state = 'dead'", "expire] @queue = N'work'"];
    for open in calls {
        for beside in calls {
            let fixture = Fixture::with("operators", options.clone()).await;
            dead_jobs(&fixture, &[None, Some("a"), None, Some("b"), None]).await;
            let mut first = fixture.session().await;
            first.sql("BEGIN TRANSACTION").await;
            assert_eq!(first.number(&format!("EXEC [$(schema)].[{open}, @max = 2")).await, 2);
            let mut second = fixture.session().await;
            second.sql("SET LOCK_TIMEOUT 0").await;
            assert_eq!(second.number(&format!("EXEC [$(schema)].[{beside}")).await, 3, "{beside} beside {open}");
            assert!(second.sql("EXEC [$(schema)].[peek] @queue = N'work', @state = 'dead'").await.is_empty());
            first.sql("COMMIT TRANSACTION").await;
            assert_eq!(fixture.job_counts().await.dead, 0, "{beside} beside {open}");
            fixture.remove().await;
        }
    }
}

/// Nobody deletes or brings back what another has locked, but what stands behind it; a single job that is asked for is
/// worth waiting for.
#[tokio::test(flavor = "multi_thread")]
async fn locked_jobs_are_skipped_but_not_the_one_that_is_asked_for() {
    // The row alone, and the row with its entry of the index.
    for change in ["error = N'?'", "finished_at = '2019-01-01'"] {
        let fixture = Fixture::new("skipped").await;
        let ids = dead_jobs(&fixture, &[None, None, None]).await;
        let mut holder = fixture.session().await;
        holder.sql("BEGIN TRANSACTION").await;
        holder.sql(&format!("UPDATE [$(schema)].[jobs] SET {change} WHERE job_id = {}", ids[0])).await;

        let mut operator = fixture.session().await;
        operator.sql("SET LOCK_TIMEOUT 0").await;
        let peek = "EXEC [$(schema)].[peek] @queue = N'work', @state = 'dead'";
        assert_eq!(operator.numbers(peek).await, ids[1..], "{change}");
        let one = format!("EXEC [$(schema)].[peek] @queue = N'work', @job_id = {}", ids[0]);
        assert!(operator.sql(&one).await.is_empty(), "{change}");
        let requeue = format!("EXEC [$(schema)].[requeue] @queue = N'work', @job_id = {}", ids[0]);
        assert_eq!(operator.refusal(&requeue).await.0, LOCK_TIMED_OUT, "{change}");
        assert_eq!(operator.number("EXEC [$(schema)].[requeue] @queue = N'work', @max = 1").await, 1, "{change}");
        let purge = "EXEC [$(schema)].[purge] @queue = N'work', @state = 'dead', @max = 1";
        assert_eq!(operator.number(purge).await, 1, "{change}");

        holder.sql("ROLLBACK TRANSACTION").await;
        assert_eq!(states(&fixture, &ids).await, [DEAD, READY], "{change}");
        assert_eq!(operator.number(&requeue).await, 1, "{change}");
        fixture.remove().await;
    }
}

/// Two that begin at the same end of the same jobs: what one has locked, the other leaves to it and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_share_the_work_and_leave_nothing() {
    let mut fixture = Fixture::new("two_operators").await;
    fixture.config.connection.command_timeout = Duration::from_secs(120); // on a busy machine they wait for each other for long
    let plain = (0..1_200).map(|_| NewJob::text("x"));
    let keyed = (0..1_200).map(|number| NewJob::text("x").dedup_key(number.to_string()));
    fixture.queue.enqueue_many(&plain.chain(keyed).collect::<Vec<_>>()).await.unwrap();
    fixture.sql("UPDATE [$(schema)].[jobs] SET state = 4, ended = 1, finished_at = enqueued_at").await;
    let (one, other) = (fixture.connect().await, fixture.connect().await);
    let (first, second) = tokio::join!(
        one.admin().change(&JobChange::Requeue, JobState::Dead),
        other.admin().change(&JobChange::Requeue, JobState::Dead)
    );
    assert_eq!(first.unwrap().changed + second.unwrap().changed, 2_400);
    let (first, second) = tokio::join!(
        one.admin().change(&JobChange::Purge, JobState::Ready),
        other.admin().change(&JobChange::Purge, JobState::Ready)
    );
    assert_eq!(first.unwrap().changed + second.unwrap().changed, 2_400);
    assert_eq!(fixture.job_counts().await, JobCounts::default());

    // As two DBAs call it, until nothing is left: what the other has locked does not count against @max.
    fixture.queue.enqueue_many(&(0..2_400).map(|_| NewJob::text("x")).collect::<Vec<_>>()).await.unwrap();
    let purge_all = async || {
        let mut session = fixture.session().await;
        let mut total = 0;
        loop {
            let purged = session.number("EXEC [$(schema)].[purge] @queue = N'work', @state = 'ready'").await;
            total += purged;
            if purged < 1_000 {
                return total;
            }
        }
    };
    let (first, second) = tokio::join!(purge_all(), purge_all());
    assert_eq!(first + second, 2_400);
    assert_eq!(fixture.job_counts().await, JobCounts::default());
    fixture.remove().await;
}

/// A job that came back is found although the claims have gone past its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_came_back_is_claimed() {
    let fixture = Fixture::new("came_back").await;
    let ids = dead_jobs(&fixture, &[Some("a"), None]).await;
    fixture.queue.enqueue_many(&(0..200).map(|_| NewJob::text("x")).collect::<Vec<_>>()).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let seen = worker.claim(200).await.last().unwrap().job_id;
    let mark = format!("UPDATE [$(schema)].[marks] SET job_id = {seen}");
    for (id, requeue) in [(ids[0], "@job_id = "), (ids[1], "@max = ")] {
        fixture.sql(&mark).await;
        let parameter = if requeue == "@max = " { 10 } else { id };
        let requeue = format!("EXEC [$(schema)].[requeue] @queue = N'work', {requeue}{parameter}");
        assert_eq!(number(&fixture.session().await.row(&requeue).await, 0), 1);
        let claimed: BTreeSet<i64> = worker.claim(10).await.iter().map(|job| job.job_id).collect();
        assert!(claimed.contains(&id), "{requeue}");
    }
    fixture.remove().await;
}
