//! Schedules: each of their times is fired once, whoever fires it; what is missed is made up for as the schedule says;
//! what cannot be fired is seen.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use readpast::admin::{CompletionPolicy, JobChange, JobState, QueueOptions, Schedule, ScheduleRow};
use readpast::config::WorkerConfig;
use readpast::{BoxError, Context, Error, Handlers, Job, JobId, NewJob, Queue, Worker};
use readpast_devserver::DevServer;
use readpast_devserver::SqlError;

use crate::support::child::{ChildWorker, Ledger};
use crate::support::{Fixture, Session, WorkerSession, changed, number, optional_number, text};

const REFUSED: u32 = 58003;
const UNKNOWN_QUEUE: u32 = 58001;

/// A dev server of the test's own, whose clock the test moves. Jobs stay in the table when they have run.
struct Moved {
    server: DevServer,
    fixture: Fixture,
    session: Session,
    clock_ms: i64,
}

impl Moved {
    async fn to(test_name: &str, time: &str) -> Moved {
        let server = DevServer::start().await.unwrap();
        let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
        let fixture = Fixture::on(&server, test_name, options).await;
        let session = fixture.session().await;
        let mut moved = Moved { server, fixture, session, clock_ms: 0 };
        moved.move_to(at(time)).await;
        moved
    }

    async fn move_to(&mut self, time: Timestamp) {
        let ahead = format!("SELECT DATEDIFF_BIG(MILLISECOND, SYSUTCDATETIME(), '{}')", &time.to_string()[..19]);
        self.clock_ms += self.session.number(&ahead).await;
        self.server.faults().set_clock(self.clock_ms);
    }

    fn queue(&self) -> &Queue {
        &self.fixture.queue
    }

    /// The keys of all jobs that there ever were.
    async fn keys(&mut self) -> Vec<String> {
        let rows = self.session.sql("SELECT dedup_key FROM [$(schema)].[jobs] ORDER BY job_id").await;
        rows.iter().map(|row| text(row, "dedup_key").unwrap_or_default()).collect()
    }

    /// Waits until there are so many jobs; returns their keys. There may be more.
    async fn jobs(&mut self, count: usize) -> Vec<String> {
        let jobs = "SELECT COUNT(*) FROM [$(schema)].[jobs]";
        let session = &mut self.session;
        eventually(&format!("{count} jobs"), async || session.number(jobs).await >= count as i64).await;
        self.keys().await
    }

    /// Waits until a worker has worked out when the schedule is due next; returns it.
    async fn next_of(&self, name: &str) -> Timestamp {
        let mut next = None;
        eventually(&format!("the next time of {name}"), async || {
            next = Some(Timestamp::try_from(schedule(self.queue(), name).await.next_at).unwrap());
            next.is_some_and(|next| next.subsec_nanosecond() == 0 && next > self.now())
        })
        .await;
        next.unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "the dev server's clock is this machine's, moved")]
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_millis(self.clock_ms)
    }

    async fn remove(self) {
        drop(self.session);
        self.fixture.remove().await;
        self.server.shutdown().await;
    }
}

/// Waits until this is so; fails the test after half a minute.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// Looks often, and keeps its lease whatever the clock does.
fn settings() -> WorkerConfig {
    changed(WorkerConfig::default(), |worker| {
        worker.threads = 1;
        worker.promote_interval = Duration::from_millis(10);
        worker.heartbeat_interval = Duration::from_millis(100);
        worker.lease = Duration::from_secs(86_400);
    })
}

fn run(_job: &Job, _context: &Context) -> Result<(), BoxError> {
    Ok(())
}

async fn worker(queue: &Queue) -> Worker {
    Worker::builder(queue, Handlers::any(run)).config(&settings()).start().await.unwrap()
}

async fn stop(worker: Worker) {
    worker.stop_handle().stop();
    worker.run().await.unwrap();
}

fn job() -> NewJob {
    NewJob::text("x")
}

async fn schedule(queue: &Queue, name: &str) -> ScheduleRow {
    let schedules = queue.admin().schedules().await.unwrap();
    schedules.into_iter().find(|schedule| schedule.name == name).expect("the schedule is there")
}

