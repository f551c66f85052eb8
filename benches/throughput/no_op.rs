//! Jobs that do nothing: what the queue itself costs. Four ways of working off the same backlog, one after the other in
//! each round:
//!
//! - **one row per round trip**, the loop of the classic articles: pop one row, run it, delete it; one connection per
//!   core;
//! - **raw, in turn**: claim a batch, finish it, claim the next, by the same procedures, on one connection;
//! - **raw, overlapped**: the same with one connection that claims while another finishes;
//! - **the worker**, with its default settings.

use readpast::config::WorkerConfig;
use tokio::sync::mpsc;

use super::bench::{Bench, Run, SCHEMA, payload, top_up};
use super::dmv::Waits;
use super::report::{Report, Target};
use super::work::Work;
use super::{Sizes, cores};

const BATCH: i32 = 500;

/// The columns of the classic table, and its two statements: what every article on the subject ends up with.
const CLASSIC_TABLE: &str = "CREATE TABLE [$(schema)].[classic]
(
    id                    bigint         NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED,
    processing_started_at datetime2(3)   NULL,
    payload               varbinary(max) NOT NULL
);
CREATE INDEX classic_waiting ON [$(schema)].[classic] (id) WHERE processing_started_at IS NULL;";
const CLASSIC_POP: &str = "WITH next_row AS
(
    SELECT TOP (1) id, processing_started_at, payload
    FROM [$(schema)].[classic] WITH (ROWLOCK, READPAST, UPDLOCK, READCOMMITTEDLOCK, INDEX (classic_waiting))
    WHERE processing_started_at IS NULL
    ORDER BY id
)
UPDATE next_row SET processing_started_at = SYSUTCDATETIME() OUTPUT inserted.id, inserted.payload;";
const CLASSIC_COMPLETE: &str = "DELETE [$(schema)].[classic] WHERE id = @P1;";

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    let queue = bench.new_queue("no-op").await;
    bench.client().await.sql(&in_schema(CLASSIC_TABLE)).await;
    let waits = Waits::now(&bench).await;
    let config = WorkerConfig::default();
    let (mut classic, mut in_turn, mut overlapped, mut worker) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        top_up(&queue, sizes.backlog).await;
        worker.push(bench.run_worker(&queue, &config, Work::NONE, sizes.no_op_jobs).await);
        top_up(&queue, sizes.backlog).await;
        in_turn.push(raw_in_turn(&mut bench, sizes.no_op_jobs).await);
        top_up(&queue, sizes.backlog).await;
        overlapped.push(raw_overlapped(&mut bench, sizes.no_op_jobs).await);
        fill_classic(&bench, sizes.backlog).await;
        classic.push(one_row_a_round_trip(&mut bench, sizes.classic_jobs).await);
    }
    let of = |runs: &[Run], what: fn(&Run) -> f64| runs.iter().map(what).collect::<Vec<f64>>();
    let ratio = |runs: &[Run], to: &[Run]| runs.iter().zip(to).map(|(run, to)| run.rate() / to.rate()).collect();
    // CPU time does not depend on what else the machine does: on a busy one, this tells more than the rates.
    let cpu_ratio = |runs: &[Run], to: &[Run]| {
        let cpu = |run: &Run| run.client_us_per_job() + run.server_us_per_job();
        runs.iter().zip(to).map(|(run, to)| cpu(to) / cpu(run)).collect()
    };
    report.add("no-op jobs, worker", "jobs/s", None, of(&worker, Run::rate));
    report.add("no-op jobs, raw loop of batches, in turn", "jobs/s", None, of(&in_turn, Run::rate));
    report.add("no-op jobs, raw loop of batches, overlapped", "jobs/s", None, of(&overlapped, Run::rate));
    report.add("no-op jobs, one row per round trip", "jobs/s", None, of(&classic, Run::rate));
    report.add("worker / one row per round trip", "times", None, ratio(&worker, &classic));
    report.add("worker / raw loop in turn", "times", Some(Target::AtLeast(1.0)), ratio(&worker, &in_turn));
    report.add("worker / raw loop overlapped", "times", Some(Target::AtLeast(0.95)), ratio(&worker, &overlapped));
    report.add("CPU of all processes, raw loop overlapped / worker", "times", None, cpu_ratio(&worker, &overlapped));
    report.add(
        "client CPU of a no-op job, worker",
        "us",
        Some(Target::AtMost(5.0)),
        of(&worker, Run::client_us_per_job),
    );
    report.add("client CPU of a no-op job, raw loop in turn", "us", None, of(&in_turn, Run::client_us_per_job));
    report.add("client CPU of a job, one row per round trip", "us", None, of(&classic, Run::client_us_per_job));
    let switches: Vec<f64> = worker.iter().filter_map(|run| run.switches).map(|switches| switches.all).collect();
    if !switches.is_empty() {
        report.add("context switches of a no-op job, worker", "", None, switches);
    }
    if bench.server.is_dev_server() {
        report.add("server CPU of a no-op job, worker", "us", None, of(&worker, Run::server_us_per_job));
        report.add("server CPU of a job, one row per round trip", "us", None, of(&classic, Run::server_us_per_job));
    }
    if bench.go_far() {
        let queue = bench.queue("no-op").await;
        let (mut worker, mut classic) = (Vec::new(), Vec::new());
        for _ in 0..sizes.rounds {
            top_up(&queue, sizes.backlog).await;
            worker.push(bench.run_worker(&queue, &config, Work::NONE, sizes.no_op_jobs).await);
            fill_classic(&bench, sizes.backlog).await;
            classic.push(one_row_a_round_trip(&mut bench, sizes.classic_jobs).await);
        }
        report.add("no-op jobs, worker, server 0.5 ms away", "jobs/s", None, of(&worker, Run::rate));
        report.add("no-op jobs, one row per round trip, server 0.5 ms away", "jobs/s", None, of(&classic, Run::rate));
        let target = Some(Target::AtLeast(30.0));
        report.add("worker / one row per round trip, server 0.5 ms away", "times", target, ratio(&worker, &classic));
    }
    if let Some(before) = waits {
        before.report(&bench, report, worker.iter().map(|run| run.jobs).sum()).await;
    }
    bench.client().await.sql(&in_schema("DROP TABLE [$(schema)].[classic];")).await;
    bench.uninstall().await;
}

