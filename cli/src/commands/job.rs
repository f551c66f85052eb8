//! `readpast job`: everything about one job, or only its log.

use anyhow::Result;
use clap::Args;
use readpast::admin::{Edge, FailedAttempt, JobEdges, JobLog, JobProgress, JobRow};
use readpast::{JobId, Queue};
use serde_json::{Value, json};

use super::job_log;
use crate::connection::Common;
use crate::exit::{Exit, failure};
use crate::output::Output;
use crate::payload_text::{Form, shown};
use crate::texts;

/// Show one job: settings, payload, output, failed attempts, logs and progress.
///
/// A worker reports the log of a running job about once a second. With --json, --log and --follow print one JSON object per
/// piece of the log, with its attempt.
///
/// Role: operator or monitor.
#[derive(Debug, Args)]
pub struct Job {
    id: i64,
    /// Format of payload and output
    #[arg(long, default_value = "auto")]
    form: Form,
    /// Print only the log of the newest attempt
    #[arg(long)]
    log: bool,
    /// Print the log, and what is added to it, until the job has ended
    #[arg(long, short, conflicts_with = "log")]
    follow: bool,
}

/// The most edges of each side.
const EDGES: usize = 1_000;

/// The most attempts whose logs are shown.
const LOGS: usize = 20;

/// Characters of an error in the list of attempts.
const ERROR: usize = 200;

impl Job {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let queue = queue_of(common, JobId(self.id)).await?;
        if self.log || self.follow {
            return job_log::print(&queue, JobId(self.id), self.follow, output).await;
        }
        let Some(row) = queue.admin().job(JobId(self.id), None).await? else {
            return Err(failure(Exit::NotFound, format!("job {} is gone, or locked at the moment", self.id)));
        };
        let attempts = queue.admin().attempts(row.job_id).await?;
        let progress = queue.admin().progress_of(&[row.job_id]).await?.pop();
        let edges = queue.admin().edges(row.job_id, EDGES).await?;
        let logs = queue.admin().logs(row.job_id, LOGS).await?;
        if output.is_json() {
            output.json(&as_json(&queue, &row, &attempts, &edges, progress.as_ref(), &logs)?)?;
            return Ok(Exit::Ok);
        }
        output.fields(&fields(&queue, &row, progress.as_ref()))?;
        if let Some(error) = &row.error {
            output.line(&format!("\nerror\n{error}"))?;
        }
        output.line(&format!("\npayload\n{}", shown(&row.payload, row.payload_text().as_deref(), self.form)))?;
        if let Some(bytes) = &row.output {
            output.line(&format!("\noutput\n{}", shown(bytes, row.output_text(), self.form)))?;
        }
        for (title, edges) in [("waits for", &edges.parents), ("jobs that wait for it", &edges.children)] {
            if !edges.is_empty() {
                output.line(&format!("\n{title}"))?;
                let columns = ["job", "queue", "kind", "state", "if dead", "waits"];
                output.many(edges, "", &columns, &["kind", "if dead", "queue"], edge_row)?;
            }
        }
        if !attempts.is_empty() {
            output.line("\nfailed attempts")?;
            let columns = ["attempt", "fence", "at", "ran", "CPU", "memory", "worker", "error"];
            let cells = |attempt: &FailedAttempt| attempt_row(attempt, queue.name());
            output.many(&attempts, "", &columns, &["fence", "memory", "CPU", "worker", "ran", "at"], cells)?;
            for (attempt, error) in other_errors(&row, &attempts) {
                output.line(&format!("\nerror of attempt {attempt}\n{error}"))?;
            }
        }
        for log in logs.iter().rev() {
            let (attempt, cut) = (log.attempt, if log.length > log.text.len() as u64 { "…" } else { "" });
            output.line(&format!("\nlog of attempt {attempt}\n{cut}{}", log.text.trim_end()))?;
        }
        Ok(Exit::Ok)
    }
}

pub async fn queue_of(common: &Common, job: JobId) -> Result<Queue> {
    match common.schema().await?.admin().queue_of(job).await? {
        Some(name) => common.queue(&name).await,
        None => {
            Err(failure(Exit::NotFound, format!("there is no job {job}: it is done and deleted, or never existed")))
        }
    }
}

