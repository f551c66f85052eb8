//! Every procedure against every other, on the same jobs: who waits for whom is the table of sql/README.md, and nobody
//! is ever a deadlock's victim.

use readpast::NewJob;
use readpast::admin::{CompletionPolicy, QueueOptions};

use crate::support::scripts::numbered;
use crate::support::{Fixture, Session, WorkerSession};

/// What each session does, on the jobs that [`Scene::prepare`] makes: `READY` (with the key `ready`), `SCHEDULED`,
/// `CLAIMED`, `LOST` (claimed by a worker that was lost), `DEAD`, `DONE`; -8 waits for its turn where jobs have groups.
const CALLS: [(&str, &str); 18] = [
    ("enqueue", "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = N'ready'"),
    (
        "enqueue_batch",
        "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text, dedup_key) VALUES (1, N'x', N'ready'), (2, N'y', NULL);
         EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs",
    ),
    ("claim", "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = 'WORKER', @max = 10"),
    (
        "finish",
        "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES (CLAIMED, 1, 0);
         EXEC [$(schema)].[finish] @queue = N'work', @worker_id = 'WORKER', @jobs = @jobs",
    ),
    (
        "finish_with",
        "DECLARE @jobs [$(schema)].[finish_list], @follow_ups [$(schema)].[follow_up_list];
         INSERT @jobs (job_id, fence, outcome) VALUES (CLAIMED, 1, 0);
         INSERT @follow_ups (ordinal, job_id, queue, payload, dedup_key)
         VALUES (1, CLAIMED, N'work', 0x, N'ready'), (2, CLAIMED, N'work', 0x, NULL);
         EXEC [$(schema)].[finish_with] @queue = N'work', @worker_id = 'WORKER', @jobs = @jobs,
              @follow_ups = @follow_ups",
    ),
    (
        "release",
        "DECLARE @jobs [$(schema)].[job_list]; INSERT @jobs VALUES (CLAIMED, 1);
         EXEC [$(schema)].[release] @worker_id = 'WORKER', @jobs = @jobs",
    ),
    (
        "recover",
        "DECLARE @jobs [$(schema)].[job_list]; EXEC [$(schema)].[recover] @queue = N'work', @worker_id = 'WORKER', @known = @jobs",
    ),
    ("promote", "EXEC [$(schema)].[promote] @queue = N'work'"),
    ("reap", "EXEC [$(schema)].[reap] @queue = N'work'"),
    ("requeue", "EXEC [$(schema)].[requeue] @queue = N'work'"),
    (
        "cancel",
        "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs VALUES (-8), (-4), (CLAIMED), (-2), (-1);
         EXEC [$(schema)].[cancel] @queue = N'work', @jobs = @jobs",
    ),
    (
        "outcomes",
        "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs VALUES (-7), (-6), (-5), (-4), (CLAIMED), (-2), (-1);
         EXEC [$(schema)].[outcomes] @queue = N'work', @jobs = @jobs",
    ),
    ("promote_now", "EXEC [$(schema)].[promote_now] @queue = N'work', @job_id = -2"),
    (
        "set_priority",
        "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs VALUES (-8), (-4), (CLAIMED), (-2), (-1);
         EXEC [$(schema)].[set_priority] @queue = N'work', @jobs = @jobs, @priority = 7",
    ),
    ("purge", "EXEC [$(schema)].[purge] @queue = N'work', @state = 'dead'"),
    ("advance_groups", "EXEC [$(schema)].[advance_groups] 1"),
    ("expire", "EXEC [$(schema)].[expire] @queue = N'work'"),
    ("peek", "EXEC [$(schema)].[peek] @queue = N'work', @state = 'ready'"),
];

