//! Enqueueing, with retries after transient errors.

use std::slice;
use std::time::Duration;

use super::enqueue_tries::EnqueueTries;
use super::queue::Queue;
use crate::connection::Lent;
use crate::error::Error;
use crate::id::{BatchId, Enqueued};
use crate::job::{NewJob, check_jobs};
use crate::procedures::producer::{ENQUEUE, ENQUEUE_BATCH, Part, next_chunk};
use tokio::time::Instant;

/// The least time that a sent call waits for its response, however little is left. A shorter wait would put a call in
/// doubt although nothing is wrong. A single call takes some milliseconds.
const LEAST_FOR_ANSWER: Duration = Duration::from_secs(1);

/// The most time that is reserved for a second try: enough to connect and to get a response. More would not help: if
/// the first try waits for a lock, the second one would wait for it, too.
const MOST_FOR_REPEAT: Duration = Duration::from_secs(3);

/// The error of a duplicate key. If two sessions add the same part at the same moment, the second one gets it, and its
/// transaction is rolled back.
const SAME_PART: i32 = 2601;

impl Queue {
    /// Enqueues one job in one round trip.
    ///
    /// Concurrent callers share round trips and transactions. While two such calls through this queue and its clones are
    /// under way, further jobs wait, and the next call sends them together. Every caller gets the id or the error of its
    /// own job. A job that has waited for 0.5 s is sent alone, and so are jobs with a deduplication key, a group, a batch,
    /// [parents](NewJob::after) or a payload of more than 65,535 bytes.
    ///
    /// The call returns within `connection.command_timeout_ms` plus two seconds, whatever happens. During that time it
    /// waits for a free connection or opens one. It retries after a transient error (a deadlock, a server restart) as
    /// long as the job is certain not to be in the queue.
    ///
    /// A job with a [deduplication key](NewJob::dedup_key) is sent again even if SQL Server did not answer. A quarter
    /// of the time, at most 3 s, is reserved for that. If the first call did add the job, the second call reports the
    /// job as a `duplicate` of itself. If the job has finished by then, the second call adds it again.
    ///
    /// # Errors
    ///
    /// [`Error::EnqueueInDoubt`] if SQL Server did not answer, so that the job may or may not be in the queue. A job
    /// with a deduplication key gets this error only if there was no time left to send it again, if that failed too, or
    /// if the cause is not transient.
    ///
    /// After any other error the job is not in the queue:
    ///
    /// - [`Error::InvalidJob`], before anything is sent
    /// - [`Error::NoFreeConnection`], and the errors of [`connect`](Queue::connect), if there was no connection to use
    /// - [`Error::QueueFull`] if the queue has as many unfinished jobs as it takes
    /// - [`Error::BatchNotOpen`] if the batch is sealed or does not exist
    /// - [`Error::Refused`] for a job with a group, a batch or parents if the queue, or that of a parent, delivers at most
    ///   once, or if an id was not given to a job yet
    /// - [`Error::UnknownQueue`], [`Error::NotInstalled`], [`Error::PermissionDenied`] and SQL Server's other errors
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the job may or may not be in the queue.
    pub async fn enqueue(&self, job: &NewJob) -> Result<Enqueued, Error> {
        check_jobs(slice::from_ref(job))?;
        self.enqueue_shared(job).await
    }

    /// Enqueues many jobs, in chunks of up to 1,000 jobs, 8 MiB of payload and 10,000 [parents](NewJob::after). A job with a payload of more than 65,535
    /// bytes is a chunk of its own. The results are in the order of the jobs, and the jobs get ascending ids in that
    /// order.
    ///
    /// **Each chunk is a transaction of its own.** For all or nothing, use
    /// [`enqueue_in`](crate::transaction::enqueue_in), and roll back after an error. Each chunk has the time and the
    /// retries of a job in [`enqueue`](Queue::enqueue). If SQL Server did not answer, a chunk is sent again only if all its jobs have
    /// deduplication keys. For an import that can be run again without keys, use [`enqueue_part`](Queue::enqueue_part).
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
    ///         let rest = NewJob::rest(&jobs, &enqueued);
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
    /// [`Error::InvalidJob`] before anything is sent. If the first chunk fails, same as [`enqueue`](Queue::enqueue). If
    /// a later chunk fails, or the queue has room for some of the jobs, [`Error::EnqueuedInPart`], which lists the first
    /// ones, which are in the queue.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some of the chunks may be in the queue.
    pub async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Error> {
        check_jobs(jobs)?;
        let mut enqueued = Vec::with_capacity(jobs.len());
        while enqueued.len() < jobs.len() {
            let chunk = next_chunk(jobs, &enqueued);
            match self.enqueue_chunk(&chunk, EnqueueTries::within(self.command_timeout())).await {
                Ok(answers) => enqueued.extend(answers),
                Err(error) => return Err(error.after(enqueued)),
            }
        }
        Ok(enqueued)
    }

    /// Enqueues one chunk of jobs, which is no part of a batch.
    pub(super) async fn enqueue_chunk(&self, jobs: &[NewJob], tries: EnqueueTries) -> Result<Vec<Enqueued>, Error> {
        let started_at = Instant::now();
        let answer = self.enqueue_with_retries(jobs, None, tries).await.map(Option::unwrap_or_default);
        self.note_enqueued(jobs, &answer, started_at);
        answer
    }

