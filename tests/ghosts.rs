//! Entries of deleted jobs that are not cleaned up: claims and looks begin beyond them, and yet find every job.
//!
//! SQL Server leaves a deleted index entry where it is, as a ghost, until a background task has passed; a long snapshot
//! or a readable secondary holds that task back ("Ghost cleanup process guide"). The dev server is told to keep them,
//! and counts the entries that scans read.

use readpast::admin::{ClaimOrder, JobChange, JobState, QueueOptions};
use readpast::{Handlers, NewJob, Worker};
use readpast_devserver::DevServer;
use tiberius::Row;
use uuid::Uuid;

use crate::support::{Fixture, Session, number, numbers};

/// What a look may read, and a claim that finds nothing.
const A_LOOK: u64 = 100;
/// The same of a call that gives turns: it reads the last events twice, see `events_from` in 219_advance_groups.sql.
const SOME_TURNS: u64 = 200;

/// What a claim of 500 may read.
const A_CLAIM_OF_500: u64 = 700;

/// A worker in plain T-SQL that says with each claim where the one before it ended.
struct Claimer {
    session: Session,
    id: Uuid,
    seen: Option<Seen>,
}

struct Seen {
    priority: i16,
    job_id: i64,
    from_id: i64,
    lowered: i64,
    highest: i64,
}

impl Claimer {
    async fn register(fixture: &Fixture) -> Claimer {
        let (mut session, id) = (fixture.session().await, Uuid::new_v4());
        let call = "EXEC [$(schema)].[register_worker] @queue = N'work', @name = N'claimer', @lease_ms = 86400000";
        session.sql(&format!("{call}, @worker_id = '{id}'")).await;
        Claimer { session, id, seen: None }
    }

    /// Claims up to `max` jobs: priority, id and fence of each.
    async fn claim(&mut self, max: usize) -> Vec<(i16, i64, i64)> {
        let seen = match self.seen.take() {
            Some(Seen { priority, job_id, from_id, lowered, highest }) => format!(
                "SELECT @lowered = {lowered}, @highest = NULLIF({highest}, -1), @priority = {priority}, @job_id = {job_id},
                        @from_id = {from_id};"
            ),
            None => String::new(),
        };
        let sql = format!(
            "DECLARE @lowered bigint, @highest bigint, @priority smallint, @job_id bigint, @from_id bigint; {seen}
             EXEC [$(schema)].[claim] @queue = N'work', @worker_id = '{}', @max = {max}, @seen_priority = @priority,
                  @seen_job_id = @job_id, @seen_from_id = @from_id, @lowered = @lowered OUTPUT,
                  @highest = @highest OUTPUT;
             SELECT ISNULL(@lowered, -1) AS lowered, ISNULL(@highest, -1) AS highest;",
            self.id
        );
        let mut results: Vec<Vec<Row>> = self.session.try_sql(&sql).await.unwrap();
        let said = results.pop().unwrap();
        let (lowered, highest) = (number(&said[0], "lowered"), number(&said[0], "highest"));
        let mut jobs: Vec<(i16, i64, i64)> = results
            .iter()
            .flatten()
            .map(|row| (number(row, "priority") as i16, number(row, "job_id"), number(row, "fence")))
            .collect();
        jobs.sort_unstable();
        if let Some((priority, job_id, _)) = jobs.last().copied()
            && lowered >= 0
        {
            let of_last = jobs.iter().find(|job| job.0 == priority);
            let from_id = of_last.map_or(job_id, |job| job.1);
            self.seen = Some(Seen { priority, job_id, from_id, lowered, highest });
        }
        jobs
    }

    async fn end(&mut self, job: (i16, i64, i64), outcome: u8, retry_ms: u32) {
        let (_, job_id, fence) = job;
        let sql = format!(
            "EXEC [$(schema)].[finish_one] @queue = N'work', @worker_id = '{}', @job_id = {job_id}, @fence = {fence},
                  @outcome = {outcome}, @retry_ms = {retry_ms}, @error = N'x'",
            self.id
        );
        self.session.sql(&sql).await;
    }
}