/// The same for batches: each call on a job of its own (`CLAIMED`, `OTHER`, which is claimed too, and those above) of
/// one batch, `BATCH`, which is not sealed.
const BATCH_CALLS: [(&str, &str); 12] = [
    ("enqueue", "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @batch_id = BATCH"),
    (
        "enqueue_batch",
        "DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list]; INSERT @jobs (ordinal, text) VALUES (1, N'x');
         INSERT @details (ordinal, batch_id) VALUES (1, BATCH);
         EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs, @details = @details",
    ),
    (
        "finish",
        "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES (CLAIMED, 1, 0);
         EXEC [$(schema)].[finish] @queue = N'work', @worker_id = 'WORKER', @jobs = @jobs",
    ),
    (
        "finish_with",
        "DECLARE @jobs [$(schema)].[finish_list], @follow_ups [$(schema)].[follow_up_list];
         INSERT @jobs (job_id, fence, outcome) VALUES (OTHER, 1, 0);
         INSERT @follow_ups (ordinal, job_id, queue, payload, batch_id) VALUES (1, OTHER, N'work', 0x, BATCH);
         EXEC [$(schema)].[finish_with] @queue = N'work', @worker_id = 'WORKER', @jobs = @jobs,
              @follow_ups = @follow_ups",
    ),
    ("reap", "EXEC [$(schema)].[reap] @queue = N'work'"),
    ("requeue", "EXEC [$(schema)].[requeue] @queue = N'work'"),
    ("cancel", "EXEC [$(schema)].[cancel] @queue = N'work', @job_id = -2"),
    ("purge", "EXEC [$(schema)].[purge] @queue = N'work', @state = 'ready'"),
    (
        "create_batch",
        "EXEC [$(schema)].[create_batch] @queue = N'work', @text = N'x', @parent_id = BATCH",
    ),
    ("seal_batch", "EXEC [$(schema)].[seal_batch] @batch_id = BATCH"),
    ("cancel_batch", "EXEC [$(schema)].[cancel_batch] @batch_id = BATCH"),
    ("list_batches", "EXEC [$(schema)].[list_batches] @batch_id = BATCH"),
];

/// What an operator may leave open in a transaction: each procedure that the role may run and that changes anything, on
/// jobs -2 and -5 and on a schedule, with whether it refuses to be part of one.
const OPERATOR_CALLS: [(&str, &str, bool); 29] = [
    ("create_queue", "EXEC [$(schema)].[create_queue] @queue = N'work', @max_attempts = 7", true),
    ("delete_queue", "EXEC [$(schema)].[delete_queue] @queue = N'work', @with_jobs = 1", true),
    ("pause", "EXEC [$(schema)].[pause] @queue = N'work'", true),
    ("pause_all", "EXEC [$(schema)].[pause_all]", true),
    ("resume_all", "EXEC [$(schema)].[resume_all]", true),
    ("do_duties", "EXEC [$(schema)].[do_duties]", true),
    ("confirm_copy", "EXEC [$(schema)].[confirm_copy]", true),
    ("resume", "EXEC [$(schema)].[resume] @queue = N'work'", true),
    ("enqueue", "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x'", false),
    (
        "enqueue_batch",
        "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text) VALUES (1, N'x');
         EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs",
        false,
    ),
    ("begin_audit", "EXEC [$(schema)].[begin_audit] @who = N'anne', @action = 'pause', @queue = N'work'", false),
    ("end_audit", "EXEC [$(schema)].[end_audit] @audit_id = 1, @outcome = N'done'", false),
    ("sample", "EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0", false),
    ("requeue", "EXEC [$(schema)].[requeue] @queue = N'work'", false),
    ("cancel", "EXEC [$(schema)].[cancel] @queue = N'work', @job_id = -2", false),
    ("promote_now", "EXEC [$(schema)].[promote_now] @queue = N'work', @job_id = -2", false),
    ("skip", "EXEC [$(schema)].[skip] @queue = N'work', @job_id = -2", false),
    ("run_again", "EXEC [$(schema)].[run_again] @queue = N'work', @job_id = -2", false),
    (
        "set_priority",
        "DECLARE @jobs [$(schema)].[id_list]; INSERT @jobs VALUES (-2);
         EXEC [$(schema)].[set_priority] @queue = N'work', @jobs = @jobs, @priority = 7",
        false,
    ),
    ("worker_wish", "EXEC [$(schema)].[worker_wish] @worker = N'a test', @debug_s = 60", true),
    ("set_group_weight", "EXEC [$(schema)].[set_group_weight] @queue = N'work', @group_key = N'a', @weight = 3", false),
    ("purge", "EXEC [$(schema)].[purge] @queue = N'work', @state = 'dead'", false),
    ("create_batch", "EXEC [$(schema)].[create_batch] @queue = N'work', @text = N'x'", false),
    ("seal_batch", "EXEC [$(schema)].[seal_batch] @batch_id = 1", false),
    ("cancel_batch", "EXEC [$(schema)].[cancel_batch] @batch_id = 1", false),
    (
        "set_schedule",
        "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N'nightly', @cron = '0 3 * * *', @time_zone = 'UTC', @text = N'x'",
        false,
    ),
    ("pause_schedule", "EXEC [$(schema)].[pause_schedule] @queue = N'work', @name = N'nightly'", false),
    ("resume_schedule", "EXEC [$(schema)].[resume_schedule] @queue = N'work', @name = N'nightly'", false),
    ("delete_schedule", "EXEC [$(schema)].[delete_schedule] @queue = N'work', @name = N'nightly'", false),
];

