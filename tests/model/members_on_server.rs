//! The procedures do what [`Members`] says of them: the same calls on both, one after the other.

use readpast::admin::{CompletionPolicy, QueueOptions};
use stateright::Model;

use super::members::{ALL_RULES, Batch, Call, Members, Outcome, Policy, Row, State, System};
use crate::support::{Fixture, Session, WorkerSession, literal, number, optional_number};

const JOBS: usize = 4;

/// What both show.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    rows: Vec<(State, bool, u8, bool)>,
    batch: Batch,
    turns: i8,
    events: Option<i8>,
}

impl Seen {
    fn of_model(system: &System) -> Seen {
        let seen = |row: &Row| (row.state, row.in_turn, row.fence, row.cancelling);
        Seen {
            rows: system.rows.iter().map(seen).collect(),
            batch: Batch { additions: 0, ..system.batch.clone() },
            turns: system.turns,
            events: system.events,
        }
    }

    async fn on_server(session: &mut Session, job_ids: &[Option<i64>]) -> Seen {
        let mut rows = vec![(State::Absent, false, 0, false); JOBS];
        let jobs = "SELECT job_id, state, ISNULL(in_turn, 0) AS in_turn, fence, ISNULL(cancelling, 0) AS cancelling
                    FROM [$(schema)].[jobs] WHERE group_key = N'k'";
        for row in session.sql(jobs).await {
            let states = [
                State::Ready,
                State::Scheduled,
                State::Claimed,
                State::Done,
                State::Dead,
                State::Cancelled,
                State::Waiting,
            ];
            let place = job_ids.iter().position(|id| *id == Some(number(&row, "job_id"))).expect("one of ours");
            let state = states[number(&row, "state") as usize];
            rows[place] =
                (state, number(&row, "in_turn") == 1, number(&row, "fence") as u8, number(&row, "cancelling") == 1);
        }
        let counts = "SELECT c.members, c.done, c.dead, c.cancelled, CASE WHEN c.ended_at IS NULL THEN 0 ELSE 1 END AS ended,
                             CASE WHEN b.sealed_at IS NULL THEN 0 ELSE 1 END AS sealed,
                             (SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE group_key IS NULL) AS follow_ups
                      FROM [$(schema)].[batch_counts] AS c INNER JOIN [$(schema)].[batches] AS b ON b.batch_id = c.batch_id";
        let row = session.row(counts).await;
        let batch = Batch {
            sealed: number(&row, "sealed") == 1,
            additions: 0,
            members: optional_number(&row, "members").map(|members| members as i8),
            done: number(&row, "done") as i8,
            dead: number(&row, "dead") as i8,
            cancelled: number(&row, "cancelled") as i8,
            ended: number(&row, "ended") == 1,
            follow_ups: number(&row, "follow_ups") as i8,
        };
        let turns = session.number("SELECT ISNULL(SUM(in_turn), 0) FROM [$(schema)].[groups]").await as i8;
        let events = session.row("SELECT SUM(ended) AS turns FROM [$(schema)].[group_events]").await;
        Seen { rows, batch, turns, events: optional_number(&events, "turns").map(|turns| turns as i8) }
    }
}

/// The T-SQL of a call.
fn sql(call: Call, worker: &WorkerSession, job_ids: &[Option<i64>]) -> String {
    let id = |job: usize| job_ids[job].unwrap_or(0);
    let worker_id = literal(&worker.id.to_string());
    match call {
        Call::Add(_) => "EXEC [$(schema)].[enqueue] @queue = N'work', @text = N'x', @group_key = N'k', @batch_id = 1,
                              @job_id = @job_id OUTPUT"
            .to_string(),
        Call::Finish(job, fence, outcome) => {
            let (code, retry_ms) = match outcome {
                Outcome::Done => (0, "NULL"),
                Outcome::Retry => (1, "0"),
                Outcome::RetryLater => (1, "3600000"),
                Outcome::Dead => (2, "NULL"),
            };
            format!(
                "EXEC [$(schema)].[finish_one] @queue = N'work', @worker_id = {worker_id}, @job_id = {}, @fence = {fence},
                      @outcome = {code}, @retry_ms = {retry_ms}",
                id(job)
            )
        }
        Call::FinishWith(job, fence, _) => format!(
            "DECLARE @list [$(schema)].[finish_list], @follow_ups [$(schema)].[follow_up_list];
             INSERT @list (job_id, fence, outcome) VALUES ({0}, {fence}, 0);
             INSERT @follow_ups (ordinal, job_id, queue, payload, group_key, batch_id) VALUES (1, {0}, N'work', 0x, N'k', 1);
             EXEC [$(schema)].[finish_with] @queue = N'work', @worker_id = {worker_id}, @jobs = @list,
                  @follow_ups = @follow_ups;
             SELECT @job_id = MAX(job_id) FROM [$(schema)].[jobs] WHERE group_key IS NOT NULL",
            id(job)
        ),
        Call::GiveBack(job, fence) => format!(
            "DECLARE @list [$(schema)].[job_list]; INSERT @list VALUES ({}, {fence});
             EXEC [$(schema)].[release] @worker_id = {worker_id}, @jobs = @list",
            id(job)
        ),
        Call::Cancel(job) => format!("EXEC [$(schema)].[cancel] @queue = N'work', @job_id = {}", id(job)),
        Call::Requeue(job) => format!("EXEC [$(schema)].[requeue] @queue = N'work', @job_id = {}", id(job)),
        Call::Seal => "EXEC [$(schema)].[seal_batch] @batch_id = 1".to_string(),
        Call::Purge(_) | Call::Look(_) | Call::Advance => "EXEC [$(schema)].[promote] @queue = N'work'".to_string(),
    }
}

