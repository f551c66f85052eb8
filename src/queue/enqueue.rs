//! Enqueueing, and again after an error that passes.

use std::slice;
use std::time::Duration;

use super::queue::Queue;
use crate::connection::Lent;
use crate::error::Error;
use crate::id::{BatchId, Enqueued};
use crate::job::{NewJob, new_job};
use crate::procedures::producer::{ENQUEUE, ENQUEUE_BATCH, Part, enqueue};
use tokio::time::Instant;

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
    /// Enqueues one job in one round trip.
    ///
    /// The call ends within `connection.command_timeout_ms` and a second of its beginning, whatever happens. Within
    /// this time it waits for a connection, makes one where there is none, and tries again after an error that passes
    /// (a deadlock, a server that is being restarted) as long as it is certain that the job is not in the queue.
    ///
    /// A job with a [de-duplication key](NewJob::dedup_key) is sent again even where SQL Server did not answer; a
    /// quarter of the time, 3 s at most, is kept for that. If the first call has added the job, the answer to the
    /// second says that it is a `duplicate`, of itself. If the job has even ended by then, the second call adds it
    /// again, as with any key whose job has ended.
    ///
    /// # Errors
    ///
    /// [`Error::EnqueueInDoubt`] when SQL Server did not answer, so that the job may be in the queue or not. With a
    /// de-duplication key it comes only if there was no time left to send the job again, if that failed too, or if the
    /// cause is none that passes. After every other error the job is not in the queue: [`Error::InvalidJob`] before
    /// anything is sent; [`Error::NoFreeConnection`] and those of [`connect`](Queue::connect) when there was no
    /// connection to send it on; [`Error::BatchNotOpen`] for a batch that is sealed or not there; [`Error::Refused`]
    /// for a group or a batch where the queue delivers at most once; [`Error::UnknownQueue`], [`Error::NotInstalled`],
    /// [`Error::PermissionDenied`] and SQL Server's other errors.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the job may be in the queue or not.
    pub async fn enqueue(&self, job: &NewJob) -> Result<Enqueued, Error> {
        let enqueued = self.enqueue_many(slice::from_ref(job)).await?;
        enqueued.into_iter().next().ok_or_else(|| Error::Protocol { message: "enqueue did not answer".to_string() })
    }

    /// Enqueues many jobs, in chunks of up to 1,000 jobs and 8 MiB of payload; a job with a payload of more than 65,535
    /// bytes is a chunk of its own. The answers come in the order of the jobs, and the jobs get ascending ids in that
    /// order.
    ///
    /// **Each chunk is a transaction of its own.** All or nothing is [`enqueue_in`](crate::transaction::enqueue_in).
    /// Each chunk has the time that [`enqueue`](Queue::enqueue) has for a job, and is repeated as a job is there: where
    /// SQL Server did not answer, only if every job of the chunk has a de-duplication key. An import that may be run
    /// again, without keys, is [`enqueue_part`](Queue::enqueue_part).
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{Error, NewJob};
    ///
    /// let jobs: Vec<NewJob> = (0..5_000).map(|page| NewJob::json(&page)).collect::<Result<_, _>>()?;
    /// match queue.enqueue_many(&jobs).await {
    ///     Ok(enqueued) => println!("{} jobs", enqueued.len()),
    ///     // The first are in the queue; the rest can be handed in later.
    ///     Err(Error::EnqueuedInPart { enqueued, cause, .. }) if cause.is_transient() => {
    ///         let rest = &jobs[enqueued.len()..];
    ///         println!("{cause}; {} jobs are left", rest.len());
    ///     }
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJob`] before anything is sent. As [`enqueue`](Queue::enqueue), when the first chunk fails;
    /// [`Error::EnqueuedInPart`], which lists the jobs of the chunks before, when a later one does.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, some of the chunks may be in the queue.
    pub async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        new_job::check(jobs)?;
        let mut enqueued = Vec::with_capacity(jobs.len());
        for chunk in enqueue::chunks(jobs) {
            let started_at = Instant::now();
            match self.enqueue_with_retries(chunk, None).await {
                Ok(answers) => {
                    let answers = answers.unwrap_or_default();
                    self.connector.metrics().enqueued(&answers, started_at.elapsed());
                    self.wake_workers_for(chunk);
                    enqueued.extend(answers);
                }
                Err(error) if enqueued.is_empty() => return Err(error),
                Err(error) => {
                    return Err(Error::EnqueuedInPart { enqueued, cause: Box::new(error) });
                }
            }
        }
        Ok(enqueued)
    }

    /// Enqueues a numbered part of a batch, once: for an import that may be run again after whatever happened. All jobs
    /// come to belong to the batch. `None`: this part was added before, and nothing was added now, whatever the jobs
    /// are.
    ///
    /// Which parts there are stands in SQL Server, noted in the transaction that adds the jobs. So the program that
    /// imports needs to remember nothing but the batch: run again, it cuts the same parts, gives them the same numbers,
    /// and those that are in are passed over. Until [`seal_batch`](Queue::seal_batch), which comes last.
    ///
    /// A part is one transaction: up to 1,000 jobs and 8 MiB of payload, and a payload of more than 65,535 bytes is a
    /// part of its own. It has the time that [`enqueue`](Queue::enqueue) has, and is sent again even where SQL Server
    /// did not answer; `None` may then mean that the first of these calls has added it. Without jobs, nothing is sent.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, batch: readpast::BatchId) -> Result<(), readpast::Error> {
    /// use readpast::NewJob;
    ///
    /// // The batch was created by the first run, which has noted its number.
    /// let pages: Vec<NewJob> = (0..5_000).map(|page| NewJob::json(&page)).collect::<Result<_, _>>()?;
    /// for (number, part) in (0..).zip(pages.chunks(1_000)) {
    ///     if queue.enqueue_part(batch, number, part).await?.is_none() {
    ///         println!("part {number} was there already");
    ///     }
    /// }
    /// queue.seal_batch(batch).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Queue::enqueue), and [`Error::InvalidJob`] before anything is sent for jobs that are no part, or
    /// that belong to another batch. [`Error::BatchNotOpen`] for a batch that is sealed or not there. After
    /// [`Error::EnqueueInDoubt`], calling it again with the same part adds no job a second time.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the part may be in the queue or not; calling it again finds out.
    pub async fn enqueue_part(
        &self,
        batch: BatchId,
        part: i64,
        jobs: &[NewJob],
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let part = enqueue::Part { batch, number: part };
        part.check(jobs)?;
        if jobs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let started_at = Instant::now();
        let enqueued = self.enqueue_with_retries(jobs, Some(part)).await?;
        if let Some(enqueued) = &enqueued {
            self.connector.metrics().enqueued(enqueued, started_at.elapsed());
        }
        self.wake_workers_for(jobs); // also where the answer to a first call was lost
        Ok(enqueued)
    }

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
        let mut retries = EnqueueTries::within(self.command_timeout());
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
        retries: &EnqueueTries,
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
    async fn connected_session(&self, retries: &EnqueueTries) -> Result<Lent, Error> {
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

/// The first and the longest pause between tries: short enough for a deadlock victim, long enough not to press a server
/// that is just starting.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The tries of one call.
struct EnqueueTries {
    limit: Duration,
    deadline: Instant,
    tries: u32,
    pause: Duration,
}

impl EnqueueTries {
    /// After `limit`, no other try begins.
    fn within(limit: Duration) -> EnqueueTries {
        EnqueueTries { limit, deadline: Instant::now() + limit, tries: 0, pause: PAUSES.0 }
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Pauses before the call is repeated. Returns whether it is to be: not where there is no time left.
    async fn pause(&mut self, call: &'static str, error: &Error) -> bool {
        self.tries += 1;
        let pause = self.pause.mul_f64(0.5 + 0.5 * fastrand::f64()); // of two deadlock victims, one comes first
        if pause >= self.time_left() {
            return false;
        }
        let (attempt, sql_error) = (self.tries, error.sql_number());
        tracing::warn!(procedure = call, attempt, sql_error, %error, retry_in = ?pause, "enqueue failed; retrying");
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        true
    }
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
