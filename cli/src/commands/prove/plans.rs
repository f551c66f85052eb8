//! The hot procedures at three sizes of the table: what a call reads and how long it takes, and their plans.

use std::time::Instant;

use readpast::Error;
use readpast::crates::uuid::Uuid;
use serde_json::{Value, json};

use crate::progress::Progress;

use super::report::Report;
use super::server::{Server, reason};

/// The procedures whose plans are checked, with those that they call.
const HOT: [&str; 14] = [
    "enqueue",
    "enqueue_batch",
    "claim",
    "claim_once",
    "claim_limited",
    "claim_runs",
    "finish",
    "release",
    "recover",
    "promote",
    "reap",
    "heartbeat",
    "sweep",
    "look",
];

/// Each is undone after it. WORKER holds jobs, and another worker with jobs is lost.
const CALLS: [(&str, &str); 9] = [
    ("enqueue", "EXEC [$(schema)].[enqueue] @queue = N'plans', @text = N'x'"),
    ("enqueue_batch", ENQUEUE_100),
    ("claim", "EXEC [$(schema)].[claim] @queue = N'plans', @worker_id = 'WORKER', @max = 100"),
    ("finish", FINISH_HELD),
    ("release", "DECLARE @jobs [$(schema)].[job_list];
        INSERT @jobs (job_id, fence) SELECT job_id, fence FROM [$(schema)].[jobs] WHERE worker_id = 'WORKER' AND state = 2;
        EXEC [$(schema)].[release] @worker_id = 'WORKER', @jobs = @jobs"),
    ("recover", "DECLARE @jobs [$(schema)].[job_list];
        EXEC [$(schema)].[recover] @queue = N'plans', @worker_id = 'WORKER', @known = @jobs"),
    ("promote", "EXEC [$(schema)].[promote] @queue = N'plans'"),
    ("reap", "EXEC [$(schema)].[reap] @queue = N'plans'"),
    ("heartbeat", "EXEC [$(schema)].[heartbeat] @worker_id = 'WORKER', @running = 1, @done = 1, @failed = 0"),
];

const ENQUEUE_100: &str = "DECLARE @jobs [$(schema)].[enqueue_list];
    INSERT @jobs (ordinal, payload)
    SELECT a.i * 10 + b.i, CAST(REPLICATE('x', 100) AS varbinary(max))
    FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS a (i)
    CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b (i);
    EXEC [$(schema)].[enqueue_batch] @queue = N'plans', @jobs = @jobs";

const FINISH_HELD: &str = "DECLARE @jobs [$(schema)].[finish_list];
    INSERT @jobs (job_id, fence, outcome)
    SELECT job_id, fence, 0 FROM [$(schema)].[jobs] WHERE worker_id = 'WORKER' AND state = 2;
    EXEC [$(schema)].[finish] @queue = N'plans', @worker_id = 'WORKER', @jobs = @jobs";

/// Enqueues MANY jobs of 100 bytes, up to a thousand per call. Every tenth job is due in an hour.
const FILL: &str = "SET NOCOUNT ON;
    DECLARE @jobs [$(schema)].[enqueue_list], @left int = MANY;
    INSERT @jobs (ordinal, payload, priority, delay_ms)
    SELECT n.i, CAST(REPLICATE('x', 100) AS varbinary(max)), n.i % 3, CASE WHEN n.i % 10 = 0 THEN 3600000 END
    FROM (SELECT a.i + 10 * b.i + 100 * c.i AS i
          FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS a (i)
          CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b (i)
          CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS c (i)) AS n;
    WHILE @left > 0
    BEGIN
        IF @left < 1000 DELETE @jobs WHERE ordinal >= @left;
        EXEC [$(schema)].[enqueue_batch] @queue = N'plans', @jobs = @jobs, @report = 0;
        SET @left = @left - 1000;
    END;";

/// Jobs per T-SQL batch of the filling, so that a batch stays far below the command timeout.
const FILLED_AT_ONCE: u64 = 10_000;

/// Log of the open transaction so far.
const LOG: &str = "SELECT d.database_transaction_log_record_count, d.database_transaction_log_bytes_used
    FROM sys.dm_tran_database_transactions AS d
    INNER JOIN sys.dm_tran_current_transaction AS c ON c.transaction_id = d.transaction_id
    WHERE d.database_id = DB_ID()";

/// A call on the largest table may read this many times what it reads on 1,000 rows, and `MORE_READS` more: an index of
/// a million rows has one or two levels more, of which each of 100 jobs may read one.
const READS_GROW: i64 = 2;
const MORE_READS: i64 = 200;

/// What was measured at one size: reads of each call if known, and milliseconds.
type Figures = Vec<(Option<i64>, f64)>;

pub async fn check(server: &mut Server, report: &mut Report, rows: u64) -> Result<(), Error> {
    let sizes = [0, 1_000, rows];
    let worker = prepare(server).await?;
    let (mut filled, mut figures, mut findings, mut plans) = (0, Vec::<Figures>::new(), Vec::new(), Ok(0));
    let (mut no_reads, progress) = (None, Progress::new("rows", Some(rows)));
    for size in sizes {
        while filled < size {
            let count = FILLED_AT_ONCE.min(size - filled);
            server.run(&FILL.replace("MANY", &count.to_string())).await?;
            filled += count;
            progress.set(filled, rows);
        }
        let mut measured = Vec::new();
        // With the plans of the smaller table, which SQL Server keeps.
        for (name, call) in CALLS {
            let call = undone(call, &worker);
            server.run(&call).await?; // the first one may compile
            let begin = Instant::now();
            server.run(&call).await?;
            let ms = begin.elapsed().as_secs_f64() * 1_000.0;
            let reads = match server.reads().await {
                Ok(reads) => reads.get(name).map(|reads| reads.last),
                Err(error) => {
                    no_reads = Some(reason(&error));
                    None
                }
            };
            measured.push((reads, ms));
        }
        figures.push(measured);
        // And now with plans for this size.
        for name in HOT {
            let forget = format!("EXEC sys.sp_recompile @objname = N'[$(schema)].[{name}]'");
            let _ = server.run(&forget).await; // where there are no plans, there is nothing to forget
        }
        for (_, call) in CALLS {
            server.run(&undone(call, &worker)).await?;
        }
        match server.plan_findings(&HOT).await {
            Ok((count, found)) => {
                findings.extend(found.into_iter().map(|finding| format!("{finding} ({size} rows)")));
                plans = plans.map(|before: u64| before.max(count));
            }
            Err(error) => plans = Err(reason(&error)),
        }
    }
    progress.end();
    let scans = "the hot procedures scan no large table, and SQL Server warns of nothing in their plans";
    match plans {
        Ok(plans) => {
            report.promise(scans, &findings, format!("{plans} plans at {}, {} and {rows} rows", sizes[0], sizes[1]))
        }
        Err(reason) => report.promise_not_available(scans, &reason),
    }
    judge_reads(report, &figures, no_reads.as_deref());
    let cells = |at: usize| -> Vec<Value> {
        let mut cells = vec![json!(CALLS[at].0)];
        cells.extend(figures.iter().map(|size| json!(size[at].0)));
        cells.extend(figures.iter().map(|size| json!(size[at].1)));
        cells
    };
    let columns =
        ["procedure", "reads at 0", "reads at 1,000", "reads, largest", "ms at 0", "ms at 1,000", "ms, largest"];
    let table = (0..CALLS.len()).map(cells).collect();
    let expected = "5 to 20 logical reads per job; one call has up to 100 jobs, and grows little with the table. The plans \
                    are those of the size before";
    report.section("Logical reads and time of one call, by rows of the table", expected, &columns, table);
    log_per_job(server, report, &worker).await;
    server.report_recompiles(report).await;
    Ok(())
}

/// A call whose changes are rolled back.
fn undone(call: &str, worker: &str) -> String {
    format!("BEGIN TRANSACTION; {call}; ROLLBACK TRANSACTION").replace("WORKER", worker)
}

fn judge_reads(report: &mut Report, figures: &[Figures], no_reads: Option<&str>) {
    let promise = "a call reads no more on a large table than on a small one";
    if let Some(reason) = no_reads {
        return report.promise_not_available(promise, reason);
    }
    let mut findings = Vec::new();
    for (at, (name, _)) in CALLS.iter().enumerate() {
        if let (Some(small), Some(large)) = (figures[1][at].0, figures[2][at].0)
            && large > small * READS_GROW + MORE_READS
        {
            findings.push(format!("{name}: {small} reads at 1,000 rows, {large} at the largest size"));
        }
    }
    report.promise(promise, &findings, format!("at most {READS_GROW} times as many and {MORE_READS}"));
}

/// A queue with a worker that holds 16 jobs, and a lost one that holds as many. Returns the worker's id.
async fn prepare(server: &mut Server) -> Result<String, Error> {
    server.run("EXEC [$(schema)].[create_queue] @queue = N'plans'").await?;
    let [worker, lost] = [Uuid::new_v4(), Uuid::new_v4()].map(|id| id.to_string());
    server.run(&FILL.replace("MANY", "50")).await?;
    for id in [&worker, &lost] {
        let of = format!("@queue = N'plans', @worker_id = '{id}'");
        server.run(&format!("EXEC [$(schema)].[register_worker] {of}, @name = N'plans', @lease_ms = 86400000")).await?;
        server.run(&format!("EXEC [$(schema)].[claim] {of}, @max = 16")).await?;
    }
    let mark = "UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME() WHERE worker_id =";
    server.run(&format!("{mark} '{lost}'")).await?;
    Ok(worker)
}

/// A hundred jobs are enqueued, claimed and finished in one transaction, which is undone.
async fn log_per_job(server: &mut Server, report: &mut Report, worker: &str) {
    let title = "Log per job";
    match log_rows(server, worker).await {
        Ok(rows) => {
            let expected =
                "2 to 5 records and about 500 bytes per job, for enqueue_batch plus the payload of 100 bytes";
            report.section(title, expected, &["procedure", "records", "bytes"], rows);
        }
        Err(error) => report.not_available(title, &reason(&error)),
    }
    let _ = server.run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION").await; // or the next call finds out
}

async fn log_rows(server: &mut Server, worker: &str) -> Result<Vec<Vec<Value>>, Error> {
    let (mut rows, mut before) = (Vec::new(), (0, 0));
    server.run("BEGIN TRANSACTION").await?;
    // What the worker holds already is finished first, and not counted.
    for (at, (name, call)) in [("", FINISH_HELD), CALLS[1], CALLS[2], CALLS[3]].into_iter().enumerate() {
        server.run(&call.replace("WORKER", worker)).await?;
        let Some(mut row) = server.rows(LOG).await?.pop() else { continue };
        let after: (i64, i64) = (row.required("records")?, row.required("bytes")?);
        if at > 0 {
            let each = |total: i64| json!(total as f64 / 100.0);
            rows.push(vec![json!(name), each(after.0 - before.0), each(after.1 - before.1)]);
        }
        before = after;
    }
    Ok(rows)
}
