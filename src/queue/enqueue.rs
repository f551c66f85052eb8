//! Enqueueing, and again after an error that passes.

use std::time::Duration;

use crate::connection::Lent;
use crate::error::Error;
use crate::id::Enqueued;
use crate::job::NewJob;
use crate::procedures::producer::{ENQUEUE, ENQUEUE_BATCH, Part};

use super::enqueue_tries::Retries;
use super::queue::Queue;

/// How long a call that is sent waits for its answer at the least, however little time is left: given up sooner, it
/// would be in doubt although nothing is wrong. A single call takes some milliseconds.
const LEAST_FOR_ANSWER: Duration = Duration::from_secs(1);

/// The most time that a first try leaves for a second one: enough to connect and to be answered. The first may only be
/// waiting behind a lock, and then the second waits there, too.
const MOST_FOR_REPEAT: Duration = Duration::from_secs(3);

/// Two sessions have added one part at the very same moment: the second is told that its row is a duplicate, and is
/// rolled back.
const SAME_PART: i32 = 2601;

impl Queue {
    /// Enqueues one chunk of jobs, and again after an error that passes: where the call that failed has certainly added
    /// nothing, or every job has a de-duplication key, or the chunk is a part of a batch. Ends within the command
    /// time-out and [`LEAST_FOR_ANSWER`], and keeps no session from others while it pauses. `None`: this part is there
    /// already.
    ///
    /// # Errors
    ///
    /// [`Error::EnqueueInDoubt`] where the jobs may have been added, and it is not for us to add them a second time.
    pub(super) async fn enqueue_with_retries(
        &self,
        jobs: &[NewJob],
        part: Option<Part>,
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let call = if jobs.len() == 1 { ENQUEUE } else { ENQUEUE_BATCH };
        let is_repeatable = part.is_some() || jobs.iter().all(|job| job.dedup_key.is_some());
        let mut retries = Retries::within(self.command_timeout());
        let mut doubt = None;
        loop {
            let keep_time = is_repeatable && doubt.is_none();
            let error = match self.try_to_enqueue(jobs, part, &retries, keep_time).await {
                Ok(enqueued) => return Ok(enqueued),
                Err(error) => error,
            };
            let may_repeat = match &error {
                Error::EnqueueInDoubt { cause, .. } => is_repeatable && cause.is_transient(),
                nothing_was_added => {
                    let is_added_meanwhile = part.is_some() && nothing_was_added.sql_number() == Some(SAME_PART);
                    is_added_meanwhile || nothing_was_added.is_transient()
                }
            };
            if !may_repeat || !retries.pause(call, &error).await {
                return Err(doubt.unwrap_or(error));
            }
            if let Error::EnqueueInDoubt { .. } = error {
                doubt.get_or_insert(error);
            }
        }
    }

    /// One try. With `keep_time`, some of the time is kept for another one on another connection.
    async fn try_to_enqueue(
        &self,
        jobs: &[NewJob],
        part: Option<Part>,
        retries: &Retries,
        keep_time: bool,
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let mut session = self.connected_session(retries).await?;
        let kept = if keep_time { kept_for_repeat(retries.limit()) } else { Duration::ZERO };
        let limit = retries.time_left().saturating_sub(kept).max(LEAST_FOR_ANSWER);
        match session.within(limit).enqueue_chunk(self.name(), jobs, part).await {
            Err(error) if error.leaves_open() => {
                Err(Error::EnqueueInDoubt { jobs: jobs.len(), cause: Box::new(error) })
            }
            answered => answered,
        }
    }

    /// A session with a connection: when a call on it fails, it was sent.
    async fn connected_session(&self, retries: &Retries) -> Result<Lent, Error> {
        let mut session = self.sessions.lend(retries.deadline(), retries.limit()).await?;
        {
            let mut session = session.until(retries.deadline(), retries.limit());
            // Another caller may be asking for the version, with more time than is left here.
            match tokio::time::timeout_at(retries.deadline(), self.check_version(&mut session)).await {
                Ok(checked) => checked?,
                Err(_) => return Err(Error::TimedOut { call: "schema_info".to_string(), after: retries.limit() }),
            }
            session.ensure_connected().await?;
        }
        Ok(session)
    }
}

/// How much of a call's time is kept for another try.
fn kept_for_repeat(limit: Duration) -> Duration {
    (limit / 4).min(MOST_FOR_REPEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_try_that_waits_behind_a_lock_has_nearly_all_the_time() {
        let seconds = Duration::from_secs;
        assert_eq!(kept_for_repeat(seconds(2)), Duration::from_millis(500));
        assert_eq!(kept_for_repeat(seconds(12)), seconds(3));
        assert_eq!(kept_for_repeat(seconds(3_600)), seconds(3));
    }
}