/// A thousand times in a quarter of an hour's distance and one each night, over both changes of summer time. The duties
/// are taken away all the time, so that several workers fire at once. Now and then the one that has them is killed; the
/// clock goes on in steps, so that it dies with times to fire, too.
#[tokio::test(flavor = "multi_thread")]
async fn eight_workers_of_which_some_are_killed_fire_each_time_once_over_both_changes_of_summer_time() {
    let (spring, spring_end) = (at("2026-03-27T22:05:00Z"), at("2026-03-31T00:05:00Z"));
    let (autumn, autumn_end) = (at("2026-10-23T12:05:00Z"), at("2026-10-30T20:35:00Z"));
    let nights = [
        "2026-03-28T01:30:00Z", // 02:30 before the change
        "2026-03-29T01:00:00Z", // there is no 02:30: 03:00
        "2026-03-30T00:30:00Z",
        "2026-10-24T00:30:00Z",
        "2026-10-25T00:30:00Z", // the first 02:30 of two
        "2026-10-26T01:30:00Z",
        "2026-10-27T01:30:00Z",
        "2026-10-28T01:30:00Z",
        "2026-10-29T01:30:00Z",
        "2026-10-30T01:30:00Z",
    ];
    let mut expected: Vec<(Timestamp, String)> = nights.map(|time| (at(time), format!("night@{time}"))).to_vec();
    for (begin, end) in [(spring, spring_end), (autumn, autumn_end)] {
        let mut quarter = begin + SignedDuration::from_mins(10);
        while quarter < end {
            expected.push((quarter, format!("quarter@{quarter}")));
            quarter += SignedDuration::from_mins(15);
        }
    }
    expected.sort();
    assert!(expected.len() > 1_000);

    let mut moved = Moved::to("summer_time", "2026-03-27T22:05:00Z").await;
    let everything = |schedule: Schedule| schedule.time_zone("Europe/Berlin").make_up(1_000);
    let schedules = [
        everything(Schedule::new("quarter", "*/15 * * * *", job())),
        everything(Schedule::new("night", "30 2 * * *", job())),
    ];
    for schedule in &schedules {
        assert!(moved.queue().admin().set_schedule(schedule).await.unwrap());
    }
    let ledger = Ledger::new();
    let mut workers = Vec::new();
    for _ in 0..7 {
        workers.push(worker(moved.queue()).await);
    }
    // A call that takes a while meets others.
    let fire_schedule = format!("{}.fire_schedule", moved.fixture.schema());
    moved.server.faults().on_call(&fire_schedule, |_| {
        std::thread::sleep(Duration::from_millis(2));
        None
    });
    let mut steps = [20, 180, 7, 60, 15, 420, 5, 240].map(SignedDuration::from_mins).into_iter().cycle();
    let mut child: Option<ChildWorker> = None;
    let mut kills = 0;
    for (begin, end) in [(spring, spring_end), (autumn, autumn_end)] {
        if begin == autumn {
            for schedule in &schedules {
                moved.queue().admin().pause_schedule(schedule_name(schedule)).await.unwrap();
            }
            moved.move_to(autumn).await;
            for schedule in &schedules {
                moved.queue().admin().resume_schedule(schedule_name(schedule)).await.unwrap();
            }
        }
        for schedule in &schedules {
            moved.next_of(schedule_name(schedule)).await;
        }
        let (mut now, mut step) = (begin, 0);
        while now < end {
            step += 1;
            if step % 8 == 1 {
                child = Some(elected_child(&mut moved, &ledger).await);
            }
            now = end.min(now + steps.next().unwrap());
            moved.move_to(now).await;
            if step % 8 == 5
                && let Some(mut elected) = child.take()
            {
                // Whatever it has fired of these times by now.
                elected.kill().await;
                kills += 1;
            }
            let due = expected.iter().filter(|(time, _)| *time <= now).count();
            let (session, jobs) = (&mut moved.session, "SELECT COUNT(*) FROM [$(schema)].[jobs]");
            eventually(&format!("{due} jobs"), async || {
                // The next heartbeat of any worker takes them, and the one that had them does not know yet.
                session.sql("UPDATE [$(schema)].[duties] SET worker_id = NULL, until = '00010101'").await;
                session.number(jobs).await >= due as i64
            })
            .await;
        }
    }
    assert!(kills >= 5, "{kills}");
    let mut fired = moved.keys().await;
    fired.sort();
    let mut expected: Vec<String> = expected.into_iter().map(|(_, key)| key).collect();
    expected.sort();
    assert_eq!(fired, expected, "each once");
    drop(child);
    for worker in workers {
        stop(worker).await;
    }
    moved.remove().await;
}

fn schedule_name(schedule: &Schedule) -> &'static str {
    if format!("{schedule:?}").contains("quarter") { "quarter" } else { "night" }
}

