//! The soak: producers, worker processes and faults for the chosen time; then the comparison of ledger and tables.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{Config, Error, Queue};
use serde_json::json;
use tokio::time::sleep;

use crate::connection::{self, Common};
use crate::exit::say;

use super::fleet::Fleet;
use super::ledger::{KEPT, LIMIT, LIMITED, Ledger, QUEUES, SINK, Story, Tables};
use super::monitor::Monitor;
use super::producer::{GROUP_KEYS, Producer, TURN};
use super::proxy::{Network, Proxy};
use super::report::Report;
use super::server::{Server, reason};
use super::worker_process::LEASE;

/// High enough that no job runs out of attempts because of the kills.
const PLENTY: u32 = 100_000;

/// The longest time for the last jobs, without any fault.
const DRAIN: Duration = Duration::from_secs(120);

/// Rows per page when the tables are read.
const PAGE: usize = 1_000;

/// What is asked for.
pub struct Plan<'a> {
    pub config: &'a Config,
    pub common: &'a Common,
    pub url: &'a str,
    /// For the ledger.
    pub folder: &'a Path,
    pub time: Duration,
    /// Jobs per second.
    pub rate: u64,
    pub processes: usize,
}

/// The faults, in the order in which they take turns.
const FAULTS: [&str; 6] = [
    "connections cut",
    "worker killed",
    "stop under pressure",
    "database restarted",
    "worker paused",
    "network silent",
];

impl Plan<'_> {
    pub async fn run(&self, server: &mut Server, report: &mut Report) -> Result<()> {
        let queue = connection::schema(self.config).await?;
        create_queues(&queue, server).await?;
        let first_id = first_id(server).await?;
        let proxy = self.proxy(report).await;
        let url = proxy.as_ref().map_or(self.url, Proxy::url);
        let mut fleet = Fleet::new(url, &self.config.connection.schema, self.common, self.folder)?;
        for _ in 0..self.processes {
            fleet.add()?;
        }
        let waits = server.waits().await;
        let producer = Producer::new(&queue, Ledger::open(fleet.ledger_path())?)?;
        let mut monitor = Monitor::new(fleet.ledger_path(), self.time)?;
        let begin = Instant::now();
        let end = begin + self.time;
        let (snapshot, faults, produced, watched) = tokio::join!(
            self.hold_snapshots(end),
            self.strike(&mut fleet, proxy.as_ref(), &producer, report, end),
            producer.run(self.rate, end),
            monitor.run(server, end),
        );
        faults?;
        produced?;
        watched?;
        let seconds = begin.elapsed().as_secs_f64();
        match snapshot {
            Ok(times) => report.section("Snapshots held open", "", &["times"], vec![vec![json!(times)]]),
            Err(error) => report.not_available("Snapshots held open", &reason(&error)),
        }
        let left = drain(&queue, &mut fleet).await?;
        fleet.stop().await?;
        let found: Vec<String> = left.iter().map(|(queue, jobs)| format!("{jobs} of {queue}")).collect();
        report.promise(
            "all jobs finish once there are no more faults",
            &found,
            format!("within {} s", DRAIN.as_secs()),
        );
        report.promise("no worker process ends by itself", &fleet.failed, format!("{} at a time", self.processes));
        if !fleet.failed.is_empty() {
            say(&format!("the worker processes said last: {}", fleet.last_words())); // may name the server
        }
        server.report_waits(report, "Waits during the soak", &waits).await;
        monitor.note_lost_workers(server).await?;
        monitor.report(report);
        let tables = tables(server, first_id, monitor.lost_workers).await?;
        let story = Story::read(fleet.ledger_path())?;
        judge(report, &story, &tables, producer.in_doubt.get(), seconds);
        Ok(())
    }

    /// The proxy, if workers can reach SQL Server by way of it. Windows logins and instances may not allow that.
    async fn proxy(&self, report: &mut Report) -> Option<Proxy> {
        let title = "Faults of the network";
        let proxy = match Proxy::start(self.url).await {
            Ok(proxy) => proxy,
            Err(error) => {
                report.not_available(title, &error.to_string());
                return None;
            }
        };
        let mut config = self.config.clone();
        config.connection.url = proxy.url().into();
        match connection::schema(&config).await {
            Ok(_) => Some(proxy),
            Err(error) => {
                report.not_available(title, &format!("no login by way of a proxy: {}", reason(&error)));
                None
            }
        }
    }

    /// Faults take turns until `end`.
    async fn strike(
        &self,
        fleet: &mut Fleet,
        proxy: Option<&Proxy>,
        producer: &Producer,
        report: &mut Report,
        end: Instant,
    ) -> Result<()> {
        let interval = (self.time / 8).clamp(Duration::from_secs(1), Duration::from_secs(15));
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for fault in FAULTS.into_iter().cycle() {
            sleep(interval.min(end.saturating_duration_since(Instant::now()))).await;
            if Instant::now() >= end {
                break;
            }
            fleet.replace_failed()?;
            match (fault, proxy) {
                ("worker killed", _) => fleet.kill_one()?,
                // Windows cannot.
                ("worker paused", _) if cfg!(unix) => fleet.pause_one(LEASE + Duration::from_secs(2)).await?,
                ("stop under pressure", _) => {
                    producer.burst.set(self.rate * 10);
                    sleep(TURN * 2).await;
                    let stopping = fleet.stop_one()?;
                    stopping.ended(&mut fleet.failed).await?;
                }
                ("connections cut", Some(proxy)) => proxy.cut(),
                ("database restarted", Some(proxy)) => during(proxy, Network::Down, Duration::from_secs(3)).await,
                ("network silent", Some(proxy)) => during(proxy, Network::Silent, Duration::from_secs(2)).await,
                _ => continue,
            }
            *times.entry(fault).or_default() += 1;
        }
        let rows = FAULTS.map(|fault| vec![json!(fault), json!(times.get(fault).copied().unwrap_or_default())]);
        report.section("Faults", "", &["fault", "times"], rows.into());
        Ok(())
    }

    /// Holds a snapshot for a while, again and again: SQL Server then keeps the entries of deleted rows as ghosts.
    async fn hold_snapshots(&self, end: Instant) -> Result<u64, Error> {
        let queue = connection::schema(self.config).await?;
        let mut server = Server::new(&queue).await?;
        let hold = (self.time / 6).min(Duration::from_secs(30));
        let mut times = 0;
        while Instant::now() + hold < end {
            let sql = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION;
                SELECT TOP (1) job_id FROM [$(schema)].[jobs]";
            server.run(sql).await?;
            sleep(hold).await;
            server.run("IF @@TRANCOUNT > 0 COMMIT TRANSACTION").await?;
            times += 1;
            sleep(hold / 2).await;
        }
        Ok(times)
    }
}

