//! `readpast job --log` and `--follow`: the log of a job's newest attempts, as its worker reports it.
//!
//! ```text
//! logs of the newest attempts ─ what is new in each ─▶ standard output ─ a second ─▶ again, until the job has ended
//! ```

use std::time::Duration;

use anyhow::Result;
use readpast::admin::{JobLog, JobState};
use readpast::{JobId, Queue};
use serde_json::json;

use crate::exit::{Exit, say};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// How often to look. Workers report once a second.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The attempts that may have begun between two looks.
const ATTEMPTS: usize = 5;

/// Prints the log of the newest attempt and, if `follow`, what is added until the job has ended.
pub async fn print(queue: &Queue, job_id: JobId, follow: bool, output: Output) -> Result<Exit> {
    let mut interrupt = Interrupt::watch();
    let mut printed = Printed::default();
    loop {
        // First: whatever the job wrote before it ended is then in its log.
        let may_go_on = follow && may_run(queue, job_id).await?;
        let logs = queue.admin().logs(job_id, if printed.fence == 0 { 1 } else { ATTEMPTS }).await?;
        for log in logs.iter().rev() {
            printed.print(log, output)?;
        }
        if !may_go_on {
            if printed.fence == 0 {
                say(&format!(
                    "job {job_id} has no log: no attempt has written one, or it was not kept (worker.keep_log)"
                ));
            }
            return Ok(Exit::Ok);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = interrupt.pressed() => return Ok(Exit::Interrupted),
        }
    }
}

/// Whether a job may run, now or later.
async fn may_run(queue: &Queue, job_id: JobId) -> Result<bool> {
    match queue.admin().job(job_id, Some(0)).await? {
        Some(job) => {
            Ok(matches!(job.state, JobState::Ready | JobState::Scheduled | JobState::Waiting | JobState::Claimed))
        }
        // Its row is locked, unless the job is gone.
        None => Ok(queue.admin().queue_of(job_id).await?.is_some()),
    }
}

/// What was printed.
#[derive(Default)]
struct Printed {
    /// The last attempt's; 0: none.
    fence: i32,
    length: u64,
}

impl Printed {
    fn print(&mut self, log: &JobLog, output: Output) -> Result<()> {
        if log.fence.0 < self.fence {
            return Ok(());
        }
        if log.fence.0 > self.fence {
            if self.fence > 0 && !output.is_json() {
                say(&format!("attempt {}:", log.attempt));
            }
            *self = Printed { fence: log.fence.0, length: 0 };
        }
        let (missed, text) = log.since(self.length);
        self.length = log.length;
        if text.is_empty() {
            return Ok(());
        }
        if output.is_json() {
            return output.json(&json!({ "attempt": log.attempt, "missed_bytes": missed, "text": text }));
        }
        if missed > 0 {
            say(&format!("{missed} bytes are not kept"));
        }
        output.text(text)
    }
}