fn in_schema(sql: &str) -> String {
    sql.replace("$(schema)", SCHEMA)
}

async fn raw_in_turn(bench: &mut Bench, jobs: u64) -> Run {
    let mut client = bench.client().await;
    let worker_id = client.register_worker("no-op").await;
    bench
        .run(jobs, async move {
            let mut done = 0;
            while done < jobs {
                let batch = client.claim("no-op", worker_id, BATCH).await;
                assert!(!batch.is_empty(), "the backlog is larger than what is worked off");
                client.finish("no-op", worker_id, &batch).await;
                done += batch.len() as u64;
            }
        })
        .await
}

async fn raw_overlapped(bench: &mut Bench, jobs: u64) -> Run {
    let mut claimer = bench.client().await;
    let mut finisher = bench.client().await;
    let worker_id = claimer.register_worker("no-op").await;
    bench
        .run(jobs, async move {
            let (sender, mut receiver) = mpsc::channel(2);
            let claiming = tokio::spawn(async move {
                let mut claimed = 0;
                while claimed < jobs {
                    let batch = claimer.claim("no-op", worker_id, BATCH).await;
                    assert!(!batch.is_empty(), "the backlog is larger than what is worked off");
                    claimed += batch.len() as u64;
                    sender.send(batch).await.expect("the other task takes them");
                }
            });
            while let Some(batch) = receiver.recv().await {
                finisher.finish("no-op", worker_id, &batch).await;
            }
            claiming.await.expect("the claiming task ends well");
        })
        .await
}

async fn fill_classic(bench: &Bench, jobs: u64) {
    let mut client = bench.client().await;
    let count = "SELECT COUNT_BIG(*) FROM [$(schema)].[classic] WHERE processing_started_at IS NULL;";
    let waiting: i64 = client.sql(&in_schema(count)).await[0].get(0).expect("a count");
    let missing = jobs.saturating_sub(waiting as u64);
    // 500 rows a statement, each value a parameter of its own where it can be: here the payload is one and the same.
    let rows = vec!["(@P1)"; 500].join(", ");
    let insert = in_schema(&format!("INSERT [$(schema)].[classic] (payload) VALUES {rows};"));
    let payload = payload();
    for _ in 0..missing.div_ceil(500) {
        client.query(&insert, &[&payload]).await;
    }
}

async fn one_row_a_round_trip(bench: &mut Bench, jobs: u64) -> Run {
    let consumers = cores() as u64;
    let mut clients = Vec::new();
    for _ in 0..consumers {
        clients.push(bench.client().await);
    }
    let each = jobs / consumers;
    let run = bench.run(each * consumers, async move {
        let mut tasks = tokio::task::JoinSet::new();
        for mut client in clients {
            tasks.spawn(async move {
                let (pop, complete) = (in_schema(CLASSIC_POP), in_schema(CLASSIC_COMPLETE));
                for _ in 0..each {
                    let rows = client.query(&pop, &[]).await;
                    let id: i64 = rows[0].get(0).expect("a row was waiting");
                    client.query(&complete, &[&id]).await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("the task ends well");
        }
    });
    run.await
}