async fn during(proxy: &Proxy, network: Network, time: Duration) {
    proxy.set(network);
    sleep(time).await;
    proxy.set(Network::Open);
}

async fn create_queues(queue: &Queue, server: &mut Server) -> Result<()> {
    let results = "CREATE TABLE [$(schema)].[prove_results]
        (result_id bigint NOT NULL IDENTITY (1, 1) PRIMARY KEY, job_id bigint NOT NULL, fence int NOT NULL)";
    let sink = "CREATE PROCEDURE [$(schema)].[prove_sink] @done [$(schema)].[sink_list] READONLY
        AS SET NOCOUNT ON; INSERT [$(schema)].[prove_results] (job_id, fence) SELECT job_id, fence FROM @done;";
    server.run(results).await?;
    server.run(sink).await?;
    for name in QUEUES {
        let mut options = QueueOptions::default().max_attempts(PLENTY);
        if KEPT.contains(&name) {
            options = options.completion(CompletionPolicy::Annotate);
        }
        options = match name {
            LIMITED => options.max_running(LIMIT as u32),
            SINK => options.sink(format!("{}.prove_sink", queue.schema())),
            _ => options,
        };
        queue.named(name)?.admin().create(options).await?;
    }
    Ok(())
}

/// All jobs of the soak have higher ids.
async fn first_id(server: &mut Server) -> Result<i64, Error> {
    let mut row = server.rows("SELECT ISNULL(MAX(job_id), 0) FROM [$(schema)].[jobs]").await?.pop();
    row.as_mut().map_or(Ok(0), |row| row.required("job_id"))
}