/// What must go on meanwhile, on other jobs: producers, workers, monitors.
const WORK: [&str; 19] = [
    "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @dedup_key = N'new'",
    "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text) VALUES (1, N'x');
     EXEC [$(schema)].[enqueue_batch] @queue = N'work', @jobs = @jobs",
    "EXEC [$(schema)].[heartbeat] @worker_id = 'WORKER', @running = 1, @done = 1, @failed = 0",
    "DECLARE @jobs [$(schema)].[job_list]; INSERT @jobs VALUES (-7, 1);
     EXEC [$(schema)].[release] @worker_id = 'WORKER', @jobs = @jobs",
    "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES (CLAIMED, 1, 0);
     EXEC [$(schema)].[finish] @queue = N'work', @worker_id = 'WORKER', @jobs = @jobs",
    "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = 'WORKER', @max = 1",
    "EXEC [$(schema)].[promote] @queue = N'work'",
    "EXEC [$(schema)].[reap] @queue = N'work'",
    "EXEC [$(schema)].[expire] @queue = N'work'",
    "EXEC [$(schema)].[sample] @queue = N'work', @max_age_ms = 0",
    "EXEC [$(schema)].[advance_groups] 1",
    "EXEC [$(schema)].[due_schedules] @queue = N'work'",
    "EXEC [$(schema)].[unfinished] @queue = N'work'",
    "EXEC [$(schema)].[stats]",
    "EXEC [$(schema)].[backlog] @queue = N'work'",
    "EXEC [$(schema)].[list_workers]",
    "EXEC [$(schema)].[list_schedules] @queue = N'work'",
    "EXEC [$(schema)].[peek] @queue = N'work', @state = 'ready'",
    "DECLARE @id uniqueidentifier = NEWID();
     EXEC [$(schema)].[register_worker] @queue = N'work', @worker_id = @id, @name = N'another', @lease_ms = 60000",
];

/// `cancel` and `set_priority` could not have the lock of the queue's groups.
const GROUPS_IN_USE: u32 = 58013;

/// What the jobs of a scene are.
#[derive(Clone, Copy, PartialEq)]
enum Jobs {
    Plain,
    OfGroups,
    OfBatch,
}

struct Scene {
    jobs: Jobs,
    fixture: Fixture,
    worker: WorkerSession,
    lost: WorkerSession,
}

impl Scene {
    async fn new(test_name: &str, jobs: Jobs) -> Scene {
        let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
        let fixture = Fixture::with(test_name, options).await;
        fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @keep_done_s = 1, @keep_dead_s = 1").await;
        let worker = WorkerSession::register(&fixture).await;
        let lost = WorkerSession::register(&fixture).await;
        fixture
            .sql(&format!(
                "UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME() WHERE worker_id = '{}'",
                lost.id
            ))
            .await;
        if jobs == Jobs::OfGroups {
            fixture.sql("EXEC [$(schema)].[link_queue] 1").await;
        }
        Scene { jobs, fixture, worker, lost }
    }

