//! The soak: producers, worker processes and faults for the chosen time; then the comparison of ledger and tables.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{Config, Error, NewBatch, NewJob, Queue};
use serde_json::json;
use tokio::time::sleep;

use crate::connection::{self, Common};
use crate::progress::Progress;

use super::ledger::{
    BATCHES, FOLLOW_UP, GROUPS, KEPT, LIMIT, LIMITED, Ledger, Line, PLAIN, QUEUES, SINK, Story, Tables,
};
use super::proxy::{Network, Proxy};
use super::report::Report;
use super::server::{Reads, Server, reason};
use super::worker_process::{Fleet, LEASE};

/// So many that no job dies of the kills, whichever it meets.
const PLENTY: u32 = 100_000;

/// How often the producer enqueues.
const TURN: Duration = Duration::from_millis(250);

/// Jobs per batch.
const MEMBERS: usize = 5;

/// Groups of the queue `groups`.
const GROUP_KEYS: u64 = 7;

/// The longest time for the last jobs, without any fault.
const DRAIN: Duration = Duration::from_secs(120);

/// Rows per page when the tables are read.
const PAGE: usize = 1_000;

/// What one procedure reads per job in the last third of the soak, against the first: this many times, and this much more.
const READS_GROW: f64 = 3.0;
const MORE_READS: f64 = 50.0;

/// The procedures whose reads are followed.
const FOLLOWED: [&str; 6] = ["enqueue_batch", "claim", "finish", "promote", "reap", "heartbeat"];

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
            let sql = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; SELECT TOP (1) job_id FROM [$(schema)].[jobs]";
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

struct Producer {
    queues: HashMap<&'static str, Queue>,
    ledger: Ledger,
    /// Jobs to enqueue at once, beside the rate.
    burst: Cell<u64>,
    /// Jobs of calls that failed: they may exist or not.
    in_doubt: Cell<u64>,
    /// The members of the next batch.
    members: RefCell<Vec<u64>>,
}

impl Producer {
    fn new(queue: &Queue, ledger: Ledger) -> Result<Producer> {
        let queues = QUEUES.map(|name| queue.named(name).map(|queue| (name, queue)));
        let queues = queues.into_iter().collect::<Result<_, _>>()?;
        let (burst, in_doubt, members) = (Cell::new(0), Cell::new(0), RefCell::default());
        Ok(Producer { queues, ledger, burst, in_doubt, members })
    }

    async fn run(&self, rate: u64, end: Instant) -> Result<()> {
        let begin = Instant::now();
        let (mut number, mut extra) = (0, 0);
        while Instant::now() < end {
            extra += self.burst.take();
            let due = (begin.elapsed().as_secs_f64() * rate as f64) as u64 + extra;
            let mut jobs: HashMap<&str, Vec<u64>> = HashMap::new();
            while number < due {
                number += 1;
                jobs.entry(QUEUES[number as usize % QUEUES.len()]).or_default().push(number);
            }
            for (queue, numbers) in jobs {
                match queue {
                    BATCHES => self.enqueue_batches(numbers).await?,
                    _ => self.enqueue(queue, numbers).await?,
                }
            }
            sleep(TURN).await;
        }
        Ok(())
    }

    async fn enqueue(&self, queue: &str, numbers: Vec<u64>) -> Result<()> {
        let key = |number: u64| match queue {
            GROUPS => format!("g{}", number / QUEUES.len() as u64 % GROUP_KEYS),
            _ => "-".to_owned(),
        };
        let job = |number: &u64| {
            let job = NewJob::text(format!("{number} {}", key(*number))).kind(queue);
            match queue {
                GROUPS => job.group_key(key(*number)),
                PLAIN if number % 3 == 0 => job.delay(Duration::from_millis(300)),
                _ => job,
            }
        };
        let jobs: Vec<NewJob> = numbers.iter().map(job).collect();
        match self.queues[queue].enqueue_many(&jobs).await {
            Ok(enqueued) => {
                for (number, enqueued) in numbers.iter().zip(enqueued) {
                    self.note("enqueued", queue, enqueued.job_id.0, 0, *number, &key(*number))?;
                }
            }
            Err(_) => self.in_doubt.set(self.in_doubt.get() + jobs.len() as u64),
        }
        Ok(())
    }

