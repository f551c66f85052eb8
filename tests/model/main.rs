//! The protocol between workers and table as a model: checked in every interleaving, and held against the server.

mod edges;
mod members;
mod members_on_server;
mod protocol;
mod runs;
#[allow(dead_code, unused_imports)] // of what the integration tests have, this one needs less
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::fmt::Debug;
use std::hash::Hash;

use readpast::admin::QueueOptions;
use stateright::{Checker, HasDiscoveries, Model};
use uuid::Uuid;

use crate::support::{Fixture, Session, literal, number};
use edges::{Edges, OnDead};
use members::{Members, Policy};
use protocol::Protocol;
use runs::Runs;
use table::{ALL_RULES, Lease, MAX_ATTEMPTS, Outcome, Row, Rules, State, Table, WorkerId};

/// Panics with the steps that lead there when a property is violated, or when something that should happen never does.
fn check(faults: u8, jobs: usize, with_ends: bool) {
    let checker = Protocol { rules: ALL_RULES, faults, jobs, with_ends }.checker().threads(2).spawn_bfs().join();
    println!("{} states with {faults} faults", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_workers_and_three_jobs_keep_every_promise_in_every_interleaving() {
    check(2, protocol::JOBS, false);
}

#[test]
fn so_they_do_when_a_worker_stops_in_order_or_sql_server_is_away() {
    check(2, 2, true);
}

#[test]
#[ignore = "takes minutes; run with --release and --ignored"]
fn with_a_fault_more_they_keep_every_promise_too() {
    check(3, protocol::JOBS, true);
}

#[test]
fn a_protocol_with_a_rule_taken_out_is_caught() {
    for (rules, violated) in [
        (Rules { fence_is_checked: false, ..ALL_RULES }, "at most one acknowledgement per fence takes effect"),
        (Rules { reap_waits_for_the_lease: false, ..ALL_RULES }, "no worker is reaped while its lease holds"),
        (Rules { looks_again: false, ..ALL_RULES }, "no job is lost"),
        (Rules { keeps_results: false, ..ALL_RULES }, "no job is lost"),
        (Rules { recover_changes_nothing: false, ..ALL_RULES }, "nothing is released that its worker holds"),
        (Rules { unregistered_workers_stay: false, ..ALL_RULES }, "no job is lost"),
        (Rules { reap_spares_after_an_outage: false, ..ALL_RULES }, "no worker is reaped for an outage"),
        (
            Rules { cancelling_is_looked_at: false, ..ALL_RULES },
            "what is cancelled while it runs ends as done or cancelled",
        ),
        (
            Rules { sink_is_in_the_transaction: false, ..ALL_RULES },
            "a sink's writes are those of the jobs that are done",
        ),
    ] {
        let checker = Protocol { rules, faults: 2, jobs: 2, with_ends: true }
            .checker()
            .threads(2)
            .finish_when(HasDiscoveries::AnyOf([violated].into()))
            .spawn_bfs()
            .join();
        let found = checker.discovery(violated);
        assert!(found.is_some(), "without one of the rules nothing is noticed: {rules:?}");
    }
}

/// Two jobs, a group of which one has the turn, and done jobs that are deleted.
const MEMBERS: Members = Members {
    rules: members::ALL_RULES,
    jobs: 2,
    sessions: 2,
    faults: 2,
    group_limit: 1,
    policy: Policy::Delete,
    retry_passes: false,
};

trait Checked:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
    + Copy
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl Checked for Members {}
impl Checked for Runs {}
impl Checked for Edges {}

fn check_all(model: impl Checked) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn groups_and_batches_keep_every_promise_whatever_their_statements_meet() {
    check_all(MEMBERS);
}

#[test]
fn so_they_do_when_a_retry_gives_the_turn_away_and_done_jobs_are_archived() {
    check_all(Members { policy: Policy::Archive, retry_passes: true, ..MEMBERS });
}

#[test]
fn so_they_do_when_two_of_a_group_may_run() {
    check_all(Members { jobs: 3, faults: 0, group_limit: 2, policy: Policy::Annotate, ..MEMBERS });
}

#[test]
#[ignore = "takes minutes; run with --release and --ignored"]
fn so_they_do_with_a_job_more_and_a_fault_more() {
    for (group_limit, policy, retry_passes) in
        [(1, Policy::Delete, false), (1, Policy::Archive, true), (2, Policy::Annotate, true)]
    {
        check_all(Members { jobs: 3, group_limit, policy, retry_passes, ..MEMBERS });
        check_all(Members { faults: 3, sessions: 3, group_limit, policy, retry_passes, ..MEMBERS });
    }
}

#[test]
fn groups_and_batches_with_a_rule_taken_out_are_caught() {
    const RULES: members::Rules = members::ALL_RULES;
    let archives = Members { policy: Policy::Archive, ..MEMBERS };
    let passes = Members { retry_passes: true, policy: Policy::Annotate, ..MEMBERS };
    let without_the_lock = members::Rules { members_are_locked: false, ..RULES };
    for (model, rules, violated) in [
        (MEMBERS, without_the_lock, "a batch counts the ends of its jobs"),
        (MEMBERS, without_the_lock, "a sealed batch ends when all have ended"),
        (MEMBERS, without_the_lock, "who waits gets the turn"),
        (archives, without_the_lock, "a batch ends only when it is sealed and all have ended"),
        (archives, without_the_lock, "turns are counted"),
        (passes, without_the_lock, "who waits gets the turn"),
    ] {
        is_caught(Members { rules, ..model }, violated);
    }
    for (rules, violated) in [
        (members::Rules { passed_over_is_noted: false, ..RULES }, "who waits gets the turn"),
        (members::Rules { turns_are_given_by_one: false, ..RULES }, "no more than the limit have the turn"),
        (members::Rules { operators_lock_groups: false, ..RULES }, "no job is passed over"),
        (members::Rules { events_are_committed_with_it: false, ..RULES }, "who waits gets the turn"),
        (members::Rules { promote_advances: false, ..RULES }, "who waits gets the turn"),
        (members::Rules { requeue_takes_the_turn: false, ..RULES }, "turns are counted"),
        (
            members::Rules { requeue_counts_back: false, ..RULES },
            "a batch ends only when it is sealed and all have ended",
        ),
        (members::Rules { ended_batches_stay: false, ..RULES }, "a batch has one follow-up"),
        (
            members::Rules { seal_waits_for_producers: false, ..RULES },
            "a batch ends only when it is sealed and all have ended",
        ),
        (members::Rules { seal_compares_under_a_lock: false, ..RULES }, "a sealed batch ends when all have ended"),
        (members::Rules { cancel_locks_first: false, ..RULES }, "what runs is not cancelled without a word"),
        (
            members::Rules { cancelling_is_looked_at: false, ..RULES },
            "what is cancelled while it runs ends as done or cancelled",
        ),
        (
            members::Rules { sink_is_in_the_transaction: false, ..RULES },
            "a sink's writes are those of the jobs that are done",
        ),
    ] {
        is_caught(Members { rules, ..MEMBERS }, violated);
    }
}

fn is_caught(model: impl Checked, violated: &'static str) {
    let finish_when = HasDiscoveries::AnyOf([violated].into());
    let checker = model.checker().threads(2).finish_when(finish_when).spawn_bfs().join();
    match checker.discovery(violated) {
        Some(path) => println!("{violated}: {:?}", path.into_actions()),
        None => panic!("without one of the rules nothing is noticed: {violated}, {model:?}"),
    }
}

/// Three jobs of a group, in runs of two.
const RUNS: Runs = Runs { rules: runs::ALL_RULES, jobs: 3, run: 2, sessions: 2, faults: 1, retry_passes: false };

#[test]
fn runs_keep_every_promise_whatever_their_statements_meet() {
    check_all(RUNS);
}

#[test]
fn so_they_do_when_a_retry_gives_the_turn_away_and_all_jobs_are_one_run() {
    check_all(Runs { run: 3, retry_passes: true, ..RUNS });
}

#[test]
fn so_they_do_when_two_things_go_wrong() {
    check_all(Runs { jobs: 2, faults: 2, ..RUNS });
}

#[test]
#[ignore = "takes minutes; run with --release and --ignored"]
fn so_they_do_with_a_job_more_a_session_more_and_faults_more() {
    for (run, retry_passes) in [(2, false), (3, false), (3, true)] {
        check_all(Runs { jobs: 4, run, retry_passes, ..RUNS });
        check_all(Runs { run, sessions: 3, faults: 2, retry_passes, ..RUNS });
    }
    check_all(Runs { jobs: 2, faults: 4, ..RUNS });
}

#[test]
fn runs_with_a_rule_taken_out_are_caught() {
    const RULES: runs::Rules = runs::ALL_RULES;
    const AT_ONCE: &str = "one job of a group runs at a time";
    const IN_ORDER: &str = "no job starts after a later one is done";
    const STARTED: &str = "a job starts when those before it have run";
    const PASSED_OVER: &str = "no job is passed over";
    let all_in_one = Runs { run: 3, ..RUNS };
    let with_two_faults = Runs { jobs: 2, faults: 2, ..RUNS };
    for (model, rules, violated) in [
        (RUNS, runs::Rules { runs_are_counted: false, ..RULES }, AT_ONCE),
        (RUNS, runs::Rules { runs_need_the_only_turn: false, ..RULES }, IN_ORDER),
        (RUNS, runs::Rules { claim_holds_the_count: false, ..RULES }, "claims wait for nobody"),
        (RUNS, runs::Rules { advance_holds_the_count: false, ..RULES }, "turns are counted"),
        (all_in_one, runs::Rules { runs_have_no_gap: false, ..RULES }, PASSED_OVER),
        (RUNS, runs::Rules { runs_begin_with_the_first: false, ..RULES }, PASSED_OVER),
        (RUNS, runs::Rules { operators_prevent_runs: false, ..RULES }, PASSED_OVER),
        (RUNS, runs::Rules { given_back_jobs_wait: false, ..RULES }, AT_ONCE),
        (RUNS, runs::Rules { events_have_the_first: false, ..RULES }, PASSED_OVER),
        (RUNS, runs::Rules { jobs_start_in_order: false, ..RULES }, AT_ONCE),
        (RUNS, runs::Rules { failures_hand_the_rest_back: false, ..RULES }, STARTED),
        (RUNS, runs::Rules { failures_wait_for_running_jobs: false, ..RULES }, AT_ONCE),
        (RUNS, runs::Rules { ends_are_sent_in_order: false, ..RULES }, IN_ORDER),
        (RUNS, runs::Rules { failures_hand_back_what_ran: false, ..RULES }, IN_ORDER),
        (with_two_faults, runs::Rules { later_jobs_go_back_first: false, ..RULES }, IN_ORDER),
    ] {
        is_caught(Runs { rules, ..model }, violated);
    }
}

/// A job with two parents: the first must be done, the second only ended.
const EDGES: Edges = Edges {
    rules: edges::ALL_RULES,
    jobs: 3,
    edges: &[(0, 2, OnDead::Hold), (1, 2, OnDead::Run)],
    sessions: 2,
    faults: 1,
    deletes: false,
};
/// Two jobs that wait for one.
const CHILDREN: Edges = Edges { edges: &[(0, 1, OnDead::Hold), (0, 2, OnDead::Cancel)], faults: 2, ..EDGES };
/// A job that waits for one that waits for another.
const CHAIN: Edges = Edges { edges: &[(0, 1, OnDead::Cancel), (1, 2, OnDead::Hold)], ..EDGES };

#[test]
fn children_start_after_their_parents_whatever_their_statements_meet() {
    for model in [EDGES, CHILDREN, CHAIN] {
        check_all(model);
    }
}

#[test]
#[ignore = "takes minutes; run with --release and --ignored"]
fn so_do_they_with_more_faults_and_a_session_more() {
    for model in [EDGES, CHILDREN, CHAIN] {
        check_all(Edges { deletes: true, faults: 3, ..model });
        check_all(Edges { sessions: 3, faults: 1, ..model });
    }
}

#[test]
fn edges_with_a_rule_taken_out_are_caught() {
    const RULES: edges::Rules = edges::ALL_RULES;
    const WRONGLY: &str = "an edge is closed by how its parent has ended";
    const STUCK: &str = "no child waits without a reason";
    for (model, rules, violated) in [
        (EDGES, edges::Rules { edges_come_first: false, ..RULES }, STUCK),
        (EDGES, edges::Rules { enqueue_waits_for_parents: false, ..RULES }, STUCK),
        (EDGES, edges::Rules { parents_are_read_again: false, ..RULES }, STUCK),
        (CHAIN, edges::Rules { ends_look_afterwards: false, ..RULES }, STUCK),
        (EDGES, edges::Rules { uncommitted_edges_count: false, ..RULES }, STUCK),
        (EDGES, edges::Rules { events_are_committed_with_it: false, ..RULES }, STUCK),
        (EDGES, edges::Rules { one_closes_edges: false, ..RULES }, WRONGLY),
        (CHILDREN, edges::Rules { rows_are_read: false, ..RULES }, WRONGLY),
        (CHILDREN, edges::Rules { locked_jobs_are_left: false, ..RULES }, WRONGLY),
        (CHILDREN, edges::Rules { deletions_are_known: false, ..RULES }, WRONGLY),
        (EDGES, edges::Rules { events_stay_for_open_edges: false, ..RULES }, STUCK),
        (EDGES, edges::Rules { promote_advances: false, ..RULES }, STUCK),
        (CHAIN, edges::Rules { cancelled_children_are_noted: false, ..RULES }, STUCK),
    ] {
        is_caught(Edges { rules, ..model }, violated);
    }
}

/// The workers of the comparison; each can register once.
const WORKERS: WorkerId = 4;
const JOBS: usize = 4;

/// The model and the server side by side. A step that answers differently, or leaves a different state behind, fails
/// the test.
struct SideBySide {
    model: Table,
    session: Session,
    job_ids: Vec<i64>,
    worker_ids: Vec<Uuid>,
}

impl SideBySide {
    async fn exec(&mut self, procedure: &str, arguments: &str) -> Result<Vec<i64>, u32> {
        let sql = format!("EXEC [$(schema)].[{procedure}] {arguments}");
        match self.session.try_sql(&sql).await {
            Ok(results) => {
                Ok(results.into_iter().next().unwrap_or_default().iter().map(|row| number(row, 0)).collect())
            }
            Err(tiberius::error::Error::Server(error)) => Err(error.code()),
            Err(other) => panic!("{sql}: {other}"),
        }
    }

    fn id(&self, worker: WorkerId) -> String {
        literal(&self.worker_ids[usize::from(worker)].to_string())
    }

    fn list(&self, jobs: &[(usize, u8)]) -> String {
        let rows = jobs.iter().map(|(job, fence)| format!("INSERT @list VALUES ({}, {fence});", self.job_ids[*job]));
        format!("DECLARE @list [$(schema)].[job_list]; {}", rows.collect::<String>())
    }

    async fn number(&mut self, sql: &str) -> i64 {
        self.session.number(sql).await
    }

    /// One step, chosen at random; returns what it was.
    async fn step(&mut self, random: &mut fastrand::Rng) -> String {
        let worker = random.u8(..WORKERS);
        let job = random.usize(..JOBS);
        // Mostly the fence in force, often enough an old one.
        let fence = self.model.rows[job].fence.saturating_sub(u8::from(random.u8(..4) == 0));
        let id = self.id(worker);
        match random.u8(..14) {
            0..3 => {
                let (max, alone) = (random.usize(1..=3), random.bool());
                let arguments =
                    format!("@queue = N'work', @worker_id = {id}, @max = {max}, @alone = {}", u8::from(alone));
                let answer = self.exec("claim", &arguments).await;
                let expected = self.model.claim(worker, max, alone);
                let mut claimed = answer.unwrap_or_else(|code| {
                    assert_eq!((code, &expected), (58002, &Err(table::LeaseLost)));
                    Vec::new()
                });
                claimed.sort_unstable();
                let expected: Vec<i64> =
                    expected.unwrap_or_default().iter().map(|(job, _)| self.job_ids[*job]).collect();
                assert_eq!(claimed, expected);
                format!("claim by {worker}, {max} at most, alone {alone}")
            }
            3..6 => {
                let outcomes = [
                    Outcome::Done,
                    Outcome::Retry,
                    Outcome::RetryLater,
                    Outcome::Snooze,
                    Outcome::SnoozeLater,
                    Outcome::Dead,
                ];
                let outcome = outcomes[random.usize(..outcomes.len())];
                let (code, retry_ms) = match outcome {
                    Outcome::Done => (0, "NULL"),
                    Outcome::Retry => (1, "0"),
                    Outcome::RetryLater => (1, "3600000"),
                    Outcome::Dead => (2, "NULL"),
                    Outcome::Snooze => (3, "0"),
                    Outcome::SnoozeLater => (3, "3600000"),
                };
                let arguments = format!(
                    "@queue = N'work', @worker_id = {id}, @job_id = {}, @fence = {fence}, @outcome = {code}, @retry_ms = {retry_ms}",
                    self.job_ids[job]
                );
                let attempts_left = self.model.rows[job].attempt < MAX_ATTEMPTS;
                let reported = self.exec("finish_one", &arguments).await.unwrap();
                let took_effect = self.model.finish(worker, job, fence, outcome);
                let dies_of_it = code == 1 && !attempts_left;
                assert_eq!(reported.is_empty(), took_effect && !dies_of_it);
                format!("finish by {worker} of job {job} under fence {fence}: {outcome:?}")
            }
            6 => {
                let sql = format!(
                    "{} EXEC [$(schema)].[release] @worker_id = {id}, @jobs = @list",
                    self.list(&[(job, fence)])
                );
                let not_ours = self.session.numbers(&sql).await;
                assert_eq!(not_ours.is_empty(), self.model.release(worker, job, fence));
                format!("release by {worker} of job {job} under fence {fence}")
            }
            7 => {
                let known = [(job, fence)];
                let arguments = format!("@queue = N'work', @worker_id = {id}, @known = @list");
                let sql = format!("{} EXEC [$(schema)].[recover] {arguments}", self.list(&known));
                let unknown = self.model.recover(worker, &known);
                let mut listed = self.session.numbers(&sql).await;
                listed.sort_unstable();
                assert_eq!(listed, unknown.iter().map(|(job, _)| self.job_ids[*job]).collect::<Vec<_>>());
                format!("recover by {worker}, who knows of job {job} under fence {fence}")
            }
            8 => {
                let renewed = self.exec("heartbeat", &format!("@worker_id = {id}")).await;
                assert_eq!(renewed.is_ok(), self.model.heartbeat(worker).is_ok());
                format!("heartbeat of {worker}")
            }
            9 => {
                let run_out = "UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())";
                self.session.sql(&format!("{run_out} WHERE worker_id = {id}")).await;
                self.model.lease_runs_out(worker);
                format!("the lease of {worker} runs out")
            }
            10 => {
                let lost = self.exec("reap", "@queue = N'work'").await.unwrap();
                assert_eq!(lost, [self.model.reap().len() as i64]);
                "reap".to_string()
            }
            11 if random.bool() => {
                let sql = format!("EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", self.job_ids[job]);
                let answer = self.session.sql(&sql).await;
                assert_eq!(answer.first().map(|row| number(row, "running") == 1), self.model.cancel(job));
                format!("cancel of job {job}")
            }
            11 => {
                let arguments = format!("@queue = N'work', @job_id = {}", self.job_ids[job]);
                let requeued = self.exec("requeue", &arguments).await.unwrap();
                assert_eq!(requeued, [self.model.requeue_one(job) as i64]);
                format!("requeue of job {job}")
            }
            12 if self.model.workers.contains_key(&worker) => {
                self.exec("unregister_worker", &format!("@queue = N'work', @worker_id = {id}")).await.unwrap();
                self.model.unregister_worker(worker);
                format!("unregister_worker of {worker}")
            }
            12 => {
                // Workers 0 and 1 have one name, 2 and 3 another.
                let take_over = random.bool();
                let name = worker / 2;
                let arguments = format!(
                    "@queue = N'work', @worker_id = {id}, @name = N'{name}', @lease_ms = 86400000, @take_over = {}",
                    u8::from(take_over)
                );
                self.session.sql(&format!("EXEC [$(schema)].[register_worker] {arguments}")).await;
                // It reaps, even where there is nobody to take over from.
                let others: Vec<_> = (0..WORKERS).filter(|other| *other != worker && other / 2 == name).collect();
                self.model.register_worker(worker, if take_over { &others } else { &[] });
                format!("register_worker {worker}, take over {take_over}")
            }
            _ => match random.u8(..4) {
                0 => {
                    self.session.sql("UPDATE [$(schema)].[jobs] SET due_at = enqueued_at WHERE state = 1").await;
                    let promoted = self.exec("promote", "@queue = N'work'").await.unwrap();
                    assert_eq!(promoted, [self.model.promote() as i64]);
                    "promote".to_string()
                }
                1 => {
                    let requeued = self.exec("requeue", "@queue = N'work'").await.unwrap();
                    assert_eq!(requeued, [self.model.requeue() as i64]);
                    "requeue".to_string()
                }
                _ => {
                    self.model.paused = !self.model.paused;
                    let procedure = if self.model.paused { "pause" } else { "resume" };
                    self.exec(procedure, "@queue = N'work'").await.unwrap();
                    procedure.to_string()
                }
            },
        }
    }

    /// The server's tables in the model's terms.
    async fn tables(&mut self) -> Table {
        let mut table = Table::new(0, ALL_RULES);
        let jobs = "SELECT state, fence, attempt, alone, ISNULL(cancelling, 0) AS cancelling, worker_id,
                           (SELECT COUNT(*) FROM [$(schema)].[written] AS w WHERE w.job_id = j.job_id) AS written
                    FROM [$(schema)].[jobs] AS j ORDER BY job_id";
        for row in self.session.sql(jobs).await {
            let states = [State::Ready, State::Scheduled, State::Claimed, State::Done, State::Dead, State::Cancelled];
            let worker = row.get::<Uuid, _>("worker_id").map(|id| self.worker(id));
            table.rows.push(Row {
                state: states[number(&row, "state") as usize],
                fence: number(&row, "fence") as u8,
                attempt: number(&row, "attempt") as u8,
                alone: number(&row, "alone") == 1,
                cancelling: number(&row, "cancelling") == 1,
                written: number(&row, "written") as u8,
                worker,
            });
        }
        let workers = "SELECT CASE WHEN lost_at IS NOT NULL THEN 2 WHEN lease_until < SYSUTCDATETIME() THEN 1 ELSE 0 END AS lease, \
                       worker_id FROM [$(schema)].[workers]";
        for row in self.session.sql(workers).await {
            let leases = [Lease::Held, Lease::RanOut, Lease::Lost];
            let worker = self.worker(row.get("worker_id").unwrap());
            table.workers.insert(worker, leases[number(&row, "lease") as usize]);
        }
        table.paused = self.number("SELECT paused FROM [$(schema)].[queues]").await == 1;
        table
    }

    fn worker(&self, id: Uuid) -> WorkerId {
        self.worker_ids.iter().position(|known| *known == id).expect("one of ours") as WorkerId
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_does_what_the_model_does() {
    let options = QueueOptions::default()
        .max_attempts(u32::from(MAX_ATTEMPTS))
        .completion(readpast::admin::CompletionPolicy::Annotate);
    for seed in 0..12 {
        let fixture = Fixture::with("model", options.clone()).await;
        fixture.sql("CREATE TABLE [$(schema)].[written] (job_id bigint NOT NULL)").await;
        fixture
            .sql(
                "CREATE PROCEDURE [$(schema)].[sink] @done [$(schema)].[sink_list] READONLY AS
                 INSERT [$(schema)].[written] (job_id) SELECT job_id FROM @done",
            )
            .await;
        fixture.queue.admin().create(QueueOptions::default().sink(format!("{}.sink", fixture.schema()))).await.unwrap();
        let enqueued = fixture.queue.enqueue_many(&crate::support::numbers(JOBS as u32)).await.unwrap();
        let mut both = SideBySide {
            model: Table::new(JOBS, ALL_RULES),
            session: fixture.session().await,
            job_ids: enqueued.iter().map(|job| job.job_id.0).collect(),
            worker_ids: (0..WORKERS).map(|_| Uuid::new_v4()).collect(),
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let mut steps = Vec::new();
        for _ in 0..150 {
            steps.push(both.step(&mut random).await);
            let server = both.tables().await;
            assert_eq!(server, both.model, "seed {seed}, after {steps:#?}");
        }
        fixture.sql("DROP PROCEDURE [$(schema)].[sink]").await;
        fixture.sql("DROP TABLE [$(schema)].[written]").await;
        fixture.remove().await;
    }
}