/// Waits until the queues are empty. Returns what is left in the end.
async fn drain(queue: &Queue, fleet: &mut Fleet) -> Result<Vec<(&'static str, u64)>> {
    let begin = Instant::now();
    loop {
        let mut left = Vec::new();
        for name in QUEUES {
            // Counts of up to a hundred are enough, and cheap.
            let stats = queue.named(name)?.admin().stats(Some(100)).await?;
            let jobs = stats.ready + stats.scheduled + stats.waiting + stats.claimed + stats.dead + stats.cancelled;
            left.extend((jobs > 0).then_some((name, jobs)));
        }
        if left.is_empty() || begin.elapsed() > DRAIN {
            return Ok(left);
        }
        fleet.replace_failed()?;
        sleep(Duration::from_millis(100)).await;
    }
}

async fn tables(server: &mut Server, first_id: i64, lost_workers: HashSet<u32>) -> Result<Tables, Error> {
    let names: Vec<String> = QUEUES.iter().map(|name| format!("N'{name}'")).collect();
    let queues = format!("SELECT queue_id FROM [$(schema)].[queues] WHERE name IN ({})", names.join(", "));
    let jobs = format!("job_id, CAST(state AS bigint), fence FROM [$(schema)].[jobs] WHERE queue_id IN ({queues}) AND");
    let jobs = all_rows(server, &jobs, "job_id", first_id).await?;
    let results = "result_id, job_id, fence FROM [$(schema)].[prove_results] WHERE";
    let results = all_rows(server, results, "result_id", 0).await?;
    Ok(Tables {
        jobs: jobs.into_iter().map(|(job, state, fence)| (job, (state as u8, fence))).collect(),
        results: results.into_iter().map(|(_, job, fence)| (job, fence)).collect(),
        lost_workers,
    })
}

/// All rows of `SELECT {columns} {key} > {after}`, page by page.
async fn all_rows(
    server: &mut Server,
    columns: &str,
    key: &str,
    mut after: i64,
) -> Result<Vec<(i64, i64, i32)>, Error> {
    let mut all = Vec::new();
    loop {
        let page = format!("SELECT TOP ({PAGE}) {columns} {key} > {after} ORDER BY {key}");
        let rows = server.rows(&page).await?;
        let is_last = rows.len() < PAGE;
        for mut row in rows {
            after = row.required("key")?;
            all.push((after, row.required("value")?, row.required("fence")?));
        }
        if is_last {
            return Ok(all);
        }
    }
}

fn judge(report: &mut Report, story: &Story, tables: &Tables, in_doubt: u64, seconds: f64) {
    let findings = story.compare(tables, in_doubt);
    let enqueued = story.enqueued();
    let idle: Vec<String> =
        (story.ended == 0).then(|| "nothing ran, so the rest proves nothing".to_owned()).into_iter().collect();
    report.promise("jobs are enqueued and run", &idle, format!("{enqueued} enqueued, {} ended", story.ended));
    report.promise("no job is lost", &findings.lost, format!("{} lost of {enqueued}", findings.lost.len()));
    let doubled = format!("{} doubled; {} ran again under a higher fence", findings.doubled.len(), story.repeated);
    report.promise("no job runs twice unnoticed", &findings.doubled, doubled);
    report.promise("no job runs that nobody enqueued", &findings.unknown, "by job id");
    report.promise("the jobs of a group run in order", &findings.out_of_order, format!("{GROUP_KEYS} groups"));
    let most = format!("at most {} at once, of {LIMIT}", story.most_running);
    report.promise("no more jobs run than the limit allows", &findings.over_limit, most);
    let batches = format!("{} batches", story.batches());
    report.promise("each batch has its follow-up exactly once, after its last job", &findings.follow_ups, batches);
    let rows = format!("{} rows", tables.results.len());
    report.promise("the sink writes each result exactly once", &findings.results, rows);
    let rows = vec![
        vec![json!("seconds"), json!(seconds)],
        vec![json!("jobs enqueued"), json!(enqueued)],
        vec![json!("jobs in doubt, because a producer's call failed"), json!(in_doubt)],
        vec![json!("jobs ended, with follow-ups"), json!(story.ended)],
        vec![json!("jobs per second"), json!(story.ended as f64 / seconds)],
        vec![json!("lost"), json!(findings.lost.len())],
        vec![json!("doubled"), json!(findings.doubled.len())],
        vec![json!("retried after a failure"), json!(story.retried)],
        vec![json!("run again under a higher fence, after a fault"), json!(story.repeated)],
    ];
    report.section(
        "The soak",
        "nothing lost, nothing doubled; jobs may run again after a fault",
        &["figure", "value"],
        rows,
    );
}