    async fn enqueue_batches(&self, numbers: Vec<u64>) -> Result<()> {
        self.members.borrow_mut().extend(numbers);
        while self.members.borrow().len() >= MEMBERS {
            let numbers: Vec<u64> = self.members.borrow_mut().drain(..MEMBERS).collect();
            if self.enqueue_batch(&numbers).await.is_err() {
                self.in_doubt.set(self.in_doubt.get() + numbers.len() as u64);
            }
        }
        Ok(())
    }

    async fn enqueue_batch(&self, numbers: &[u64]) -> Result<()> {
        let queue = &self.queues[BATCHES];
        let key = format!("b{}", numbers[0]);
        let follow_up = NewJob::text(format!("0 {key}")).kind(FOLLOW_UP);
        let batch = queue.create_batch(&NewBatch::new().then(follow_up)).await?;
        let job = |number: &u64| NewJob::text(format!("{number} {key}")).kind(BATCHES).batch(batch);
        let enqueued = queue.enqueue_many(&numbers.iter().map(job).collect::<Vec<_>>()).await?;
        for (number, enqueued) in numbers.iter().zip(enqueued) {
            self.note("enqueued", BATCHES, enqueued.job_id.0, 0, *number, &key)?;
        }
        queue.seal_batch(batch).await?;
        self.note("sealed", BATCHES, batch.0, numbers.len() as i32, 0, &key)
    }

    fn note(&self, event: &str, kind: &str, job: i64, fence: i32, number: u64, key: &str) -> Result<()> {
        Ok(self.ledger.note(Line { event, kind, job, fence, worker: 0, number, key })?)
    }
}

/// Figures over time.
struct Monitor {
    ledger: File,
    interval: Duration,
    time: Duration,
    lost_workers: HashSet<u32>,
    /// Seconds since the start, jobs per second, and reads per job of each procedure.
    samples: Vec<(f64, f64, Vec<Option<f64>>)>,
    no_reads: Option<String>,
}

impl Monitor {
    fn new(ledger: &Path, time: Duration) -> Result<Monitor> {
        let interval = (time / 12).clamp(Duration::from_secs(1), Duration::from_secs(300));
        let ledger = File::open(ledger)?;
        Ok(Monitor { ledger, interval, time, lost_workers: HashSet::new(), samples: Vec::new(), no_reads: None })
    }

    async fn run(&mut self, server: &mut Server, end: Instant) -> Result<()> {
        let progress = Progress::new("seconds of soak", Some(self.time.as_secs()));
        let (begin, mut before, mut at) = (Instant::now(), HashMap::new(), Instant::now());
        while Instant::now() < end {
            sleep(self.interval.min(end.saturating_duration_since(Instant::now()))).await;
            progress.set(begin.elapsed().as_secs().min(self.time.as_secs()), self.time.as_secs());
            self.note_lost_workers(server).await?;
            let (done, passed) = (self.count_ends()? as f64, at.elapsed().as_secs_f64());
            at = Instant::now();
            let reads = match server.reads().await {
                Ok(reads) => reads,
                Err(error) => {
                    self.no_reads = Some(reason(&error));
                    HashMap::new()
                }
            };
            let per_job = |name: &&str| {
                let (now, then) = (reads.get(*name)?, before.get(*name).copied().unwrap_or_default());
                let Reads { total, .. } = then;
                (done > 0.0).then(|| (now.total - total) as f64 / done)
            };
            self.samples.push((begin.elapsed().as_secs_f64(), done / passed, FOLLOWED.iter().map(per_job).collect()));
            before = reads;
        }
        progress.end();
        Ok(())
    }

