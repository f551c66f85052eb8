//! Figures of the soak over time: jobs per second, logical reads, lost workers.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use readpast::Error;
use serde_json::json;
use tokio::time::sleep;

use crate::progress::Progress;

use super::report::Report;
use super::server::{Reads, Server, reason};

/// A procedure may read this many times as much per job in the last third of the soak as in the first, and this much
/// more.
const READS_GROW: f64 = 3.0;
const MORE_READS: f64 = 50.0;

/// The procedures whose reads are followed.
const FOLLOWED: [&str; 6] = ["enqueue_batch", "claim", "finish", "promote", "reap", "heartbeat"];

/// Figures over time.
pub struct Monitor {
    ledger: File,
    interval: Duration,
    time: Duration,
    pub lost_workers: HashSet<u32>,
    /// Seconds since the start, jobs per second, and reads per job of each procedure.
    samples: Vec<(f64, f64, Vec<Option<f64>>)>,
    no_reads: Option<String>,
}

impl Monitor {
    pub fn new(ledger: &Path, time: Duration) -> Result<Monitor> {
        let interval = (time / 12).clamp(Duration::from_secs(1), Duration::from_secs(300));
        let ledger = File::open(ledger)?;
        Ok(Monitor { ledger, interval, time, lost_workers: HashSet::new(), samples: Vec::new(), no_reads: None })
    }

    pub async fn run(&mut self, server: &mut Server, end: Instant) -> Result<()> {
        let progress = Progress::new("seconds of soak", Some(self.time.as_secs()));
        let mut before = server.reads().await.unwrap_or_default();
        let (begin, mut at) = (Instant::now(), Instant::now());
        while Instant::now() < end {
            sleep(self.interval.min(end.saturating_duration_since(Instant::now()))).await;
            progress.set(begin.elapsed().as_secs().min(self.time.as_secs()), self.time.as_secs());
            let _ = self.note_lost_workers(server).await; // a later call finds the same
            let (done, passed) = (self.count_ends()? as f64, at.elapsed().as_secs_f64());
            at = Instant::now();
            let mut per_job = vec![None; FOLLOWED.len()];
            match server.reads().await {
                Ok(reads) => {
                    for (name, per_job) in FOLLOWED.iter().zip(&mut per_job) {
                        let total = |reads: &HashMap<String, Reads>| reads.get(*name).map_or(0, |reads| reads.total);
                        // Fewer than before: SQL Server has dropped the plan and its counts.
                        let more = (total(&reads) - total(&before)).max(0);
                        *per_job = (done > 0.0).then(|| more as f64 / done);
                    }
                    (before, self.no_reads) = (reads, None);
                }
                Err(error) => self.no_reads = Some(reason(&error)),
            }
            self.samples.push((begin.elapsed().as_secs_f64(), done / passed, per_job));
        }
        progress.end();
        Ok(())
    }

    /// Their rows stay for a day only.
    pub async fn note_lost_workers(&mut self, server: &mut Server) -> Result<(), Error> {
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

    pub fn report(&self, report: &mut Report) {
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
            let (first, last) = (mean(&self.samples[..third]), mean(&self.samples[self.samples.len() - third..]));
            if last > first * READS_GROW + MORE_READS {
                findings.push(format!("{name}: {first:.0} at first, {last:.0} at last"));
            }
        }
        report.promise(promise, &findings, "the last third against the first");
    }
}