    /// One job in each state, and nothing else.
    async fn prepare(&self, session: &mut Session) {
        let (worker, lost) = (self.worker.id, self.lost.id);
        let columns = "job_id, queue_id, state, ended, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, \
                       dedup_key, payload_utf16, payload";
        let before = "DATEADD(SECOND, -60, SYSUTCDATETIME())";
        let row = |id: i64, state: u8, worker: &str, finished: &str, key: &str| {
            format!(
                "({id}, 1, {state}, {state} / 3, 0, 1, 1, {before}, {before}, {worker}, {before}, {finished}, {key}, 0, 0x)"
            )
        };
        let rows = [
            row(-1, 0, "NULL", "NULL", "N'ready'"),
            row(-2, 1, "NULL", "NULL", "NULL"),
            row(-3, 2, &format!("'{worker}'"), "NULL", "N'claimed'"),
            row(-4, 2, &format!("'{lost}'"), "NULL", "N'lost'"),
            row(-5, 4, "NULL", before, "N'dead'"),
            row(-6, 3, "NULL", before, "NULL"),
            row(-7, 2, &format!("'{worker}'"), "NULL", "NULL"),
        ];
        let insert = format!("INSERT [$(schema)].[jobs] ({columns}) VALUES {}", rows.join(", "));
        session
            .sql(&format!(
                "DELETE [$(schema)].[jobs]; DELETE [$(schema)].[attempts]; DELETE [$(schema)].[cancellations];
                 UPDATE [$(schema)].[duties] SET due_from = '00010101'; {insert}"
            ))
            .await;
        if self.jobs == Jobs::OfGroups {
            let groups = "DELETE [$(schema)].[groups]; DELETE [$(schema)].[group_events];
                 UPDATE [$(schema)].[jobs] SET group_key = N'a', in_turn = 1 WHERE job_id IN (-4, -3, -2, -1);
                 UPDATE [$(schema)].[jobs] SET group_key = N'a' WHERE job_id = -5;
                 INSERT [$(schema)].[groups] (queue_id, group_key, in_turn) VALUES (1, N'a', 4);";
            let waiting = format!(
                "INSERT [$(schema)].[jobs] ({columns}, group_key)
                 VALUES (-8, 1, 6, 0, 0, 0, 0, {before}, {before}, NULL, NULL, NULL, NULL, 0, 0x, N'a')"
            );
            session.sql(&format!("{groups} {waiting}")).await;
        }
        if self.jobs == Jobs::OfBatch {
            // The lost worker's job is dead when it is given back; and one has been counted as dead.
            let batch = "UPDATE [$(schema)].[jobs]
                         SET batch_id = 1, max_attempts = 1, alone = CASE job_id WHEN -4 THEN 1 ELSE 0 END, dedup_key = NULL;
                 DELETE [$(schema)].[batches]; DELETE [$(schema)].[batch_counts]; DELETE [$(schema)].[batch_additions];
                 SET IDENTITY_INSERT [$(schema)].[batches] ON;
                 INSERT [$(schema)].[batches] (batch_id, queue_id, created_at, priority, payload_utf16, payload)
                 VALUES (1, 1, SYSUTCDATETIME(), 0, 0, 0x);
                 SET IDENTITY_INSERT [$(schema)].[batches] OFF;
                 INSERT [$(schema)].[batch_counts] (batch_id, queue_id, dead) VALUES (1, 1, 1)";
            session.sql(batch).await;
        }
    }

    fn call(&self, sql: &str) -> String {
        let sql = sql.replace("WORKER", &self.worker.id.to_string()).replace("CLAIMED", "-3");
        sql.replace("OTHER", "-7").replace("BATCH", "1")
    }
}

