//! The jobs of a kind, for operators.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::time::{json_seconds, json_time_of};

const LIST_KINDS: &str = "list_kinds";

const HOUR: Duration = Duration::from_secs(60 * 60);

/// As long as the counts are kept.
const MOST_HOURS: u64 = 7 * 24;

/// The jobs of one kind in a queue: how many are unfinished, how their runs ended, and what these used.
///
/// Workers report ended runs about once a minute and when they stop. A worker that is killed, or an error of the report,
/// loses up to a minute of them; so may one that stops together with many others. Nothing counts twice. Jobs that ended
/// without a run are not counted, such as those of a kind without a handler. Run times are those of the runs in `done`,
/// `failed` and `died`; CPU times and peak memory are those of all runs for which they are known
/// ([`Usage`](crate::Usage)). A percentile is accurate to half a power of two: it is the largest value of a group of
/// similar ones, and at most half larger than the exact percentile.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KindRow {
    /// The kind, or `None` for the jobs without a kind and for the other kinds.
    pub kind: Option<String>,
    /// Whether this is the sum of all kinds that have no row of their own: 50 have one, and a worker or an hour names
    /// no more than 50.
    pub is_other: bool,
    /// Whether the queue has so many jobs in a state that not all were read: any kind may then have more unfinished
    /// jobs than counted here.
    pub is_partial: bool,
    /// Ready jobs.
    pub ready: u64,
    /// Scheduled jobs.
    pub scheduled: u64,
    /// Jobs waiting in their groups, or for other jobs.
    pub waiting: u64,
    /// Claimed jobs.
    pub claimed: u64,
    /// When the counts of ended runs begin: a full hour, by SQL Server's clock.
    #[serde(serialize_with = "json_time_of")]
    pub since: SystemTime,
    /// Jobs that were done.
    pub done: u64,
    /// Failed attempts whose job was retried or moved.
    pub failed: u64,
    /// Failed attempts that left their job dead.
    pub died: u64,
    /// The mean run time.
    #[serde(rename = "run_mean_s", serialize_with = "json_seconds")]
    pub run_mean: Option<Duration>,
    /// The run time that 95 % of the runs did not exceed.
    #[serde(rename = "run_p95_s", serialize_with = "json_seconds")]
    pub run_p95: Option<Duration>,
    /// The CPU time of all runs together.
    #[serde(rename = "cpu_s", serialize_with = "json_seconds")]
    pub cpu: Option<Duration>,
    /// The median CPU time of a run.
    #[serde(rename = "cpu_p50_s", serialize_with = "json_seconds")]
    pub cpu_p50: Option<Duration>,
    /// The CPU time that 95 % of the runs did not exceed.
    #[serde(rename = "cpu_p95_s", serialize_with = "json_seconds")]
    pub cpu_p95: Option<Duration>,
    /// The greatest CPU time of a run.
    #[serde(rename = "cpu_max_s", serialize_with = "json_seconds")]
    pub cpu_max: Option<Duration>,
    /// The median peak memory of a run, in bytes.
    #[serde(rename = "peak_memory_p50_bytes")]
    pub peak_memory_p50: Option<u64>,
    /// The peak memory that 95 % of the runs did not exceed, in bytes.
    #[serde(rename = "peak_memory_p95_bytes")]
    pub peak_memory_p95: Option<u64>,
    /// The greatest peak memory of a run, in bytes.
    #[serde(rename = "peak_memory_max_bytes")]
    pub peak_memory_max: Option<u64>,
}

impl KindRow {
    /// The name of the row for people: the kind, `(none)` or `(others)`.
    pub fn label(&self) -> &str {
        self.kind.as_deref().unwrap_or(if self.is_other { "(others)" } else { "(none)" })
    }

    fn read(mut row: Columns) -> Result<KindRow, Error> {
        Ok(KindRow {
            kind: row.optional("kind")?,
            is_other: row.required("is_other")?,
            is_partial: row.required("is_partial")?,
            ready: row.big_count("ready")?,
            scheduled: row.big_count("scheduled")?,
            waiting: row.big_count("waiting")?,
            claimed: row.big_count("claimed")?,
            since: row.required_time("since")?,
            done: row.big_count("done")?,
            failed: row.big_count("failed")?,
            died: row.big_count("died")?,
            run_mean: sum_of_us(&mut row, "run_mean_us")?,
            run_p95: row.optional_us("run_p95_us")?,
            cpu: sum_of_us(&mut row, "cpu_us")?,
            cpu_p50: row.optional_us("cpu_p50_us")?,
            cpu_p95: row.optional_us("cpu_p95_us")?,
            cpu_max: row.optional_us("cpu_max_us")?,
            peak_memory_p50: row.optional_big_count("peak_p50_bytes")?,
            peak_memory_p95: row.optional_big_count("peak_p95_bytes")?,
            peak_memory_max: row.optional_big_count("peak_max_bytes")?,
        })
    }
}

/// The next column, microseconds as a float.
fn sum_of_us(row: &mut Columns, name: &str) -> Result<Option<Duration>, Error> {
    let us: Option<f64> = row.optional(name)?;
    Ok(us.map(|us| Duration::try_from_secs_f64(us / 1e6).unwrap_or(Duration::MAX)))
}

impl Session {
    /// Returns the kinds of a queue, with the runs that ended in the last `span`.
    pub(crate) async fn list_kinds(&mut self, queue: &str, span: Duration) -> Result<Vec<KindRow>, Error> {
        let hours = span.as_secs().div_ceil(HOUR.as_secs()).clamp(1, MOST_HOURS);
        let mut command = self.command(LIST_KINDS);
        command.bind_param("@queue", queue);
        command.bind_param("@hours", int(hours));
        self.rows(LIST_KINDS, command).await?.into_iter().map(KindRow::read).collect()
    }
}