fn as_json(
    queue: &Queue,
    row: &JobRow,
    attempts: &[FailedAttempt],
    edges: &JobEdges,
    progress: Option<&JobProgress>,
    logs: &[JobLog],
) -> Result<Value> {
    let mut job = serde_json::to_value(row)?;
    job["queue"] = json!(queue.name());
    job["failed_attempts"] = serde_json::to_value(attempts)?;
    job["edges"] = serde_json::to_value(edges)?;
    job["progress"] = serde_json::to_value(progress)?;
    job["logs"] = serde_json::to_value(logs)?;
    Ok(job)
}

fn fields(queue: &Queue, job: &JobRow, progress: Option<&JobProgress>) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("job", job.job_id.to_string()),
        ("queue", queue.name().to_owned()),
        ("state", if job.alone { format!("{} (runs alone)", job.state) } else { job.state.to_string() }),
        ("kind", texts::or_dash(job.kind.as_ref())),
        ("priority", job.priority.to_string()),
        ("attempt", job.attempt.to_string()),
        ("claims", job.fence.to_string()),
        ("enqueued", texts::time(job.enqueued_at)),
        ("due", texts::time(job.due_at)),
        ("last claimed", texts::or_dash(job.claimed_at.map(texts::time))),
        ("last ended", texts::or_dash(job.finished_at.map(texts::time))),
        ("last ran", texts::or_dash(job.run.map(texts::age))),
        ("last worker", texts::or_dash(job.worker_id)),
    ];
    let mut rare = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    rare("last CPU time", job.usage.cpu.map(texts::age));
    rare("last peak memory", job.usage.peak_memory.map(texts::size));
    rare("time limit", job.time_limit.map(texts::age));
    rare("start by", job.start_by.map(texts::time));
    rare("key", job.dedup_key.clone());
    rare("group", job.group_key.clone());
    rare("batch", job.batch_id.map(|batch| batch.to_string()));
    rare("correlation id", job.correlation_id.map(|id| id.to_string()));
    rare("needs", job.needs.as_ref().map(ToString::to_string));
    rare("headers", job.headers.clone().map(|headers| Value::Object(headers).to_string()));
    if let Some(progress) = progress {
        let percent = progress.fraction.map(|fraction| format!("{:.0} % ", f64::from(fraction) * 100.0));
        let text = progress.text.as_deref().unwrap_or_default();
        rare("progress", Some(format!("{}{text}", percent.unwrap_or_default()).trim_end().to_owned()));
        rare("reported", Some(format!("{} ago", texts::age(progress.noted))));
        rare("checkpoint", Some(texts::counted(progress.checkpoint_bytes, "byte")));
    }
    fields
}

/// Errors of several lines other than the job's last one, each once, with its first attempt.
fn other_errors<'a>(job: &'a JobRow, attempts: &'a [FailedAttempt]) -> Vec<(u32, &'a str)> {
    let mut others: Vec<(u32, &str)> = Vec::new();
    for attempt in attempts {
        let Some(error) = attempt.error.as_deref() else { continue };
        let is_known = job.error.as_deref() == Some(error) || others.iter().any(|(_, other)| *other == error);
        if error.lines().nth(1).is_some() && !is_known {
            others.push((attempt.attempt, error));
        }
    }
    others
}

fn edge_row(edge: &Edge) -> Vec<String> {
    vec![
        edge.job_id.to_string(),
        texts::or_dash(edge.queue.as_ref()),
        texts::or_dash(edge.kind.as_ref()),
        edge.state.map_or_else(|| "gone".to_owned(), |state| state.to_string()),
        edge.on_dead.to_string(),
        match edge.ended {
            _ if edge.waits => "yes".to_owned(),
            Some(ended) => format!("no: {ended}"),
            None => "no".to_owned(),
        },
    ]
}

fn attempt_row(attempt: &FailedAttempt, queue: &str) -> Vec<String> {
    let worker = match attempt.queue.as_deref() {
        Some(other) if other != queue => format!("{} of queue {other}", attempt.worker),
        _ => attempt.worker.clone(),
    };
    vec![
        attempt.attempt.to_string(),
        attempt.fence.to_string(),
        texts::time(attempt.failed_at),
        attempt.run.map_or_else(|| "lost".to_owned(), texts::age),
        texts::or_dash(attempt.usage.cpu.map(texts::age)),
        texts::or_dash(attempt.usage.peak_memory.map(texts::size)),
        worker,
        attempt.error.as_deref().map(|error| texts::first_line(error, ERROR)).unwrap_or_default(),
    ]
}