    fn note_enqueued(&self, jobs: &[NewJob], answer: &Result<Vec<Enqueued>, Error>, started_at: Instant) {
        if let Ok(enqueued) | Err(Error::EnqueuedInPart { enqueued, .. }) = answer {
            self.connector.metrics().enqueued(enqueued, started_at.elapsed());
            self.wake_workers_for(&jobs[..enqueued.len()]);
        }
    }

    /// Enqueues a numbered part of a batch, once: for an import that can be run again after any failure. All jobs of
    /// the part join the batch. Returns `None` if this part was added before; then nothing is added, whatever the jobs
    /// are.
    ///
    /// SQL Server records the part in the transaction that adds the jobs, so the importing program only has to remember
    /// the batch. If it runs again, it must cut the same parts and give them the same numbers, and the parts that exist
    /// are skipped. Call [`seal_batch`](Queue::seal_batch) last.
    ///
    /// A part is one transaction: up to 1,000 jobs, 8 MiB of payload and 10,000 [parents](NewJob::after). A job with a payload of more than 65,535 bytes
    /// is a part of its own. The call has the time of [`enqueue`](Queue::enqueue), and is repeated even if SQL Server
    /// did not answer. `None` may then mean that the first try added the part. If `jobs` is empty, nothing is sent.
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
    /// Same as [`enqueue`](Queue::enqueue). Also [`Error::InvalidJob`], before anything is sent, if the jobs are too
    /// many or too large for a part, or belong to another batch. A part is refused by a full queue
    /// ([`Error::QueueFull`]) as a whole. After [`Error::EnqueueInDoubt`], calling it again with
    /// the same part adds no job twice.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the part may or may not be in the queue; call it again to find out.
    pub async fn enqueue_part(
        &self,
        batch: BatchId,
        part: i64,
        jobs: &[NewJob],
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let part = Part { batch, number: part };
        part.check(jobs)?;
        if jobs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let started_at = Instant::now();
        let enqueued =
            self.enqueue_with_retries(jobs, Some(part), EnqueueTries::within(self.command_timeout())).await?;
        if let Some(enqueued) = &enqueued {
            self.connector.metrics().enqueued(enqueued, started_at.elapsed());
        }
        self.wake_workers_for(jobs); // also if an earlier try added the part
        Ok(enqueued)
    }

    /// Enqueues one chunk of jobs. Retries after a transient error if the failed call certainly added nothing, if every
    /// job has a deduplication key, or if the chunk is a part of a batch. Returns within the command timeout plus
    /// [`LEAST_FOR_ANSWER`], and holds no session while it pauses. Returns `None` if this part was added before.
    ///
    /// # Errors
    ///
    /// [`Error::EnqueueInDoubt`] if the jobs may have been added and must not be sent again.
    async fn enqueue_with_retries(
        &self,
        jobs: &[NewJob],
        part: Option<Part>,
        mut tries: EnqueueTries,
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let call = if jobs.len() == 1 { ENQUEUE } else { ENQUEUE_BATCH };
        let is_repeatable = part.is_some() || jobs.iter().all(|job| job.dedup_key.is_some());
        let mut doubt = None;
        loop {
            let keep_time = is_repeatable && doubt.is_none();
            let error = match self.try_to_enqueue(jobs, part, &tries, keep_time).await {
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
            if !may_repeat || !tries.pause(call, &error).await {
                return Err(doubt.unwrap_or(error));
            }
            if let Error::EnqueueInDoubt { .. } = error {
                doubt.get_or_insert(error);
            }
        }
    }

    /// Sends the jobs once. With `keep_time`, reserves some of the time for another try on another connection.
    async fn try_to_enqueue(
        &self,
        jobs: &[NewJob],
        part: Option<Part>,
        tries: &EnqueueTries,
        keep_time: bool,
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let session = self.connected_session(tries).await?;
        let kept = if keep_time { kept_for_repeat(tries.limit()) } else { Duration::ZERO };
        self.send_jobs(session, jobs, part, tries.time_left().saturating_sub(kept)).await
    }

    /// Sends the jobs of one chunk once, without retries. They are no part of a batch.
    pub(super) async fn enqueue_once(
        &self,
        session: Lent,
        jobs: &[NewJob],
        time_left: Duration,
    ) -> Result<Vec<Enqueued>, Error> {
        let started_at = Instant::now();
        let answer = self.send_jobs(session, jobs, None, time_left).await.map(Option::unwrap_or_default);
        self.note_enqueued(jobs, &answer, started_at);
        answer
    }

    async fn send_jobs(
        &self,
        mut session: Lent,
        jobs: &[NewJob],
        part: Option<Part>,
        time_left: Duration,
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let limit = time_left.max(LEAST_FOR_ANSWER);
        match session.within(limit).enqueue_chunk(self.name(), jobs, part).await {
            Err(error) if error.leaves_open() => {
                Err(Error::EnqueueInDoubt { jobs: jobs.len(), cause: Box::new(error) })
            }
            answered => answered,
        }
    }

    /// Returns a connected session. A call on it that fails was therefore sent.
    pub(super) async fn connected_session(&self, tries: &EnqueueTries) -> Result<Lent, Error> {
        let mut session = self.sessions.lend(tries.deadline(), tries.limit()).await?;
        {
            let mut session = session.until(tries.deadline(), tries.limit());
            // Another caller with more time left may be checking the version.
            match tokio::time::timeout_at(tries.deadline(), self.check_version(&mut session)).await {
                Ok(checked) => checked?,
                Err(_) => return Err(Error::TimedOut { call: "schema_info".to_string(), after: tries.limit() }),
            }
            session.ensure_connected().await?;
        }
        Ok(session)
    }
}

/// How much of a call's time is reserved for another try.
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