/// The table: for each procedure that holds its locks, those that wait for it on the same jobs.
async fn who_waits(scene: &Scene, calls: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
    let mut first = scene.fixture.session().await;
    let mut second = scene.fixture.session().await;
    second.sql("SET LOCK_TIMEOUT 0").await;
    let mut table = Vec::new();
    for (holder, holds) in calls {
        let mut waiters = Vec::new();
        for (asker, asks) in calls {
            scene.prepare(&mut first).await;
            first.sql("BEGIN TRANSACTION").await;
            first.try_sql(&scene.call(holds)).await.unwrap_or_else(|error| panic!("{holder}: {error}"));
            match second.try_sql(&scene.call(asks)).await {
                Ok(_) => {}
                Err(tiberius::error::Error::Server(error)) if [1222, GROUPS_IN_USE].contains(&error.code()) => {
                    waiters.push(asker.to_string())
                }
                Err(other) => panic!("{asker} beside {holder}: {other}"),
            }
            second.sql("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await;
            first.sql("ROLLBACK TRANSACTION").await;
        }
        table.push((holder.to_string(), waiters));
    }
    table
}

/// The table in sql/README.md between two texts: `| holder | waiters |`.
fn documented(after: &str, before: &str, calls: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
    let readme = include_str!("../sql/README.md");
    let section = readme.split(after).nth(1).expect("sql/README.md has the section");
    let section = section.split(before).next().unwrap();
    // Every word in backticks that is a procedure.
    let names = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2).map(str::to_string);
        quoted.filter(|name| calls.iter().any(|(known, _)| known == name)).collect()
    };
    let mut rows = Vec::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        for holder in names(cells[0]) {
            rows.push((holder, names(cells[1])));
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_whom_is_documented() {
    for jobs in [Jobs::Plain, Jobs::OfGroups] {
        let seen = who_waits(&Scene::new("pairs", jobs).await, &CALLS).await;
        are_equal(seen, documented("\n## Who waits for whom\n", "\n[locks.md]", &CALLS));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_whom_in_one_batch_is_documented() {
    let seen = who_waits(&Scene::new("batch_pairs", Jobs::OfBatch).await, &BATCH_CALLS).await;
    are_equal(seen, documented("\nWho waits for whom, on different jobs of one batch", "\n## ", &BATCH_CALLS));
}

/// READ_COMMITTED_SNAPSHOT is off, under which readers wait for writers.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_s_open_transaction_holds_up_nobody_s_work_on_other_jobs() {
    for jobs in [Jobs::Plain, Jobs::OfGroups] {
        let scene = Scene::new("left_open", jobs).await;
        let (mut operator, mut other) = (scene.fixture.session().await, scene.fixture.session().await);
        operator
            .sql(
                "EXEC [$(schema)].[set_schedule] @queue = N'work', @name = N'nightly', @cron = '0 2 * * *', @time_zone = 'UTC', @text = N'x';
                 EXEC [$(schema)].[begin_audit] @who = N'anne', @action = 'pause', @queue = N'work';
                 EXEC [$(schema)].[create_batch] @queue = N'work', @text = N'x'",
            )
            .await;
        other.sql("SET LOCK_TIMEOUT 0").await;
        for (name, call, refuses) in OPERATOR_CALLS {
            scene.prepare(&mut operator).await;
            operator.sql("BEGIN TRANSACTION").await;
            if refuses {
                let (number, text) = operator.refusal(call).await;
                assert!(number == 58003 && text.contains("inside a transaction"), "{name}: {number} {text}");
            } else {
                operator.sql(call).await;
            }
            for work in WORK {
                if let Err(error) = other.try_sql(&scene.call(work)).await {
                    panic!("{name} is open, and {work} fails: {error}");
                }
            }
            operator.sql("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await;
        }
        drop((operator, other));
        scene.fixture.remove().await;
    }
}

/// A claim asks for checkpoints when it has claimed, and would fail with its jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_is_read_while_its_job_is_being_cancelled() {
    let fixture = Fixture::new("read_cancelled").await;
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    let session = &mut worker.session;
    let note = format!(
        "DECLARE @notes [$(schema)].[progress_list];
         INSERT @notes (job_id, fence, [checkpoint]) VALUES ({}, 1, 0x61);
         EXEC [$(schema)].[note_progress] @worker_id = '{}', @notes = @notes",
        job.job_id, worker.id
    );
    session.sql(&note).await;
    let mut operator = fixture.session().await;
    let cancel = format!("EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", job.job_id);
    operator.sql(&format!("BEGIN TRANSACTION; {cancel}")).await;
    let read = format!(
        "SET LOCK_TIMEOUT 0; DECLARE @jobs [$(schema)].[job_list]; INSERT @jobs (job_id, fence) VALUES ({}, 1);
         EXEC [$(schema)].[checkpoints] @worker_id = '{}', @jobs = @jobs",
        job.job_id, worker.id
    );
    assert_eq!(session.sql(&read).await.len(), 1);
    drop((worker, operator));
    fixture.remove().await;
}

/// Migration tools run a script in a transaction. Beside the new names' gap stand other queues, which go on: under
/// REPEATABLE READ and below, "key-range locks" (docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md)
/// are not taken, and those of HOLDLOCK would be on the name behind the gap.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_a_migration_creates_holds_up_nobody_else_s() {
    let scene = Scene::new("migrated", Jobs::Plain).await;
    let (mut migration, mut other) = (scene.fixture.session().await, scene.fixture.session().await);
    other.sql("SET LOCK_TIMEOUT 0").await;
    scene.prepare(&mut other).await;
    migration.sql("BEGIN TRANSACTION").await;
    for name in ["a", "worj", "worl", "z"] {
        let created = migration.row(&format!("EXEC [$(schema)].[create_queue] @queue = N'{name}'")).await;
        assert_eq!(created.get("created"), Some(true));
        migration.sql(&format!("EXEC [$(schema)].[enqueue] @queue = N'{name}', @text = N'x'")).await;
    }
    let settings = [
        "EXEC [$(schema)].[pause] @queue = N'work'",
        "EXEC [$(schema)].[resume] @queue = N'work'",
        "EXEC [$(schema)].[create_queue] @queue = N'work', @max_attempts = 7",
        "EXEC [$(schema)].[list_history]",
    ];
    for work in WORK.iter().chain(&settings) {
        if let Err(error) = other.try_sql(&scene.call(work)).await {
            panic!("a queue is being created, and {work} fails: {error}");
        }
    }
    migration.sql("COMMIT TRANSACTION").await;
    assert_eq!(migration.number("SELECT COUNT(*) FROM [$(schema)].[queues]").await, 5);
    // Once it is there, it is everybody's.
    migration.sql("BEGIN TRANSACTION").await;
    let (number, text) = migration.refusal("EXEC [$(schema)].[create_queue] @queue = N'a'").await;
    assert!(number == 58003 && text.contains("inside a transaction"), "{number} {text}");
    migration.sql("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await;
    drop((migration, other));
    scene.fixture.remove().await;
}

#[test]
fn each_procedure_by_which_an_operator_changes_something_is_tried_in_an_open_transaction() {
    let reads = [
        "stats",
        "list_workers",
        "list_holds",
        "queues_now",
        "jobs_now",
        "workers_now",
        "job_logs",
        "list_errors",
        "list_audit",
        "list_history",
        "list_kinds",
        "list_groups",
        "backlog",
        "unfinished",
        "outcomes",
        "list_batches",
        "peek",
        "progress_of",
        "list_edges",
        "list_graph",
        "find_job",
        "list_schedules",
        "peek_attempts",
        "schema_info",
        // As enqueue.
        "run_schedule_now",
    ];
    let roles = include_str!("../sql/900_roles.sql");
    for line in roles.lines().filter(|line| line.contains("ON OBJECT") && line.contains("_operator]")) {
        let procedure = line.split("].[").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        assert!(
            reads.contains(&procedure) || OPERATOR_CALLS.iter().any(|(name, ..)| *name == procedure),
            "{procedure}"
        );
    }
}

/// It reads the queue's settings, which somebody may be changing by hand; so does what reads without locks.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_waits_for_no_change_of_the_queue() {
    let scene = Scene::new("queue_row", Jobs::Plain).await;
    let (mut operator, mut other) = (scene.fixture.session().await, scene.fixture.session().await);
    other.sql("SET LOCK_TIMEOUT 0").await;
    for held in ["UPDATE [$(schema)].[queues] SET paused = 1", "DELETE [$(schema)].[queues]"] {
        operator.sql(&format!("BEGIN TRANSACTION; {held}")).await;
        let call =
            scene.call("EXEC [$(schema)].[heartbeat] @worker_id = 'WORKER', @running = 1, @done = 1, @failed = 0");
        assert_eq!(other.sql(&call).await.len(), 1);
        operator.sql("ROLLBACK TRANSACTION").await;
    }
    operator.sql("BEGIN TRANSACTION; UPDATE [$(schema)].[queues] SET paused = 1").await;
    for read in ["stats", "unfinished", "list_schedules", "list_batches", "progress_of"] {
        other.sql(&format!("EXEC [$(schema)].[{read}] @queue = N'work'")).await;
    }
    operator.sql("ROLLBACK TRANSACTION").await;
    drop((operator, other));
    scene.fixture.remove().await;
}

/// The stand-in goes through any list in the order of its key, so no pair shows what a real server may do: "SELECT -
/// ORDER BY clause" (docs/t-sql/queries/select-order-by-clause-transact-sql.md) promises an order to nothing else.
#[test]
fn who_changes_a_list_of_jobs_locks_them_in_order_first() {
    let waits = |statement: &str, change: bool| {
        let is_change = statement.contains("UPDATE j\n") || statement.contains("DELETE j\n");
        let is_lock = statement.contains("UPDLOCK") || statement.contains("REPEATABLEREAD");
        statement.contains("FROM @")
            && statement.contains(" LOOP JOIN ")
            && !statement.contains("READPAST")
            && (if change { is_change && statement.contains("[jobs] AS j") } else { is_lock && !is_change })
    };
    for (name, script) in numbered() {
        let code: Vec<&str> = script.lines().map(|line| line.split("--").next().unwrap()).collect();
        let code = code.join("\n");
        let mut is_locked = false;
        for statement in code.split(';') {
            if waits(statement, false) {
                assert!(statement.contains("ORDER BY"), "{name} locks a list in no order:{statement}");
                is_locked = true;
            }
            // Nobody else knows the jobs that enqueue_batch takes back, and note_ends changes what its caller has locked.
            if waits(statement, true) && !["218_note_ends.sql", "220_enqueue_batch.sql"].contains(&name.as_str()) {
                assert!(is_locked, "{name} changes a list that it has not locked in order:{statement}");
            }
        }
    }
}

fn are_equal(mut seen: Vec<(String, Vec<String>)>, mut documented: Vec<(String, Vec<String>)>) {
    for (_, waiters) in seen.iter_mut().chain(documented.iter_mut()) {
        waiters.sort();
    }
    seen.sort();
    documented.sort();
    assert_eq!(seen, documented);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pair_of_procedures_can_deadlock() {
    no_pair_deadlocks(Scene::new("deadlocks", Jobs::Plain).await, &CALLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pair_of_procedures_can_deadlock_on_jobs_of_a_group() {
    no_pair_deadlocks(Scene::new("group_deadlocks", Jobs::OfGroups).await, &CALLS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pair_of_procedures_can_deadlock_over_a_batch() {
    // And those that may meet a member.
    let also = CALLS.into_iter().filter(|(name, _)| matches!(*name, "cancel" | "claim" | "release" | "expire"));
    let all: Vec<(&str, &str)> = BATCH_CALLS.into_iter().chain(also).collect();
    no_pair_deadlocks(Scene::new("batch_deadlocks", Jobs::OfBatch).await, &all).await;
}

/// Each pair at once, again and again, on the same jobs.
async fn no_pair_deadlocks(scene: Scene, calls: &[(&'static str, &'static str)]) {
    const ROUNDS: usize = 4;
    let mut feeder = scene.fixture.session().await;
    let mut pair = [scene.fixture.session().await, scene.fixture.session().await];
    for (place, first) in calls.iter().copied().enumerate() {
        for second in calls[place..].iter().copied() {
            for _ in 0..ROUNDS {
                scene.prepare(&mut feeder).await;
                let [one, other] = &mut pair;
                let victims = tokio::join!(is_victim(&scene, one, first.1), is_victim(&scene, other, second.1));
                assert_eq!(victims, (false, false), "{} beside {}", first.0, second.0);
            }
        }
    }
    // With rows in every state.
    drop(pair);
    feeder.script(include_str!("../sql/uninstall.sql")).await.unwrap();
}

/// Whether a call fails as a deadlock's victim; it fails with nothing else.
async fn is_victim(scene: &Scene, session: &mut Session, call: &str) -> bool {
    let Err(error) = session.try_sql(&scene.call(call)).await else { return false };
    // (58021: the other one was quicker to seal the batch; 58020: the same of a follow-up.)
    let is_late = scene.jobs == Jobs::OfBatch && matches!(error.code(), Some(58020 | 58021));
    assert!(is_late || error.code() == Some(1205), "{error}");
    !is_late
}