    /// Their rows stay for a day only.
    async fn note_lost_workers(&mut self, server: &mut Server) -> Result<(), Error> {
        let sql = "SELECT DISTINCT CAST(name AS nvarchar(128)) FROM [$(schema)].[workers] WHERE lost_at IS NOT NULL";
        for mut row in server.rows(sql).await? {
            let name: String = row.required("name")?;
            self.lost_workers.extend(name.strip_prefix('w').and_then(|number| number.parse::<u32>().ok()));
        }
        Ok(())
    }

    /// Runs that have ended since the last call.
    fn count_ends(&mut self) -> Result<usize> {
        let mut new = Vec::new();
        self.ledger.read_to_end(&mut new)?;
        Ok(new.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"end ")).count())
    }

    fn report(&self, report: &mut Report) {
        let mut columns = vec!["second", "jobs per second"];
        columns.extend(FOLLOWED);
        let row = |(second, rate, reads): &(f64, f64, Vec<Option<f64>>)| {
            let mut row = vec![json!(second), json!(rate)];
            row.extend(reads.iter().map(|reads| json!(reads)));
            row
        };
        let expected = "flat; the columns of procedures have logical reads per finished job";
        report.section("The soak over time", expected, &columns, self.samples.iter().map(row).collect());
        let promise = "logical reads per job stay flat during the soak";
        let third = self.samples.len() / 3;
        if let Some(reason) = &self.no_reads {
            return report.promise_not_available(promise, reason);
        }
        if third < 2 {
            return report.promise_not_available(promise, "the soak was too short");
        }
        let mut findings = Vec::new();
        for (at, name) in FOLLOWED.iter().enumerate() {
            let mean = |samples: &[(f64, f64, Vec<Option<f64>>)]| {
                samples.iter().filter_map(|sample| sample.2[at]).sum::<f64>() / samples.len() as f64
            };
            // The first sample has what came before the soak.
            let (first, last) = (mean(&self.samples[1..=third]), mean(&self.samples[self.samples.len() - third..]));
            if last > first * READS_GROW + MORE_READS {
                findings.push(format!("{name}: {first:.0} at first, {last:.0} at last"));
            }
        }
        report.promise(promise, &findings, "the last third against the first");
    }
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
    let mut tables = Tables { lost_workers, ..Tables::default() };
    let names: Vec<String> = QUEUES.iter().map(|name| format!("N'{name}'")).collect();
    let of = format!("queue_id IN (SELECT queue_id FROM [$(schema)].[queues] WHERE name IN ({}))", names.join(", "));
    let mut last = first_id;
    loop {
        let page = format!(
            "SELECT TOP ({PAGE}) job_id, CAST(state AS int), fence FROM [$(schema)].[jobs]
             WHERE job_id > {last} AND {of} ORDER BY job_id"
        );
        let rows = server.rows(&page).await?;
        let is_last = rows.len() < PAGE;
        for mut row in rows {
            last = row.required("job_id")?;
            let (state, fence): (i32, i32) = (row.required("state")?, row.required("fence")?);
            tables.jobs.insert(last, (state as u8, fence));
        }
        if is_last {
            break;
        }
    }
    let mut last = 0_i64;
    loop {
        let page = format!(
            "SELECT TOP ({PAGE}) result_id, job_id, fence FROM [$(schema)].[prove_results]
             WHERE result_id > {last} ORDER BY result_id"
        );
        let rows = server.rows(&page).await?;
        let is_last = rows.len() < PAGE;
        for mut row in rows {
            last = row.required("result_id")?;
            tables.results.push((row.required("job_id")?, row.required("fence")?));
        }
        if is_last {
            return Ok(tables);
        }
    }
}

fn judge(report: &mut Report, story: &Story, tables: &Tables, in_doubt: u64, seconds: f64) {
    let findings = story.compare(tables, in_doubt);
    let enqueued = story.enqueued();
    report.promise("no job is lost", &findings.lost, format!("{} lost of {enqueued}", findings.lost.len()));
    let doubled = format!("{} doubled, {} repeated under a higher fence", findings.doubled.len(), story.repeated);
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
        vec![json!("repeated under a higher fence"), json!(story.repeated)],
    ];
    report.section("The soak", "nothing lost, nothing doubled; repeats are fine", &["figure", "value"], rows);
}
