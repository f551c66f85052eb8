//! [`Queue::wait`], and the task that polls SQL Server for all callers that wait.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::id::JobId;
use crate::job::JobEnd;
use crate::procedures::producer::OUTCOMES;
use crate::time::TEN_YEARS;

use super::queue::Queue;
use super::waiters::{Waited, Waiting};

/// How many jobs one call asks for: the maximum of `outcomes`.
const JOBS_PER_CALL: usize = 1_000;

/// About how many finished jobs one call returns. If it returns this many, there may be more.
const ENDS_PER_CALL: usize = 100;

impl Queue {
    /// Waits until a job has finished: done, dead or cancelled. Returns `None` if the job has not finished within
    /// `limit`. The call may return up to one second and one poll after `limit`. The job is checked at least once.
    ///
    /// The result depends on the queue's [`CompletionPolicy`](crate::admin::CompletionPolicy). With `annotate` and
    /// `archive`, a done job is returned with its output, as long as the job is kept. **With `delete`, the default, a
    /// done job is [`JobEnd::Gone`]**: its output is not kept, and it looks like a job that was purged or never
    /// existed. A dead or cancelled job may be requeued and run again: the call returns its state at the time of the
    /// check.
    ///
    /// Any number of callers may wait. All callers that wait through this `Queue` and its clones share one poll every
    /// 10 to 200 ms. A task on the runtime of one of the callers polls, on one of the queue's connections.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// use readpast::{JobEnd, NewJob};
    ///
    /// let job = queue.enqueue(&NewJob::text("to be or not to be")).await?;
    /// match queue.wait(job.job_id, Duration::from_secs(60)).await? {
    ///     Some(JobEnd::Done { output }) => println!("{} bytes", output.unwrap_or_default().len()),
    ///     Some(JobEnd::Dead { error } | JobEnd::Cancelled { error }) => println!("{error}"),
    ///     Some(_) => println!("it is gone"),
    ///     None => println!("it takes longer"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`], [`Error::PermissionDenied`] and other permanent errors. Transient errors (a restart, a
    /// failover) are retried; if SQL Server still does not respond when `limit` has passed, the last one is returned.
    pub async fn wait(&self, job_id: JobId, limit: Duration) -> Result<Option<JobEnd>, Error> {
        let deadline = Instant::now() + limit.min(TEN_YEARS); // the clock cannot represent every limit
        loop {
            match self.wait_listed(job_id, deadline).await {
                Waited::Ended(end) => return Ok(Some(end)),
                Waited::Over => return Ok(None),
                Waited::Alone => {}
            }
            let asked = match self.session().await {
                Ok(mut session) => session.outcomes(self.name(), &[job_id]).await,
                Err(error) => Err(error),
            };
            let is_over = Instant::now() >= deadline;
            match asked {
                Ok(ends) => match ends.into_iter().next() {
                    Some((_, end)) => return Ok(Some(end)),
                    None if is_over => return Ok(None),
                    None => {}
                },
                Err(error) if !error.is_transient() || is_over => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Waits for the shared polls.
    async fn wait_listed(&self, job_id: JobId, deadline: Instant) -> Waited {
        if Instant::now() >= deadline {
            return Waited::Alone;
        }
        let Waiting { mut end, first_look, needs_task } = self.waiters.list(job_id);
        if needs_task {
            let looking = WaitTask { queue: self.clone(), jobs_per_call: JOBS_PER_CALL, lets_go: true };
            tokio::spawn(looking.run()); // not under the lock: a stopping runtime drops it immediately
        }
        self.waiters.came.notify_one();
        let over = tokio::select! {
            biased;
            told = &mut end => return told.map_or(Waited::Alone, Waited::Ended),
            over = self.waiters.over(deadline, first_look) => over,
        };
        end.try_recv().map_or(over, Waited::Ended) // received meanwhile
    }
}

/// The task that polls SQL Server for all callers that wait.
struct WaitTask {
    queue: Queue,
    /// Less than the maximum if the outputs of that many jobs did not arrive in time.
    jobs_per_call: usize,
    /// Whether the task must release callers when it stops.
    lets_go: bool,
}

/// The result of a poll.
#[derive(Default)]
struct Seen {
    told_any: bool,
    /// Whether the poll may have missed finished jobs.
    in_part: bool,
}

impl WaitTask {
    /// Polls until no callers are waiting, or SQL Server returns a permanent error.
    async fn run(mut self) {
        loop {
            self.queue.waiters.pause().await;
            let (jobs, number) = self.queue.waiters.begin_look();
            if jobs.is_empty() {
                self.lets_go = false; // callers that came since have started a task of their own
                return;
            }
            let began_at = Instant::now();
            let seen = self.look(&jobs).await;
            let waiters = &self.queue.waiters;
            waiters.listed.lock().pace.looked(began_at, matches!(seen, Ok(Seen { told_any: true, .. })));
            match seen {
                Ok(Seen { in_part: false, .. }) => drop(waiters.answered.send_replace(number)),
                Ok(_) => {}
                Err(error) if error.is_transient() => {}
                Err(_) => return, // each caller gets it by polling alone
            }
        }
    }

    /// Asks SQL Server for the outcomes of jobs, and passes them to the callers.
    async fn look(&mut self, jobs: &[JobId]) -> Result<Seen, Error> {
        let mut session = self.queue.session().await?;
        let mut seen = Seen::default();
        let mut in_time = true;
        let mut rest = jobs;
        while !rest.is_empty() {
            let (asked, later) = rest.split_at(rest.len().min(self.jobs_per_call));
            match session.outcomes(self.queue.name(), asked).await {
                Ok(ends) => {
                    seen.told_any |= !ends.is_empty();
                    seen.in_part |= ends.len() >= ENDS_PER_CALL;
                    self.queue.waiters.tell(ends);
                    rest = later;
                }
                // The outputs may be too many to arrive in time or to fit into memory.
                Err(error) if error.is_time_out_of(OUTCOMES) || error.is_too_much() => {
                    in_time = false;
                    if asked.len() == 1 {
                        seen.in_part = true; // the other jobs need not wait for it
                        rest = later;
                    }
                    self.jobs_per_call = (asked.len() / 2).max(1);
                }
                Err(error) => return Err(error),
            }
        }
        if in_time {
            self.jobs_per_call = (self.jobs_per_call * 2).min(JOBS_PER_CALL);
        }
        Ok(seen)
    }
}

impl Drop for WaitTask {
    /// Releases the callers however the task stops, even if its runtime ends.
    fn drop(&mut self) {
        if self.lets_go {
            self.queue.waiters.let_go();
        }
    }
}
