//! What a real SQL Server says about a run: the CPU time of the procedures and the top waits, from its dynamic
//! management views. Where they are refused (they need VIEW SERVER STATE; the dev server does not have them) there is
//! nothing to report.

use std::collections::HashMap;

use super::bench::{Bench, SCHEMA};
use super::report::Report;

/// Microseconds of CPU and calls of each procedure of the schema.
const PROCEDURES: &str =
    "SELECT OBJECT_NAME(s.object_id, s.database_id), s.total_worker_time, s.execution_count, s.total_logical_reads
FROM sys.dm_exec_procedure_stats AS s
WHERE s.database_id = DB_ID() AND OBJECT_SCHEMA_NAME(s.object_id, s.database_id) = N'$(schema)'
ORDER BY s.total_worker_time DESC;";

/// Waits since the server's start. Of the many that only say that a background task sleeps, the names begin like these.
const WAITS: &str = "SELECT wait_type, wait_time_ms FROM sys.dm_os_wait_stats
WHERE waiting_tasks_count > 0 AND wait_type NOT LIKE N'%SLEEP%' AND wait_type NOT LIKE N'%QUEUE%' AND wait_type NOT LIKE N'XE[_]%'
    AND wait_type NOT LIKE N'HADR[_]%' AND wait_type NOT LIKE N'BROKER[_]%' AND wait_type NOT LIKE N'QDS[_]%'
    AND wait_type NOT LIKE N'FT[_]%' AND wait_type NOT LIKE N'SP[_]SERVER%' AND wait_type NOT LIKE N'PWAIT[_]%'
    AND wait_type NOT IN (N'WAITFOR', N'CHECKPOINT_QUEUE', N'DIRTY_PAGE_POLL', N'LOGMGR_QUEUE', N'CLR_AUTO_EVENT', N'SOS_WORK_DISPATCHER');";

/// How many waits are shown.
const TOP_WAITS: usize = 5;

/// The waits at one moment.
pub struct Waits(HashMap<String, i64>);

impl Waits {
    /// The waits so far; `None` where they are refused.
    pub async fn now(bench: &Bench) -> Option<Waits> {
        let rows = bench.client().await.try_sql(WAITS).await.ok()?;
        let wait = |row: &readpast::crates::tiberius::Row| {
            let name: &str = row.get(0)?;
            Some((name.to_owned(), row.get(1)?))
        };
        Some(Waits(rows.iter().filter_map(wait).collect()))
    }

    /// Adds what happened since then: CPU time of each procedure per finished job, and the longest waits.
    pub async fn report(self, bench: &Bench, report: &mut Report, jobs: f64) {
        if let Ok(rows) = bench.client().await.try_sql(&PROCEDURES.replace("$(schema)", SCHEMA)).await {
            for row in rows {
                let name: &str = row.get(0).unwrap_or("?");
                let (cpu_us, calls): (i64, i64) = (row.get(1).unwrap_or(0), row.get(2).unwrap_or(0));
                let reads: i64 = row.get(3).unwrap_or(0);
                report.set(
                    &format!("procedure {name}"),
                    format!("{calls} calls, {cpu_us} us CPU, {reads} logical reads"),
                );
            }
        }
        let Some(Waits(now)) = Waits::now(bench).await else {
            return;
        };
        let mut grown: Vec<(i64, &String)> =
            now.iter().map(|(name, ms)| (ms - self.0.get(name).unwrap_or(&0), name)).collect();
        grown.sort_unstable_by(|one, other| other.cmp(one));
        for (ms, name) in grown.into_iter().take(TOP_WAITS).filter(|(ms, _)| *ms > 0) {
            report.set(&format!("wait {name}"), format!("{ms} ms, {:.1} us a job", ms as f64 * 1e3 / jobs));
        }
    }
}
