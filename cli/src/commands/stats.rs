//! `readpast stats`.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use ratatui::crossterm::cursor::MoveTo;
use ratatui::crossterm::queue as write_to;
use ratatui::crossterm::terminal::{Clear, ClearType};
use readpast::admin::{Held, KindRow, QueueActivity, QueueStats, WorkerRow};
use readpast::{Error, Queue};
use serde::Serialize;

use crate::connection::Common;
use crate::exit::{self, Exit};
use crate::interrupt::StopSignals;
use crate::output::Output;
use crate::texts;

/// Show how many jobs the queues have, and how fast they are processed.
///
/// Counting never blocks. OUT/S is the number of jobs done per second between the last two heartbeats of the workers
/// (10 seconds apart). It is a dash if no worker has reported, or if the login may not see workers.
///
/// With --json, `limits` pairs each bottleneck with its number of workers. With --watch, `at` is the time by this
/// machine's clock.
///
/// With --by-kind, the jobs of a queue by kind: unfinished jobs, and what the workers have reported of the last hours, at
/// most a minute ago: how runs ended, their run time, CPU time and peak memory. P50 is the median, P95 is what 95 % of
/// the runs did not exceed. A `+` marks counts that may be larger, because only 1,000 jobs per state are read.
///
/// Role: operator, monitor or worker; a worker's login does not see the rates or kinds.
#[derive(Debug, Args)]
pub struct Stats {
    /// Only this queue
    queue: Option<String>,
    /// The jobs of the queue by kind
    #[arg(long, requires = "queue")]
    by_kind: bool,
    /// How many full hours of ended runs to show by kind, besides the current one
    #[arg(long, value_name = "NUMBER", requires = "by_kind", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=168))]
    hours: u64,
    /// Repeat at this interval until Ctrl-C, even through outages of the server; at least 0.1, with --by-kind at least 10 [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    watch: Option<Duration>,
}

/// Reading the kinds costs more than counting, and workers report once a minute.
const KINDS_AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// Reads `2`, `0.5` or `5s`.
fn seconds(text: &str) -> Result<Duration, String> {
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => texts::duration(text)?,
    };
    if duration < Duration::from_millis(100) { Err("at least 0.1".to_owned()) } else { Ok(duration) }
}

/// A line of JSON that `--watch` prints.
#[derive(Serialize)]
struct At<'a, T> {
    at: &'a str,
    #[serde(flatten)]
    row: &'a T,
}

/// What is shown: queues, or the kinds of one.
enum Readings {
    Queues(Vec<QueueActivity>),
    Kinds(Vec<KindRow>),
}

impl Stats {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let Some(every) = self.watch else {
            let queue = self.connect(common).await?;
            self.read(&queue).await?.print(output)?;
            return Ok(Exit::Ok);
        };
        let every = if self.by_kind { every.max(KINDS_AT_MOST_EVERY) } else { every };
        let mut stop = StopSignals::watch()?;
        tokio::select! {
            watched = self.watch(common, output, every) => watched.map(|()| Exit::Ok),
            () = stop.next() => Ok(Exit::Ok),
        }
    }

    async fn connect(&self, common: &Common) -> Result<Queue> {
        match &self.queue {
            Some(name) => common.queue(name).await,
            None => common.schema().await,
        }
    }

    async fn read(&self, queue: &Queue) -> Result<Readings, Error> {
        if self.by_kind {
            return Ok(Readings::Kinds(queue.admin().kinds(Duration::from_secs(self.hours * 60 * 60)).await?));
        }
        let stats = match &self.queue {
            Some(_) => vec![queue.admin().stats(None).await?],
            None => queue.admin().all_stats(None).await?,
        };
        let workers = match queue.admin().all_workers(std::time::Duration::MAX).await {
            Ok(workers) => Some(workers),
            Err(Error::PermissionDenied { .. }) => None, // a worker's login, which may ask for the rest
            Err(error) => return Err(error),
        };
        let workers: Option<&[WorkerRow]> = workers.as_deref();
        Ok(Readings::Queues(stats.into_iter().map(|stats| QueueActivity::new(stats, workers)).collect()))
    }

    /// Prints repeatedly until a permanent error.
    async fn watch(&self, common: &Common, output: Output, every: Duration) -> Result<()> {
        let queue = self.connect(common).await?;
        let repaints = !output.is_json() && io::stdout().is_terminal() && !is_dumb();
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.read(&queue).await {
                Ok(readings) => {
                    if repaints {
                        let mut stdout = io::stdout();
                        write_to!(stdout, Clear(ClearType::All), MoveTo(0, 0))?;
                        stdout.flush()?;
                    }
                    readings.print_at(output)?;
                }
                Err(error) => {
                    let error = error.into();
                    if exit::code(&error) != Exit::Unreachable {
                        return Err(error);
                    }
                    exit::say(&format!("{error:#}; retrying"));
                }
            }
        }
    }
}

