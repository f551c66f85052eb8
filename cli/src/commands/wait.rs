//! `readpast wait` and `readpast drain`.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use readpast::admin::QueueStats;
use readpast::{JobEnd, JobId};
use serde_json::{Value, json};

use super::job::queue_of;
use crate::connection::Common;
use crate::exit::{Exit, failure, say};
use crate::output::Output;
use crate::payload_text::{Form, shown};
use crate::progress::Progress;
use crate::texts::{self, duration};
use readpast_web::hex;

/// The timeout without a limit.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How often the queue is read.
const PAUSE: Duration = Duration::from_millis(500);

/// Wait until a job has finished, and print its output.
///
/// The output is printed unchanged; on a terminal, as `readpast job` shows it.
///
/// Exit codes: 0 done, 8 timed out, 9 dead, 10 cancelled. A job that is done and deleted during the wait counts as
/// done; a job deleted earlier is not found (3).
///
/// Role: producer or operator.
#[derive(Debug, Args)]
pub struct Wait {
    id: i64,
    /// Maximum time to wait [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

/// Wait until a queue has no unfinished jobs.
///
/// Dead and cancelled jobs count as finished. Outages of the server do not end the wait. Exit code 8: timed out with
/// unfinished jobs.
///
/// Role: worker, operator or monitor.
#[derive(Debug, Args)]
pub struct Drain {
    queue: String,
    /// Maximum time to wait [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Do not wait for jobs that are scheduled for later
    #[arg(long)]
    not_scheduled: bool,
}

impl Wait {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let job_id = JobId(self.id);
        let queue = queue_of(common, job_id).await?;
        let end = queue.wait(job_id, self.timeout.unwrap_or(FOR_EVER)).await?;
        let (exit, end, text) = match end {
            None => {
                let after = texts::exact(self.timeout.unwrap_or(FOR_EVER));
                return Err(failure(Exit::TimedOut, format!("timed out: job {job_id} did not finish within {after}")));
            }
            Some(JobEnd::Done { output }) => (Exit::Ok, "done", output.map(Text::Output)),
            Some(JobEnd::Dead { error }) => (Exit::Dead, "dead", Some(Text::Error(error))),
            Some(JobEnd::Cancelled { error }) => (Exit::Cancelled, "cancelled", Some(Text::Error(error))),
            Some(_) => (Exit::Ok, "gone", None),
        };
        if output.is_json() {
            let nothing = Value::Null;
            let mut line =
                json!({"job_id": job_id, "end": end, "output_text": nothing, "output_hex": nothing, "error": nothing});
            match text {
                Some(Text::Output(bytes)) => match String::from_utf8(bytes) {
                    Ok(text) => line["output_text"] = Value::String(text),
                    Err(error) => line["output_hex"] = Value::String(hex::digits(error.as_bytes())),
                },
                Some(Text::Error(error)) => line["error"] = Value::String(error),
                None => {}
            }
            output.json(&line)?;
            return Ok(exit);
        }
        match text {
            Some(Text::Output(bytes)) if io::stdout().is_terminal() => {
                output.line(&shown(&bytes, str::from_utf8(&bytes).ok(), Form::Auto))?;
            }
            Some(Text::Output(bytes)) => output.bytes(&bytes)?,
            Some(Text::Error(error)) => say(&format!("job {job_id} is {end}: {error}")),
            None => {}
        }
        Ok(exit)
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// A job's output or error.
enum Text {
    Output(Vec<u8>),
    Error(String),
}

impl Drain {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let queue = common.queue(&self.queue).await?;
        let begin = Instant::now();
        let left = |stats: &QueueStats| stats.unfinished() - if self.not_scheduled { stats.scheduled } else { 0 };
        let deadline = self.timeout.map(|timeout| begin + timeout);
        let progress = Progress::new("ended", Some(0));
        // The last response, and the highest count.
        let (mut known, mut most, mut is_lost) = (None, 0, false);
        let stats = loop {
            // Reads once, however short the timeout.
            let answer = match deadline.filter(|_| known.is_some()) {
                Some(deadline) => tokio::time::timeout_at(deadline.into(), queue.admin().stats(None)).await.ok(),
                None => Some(queue.admin().stats(None).await),
            };
            match answer {
                Some(Ok(stats)) if left(&stats) == 0 => break stats,
                Some(Ok(stats)) => {
                    is_lost = false;
                    known = Some(left(&stats));
                    most = most.max(left(&stats));
                    progress.set(most - left(&stats), most);
                }
                Some(Err(error)) if known.is_none() || !error.is_transient() => {
                    progress.end();
                    return Err(error.into());
                }
                Some(Err(error)) => {
                    if !is_lost {
                        progress.beside(|| say(&format!("{error}; retrying")));
                    }
                    is_lost = true;
                }
                None => {} // the time is over
            }
            if is_over(deadline) {
                progress.end();
                let left = known.unwrap_or_default();
                let message = format!("timed out; {} has {}", self.queue, texts::counted(left, "unfinished job"));
                return Err(failure(Exit::TimedOut, message));
            }
            tokio::time::sleep(PAUSE).await;
        };
        progress.end();
        output.one(&stats, || {
            let dead = match stats.dead {
                0 => String::new(),
                dead => format!(", with {}", texts::counted(dead, "dead job")),
            };
            format!("{} is empty{dead}", self.queue)
        })?;
        Ok(Exit::Ok)
    }
}