/// A worker in a process of its own, which has the duties of the queue.
async fn elected_child(moved: &mut Moved, ledger: &Ledger) -> ChildWorker {
    let settings = [
        ("WORKER_NAME", "child"),
        ("WORKER_THREADS", "1"),
        ("WORKER_PROMOTE_INTERVAL_MS", "10"),
        ("WORKER_HEARTBEAT_INTERVAL_MS", "100"),
        ("WORKER_LEASE_MS", "86400000"),
    ];
    let child = ChildWorker::start(&moved.fixture, ledger, &settings).await;
    let give = "UPDATE [$(schema)].[duties] SET until = DATEADD(SECOND, 3, SYSUTCDATETIME()), worker_id =
                    (SELECT TOP (1) worker_id FROM [$(schema)].[workers] WHERE name = N'child' ORDER BY registered_at DESC)";
    moved.session.sql(give).await;
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_firing_that_comes_late_or_twice_changes_nothing() {
    let fixture = Fixture::new("late_firing").await;
    let queue = &fixture.queue;
    queue.admin().set_schedule(&Schedule::new("hourly", "0 * * * *", job())).await.unwrap();
    let mut session = fixture.session().await;
    let due = session.row("EXEC [$(schema)].[due_schedules] @queue = N'work'").await;
    assert_eq!((text(&due, "name").unwrap(), number(&due, "revision")), ("hourly".to_string(), 1));
    let fire = "EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N'hourly', @revision = 1,
                    @fire_at = '2026-01-01T03:00:00', @next_at = '2099-01-01T04:00:00'";
    let fired = session.row(fire).await;
    assert_eq!((number(&fired, "revision"), number(&fired, "duplicate")), (2, 0));
    let job_id = JobId(number(&fired, "job_id"));
    let last_job = async || {
        let shown = schedule(queue, "hourly").await;
        (shown.last_job_id, shown.last_job_state)
    };
    assert_eq!(last_job().await, (Some(job_id), Some(JobState::Ready)));
    let (moved, back) = ("N'failed'", "N'work'");
    let dead_queue = "EXEC [$(schema)].[create_queue] @queue = N'failed';
        EXEC [$(schema)].[create_queue] @queue = N'work', @dead_queue = N'failed'";
    session.sql(dead_queue).await;
    let mut move_to = async |queue: &str| {
        let id = format!("(SELECT queue_id FROM [$(schema)].[queues] WHERE name = {queue})");
        session.sql(&format!("UPDATE [$(schema)].[jobs] SET queue_id = {id}")).await;
    };
    move_to(moved).await;
    assert_eq!(last_job().await, (Some(job_id), Some(JobState::Dead)));
    assert_eq!(schedule(queue, "hourly").await.last_job_queue.as_deref(), Some("failed"));
    move_to(back).await;
    for late in [fire.to_string(), fire.replace("03:00", "05:00"), fire.replace("@revision = 1", "@revision = 3")] {
        let row = session.row(&late).await;
        assert_eq!((optional_number(&row, "revision"), optional_number(&row, "job_id")), (None, None));
    }
    // What somebody has changed since it was read is not fired as it was read.
    queue.admin().pause_schedule("hourly").await.unwrap();
    for revision in [2, 3] {
        let fire = fire.replace("@revision = 1", &format!("@revision = {revision}"));
        assert_eq!(optional_number(&session.row(&fire).await, "revision"), None);
    }
    let jobs = session.sql("SELECT job_id, dedup_key FROM [$(schema)].[jobs]").await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(text(&jobs[0], "dedup_key").unwrap(), "hourly@2026-01-01T03:00:00Z");
    assert_eq!(number(&jobs[0], "job_id"), job_id.0);
    queue.admin().change(&JobChange::Purge, vec![job_id]).await.unwrap();
    assert_eq!(last_job().await, (Some(job_id), None));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_times_that_were_missed_the_last_so_many_are_made_up_for() {
    let mut moved = Moved::to("missed", "2026-06-01T00:30:00Z").await;
    for (name, make_up) in [("none", 0), ("one", 1), ("three", 3), ("all", 100)] {
        let schedule = Schedule::new(name, "0 * * * *", job()).make_up(make_up);
        moved.queue().admin().set_schedule(&schedule).await.unwrap();
    }
    let before = worker(moved.queue()).await;
    for name in ["none", "one", "three", "all"] {
        assert_eq!(moved.next_of(name).await, at("2026-06-01T01:00:00Z"));
    }
    stop(before).await;

    // Five hours without a worker: 01:00 to 05:00 are missed. 05:30 is not, where half hours count.
    moved.queue().admin().set_schedule(&Schedule::new("on time", "30 * * * *", job()).make_up(0)).await.unwrap();
    moved.move_to(at("2026-06-01T05:30:20Z")).await;
    let after = worker(moved.queue()).await;
    let mut expected = vec!["on time@2026-06-01T05:30:00Z".to_string()];
    for (name, hours) in [("one", 5..=5), ("three", 3..=5), ("all", 1..=5)] {
        expected.extend(hours.map(|hour| format!("{name}@2026-06-01T0{hour}:00:00Z")));
    }
    expected.sort();
    let mut keys = moved.jobs(expected.len()).await;
    for name in ["none", "one", "three", "all"] {
        assert_eq!(moved.next_of(name).await, at("2026-06-01T06:00:00Z"));
    }
    keys.sort();
    assert_eq!(keys, expected);
    stop(after).await;
    moved.remove().await;
}

/// What the false time has fired is fired; from then on the true times count, as if it had never been.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_ahead_and_back_silences_no_schedule() {
    let mut moved = Moved::to("ahead_and_back", "2026-06-01T00:30:00Z").await;
    for (name, cron) in [("hourly", "0 * * * *"), ("daily", "0 3 * * *")] {
        moved.queue().admin().set_schedule(&Schedule::new(name, cron, job())).await.unwrap();
    }
    // One that fails keeps a time to be looked at, too.
    let wrong = "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N'wrong', @text = N'x', @cron = 'at three'";
    moved.session.sql(wrong).await;
    let worker = worker(moved.queue()).await;
    let next = async |moved: &Moved, name: &str, time: &str| {
        let shown = async || Timestamp::try_from(schedule(moved.queue(), name).await.next_at).unwrap();
        eventually(&format!("{name} is due at {time}"), async || shown().await == at(time)).await;
    };
    next(&moved, "hourly", "2026-06-01T01:00:00Z").await;
    moved.move_to(at("2026-06-01T08:30:00Z")).await;
    next(&moved, "hourly", "2026-06-01T09:00:00Z").await;
    next(&moved, "daily", "2026-06-02T03:00:00Z").await;
    let false_ones = moved.keys().await.len();
    moved.move_to(at("2026-06-01T00:31:00Z")).await;
    next(&moved, "hourly", "2026-06-01T01:00:00Z").await;
    next(&moved, "daily", "2026-06-01T03:00:00Z").await;
    let looked_at = "SELECT COUNT(*) FROM [$(schema)].[schedules] WHERE look_at > DATEADD(HOUR, 4, SYSUTCDATETIME())
                         OR looked_at > SYSUTCDATETIME()";
    let session = &mut moved.session;
    eventually("all have been looked at", async || session.number(looked_at).await == 0).await;
    moved.move_to(at("2026-06-01T01:00:00Z")).await;
    assert_eq!(moved.jobs(false_ones + 1).await.split_off(false_ones), ["hourly@2026-06-01T01:00:00Z"]);
    next(&moved, "hourly", "2026-06-01T02:00:00Z").await;

    // A small correction fires no time twice.
    moved.move_to(at("2026-06-01T00:59:30Z")).await;
    stop(worker).await;
    assert_eq!(moved.keys().await.len(), false_ones + 1);
    let due = moved.session.sql("EXEC [$(schema)].[due_schedules] @queue = N'work'").await;
    assert!(due.iter().all(|row| text(row, "name").as_deref() == Some("wrong")), "{due:?}");

    // What was worked out in the false time is not fired after it.
    moved.session.sql("UPDATE [$(schema)].[schedules] SET revision = 1").await;
    let late = "EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N'hourly', @revision = 1,
                    @fire_at = '2026-06-01T08:00:00', @next_at = '2026-06-01T09:00:00', @looked_at = '2026-06-01T08:30:00'";
    assert_eq!(optional_number(&moved.session.row(late).await, "revision"), None);
    moved.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_while_a_schedule_is_paused_is_not_made_up_for() {
    let mut moved = Moved::to("paused", "2026-06-01T00:30:00Z").await;
    let hourly = Schedule::new("hourly", "0 * * * *", job()).make_up(100);
    moved.queue().admin().set_schedule(&hourly).await.unwrap();
    let worker = worker(moved.queue()).await;
    moved.next_of("hourly").await;
    moved.queue().admin().pause_schedule("hourly").await.unwrap();
    // A program that starts and sets its schedules does not resume what somebody has paused.
    assert!(!moved.queue().admin().set_schedule(&hourly).await.unwrap());
    moved.move_to(at("2026-06-01T04:30:00Z")).await;
    assert!(schedule(moved.queue(), "hourly").await.paused);
    moved.queue().admin().resume_schedule("hourly").await.unwrap();
    assert_eq!(moved.next_of("hourly").await, at("2026-06-01T05:00:00Z"));
    // Resuming what is not paused passes nothing over.
    moved.move_to(at("2026-06-01T05:00:00Z")).await;
    moved.queue().admin().resume_schedule("hourly").await.unwrap();
    assert_eq!(moved.jobs(1).await, ["hourly@2026-06-01T05:00:00Z"]);
    stop(worker).await;
    moved.remove().await;
}

/// Also where no worker runs that would work it out, and for what was set in T-SQL.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_time_is_shown_as_soon_as_a_schedule_is_set() {
    let mut moved = Moved::to("next_at_once", "2026-06-01T00:30:00Z").await;
    let daily = Schedule::new("daily", "30 2 * * *", job()).time_zone("Europe/Berlin");
    moved.queue().admin().set_schedule(&daily).await.unwrap();
    let set = "EXEC [$(schema)].[set_schedule] @queue = N'work', @text = N'x', @name = ";
    moved.session.sql(&format!("{set} N'hourly', @cron = '0 * * * *'")).await;
    moved.session.sql(&format!("{set} N'wrong', @cron = 'at three'")).await;
    let shown = async |name| Timestamp::try_from(schedule(moved.queue(), name).await.next_at).unwrap();
    assert_eq!(shown("daily").await, at("2026-06-02T00:30:00Z"));
    assert_eq!(shown("hourly").await, at("2026-06-01T01:00:00Z"));
    assert_eq!(shown("wrong").await.to_string()[..16], *"2026-06-01T00:30", "nobody can read it");
    moved.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_a_schedule_again_passes_no_time_over_and_a_new_expression_counts_from_then_on() {
    let mut moved = Moved::to("set_again", "2026-06-01T00:30:00Z").await;
    let hourly = || Schedule::new("s", "0 * * * *", NewJob::text("old"));
    moved.queue().admin().set_schedule(&hourly()).await.unwrap();
    let first = worker(moved.queue()).await;
    moved.next_of("s").await;
    stop(first).await;
    // 01:00 has come when a program starts, sets its schedules and works.
    moved.move_to(at("2026-06-01T01:00:10Z")).await;
    let changed = Schedule::new("s", "0 * * * *", NewJob::text("new").priority(7).kind("k").max_attempts(2));
    assert!(!moved.queue().admin().set_schedule(&changed).await.unwrap());
    let second = worker(moved.queue()).await;
    assert_eq!(moved.jobs(1).await, ["s@2026-06-01T01:00:00Z"]);
    let row = moved.session.row("SELECT priority, max_attempts, kind, payload FROM [$(schema)].[jobs]").await;
    assert_eq!((number(&row, "priority"), number(&row, "max_attempts")), (7, 2));
    assert_eq!((text(&row, "kind").unwrap(), row.get::<&[u8], _>("payload").unwrap()), ("k".to_string(), &b"new"[..]));
    // Another expression, and another zone: from now on.
    moved
        .queue()
        .admin()
        .set_schedule(&Schedule::new("s", "15 3 * * *", job()).time_zone("Asia/Kathmandu"))
        .await
        .unwrap();
    assert_eq!(moved.next_of("s").await, at("2026-06-01T21:30:00Z"));
    let shown = schedule(moved.queue(), "s").await;
    assert_eq!((shown.cron.as_str(), shown.time_zone.as_str()), ("15 3 * * *", "Asia/Kathmandu"));
    assert_eq!(shown.last_at.map(|last| Timestamp::try_from(last).unwrap()), Some(at("2026-06-01T01:00:00Z")));
    stop(second).await;
    moved.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_with_a_key_adds_no_job_while_the_one_before_has_not_ended() {
    let mut moved = Moved::to("own_key", "2026-06-01T00:30:00Z").await;
    let schedule = Schedule::new("hourly", "0 * * * *", job().dedup_key("only one").kind("slow"));
    moved.queue().admin().set_schedule(&schedule).await.unwrap();
    let hold = Handlers::new().kind("slow", |_: &Job, context: &Context| -> Result<(), BoxError> {
        while !context.is_stopping() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let worker = Worker::builder(moved.queue(), hold).config(&settings()).start().await.unwrap();
    for (from, to) in [(1, 2), (2, 3)] {
        moved.next_of("hourly").await;
        moved.move_to(at(&format!("2026-06-01T0{from}:00:01Z"))).await;
        assert_eq!(moved.next_of("hourly").await, at(&format!("2026-06-01T0{to}:00:00Z")));
    }
    assert_eq!(moved.keys().await, ["only one"]);
    stop(worker).await;
    moved.remove().await;
}

/// A pause of the queue is one of its claims alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_schedules_of_a_paused_queue_are_fired_and_their_jobs_wait() {
    let mut moved = Moved::to("paused_queue", "2026-06-01T00:59:50Z").await;
    moved.queue().admin().set_schedule(&Schedule::new("hourly", "0 * * * *", job())).await.unwrap();
    moved.queue().admin().pause().await.unwrap();
    let worker = worker(moved.queue()).await;
    moved.next_of("hourly").await;
    moved.move_to(at("2026-06-01T01:00:00Z")).await;
    moved.jobs(1).await;
    assert_eq!(moved.next_of("hourly").await, at("2026-06-01T02:00:00Z"));
    assert_eq!(moved.fixture.job_counts().await.ready, 1);
    moved.queue().admin().resume().await.unwrap();
    eventually("its job has run", async || moved.fixture.job_counts().await.done == 1).await;
    stop(worker).await;
    moved.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_jitter_jobs_start_at_random_within_it() {
    let mut moved = Moved::to("jitter", "2026-06-01T00:59:30Z").await;
    for index in 0..20 {
        let schedule = Schedule::new(format!("s{index}"), "0 * * * *", job()).jitter(Duration::from_secs(600));
        moved.queue().admin().set_schedule(&schedule).await.unwrap();
    }
    let worker = worker(moved.queue()).await;
    moved.next_of("s19").await;
    moved.move_to(at("2026-06-01T01:00:00Z")).await;
    moved.jobs(20).await;
    let late =
        "SELECT DATEDIFF_BIG(MILLISECOND, '2026-06-01T01:00:00', due_at) FROM [$(schema)].[jobs] ORDER BY due_at";
    let late = moved.session.numbers(late).await;
    assert!(late.iter().all(|ms| (0..=600_000).contains(ms)), "{late:?}");
    assert!(late[19] - late[0] > 60_000, "spread: {late:?}");
    stop(worker).await;
    moved.remove().await;
}

/// An outage of a schedule that is due each second: more times than one turn fires, and more calls than the duties
/// last.
#[tokio::test(flavor = "multi_thread")]
async fn many_missed_times_are_fired_in_turns_each_once() {
    let mut moved = Moved::to("turns", "2026-06-01T00:30:00Z").await;
    moved.queue().admin().set_schedule(&Schedule::new("each second", "* * * * * *", job()).make_up(300)).await.unwrap();
    let before = worker(moved.queue()).await;
    moved.jobs(1).await;
    stop(before).await;
    let fired = moved.keys().await.len();
    moved.move_to(at("2026-06-01T10:00:00Z")).await;
    let after = worker(moved.queue()).await;
    // 300 that were missed, and 61 within the last minute.
    let mut keys = moved.jobs(fired + 361).await.split_off(fired);
    moved.queue().admin().pause_schedule("each second").await.unwrap();
    keys.truncate(361);
    let begin = at("2026-06-01T09:54:00Z");
    // The clock goes on while the worker starts: the first is of that second or one of the next.
    let first = keys.first().map(|key| at(key.strip_prefix("each second@").unwrap())).unwrap();
    assert!((0..30).contains(&first.duration_since(begin).as_secs()), "{first}");
    let expected: Vec<_> =
        (0..361).map(|second| format!("each second@{}", first + SignedDuration::from_secs(second))).collect();
    assert_eq!(keys, expected, "in their order, none left out and none twice");
    stop(after).await;
    moved.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_when_it_is_set() {
    let fixture = Fixture::new("refused_schedules").await;
    let queue = &fixture.queue;
    for (wrong, names) in [
        (Schedule::new("s", "0 25 * * *", job()), "cron is '0 25 * * *'"),
        (Schedule::new("s", "0 0 30 2 *", job()), "there is no such day"),
        (Schedule::new("s", "0 3 * * *", job()).time_zone("Mars/Olympus"), "time_zone is 'Mars/Olympus'"),
        (Schedule::new("s", "0 3 * * *", job()).make_up(1_001), "make_up is 1001"),
        (Schedule::new(" ", "0 3 * * *", job()), "its name"),
    ] {
        let error = queue.admin().set_schedule(&wrong).await.unwrap_err();
        assert!(matches!(&error, Error::InvalidSchedule { .. }) && error.to_string().contains(names), "{error}");
    }
    let mut session = fixture.session().await;
    for (parameters, names) in [
        ("@name = N'', @cron = '* * * * *', @text = N'x'", "name must have 1 to 128 characters"),
        ("@name = N's', @cron = '', @text = N'x'", "cron"),
        ("@name = N's', @cron = NULL, @text = N'x'", "cron"),
        ("@name = N's', @cron = '* * * * *', @time_zone = '', @text = N'x'", "time_zone"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @make_up = 1001", "make_up is 1001"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @make_up = NULL", "make_up"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @jitter_ms = -1", "jitter_ms is -1"),
        ("@name = N's', @cron = '* * * * *'", "payload or a text"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @max_attempts = 0", "max_attempts"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @dedup_key = N' k'", "dedup_key"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @kind = 'a b'", "kind"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @kind = N'p\u{142}ot'", "kind"),
        ("@name = N's', @cron = '* * * * *', @text = N'x', @time_limit_ms = 0", "time_limit_ms is 0"),
    ] {
        let (number, message) =
            session.refusal(&format!("EXEC [$(schema)].[set_schedule] @queue = N'work', {parameters}")).await;
        assert!(number == REFUSED && message.contains(names), "{parameters}: {message}");
    }
    assert_eq!(queue.admin().schedules().await.unwrap(), []);
    for call in ["pause_schedule", "resume_schedule", "run_schedule_now"] {
        let (number, message) =
            session.refusal(&format!("EXEC [$(schema)].[{call}] @queue = N'work', @name = N's'")).await;
        assert!(number == REFUSED && message.contains("there is no schedule 's' in queue 'work'"), "{message}");
    }
    let nowhere = "@queue = N'nowhere', @name = N's'";
    for call in ["set_schedule", "delete_schedule", "pause_schedule", "resume_schedule", "run_schedule_now"] {
        let more = if call == "set_schedule" { ", @cron = '* * * * *', @text = N'x'" } else { "" };
        assert_eq!(session.refusal(&format!("EXEC [$(schema)].[{call}] {nowhere}{more}")).await.0, UNKNOWN_QUEUE);
    }
    for call in ["list_schedules", "due_schedules"] {
        let call = format!("EXEC [$(schema)].[{call}] @queue = N'nowhere'");
        assert_eq!(session.refusal(&call).await.0, UNKNOWN_QUEUE);
    }
    fixture.remove().await;
}

/// T-SQL cannot read an expression. So it is read within about a second after it was set, and not at its first time.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_expression_that_was_set_in_sql_is_shown_soon_and_stops_nothing_else() {
    let mut moved = Moved::to("wrong_in_sql", "2026-06-01T00:59:50Z").await;
    let set = "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N'from sql', @text = N'Grüße', @cron = ";
    moved.session.sql(&format!("{set}'at three'")).await;
    moved.queue().admin().set_schedule(&Schedule::new("good", "0 * * * *", job())).await.unwrap();
    let worker = worker(moved.queue()).await;
    let mut error = None;
    eventually("the error is shown", async || {
        error = schedule(moved.queue(), "from sql").await.error;
        error.is_some()
    })
    .await;
    let error = error.unwrap();
    assert!(error.starts_with("cron is 'at three'; it must have 5 fields"), "{error}");
    moved.next_of("good").await;
    moved.move_to(at("2026-06-01T01:00:00Z")).await;
    assert_eq!(moved.jobs(1).await, ["good@2026-06-01T01:00:00Z"]);

    // Mended, it counts from then on.
    moved.session.sql(&format!("{set}'5 * * * *'")).await;
    assert_eq!(moved.next_of("from sql").await, at("2026-06-01T01:05:00Z"));
    eventually("the error is gone", async || schedule(moved.queue(), "from sql").await.error.is_none()).await;
    moved.move_to(at("2026-06-01T01:05:00Z")).await;
    moved.jobs(2).await;
    let row = moved
        .session
        .row("SELECT CAST(payload AS nvarchar(max)) AS text FROM [$(schema)].[jobs] WHERE payload_utf16 = 1")
        .await;
    assert_eq!(text(&row, "text").unwrap(), "Grüße");
    stop(worker).await;
    moved.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_runs_now_beside_its_times_and_is_gone_when_it_is_deleted() {
    let fixture = Fixture::new("run_now").await;
    let queue = &fixture.queue;
    let yearly = Schedule::new("yearly", "@yearly", NewJob::text("x").priority(3));
    assert!(queue.admin().set_schedule(&yearly).await.unwrap());
    queue.admin().set_schedule(&Schedule::new("keyed", "@yearly", job().dedup_key("k"))).await.unwrap();
    queue.admin().pause_schedule("yearly").await.unwrap();
    let before = schedule(queue, "yearly").await;
    let first = queue.admin().run_schedule_now("yearly").await.unwrap();
    let row = queue.admin().job(first.job_id, None).await.unwrap().unwrap();
    assert!(!first.duplicate && row.priority == 3 && row.payload == b"x");
    assert!(row.dedup_key.unwrap().starts_with("yearly@2"));
    assert!(!queue.admin().run_schedule_now("keyed").await.unwrap().duplicate);
    assert!(queue.admin().run_schedule_now("keyed").await.unwrap().duplicate);
    assert_eq!(schedule(queue, "yearly").await, before, "its times stay as they are");
    let error = queue.admin().run_schedule_now("weekly").await.unwrap_err();
    assert!(matches!(&error, Error::Refused { .. }) && error.to_string().contains("no schedule 'weekly'"), "{error}");

    assert!(queue.admin().delete_schedule("yearly").await.unwrap());
    assert!(!queue.admin().delete_schedule("yearly").await.unwrap());
    let names: Vec<String> =
        queue.admin().schedules().await.unwrap().into_iter().map(|schedule| schedule.name).collect();
    assert_eq!(names, ["keyed"]);
    assert_eq!(fixture.job_counts().await.ready, 2, "its job stays");
    fixture.remove().await;
}

/// The job and the step to the next time are one transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_whose_job_could_not_be_enqueued_is_fired_ten_seconds_later() {
    let mut moved = Moved::to("enqueue_failed", "2026-06-01T00:59:50Z").await;
    moved.queue().admin().set_schedule(&Schedule::new("hourly", "0 * * * *", job()).make_up(0)).await.unwrap();
    let worker = worker(moved.queue()).await;
    moved.next_of("hourly").await;
    let enqueue = format!("{}.enqueue", moved.fixture.schema());
    // A deadlock is not the schedule's failure: it is fired at the next interval.
    let victim = || SqlError::new(1205, "Transaction was deadlocked and has been chosen as the deadlock victim.");
    let refused = || SqlError::new(547, "The INSERT statement conflicted with the CHECK constraint.");
    moved.server.faults().on_call(&enqueue, move |call| match call {
        1 => Some(victim()),
        2 => Some(refused()),
        _ => None,
    });
    moved.move_to(at("2026-06-01T01:00:00Z")).await;
    let mut error = None;
    eventually("the error is shown", async || {
        error = schedule(moved.queue(), "hourly").await.error;
        error.is_some()
    })
    .await;
    assert!(error.as_ref().is_some_and(|error| error.contains("error 547")), "{error:?}");
    let shown = Timestamp::try_from(schedule(moved.queue(), "hourly").await.next_at).unwrap();
    assert_eq!(shown, at("2026-06-01T01:00:00Z"));
    moved.move_to(at("2026-06-01T01:00:15Z")).await;
    assert_eq!(moved.next_of("hourly").await, at("2026-06-01T02:00:00Z"));
    assert_eq!(moved.keys().await, ["hourly@2026-06-01T01:00:00Z"]);
    assert_eq!(schedule(moved.queue(), "hourly").await.error, None);
    stop(worker).await;
    moved.remove().await;
}

/// The first of two times was fired, which took the last failure's text away: the second's must be there then.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_fails_behind_one_that_was_fired_shows_why() {
    let mut moved = Moved::to("second_failed", "2026-06-01T00:59:50Z").await;
    moved.queue().admin().set_schedule(&Schedule::new("hourly", "0 * * * *", job()).make_up(1)).await.unwrap();
    let worker = worker(moved.queue()).await;
    moved.next_of("hourly").await;
    let enqueue = format!("{}.enqueue", moved.fixture.schema());
    let refused = || SqlError::new(547, "The INSERT statement conflicted with the CHECK constraint.");
    moved.server.faults().on_call(&enqueue, move |call| (call == 2).then(refused));
    moved.move_to(at("2026-06-01T02:00:00Z")).await;
    let mut error = None;
    eventually("the error is shown", async || {
        error = schedule(moved.queue(), "hourly").await.error;
        error.is_some()
    })
    .await;
    assert!(error.as_ref().is_some_and(|error| error.contains("error 547")), "{error:?}");
    assert_eq!(moved.keys().await, ["hourly@2026-06-01T01:00:00Z"]);
    moved.move_to(at("2026-06-01T02:00:15Z")).await;
    assert_eq!(moved.next_of("hourly").await, at("2026-06-01T03:00:00Z"));
    assert_eq!(moved.keys().await, ["hourly@2026-06-01T01:00:00Z", "hourly@2026-06-01T02:00:00Z"]);
    stop(worker).await;
    moved.remove().await;
}

/// Somebody's open transaction on a schedule, or on a job with its key, holds up nothing but that schedule.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_on_a_schedule_holds_up_no_other() {
    let mut moved = Moved::to("open_transaction", "2026-06-01T00:59:50Z").await;
    for schedule in [
        Schedule::new("free", "0 * * * *", job()),
        Schedule::new("a locked one", "0 * * * *", job()),
        Schedule::new("b whose key is locked", "0 * * * *", job().dedup_key("taken")),
    ] {
        moved.queue().admin().set_schedule(&schedule).await.unwrap();
    }
    let worker = worker(moved.queue()).await;
    for name in ["free", "a locked one", "b whose key is locked"] {
        moved.next_of(name).await;
    }
    let mut other = moved.fixture.session().await;
    other.sql("BEGIN TRANSACTION").await;
    other.sql("EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = N'taken'").await;
    other.sql("EXEC [$(schema)].[pause_schedule] @queue = N'work', @name = N'a locked one'").await;
    moved.move_to(at("2026-06-01T01:00:00Z")).await;
    let free = "SELECT COUNT(*) FROM [$(schema)].[jobs] WITH (READPAST) WHERE dedup_key = N'free@2026-06-01T01:00:00Z'";
    let session = &mut moved.session;
    eventually("the free one is fired", async || session.number(free).await == 1).await;
    other.sql("ROLLBACK TRANSACTION").await;
    // What failed is tried again after ten seconds, and not missed before a minute has passed.
    moved.move_to(at("2026-06-01T01:00:30Z")).await;
    let mut keys = moved.jobs(3).await;
    keys.sort();
    assert_eq!(keys, ["a locked one@2026-06-01T01:00:00Z", "free@2026-06-01T01:00:00Z", "taken"]);
    stop(worker).await;
    moved.remove().await;
}

/// Between the times, schedules are looked at by the call that is made anyway.
#[tokio::test(flavor = "multi_thread")]
async fn promote_says_whether_a_schedule_is_due() {
    let fixture = Fixture::new("promote_says").await;
    let mut session = fixture.session().await;
    let promote = "EXEC [$(schema)].[promote] @queue = N'work'";
    assert_eq!(number(&session.row(promote).await, "schedules_due"), 0);
    fixture.queue.admin().set_schedule(&Schedule::new("s", "@yearly", job())).await.unwrap();
    assert_eq!(number(&session.row(promote).await, "schedules_due"), 1);
    let move_on =
        "EXEC [$(schema)].[fire_schedule] @queue = N'work', @name = N's', @revision = 1, @next_at = '2099-01-01'";
    assert_eq!(number(&session.row(move_on).await, "revision"), 2);
    assert_eq!(number(&session.row(promote).await, "schedules_due"), 0);
    let due = "UPDATE [$(schema)].[schedules] SET look_at = '2020-01-01'";
    session.sql(due).await;
    assert_eq!(number(&session.row(promote).await, "schedules_due"), 1);
    // One that failed is left alone for ten seconds.
    let fail = "EXEC [$(schema)].[fail_schedule] @queue = N'work', @name = N's', @revision = 2, @error = N'no'";
    session.sql(fail).await;
    assert_eq!(number(&session.row(promote).await, "schedules_due"), 0);
    session.sql(due).await;
    fixture.queue.admin().pause_schedule("s").await.unwrap();
    assert_eq!(number(&session.row(promote).await, "schedules_due"), 0);
    // A worker that has not the duties is told nothing.
    fixture.queue.admin().resume_schedule("s").await.unwrap();
    let other = WorkerSession::register(&fixture).await;
    let taken = "UPDATE [$(schema)].[duties] SET worker_id = NEWID(), until = DATEADD(SECOND, 5, SYSUTCDATETIME())";
    session.sql(taken).await;
    let row = session.row(&format!("{promote}, @worker_id = '{}'", other.id)).await;
    assert_eq!((number(&row, "elected"), number(&row, "schedules_due")), (0, 0));
    fixture.remove().await;
}