/// Whether the terminal cannot move its cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb")
}

impl Readings {
    fn print(&self, output: Output) -> Result<()> {
        match self {
            Readings::Queues(queues) => {
                // Before anything else.
                if let Some(held) = queues.first().and_then(|queue| queue.stats.held) {
                    exit::say(&format!("all queues are held: {held}"));
                }
                print_queues(output, queues)
            }
            Readings::Kinds(kinds) => print_kinds(output, kinds),
        }
    }

    /// Prints the readings with the time.
    fn print_at(&self, output: Output) -> Result<()> {
        let now = now();
        if !output.is_json() {
            output.line(&texts::time(now))?;
            return self.print(output);
        }
        let at = Timestamp::try_from(now)?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        match self {
            Readings::Queues(queues) => queues.iter().try_for_each(|row| output.json(&At { at: &at, row })),
            Readings::Kinds(kinds) => kinds.iter().try_for_each(|row| output.json(&At { at: &at, row })),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a label for the reader, in whose log it stands; it decides nothing")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn print_queues(output: Output, activities: &[QueueActivity]) -> Result<()> {
    let columns = [
        "queue",
        "ready",
        "scheduled",
        "waiting",
        "claimed",
        "dead",
        "cancelled",
        "done kept",
        "oldest",
        "workers",
        "out/s",
        "paused",
    ];
    let first_to_go = ["done kept", "cancelled", "waiting", "scheduled", "oldest", "claimed", "paused", "out/s"];
    output.many(activities, "there are no queues", &columns, &first_to_go, |activity| {
        let stats = &activity.stats;
        let counts = [stats.ready, stats.scheduled, stats.waiting, stats.claimed, stats.dead, stats.cancelled];
        let mut row = vec![stats.queue.clone()];
        row.extend(counts.map(texts::number));
        row.push(texts::number(stats.done + stats.archived));
        row.push(texts::or_dash(stats.oldest_ready.map(texts::age)));
        row.push(texts::number(stats.workers));
        row.push(texts::or_dash(activity.done_per_s.map(texts::rate)));
        row.push(paused(stats));
        row
    })
}

fn print_kinds(output: Output, kinds: &[KindRow]) -> Result<()> {
    let columns = [
        "kind",
        "ready",
        "scheduled",
        "waiting",
        "claimed",
        "done",
        "failed",
        "dead",
        "run mean",
        "run p95",
        "cpu",
        "cpu p50",
        "cpu p95",
        "cpu max",
        "mem p50",
        "mem p95",
        "mem max",
    ];
    let first_to_go = [
        "waiting",
        "scheduled",
        "cpu p50",
        "mem p50",
        "cpu max",
        "cpu",
        "run p95",
        "claimed",
        "mem max",
        "cpu p95",
        "dead",
    ];
    output.many(kinds, "the queue has no jobs, and none has run lately", &columns, &first_to_go, |row| {
        let unfinished = [row.ready, row.scheduled, row.waiting, row.claimed];
        let times = [row.run_mean, row.run_p95, row.cpu, row.cpu_p50, row.cpu_p95, row.cpu_max];
        let sizes = [row.peak_memory_p50, row.peak_memory_p95, row.peak_memory_max];
        let more = if row.is_partial { "+" } else { "" };
        let mut cells = vec![row.label().to_owned()];
        cells.extend(unfinished.map(|jobs| format!("{}{more}", texts::number(jobs))));
        cells.extend([row.done, row.failed, row.died].map(texts::number));
        cells.extend(times.map(|time| texts::or_dash(time.map(texts::age))));
        cells.extend(sizes.map(|bytes| texts::or_dash(bytes.map(texts::size))));
        cells
    })
}

/// Whether a queue is paused, and by what.
pub fn paused(stats: &QueueStats) -> String {
    match stats.held {
        Some(Held::Copy) => "held: a copy",
        Some(_) => "held: all",
        None if stats.paused => "paused",
        None => "-",
    }
    .to_owned()
}
