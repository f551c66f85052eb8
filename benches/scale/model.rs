//! The arithmetic of docs/scale.md: what so many jobs a second cost SQL Server. Each constant says where it comes from.

use readpast::config::WorkerConfig;

use crate::report::{Report, number};

/// A row of `jobs` without its payload: 108 bytes of fixed columns, 4 of head, 6 of null bitmap, 8 of variable columns'
/// offsets ("Estimate the size of a clustered index"; columns: `sql/020_jobs.sql`).
const ROW: f64 = 126.0;

/// An entry of `jobs_ready`: 21 bytes of columns, 1 of head ("Estimate the size of a nonclustered index").
const READY_ENTRY: f64 = 22.0;

/// An entry of `jobs_claimed` (benches/README.md, "Why a job changes seven index entries").
const CLAIMED_ENTRY: f64 = 37.0;

/// What a claim changes in the row: state, attempt, fence, worker and time, before and after.
const CLAIM_CHANGE: f64 = 2.0 * (1.0 + 4.0 + 4.0 + 16.0 + 7.0);

/// What a log record has besides (the same section: not documented by Microsoft).
const RECORD: f64 = 90.0;

/// For what is not written job by job: begin and end of transactions, pages allocated and split, ghosts cleaned up. A
/// guess, with which a job of 200 bytes comes to what docs/real-server.md expects.
const REST: f64 = 1.2;

/// How many jobs producers hand in with a call.
const ENQUEUED_TOGETHER: f64 = 500.0;

/// Ten claims a second at the most (`src/worker/claim/demand.rs`, `MIN_HORIZON`).
const HORIZON_S: f64 = 0.15;

/// Bytes of log that a job of this payload writes, from its enqueue to its deletion.
pub fn log_bytes(payload: f64) -> f64 {
    REST * (7.0 * RECORD + 2.0 * (ROW + READY_ENTRY + CLAIMED_ENTRY) + CLAIM_CHANGE) + 2.0 * payload
}

/// Calls a second of one worker.
pub struct Calls {
    pub claims: f64,
    pub finishes: f64,
}

/// Of a worker whose threads are busy with so many jobs a second.
pub fn calls_of_worker(jobs_per_second: f64, threads: usize, config: &WorkerConfig) -> Calls {
    // Claimed are those for the horizon, when a third of them is left, which every second finish finds; of long jobs one
    // for a thread that is free.
    let ahead = (jobs_per_second * HORIZON_S).floor().min(2.0 * config.batch_size as f64);
    let per_claim = (ahead - (ahead / 3.0).floor()).clamp(1.0, config.batch_size as f64);
    debug_assert!(threads > 0);
    // A batch every linger time; where none has ended in it, the next job begins another.
    let linger = config.finish_linger.as_secs_f64();
    let none_in_linger = (-jobs_per_second * linger).exp();
    let between = linger + none_in_linger * (1.0 / jobs_per_second + linger);
    let finishes = (1.0 / between).max(jobs_per_second / config.finish_batch_size as f64);
    Calls { claims: jobs_per_second / per_claim, finishes }
}

pub fn tables(report: &mut Report) {
    let record = |what: &str, procedure: &str, bytes: f64, payload: bool| {
        let bytes = number(bytes + RECORD);
        vec![what.to_string(), procedure.to_string(), if payload { format!("{bytes} + S") } else { bytes }]
    };
    let records = [
        record("the row, inserted", "`enqueue_batch`", ROW, true),
        record("an entry into `jobs_ready`", "`enqueue_batch`", READY_ENTRY, false),
        record("the row, changed", "`claim`", CLAIM_CHANGE, false),
        record("an entry out of `jobs_ready`", "`claim`", READY_ENTRY, false),
        record("an entry into `jobs_claimed`", "`claim`", CLAIMED_ENTRY, false),
        record("the row, deleted", "`finish`", ROW, true),
        record("an entry out of `jobs_claimed`", "`finish`", CLAIMED_ENTRY, false),
    ];
    let sum = vec!["**per job**, plus a fifth".to_string(), String::new(), format!("{} + 2 S", number(log_bytes(0.0)))];
    report.table("log of a job", &["log record", "written by", "bytes"], &[records.to_vec(), vec![sum]].concat());

    let config = crate::fleet::config();
    let mut rows = Vec::new();
    for jobs in [1e3, 1e4, 1e5] {
        for workers in [10.0, 100.0, 1e3] {
            let calls = calls_of_worker(jobs / workers, config.threads, &config);
            let (claims, finishes) = (calls.claims * workers, calls.finishes * workers);
            let enqueues = jobs / ENQUEUED_TOGETHER;
            let log = |payload: f64| number(jobs * log_bytes(payload) / 1e6);
            rows.push(vec![
                number(jobs),
                number(workers),
                format!("{} / {}", number(claims), number(jobs / claims)),
                format!("{} / {}", number(finishes), number(jobs / finishes)),
                number(claims + finishes + enqueues),
                log(200.0),
                log(4_000.0),
            ]);
        }
    }
    let columns = [
        "jobs/s (N)",
        "workers (W)",
        "claims/s / jobs each",
        "finish calls/s / jobs each",
        "commits/s",
        "log, MB/s, 200 bytes",
        "log, MB/s, 4 KB",
    ];
    report.table("what it costs", &columns, &rows);
    report.claim(
        "a job of 200 bytes writes what docs/real-server.md expects, to a tenth",
        (log_bytes(200.0) / 1_700.0 - 1.0).abs() < 0.1,
    );
}