/// How many entries a call reads on a server that nobody else uses at the moment.
async fn read_by(server: &DevServer, session: &mut Session, sql: &str) -> u64 {
    let before = server.entries_read();
    session.try_sql(sql).await.unwrap_or_else(|error| panic!("{error}\nin {sql}"));
    server.entries_read() - before
}

const LOOK: &str =
    "DECLARE @found bit, @queue_id int = (SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'work');
                    EXEC [$(schema)].[look] @queue_id, @found OUTPUT;";

async fn work_off(order: ClaimOrder, jobs: u32) {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let fixture = Fixture::on(&server, "ghosts", QueueOptions::default().claim_order(order)).await;
    fixture.queue.enqueue_many(&numbers(jobs)).await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.expect("it starts");
    assert_eq!(worker.drain().await.unwrap().stats.done, u64::from(jobs));

    let mut claimer = Claimer::register(&fixture).await;
    let mut session = fixture.session().await;
    let look = read_by(&server, &mut session, LOOK).await;
    let before = server.entries_read();
    assert_eq!(claimer.claim(500).await, []);
    let empty_claim = server.entries_read() - before;
    fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
    let mut claims = Vec::new();
    for _ in 0..4 {
        let before = server.entries_read();
        assert_eq!(claimer.claim(500).await.len(), 500);
        claims.push(server.entries_read() - before);
    }
    println!(
        "{order:?}, {jobs} ghosts: a look reads {look} entries, an empty claim {empty_claim}, claims of 500 {claims:?}"
    );
    assert!(look <= A_LOOK && empty_claim <= A_LOOK, "look {look}, empty claim {empty_claim}");
    // The first claim of this worker has nothing to go by but the mark; the claimed entries of the others are ghosts,
    // too.
    assert!(claims.iter().all(|entries| *entries <= A_CLAIM_OF_500), "{claims:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_and_a_claim_do_not_read_what_is_not_cleaned_up() {
    for order in [ClaimOrder::Fifo, ClaimOrder::Lifo] {
        work_off(order, 5_000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute; run with --release and --ignored"]
async fn nor_after_a_million_jobs() {
    for order in [ClaimOrder::Fifo, ClaimOrder::Lifo] {
        work_off(order, 1_000_000).await;
    }
}

/// Where the newest go first, ghosts gather above the jobs that wait, and above jobs that came later and wait, too.
async fn pile_up(jobs: u32) {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let options = QueueOptions::default().claim_order(ClaimOrder::Lifo);
    let fixture = Fixture::on(&server, "pile", options).await;
    let mut claimer = Claimer::register(&fixture).await;
    let mut session = fixture.session().await;
    let mut claim = async |max: usize, expected: usize| {
        let before = server.entries_read();
        assert_eq!(claimer.claim(max).await.len(), expected);
        server.entries_read() - before
    };
    fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
    let (mut most, mut claims) = (0, 0);
    for _ in 0..jobs / 2_000 {
        fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
        for _ in 0..4 {
            most = claim(500, 500).await.max(most);
            claims += 1;
        }
    }
    // Of the oldest jobs, below all that.
    most = claim(500, 500).await.max(most);
    // Jobs that come in faster than they are claimed, and then those that waited meanwhile.
    fixture.queue.enqueue_many(&numbers(2_500)).await.unwrap();
    for _ in 0..3 {
        most = claim(500, 500).await.max(most);
    }
    fixture.queue.enqueue_many(&numbers(10)).await.unwrap();
    let after_some = claim(500, 500).await;
    let look = read_by(&server, &mut session, LOOK).await;
    let through_both = [claim(500, 500).await, claim(500, 500).await, claim(500, 500).await];
    println!(
        "{jobs} ghosts above 2,000 jobs: {claims} claims of 500 read {most} entries at the most, one above jobs that \
         came later {after_some}, a look {look}, those that pass both gaps {through_both:?}"
    );
    assert!(most <= A_CLAIM_OF_500 && after_some <= A_CLAIM_OF_500 + 500, "{most}, {after_some}");
    assert!(
        look <= A_CLAIM_OF_500 && through_both.iter().all(|entries| *entries <= A_CLAIM_OF_500),
        "{look}, {through_both:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_the_newest_jobs_do_not_read_over_those_before_them() {
    pile_up(20_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute; run with --release and --ignored"]
async fn nor_over_a_million_of_them_above_jobs_that_wait() {
    pile_up(1_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_commits_below_the_mark_is_found_by_the_next_sweep() {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let fixture = Fixture::on(&server, "late", QueueOptions::default()).await;
    let mut producer = fixture.session().await;
    producer.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'late'").await;
    fixture.queue.enqueue_many(&numbers(1_000)).await.unwrap();
    let mut claimer = Claimer::register(&fixture).await;
    while !claimer.claim(500).await.is_empty() {}
    producer.sql("COMMIT TRANSACTION").await;
    let mut session = fixture.session().await;
    assert_eq!(claimer.claim(500).await, [], "it lies below the mark");
    session.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    assert_eq!(claimer.claim(500).await.len(), 1);
}

/// As often as a queue with groups lowers its marks in two months.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_was_lowered_more_often_than_32_bits_count_is_lowered_and_swept() {
    let fixture = Fixture::new("lowered").await;
    let mut claimer = Claimer::register(&fixture).await;
    fixture.queue.enqueue_many(&numbers(3)).await.unwrap();
    let held = claimer.claim(1).await;
    let mut session = fixture.session().await;
    session.sql("UPDATE [$(schema)].[marks] SET job_id = 1000000, lowered = 2147483647").await;
    claimer.end(held[0], 1, 0).await;
    assert_eq!(claimer.claim(3).await.len(), 3, "the mark was lowered");
    let row = session.row("EXEC [$(schema)].[promote] @queue = N'work'").await;
    assert_eq!(row.get::<&str, _>("error"), None);
    fixture.remove().await;
}

/// Scheduled jobs that became ready long ago, at the head of the index in which promote looks.
async fn promote_off(jobs: u32) {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let fixture = Fixture::on(&server, "scheduled", QueueOptions::default()).await;
    let delayed = |job: NewJob| job.delay(std::time::Duration::from_secs(60));
    let all: Vec<_> = numbers(jobs).into_iter().map(delayed).collect();
    fixture.queue.enqueue_many(&all).await.unwrap();
    let mut session = fixture.session().await;
    let promote = "EXEC [$(schema)].[promote] @queue = N'work'";
    session.number(promote).await;
    server.faults().set_clock(61_000);
    let mut promoted = 0;
    while promoted < i64::from(jobs) {
        promoted += session.number(promote).await;
    }
    server.faults().set_clock(64_000);
    session.number(promote).await;
    let reads = [read_by(&server, &mut session, promote).await, read_by(&server, &mut session, promote).await];
    println!("{jobs} promoted jobs: promote reads {reads:?} entries");
    assert!(reads.iter().all(|entries| *entries <= A_LOOK), "{reads:?}");

    // What is due while promote looks every second, and what comes from before the mark.
    fixture.queue.enqueue(&delayed(NewJob::text("x"))).await.unwrap();
    let mut producer = fixture.session().await;
    let late = "BEGIN TRANSACTION;
                EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'late', @delay_ms = 30000";
    producer.sql(late).await;
    server.faults().set_clock(125_000);
    assert_eq!(session.number(promote).await, 1);
    server.faults().set_clock(135_000);
    assert_eq!(session.number(promote).await, 0);
    producer.sql("COMMIT TRANSACTION").await;
    server.faults().set_clock(186_000);
    assert_eq!(session.number(promote).await, 1, "a minute later at the most");
}

#[tokio::test(flavor = "multi_thread")]
async fn promote_does_not_read_over_the_jobs_that_it_made_ready() {
    promote_off(5_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; run with --release and --ignored"]
async fn nor_over_a_million_of_them() {
    promote_off(1_000_000).await;
}

/// Claims of a queue with max_running, which has had many others; one job is held all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_under_a_limit_does_not_count_over_the_claims_before_it() {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let fixture = Fixture::on(&server, "limited", QueueOptions::default().max_running(5)).await;
    let mut session = fixture.session().await;
    let mut claimer = Claimer::register(&fixture).await;
    fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
    let held = claimer.claim(1).await[0];
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.expect("it starts");
    let monitor = worker.monitor();
    crate::support::until("the others are done", || monitor.stats().done == 1_999).await;
    worker.shutdown().await.unwrap();
    session.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;

    fixture.queue.enqueue_many(&numbers(20)).await.unwrap();
    let mut reads = Vec::new();
    for (max, expected) in [(2, 2), (10, 2), (10, 0)] {
        let before = server.entries_read();
        assert_eq!(claimer.claim(max).await.len(), expected);
        reads.push(server.entries_read() - before);
    }
    println!("2,000 claims: those under a limit read {reads:?} entries");
    // A look each for the limit and for the jobs.
    assert!(reads.iter().all(|entries| *entries <= 2 * A_LOOK), "{reads:?}");
    claimer.end(held, 0, 0).await;
    assert_eq!(claimer.claim(10).await.len(), 1);
}

/// Random sequences of all that claims jobs and gives them back, and of changes of the limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_used_up_and_never_exceeded_in_any_sequence() {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let mut clock = 0;
    for seed in 0..3 {
        let options = || QueueOptions::default().max_attempts(1_000);
        let mut limit = Some(8);
        let fixture = Fixture::on(&server, "limits", options().max_running(8)).await;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut claimers = [Claimer::register(&fixture).await, Claimer::register(&fixture).await];
        let mut held: [Vec<(i16, i64, i64)>; 2] = Default::default();
        let mut session = fixture.session().await;
        fixture.queue.enqueue_many(&numbers(5_000)).await.unwrap();
        for step in 0..150 {
            let one = random.usize(..2);
            match random.u8(..12) {
                0..5 => {
                    let max = random.usize(1..=12);
                    let all = held[0].len() + held[1].len();
                    let room = limit.map_or(max, |limit: usize| limit.saturating_sub(all));
                    let claimed = claimers[one].claim(max).await;
                    assert_eq!(claimed.len(), max.min(room), "seed {seed}, step {step}");
                    held[one].extend(claimed);
                }
                5 => {
                    // Of a claim that is undone nothing is left.
                    let id = claimers[one].id;
                    let call = "BEGIN TRANSACTION; EXEC [$(schema)].[claim] @queue = N'work'";
                    session.try_sql(&format!("{call}, @worker_id = '{id}', @max = 5; ROLLBACK")).await.unwrap();
                    session.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
                }
                6 => {
                    limit = [None, Some(1), Some(5), Some(8), Some(12), Some(2_000)][random.usize(..6)];
                    let changed = options().max_running(limit.map(|limit| limit as u32));
                    fixture.queue.admin().create(changed).await.unwrap();
                }
                7 => {
                    clock += 601_000;
                    server.faults().set_clock(clock);
                }
                8 => {
                    // A worker that is lost: its jobs are ready again.
                    let id = claimers[one].id;
                    let lapse = "UPDATE [$(schema)].[workers] SET lease_until = '20000101' WHERE worker_id =";
                    session.sql(&format!("{lapse} '{id}'")).await;
                    session.try_sql("EXEC [$(schema)].[reap] @queue = N'work'").await.unwrap();
                    held[one].clear();
                    claimers[one] = Claimer::register(&fixture).await;
                }
                _ => {
                    let count = random.usize(..=held[one].len());
                    for job in held[one].drain(..count).collect::<Vec<_>>() {
                        let claimer = &mut claimers[one];
                        match random.u8(..6) {
                            outcome @ 0..4 => claimer.end(job, outcome, 0).await,
                            _ => {
                                let (_, job_id, fence) = job;
                                let list = format!(
                                    "DECLARE @jobs [$(schema)].[job_list]; INSERT @jobs VALUES ({job_id}, {fence});
                                     EXEC [$(schema)].[release] @worker_id = '{}', @jobs = @jobs",
                                    claimer.id
                                );
                                session.sql(&list).await;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One group with all the jobs, and as many events as jobs.
async fn take_turns(jobs: u32) {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let fixture = Fixture::on(&server, "turns", QueueOptions::default()).await;
    let mut session = fixture.session().await;
    let enqueue = "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'1', @group_key = N'g'";
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    let members: Vec<_> = numbers(jobs).into_iter().map(|job| job.group_key("g")).collect();
    fixture.queue.enqueue_many(&members).await.unwrap();
    assert_eq!(worker.drain().await.unwrap().stats.done, u64::from(jobs));

    // To a group that has nothing, to one of which a job has the turn, and an end with which another gets it.
    let to_none = read_by(&server, &mut session, enqueue).await;
    let to_some = read_by(&server, &mut session, enqueue).await;
    let mut claimer = Claimer::register(&fixture).await;
    let job = claimer.claim(1).await[0];
    let before = server.entries_read();
    claimer.end(job, 0, 0).await;
    let at_end = server.entries_read() - before;
    println!("{jobs} turns: enqueue to an empty group reads {to_none} entries, to another {to_some}, an end {at_end}");
    assert!([to_none, to_some, at_end].iter().all(|entries| *entries <= SOME_TURNS), "{to_none}, {to_some}, {at_end}");
    assert_eq!(claimer.claim(2).await.len(), 1, "the next has the turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_of_a_group_do_not_read_over_those_before_them() {
    take_turns(400).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; run with --release and --ignored"]
async fn nor_do_a_million_turns() {
    take_turns(1_000_000).await;
}

/// A machine that was suspended for days, or whose clock was set, while a sweep was on its way: how long it took says
/// nothing then, and the next one is due a little later.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_during_a_sweep_neither_fails_it_nor_puts_the_next_off_for_long() {
    const DAY: i64 = 86_400_000;
    const PUT_OFF_AT_MOST: i64 = 1_200_001; // sql/226_sweep.sql: twenty minutes
    for jump in [40 * DAY, 2 * DAY, 600_000, -2 * DAY, -40 * DAY] {
        let server = DevServer::start().await.unwrap();
        let fixture = Fixture::on(&server, "jump", QueueOptions::default()).await;
        let mut claimer = Claimer::register(&fixture).await;
        fixture.queue.enqueue_many(&numbers(1_000)).await.unwrap();
        while !claimer.claim(500).await.is_empty() {}

        let mut holder = fixture.session().await;
        holder.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[marks] SET lowered = lowered").await;
        let mut sweeper = fixture.session().await;
        let sweep = "EXEC [$(schema)].[promote] @queue = N'work'";
        let sweeping = tokio::spawn(async move {
            sweeper.sql(sweep).await;
            sweeper
        });
        let waiting = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = @@SPID";
        while holder.number(waiting).await == 0 {
            assert!(!sweeping.is_finished(), "the sweep waits for the mark");
        }
        server.faults().set_clock(jump);
        // A job that no claim sees until a sweep has found it.
        let mut producer = fixture.session().await;
        producer.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'late'").await;
        holder.sql("COMMIT TRANSACTION").await;
        let mut sweeper = sweeping.await.unwrap();
        fixture.queue.enqueue_many(&numbers(1_000)).await.unwrap();
        while !claimer.claim(500).await.is_empty() {}
        producer.sql("COMMIT TRANSACTION").await;

        server.faults().set_clock(jump + PUT_OFF_AT_MOST);
        sweeper.sql(sweep).await;
        assert_eq!(claimer.claim(500).await.len(), 1, "after a jump of {jump} ms");
        server.shutdown().await;
    }
}

/// A sweep whose caller gives up cannot say how long it took, and would take as long again with each call.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_is_given_up_puts_the_next_off() {
    const HALF_A_MINUTE: i64 = 30_001; // sql/226_sweep.sql
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "given_up", QueueOptions::default()).await;
    let mut claimer = Claimer::register(&fixture).await;
    fixture.queue.enqueue_many(&numbers(1_000)).await.unwrap();
    while !claimer.claim(500).await.is_empty() {}

    let sweep = "EXEC [$(schema)].[promote] @queue = N'work'";
    let mut holder = fixture.session().await;
    let mut caller = fixture.session().await;
    holder.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[marks] SET lowered = lowered").await;
    let sweeping = tokio::spawn(async move { caller.sql(sweep).await });
    let waiting = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = @@SPID";
    while holder.number(waiting).await == 0 {
        assert!(!sweeping.is_finished(), "the sweep waits for the mark");
    }
    sweeping.abort();
    while holder.number(waiting).await > 0 {}

    let swept = "SELECT sweep_ms FROM [$(schema)].[duties]";
    let mut next = fixture.session().await;
    next.sql("SET LOCK_TIMEOUT 100").await;
    next.sql(sweep).await;
    assert_eq!(next.number(swept).await, 1_500, "the next does not sweep");
    server.faults().set_clock(HALF_A_MINUTE);
    next.sql(sweep).await;
    assert_eq!(next.number(swept).await, 0, "a sweep that meets a lock is made again soon");
    holder.sql("COMMIT TRANSACTION").await;
    next.sql(sweep).await;
    assert!(next.number(swept).await < 1_500, "how long it took");
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_finds_what_was_put_back_or_committed_below_the_mark() {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    let fixture = Fixture::on(&server, "below", QueueOptions::default()).await;
    let mut producer = fixture.session().await;
    producer.sql("BEGIN TRANSACTION; EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'\"late\"'").await;
    let mut holder = Claimer::register(&fixture).await;
    fixture.queue.enqueue_many(&numbers(2)).await.unwrap();
    let held = holder.claim(2).await;
    let worker = Worker::builder(&fixture.queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
    fixture.queue.enqueue_many(&numbers(2_000)).await.unwrap();
    let monitor = worker.monitor();
    crate::support::until("the others are done", || monitor.stats().done == 2_000).await;
    producer.sql("COMMIT TRANSACTION").await;
    let (retry, snooze) = (1, 3);
    for (job, outcome) in held.into_iter().zip([retry, snooze]) {
        holder.end(job, outcome, 0).await;
    }
    crate::support::until("the three are done, too", || monitor.stats().done == 2_003).await;
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_sweep_finds_in_a_gap_lowers_no_other_priority_s_mark() {
    let fixture = Fixture::with("priorities", QueueOptions::default().claim_order(ClaimOrder::Lifo)).await;
    let mut session = fixture.session().await;
    fixture.queue.enqueue(&NewJob::text("").priority(1)).await.unwrap();
    let marks = "INSERT [$(schema)].[marks] (queue_id, priority, job_id, lowered)
                 SELECT q.queue_id, p.priority, 1000, 0
                 FROM [$(schema)].[queues] AS q CROSS JOIN (VALUES (1), (2)) AS p (priority)";
    session.sql(marks).await;
    session.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
    let mark = |priority| format!("SELECT job_id FROM [$(schema)].[marks] WHERE priority = {priority}");
    assert!(session.number(&mark(1)).await < 1_000);
    assert_eq!(session.number(&mark(2)).await, 1_000);
    fixture.remove().await;
}

/// Random sequences of everything that makes jobs ready, in several priorities. Claims find each ready job at once, but
/// for those that a claim or a producer's transaction held back: these after a sweep.
#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_missed_in_any_sequence() {
    let server = DevServer::start().await.unwrap();
    server.faults().keep_ghosts();
    for seed in 0..6 {
        let order = [ClaimOrder::Fifo, ClaimOrder::Lifo, ClaimOrder::Lifo][seed as usize % 3];
        let options = QueueOptions::default().max_attempts(1_000).claim_order(order);
        let fixture = Fixture::on(&server, "random", options).await;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut claimers = [Claimer::register(&fixture).await, Claimer::register(&fixture).await];
        let mut held: [Vec<(i16, i64, i64)>; 2] = Default::default();
        let mut session = fixture.session().await;
        let (mut ready, mut dead) = (0_usize, 0_usize);
        for step in 0..120 {
            let one = random.usize(..2);
            let claimer = &mut claimers[one];
            match random.u8(..10) {
                0..3 => {
                    let count = random.usize(1..=150);
                    let jobs = (0..count).map(|_| NewJob::text("").priority(random.i16(-1..=2)));
                    fixture.queue.enqueue_many(&jobs.collect::<Vec<_>>()).await.unwrap();
                    ready += count;
                }
                3..6 => {
                    let max = random.usize(1..=200);
                    let claimed = claimer.claim(max).await;
                    assert_eq!(claimed.len(), max.min(ready), "seed {seed}, step {step}");
                    ready -= claimed.len();
                    held[one].extend(claimed);
                }
                6 => {
                    // A claim whose connection breaks: SQL Server undoes it.
                    session.sql("BEGIN TRANSACTION").await;
                    let id = claimer.id;
                    session
                        .try_sql(&format!("EXEC [$(schema)].[claim] @queue = N'work', @worker_id = '{id}', @max = 50"))
                        .await
                        .unwrap();
                    let other = &mut claimers[1 - one];
                    let claimed = other.claim(50).await;
                    ready -= claimed.len();
                    held[1 - one].extend(claimed);
                    session.sql("ROLLBACK TRANSACTION").await;
                    session.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
                }
                7 if !held[one].is_empty() => {
                    let count = random.usize(1..=held[one].len().min(20));
                    for job in held[one].drain(..count).collect::<Vec<_>>() {
                        match random.u8(..5) {
                            0 => claimer.end(job, 0, 0).await,
                            1 => {
                                claimer.end(job, 1, 0).await;
                                ready += 1;
                            }
                            3 => {
                                claimer.end(job, 3, 0).await;
                                ready += 1;
                            }
                            2 => {
                                claimer.end(job, 2, 0).await;
                                dead += 1;
                            }
                            _ => {
                                let (_, job_id, fence) = job;
                                let list = format!(
                                    "DECLARE @jobs [$(schema)].[job_list]; INSERT @jobs VALUES ({job_id}, {fence});
                                     EXEC [$(schema)].[release] @worker_id = '{}', @jobs = @jobs",
                                    claimer.id
                                );
                                session.sql(&list).await;
                                ready += 1;
                            }
                        }
                    }
                }
                8 if dead > 0 => {
                    fixture.queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap();
                    ready += dead;
                    dead = 0;
                }
                _ => {
                    session.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
                }
            }
        }
        session.sql("EXEC [$(schema)].[promote] @queue = N'work'").await;
        while ready > 0 {
            let claimed = claimers[0].claim(500).await.len();
            assert!(claimed > 0, "seed {seed}: {ready} jobs are left and not found");
            ready -= claimed;
        }
    }
}

/// No sweep runs here: claims alone must find every job, whatever the claims of another order have seen.
#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_passed_over_when_the_order_changes() {
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let fixture = Fixture::new("changes_order").await;
        let mut claimer = Claimer::register(&fixture).await;
        let (mut enqueued, mut claimed) = (0, 0);
        for order in
            [ClaimOrder::Lifo, ClaimOrder::Fifo, ClaimOrder::Lifo, ClaimOrder::Any].into_iter().cycle().take(11)
        {
            fixture.queue.admin().create(QueueOptions::default().claim_order(order)).await.unwrap();
            let jobs = random.u32(0..150);
            fixture.queue.enqueue_many(&numbers(jobs)).await.unwrap();
            enqueued += jobs as usize;
            for _ in 0..random.u32(1..4) {
                claimed += claimer.claim(random.usize(1..80)).await.len();
            }
        }
        loop {
            match claimer.claim(500).await.len() {
                0 => break,
                jobs => claimed += jobs,
            }
        }
        assert_eq!(claimed, enqueued, "seed {seed}");
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_ready_jobs_reads_its_rows_in_every_order() {
    for order in [ClaimOrder::Fifo, ClaimOrder::Lifo] {
        let server = DevServer::start().await.unwrap();
        let fixture = Fixture::on(&server, "page", QueueOptions::default().claim_order(order)).await;
        let jobs: Vec<NewJob> = (0..3_000).map(|n| NewJob::text(n.to_string()).priority(n % 3)).collect();
        fixture.queue.enqueue_many(&jobs).await.unwrap();
        let mut session = fixture.session().await;
        let page = "EXEC [$(schema)].[peek] @queue = N'work', @state = 'ready', @max = 1000";
        let read = read_by(&server, &mut session, page).await;
        assert!(read < 4_500, "{order:?}: {read} entries"); // of the index, of jobs, and of the page's own table
        let page = "EXEC [$(schema)].[peek] @queue = N'work', @state = 'ready', @max = 10";
        let read = read_by(&server, &mut session, page).await;
        assert!(read < 100, "{order:?}: {read} entries");
    }
}
