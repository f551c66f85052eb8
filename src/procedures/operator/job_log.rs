//! What attempts of a job wrote to their logs.

use std::time::SystemTime;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::connection::{Columns, Session, int};
use crate::error::Error;
use crate::id::{Fence, JobId};
use crate::time::rfc3339;

/// The end of what an attempt of a job wrote to its log ([`Context::log`](crate::Context::log), or the program of
/// `readpast work`). Serialized with the fields' names; the time is in RFC 3339 format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobLog {
    /// The attempt; the first is 1. 0: not known any more.
    pub attempt: u32,
    /// The fence of the attempt's claim, which tells attempts apart even after a requeue.
    pub fence: Fence,
    /// When the worker last reported it.
    pub noted_at: SystemTime,
    /// How many bytes the log has in all. The text is the last of them.
    pub length: u64,
    /// The end of the log.
    pub text: String,
    /// Whether the attempt is running, so that more may come.
    pub is_running: bool,
}

impl JobLog {
    /// Returns what was written after the first `seen` bytes of the log, and how many bytes between are no longer kept.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// let (mut attempt, mut seen) = (0, 0);
    /// loop {
    ///     if let Some(log) = queue.admin().logs(job_id, 1).await?.pop() {
    ///         if log.attempt != attempt {
    ///             (attempt, seen) = (log.attempt, 0);
    ///         }
    ///         let (missed, text) = log.since(seen);
    ///         print!("{}{text}", if missed > 0 { "...\n" } else { "" });
    ///         seen = log.length;
    ///     }
    ///     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// }
    /// # }
    /// ```
    pub fn since(&self, seen: u64) -> (u64, &str) {
        let first = self.length.saturating_sub(self.text.len() as u64);
        // (A worker in another language may count wrongly: then all of the text is new.)
        let new = usize::try_from(seen.saturating_sub(first)).ok().and_then(|skipped| self.text.get(skipped..));
        (first.saturating_sub(seen), new.unwrap_or(if seen >= self.length { "" } else { &self.text }))
    }

    fn read(mut row: Columns) -> Result<JobLog, Error> {
        Ok(JobLog {
            attempt: row.count("attempt")?,
            fence: Fence(row.required("fence")?),
            noted_at: row.required_time("noted_at")?,
            length: row.big_count("log_end")?,
            text: row.required("log")?,
            is_running: row.required("is_running")?,
        })
    }
}

impl Serialize for JobLog {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut log = serializer.serialize_struct("JobLog", 6)?;
        log.serialize_field("attempt", &self.attempt)?;
        log.serialize_field("fence", &self.fence)?;
        log.serialize_field("noted_at", &rfc3339(self.noted_at))?;
        log.serialize_field("length", &self.length)?;
        log.serialize_field("text", &self.text)?;
        log.serialize_field("is_running", &self.is_running)?;
        log.end()
    }
}

impl Session {
    /// Returns the logs of a job's attempts, the newest first.
    pub(crate) async fn job_logs(&mut self, queue: &str, job_id: JobId, max: usize) -> Result<Vec<JobLog>, Error> {
        let mut command = self.command("job_logs");
        command.bind_param("@queue", queue);
        command.bind_param("@job_id", job_id.0);
        command.bind_param("@max", int(max));
        self.rows("job_logs", command).await?.into_iter().map(JobLog::read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_apart_from_what_was_seen_and_what_is_lost() {
        let (noted_at, text) = (SystemTime::UNIX_EPOCH, "789\u{e4}".to_owned());
        let log = JobLog { attempt: 1, fence: Fence(1), noted_at, length: 12, text, is_running: true };
        assert_eq!(log.since(0), (7, "789\u{e4}"));
        assert_eq!(log.since(7), (0, "789\u{e4}"));
        assert_eq!(log.since(9), (0, "9\u{e4}"));
        assert_eq!(log.since(12), (0, ""));
        assert_eq!(log.since(13), (0, ""), "of another attempt");
        assert_eq!(log.since(11), (0, "789\u{e4}"), "not at a character");
    }
}