/// A call that either can make now, and that changes something in most cases.
fn any_call(random: &mut fastrand::Rng, system: &System) -> Call {
    let present: Vec<usize> = (0..JOBS).filter(|job| system.rows[*job].state != State::Absent).collect();
    let Some(job) = random.choice(&present).copied() else { return Call::Add(0) };
    let fence = system.rows[job].fence.saturating_sub(u8::from(random.u8(..5) == 0));
    let missing = system.rows.iter().position(|row| row.state == State::Absent);
    match (random.u8(..12), missing) {
        (0..2, Some(job)) if !system.batch.sealed => Call::Add(job),
        (2..4, Some(next)) if !system.batch.sealed => Call::FinishWith(job, fence, next),
        (3, _) if random.u8(..4) == 0 && !system.batch.sealed => Call::Seal,
        (4, _) => Call::Cancel(job),
        (5..7, _) => Call::Requeue(job),
        (7, _) => Call::GiveBack(job, fence),
        (8, _) => Call::Advance,
        _ => {
            let outcomes = [Outcome::Done, Outcome::Retry, Outcome::RetryLater, Outcome::Dead];
            Call::Finish(job, fence, outcomes[random.usize(..outcomes.len())])
        }
    }
}

async fn compare(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (group_limit, retry_passes) = (1 + (seed % 2) as i8, seed % 4 >= 2);
    let model = Members {
        rules: ALL_RULES,
        jobs: JOBS,
        sessions: 1,
        faults: 0,
        group_limit,
        policy: Policy::Annotate,
        retry_passes,
    };
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate).max_attempts(1_000);
    let options = options.group_limit(group_limit as u32).retry_passes(retry_passes);
    let fixture = Fixture::with("members", options).await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'ends'").await;
    fixture.sql("EXEC [$(schema)].[create_batch] @queue = N'ends', @text = N'x'").await;
    let worker = WorkerSession::register(&fixture).await;
    let mut session = fixture.session().await;
    let mut system = model.init_states().remove(0);
    let mut job_ids = vec![None; JOBS];
    let mut steps = Vec::new();
    for _ in 0..80 {
        let due = (0..JOBS).find(|job| system.rows[*job].state == State::Scheduled);
        if random.u8(..3) == 0 {
            let run = random.usize(1..=3);
            let claim = format!(
                "EXEC [$(schema)].[claim] @queue = N'work', @worker_id = {}, @max = {run}, @at_once = {run}, @run = {run}",
                literal(&worker.id.to_string())
            );
            let rows: Vec<_> = session.try_sql(&claim).await.unwrap().into_iter().flatten().collect();
            let mut claimed: Vec<i64> = rows.iter().map(|row| number(row, "job_id")).collect();
            claimed.sort_unstable();
            let expected = model.claim(&mut system, run);
            let expected: Vec<i64> = expected.iter().map(|job| job_ids[*job].expect("it is there")).collect();
            steps.push(format!("claim of {run}"));
            assert_eq!(claimed, expected, "seed {seed}, after {steps:#?}");
            if group_limit == 1 && claimed.len() > 1 {
                assert!(rows.iter().all(|row| number(row, "head_id") == claimed[0]), "seed {seed}, after {steps:#?}");
            }
        } else if let (Some(job), 0) = (due, random.u8(..4)) {
            let promote =
                format!("EXEC [$(schema)].[promote_now] @queue = N'work', @job_id = {}", job_ids[job].unwrap());
            session.sql(&promote).await;
            let has_the_turn = system.rows[job].in_turn;
            system.promote(job);
            if !has_the_turn {
                model.run(&mut system, Call::Advance, true);
            }
            steps.push(format!("promote_now of job {job}"));
        } else {
            let call = any_call(&mut random, &system);
            // In a transaction of its caller's the turns are left to promote.
            let transaction = match call {
                Call::Advance => None,
                _ => [None, Some("COMMIT"), Some("ROLLBACK")][random.usize(..3)],
            };
            let text = sql(call, &worker, &job_ids);
            let (begin, end) = match transaction {
                None => (String::new(), String::new()),
                Some(end) => ("BEGIN TRANSACTION;".to_string(), format!("{end} TRANSACTION;")),
            };
            let batch = format!("DECLARE @job_id bigint; {begin} {text}; {end} SELECT @job_id AS job_id");
            let results = session.try_sql(&batch).await.unwrap_or_else(|error| panic!("{batch}: {error}"));
            if transaction != Some("ROLLBACK") {
                model.run(&mut system, call, transaction.is_none());
                if let Call::Add(job) | Call::FinishWith(_, _, job) = call
                    && system.rows[job].state != State::Absent
                {
                    job_ids[job] = optional_number(&results.last().expect("a result")[0], "job_id");
                }
            }
            steps.push(format!("{call:?}, {transaction:?}"));
        }
        let seen = Seen::on_server(&mut session, &job_ids).await;
        assert_eq!(
            seen,
            Seen::of_model(&system),
            "seed {seed}, limit {group_limit}, passes {retry_passes}, after {steps:#?}"
        );
    }
    drop((session, worker));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_procedures_do_what_the_model_of_groups_and_batches_does() {
    for seed in 0..8 {
        compare(seed).await;
    }
}
