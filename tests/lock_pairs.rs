//! Every procedure against every other, on the same jobs: who waits for whom is the table of sql/README.md, and nobody
//! is ever a deadlock's victim.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use readpast::{CompletionPolicy, QueueOptions};

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

/// `cancel` and `set_priority` could not have the lock of the queue's groups.
const GROUPS_IN_USE: u32 = 58013;

struct Scene {
    fixture: Fixture,
    worker: WorkerSession,
    lost: WorkerSession,
    /// The jobs are of groups.
    in_groups: bool,
}

impl Scene {
    async fn new(test_name: &str, in_groups: bool) -> Scene {
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
        if in_groups {
            fixture.sql("EXEC [$(schema)].[link_queue] 1").await;
        }
        Scene { fixture, worker, lost, in_groups }
    }

    /// One job in each state, and nothing else.
    async fn prepare(&self, session: &mut Session) {
        let (worker, lost) = (self.worker.id, self.lost.id);
        let columns = "job_id, queue_id, state, ended, lifo, priority, attempt, fence, enqueued_at, due_at, worker_id, claimed_at, finished_at, \
                       dedup_key, payload_utf16, payload";
        let before = "DATEADD(SECOND, -60, SYSUTCDATETIME())";
        let row = |id: i64, state: u8, worker: &str, finished: &str, key: &str| {
            format!(
                "({id}, 1, {state}, {state} / 3, 0, 0, 1, 1, {before}, {before}, {worker}, {before}, {finished}, {key}, 0, 0x)"
            )
        };
        let rows = [
            row(-1, 0, "NULL", "NULL", "N'ready'"),
            row(-2, 1, "NULL", "NULL", "NULL"),
            row(-3, 2, &format!("'{worker}'"), "NULL", "N'claimed'"),
            row(-4, 2, &format!("'{lost}'"), "NULL", "N'lost'"),
            row(-5, 4, "NULL", before, "N'dead'"),
            row(-6, 3, "NULL", before, "NULL"),
        ];
        let insert = format!("INSERT [$(schema)].[jobs] ({columns}) VALUES {}", rows.join(", "));
        session
            .sql(&format!(
                "DELETE [$(schema)].[jobs]; DELETE [$(schema)].[attempts]; DELETE [$(schema)].[cancellations]; {insert}"
            ))
            .await;
        if self.in_groups {
            let groups = "DELETE [$(schema)].[groups]; DELETE [$(schema)].[group_events];
                 UPDATE [$(schema)].[jobs] SET group_key = N'a', in_turn = 1 WHERE job_id IN (-4, -3, -2, -1);
                 UPDATE [$(schema)].[jobs] SET group_key = N'a' WHERE job_id = -5;
                 INSERT [$(schema)].[groups] (queue_id, group_key, in_turn) VALUES (1, N'a', 4);";
            let waiting = format!(
                "INSERT [$(schema)].[jobs] ({columns}, group_key)
                 VALUES (-8, 1, 6, 0, 0, 0, 0, 0, {before}, {before}, NULL, NULL, NULL, NULL, 0, 0x, N'a')"
            );
            session.sql(&format!("{groups} {waiting}")).await;
        }
    }

    fn call(&self, sql: &str) -> String {
        sql.replace("WORKER", &self.worker.id.to_string()).replace("CLAIMED", "-3")
    }
}

/// The table: for each procedure that holds its locks, those that wait for it on the same jobs.
async fn who_waits(in_groups: bool) -> Vec<(String, Vec<String>)> {
    let scene = Scene::new("pairs", in_groups).await;
    let mut first = scene.fixture.session().await;
    let mut second = scene.fixture.session().await;
    second.sql("SET LOCK_TIMEOUT 0").await;
    let mut table = Vec::new();
    for (holder, holds) in CALLS {
        let mut waiters = Vec::new();
        for (asker, asks) in CALLS {
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

/// The table under "Who waits for whom" in sql/README.md: `| holder | waiters |`.
fn documented() -> Vec<(String, Vec<String>)> {
    let readme = include_str!("../sql/README.md");
    let section = readme.split("\n## Who waits for whom\n").nth(1).expect("sql/README.md has the section");
    let section = section.split("\nWhat each locks").next().unwrap();
    // Every word in backticks that is a procedure.
    let names = |cell: &str| -> Vec<String> {
        let quoted = cell.split('`').skip(1).step_by(2).map(str::to_string);
        quoted.filter(|name| CALLS.iter().any(|(known, _)| known == name)).collect()
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
    for in_groups in [false, true] {
        let mut seen = who_waits(in_groups).await;
        let mut documented = documented();
        for (_, waiters) in seen.iter_mut().chain(documented.iter_mut()) {
            waiters.sort();
        }
        seen.sort();
        documented.sort();
        assert_eq!(seen, documented, "in groups: {in_groups}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pair_of_procedures_can_deadlock() {
    no_pair_deadlocks(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pair_of_procedures_can_deadlock_on_jobs_of_a_group() {
    no_pair_deadlocks(true).await;
}

/// Each pair at once, again and again, on the same jobs.
async fn no_pair_deadlocks(in_groups: bool) {
    const ROUNDS: usize = 4;
    let scene = Arc::new(Scene::new("deadlocks", in_groups).await);
    let mut feeder = scene.fixture.session().await;
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let victims = Arc::new(AtomicUsize::new(0));
    for (place, first) in CALLS.iter().enumerate() {
        for second in &CALLS[place..] {
            for _ in 0..ROUNDS {
                scene.prepare(&mut feeder).await;
                let mut pair = Vec::new();
                for call in [first, second] {
                    let (scene, both, victims) = (scene.clone(), both.clone(), victims.clone());
                    pair.push(tokio::spawn(async move {
                        let mut session = scene.fixture.session().await;
                        both.wait().await;
                        if let Err(tiberius::error::Error::Server(error)) = session.try_sql(&scene.call(call.1)).await {
                            assert_eq!(error.code(), 1205, "{}", error.message());
                            victims.fetch_add(1, Ordering::AcqRel);
                        }
                    }));
                }
                for call in pair {
                    call.await.unwrap();
                }
                assert_eq!(victims.load(Ordering::Acquire), 0, "{} beside {}", first.0, second.0);
            }
        }
    }
}
