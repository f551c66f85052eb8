//! [`Queue::wait`], and the task that looks at SQL Server for all that wait.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::id::JobId;
use crate::procedures::producer::{JobEnd, OUTCOMES};
use crate::time::TEN_YEARS;

use super::queue::Queue;
use super::waiters::{Waited, Waiting};

/// How many jobs one call asks for; what `outcomes` takes.
const JOBS_PER_CALL: usize = 1_000;

/// How many ends one call tells, about. Where it tells so many there may be more.
const ENDS_PER_CALL: usize = 100;

impl Queue {
    /// Waits until a job has ended: done, dead or cancelled. Returns how; `None` when it has not ended within `limit`
    /// (a second and a look at SQL Server longer at most). It is looked for at least once.
    ///
    /// What can be known depends on the queue's [`CompletionPolicy`](crate::admin::CompletionPolicy). With `annotate`
    /// and `archive` the end of a done job comes with its output, as long as the job is kept. **With `delete`, the
    /// default, a done job is [`JobEnd::Gone`]**: its output is not kept, and it looks like a job that was purged or
    /// has never been. A dead or cancelled job that is requeued runs again; this returns how it was when it was looked
    /// for.
    ///
    /// Any number may wait: all that wait through this `Queue` and its clones share one look, every 10 to 200 ms, on
    /// one of its connections, by a task on the runtime of one of them.
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
    /// [`Error::UnknownQueue`], [`Error::PermissionDenied`] and other errors that stay. Those that pass (a restart, a
    /// fail-over) are waited out; when `limit` is over and SQL Server still does not respond, the last one is returned.
    pub async fn wait(&self, job_id: JobId, limit: Duration) -> Result<Option<JobEnd>, Error> {
        let deadline = Instant::now() + limit.min(TEN_YEARS); // more may be more than the clock can tell
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

    /// Waits among those that share the looks.
    async fn wait_listed(&self, job_id: JobId, deadline: Instant) -> Waited {
        if Instant::now() >= deadline {
            return Waited::Alone;
        }
        let Waiting { mut end, first_look, needs_task } = self.waiters.list(job_id);
        if needs_task {
            let looking = WaitTask { queue: self.clone(), jobs_per_call: JOBS_PER_CALL, lets_go: true };
            tokio::spawn(looking.run()); // not under the lock: a runtime that ends drops it at once
        }
        self.waiters.came.notify_one();
        let over = tokio::select! {
            biased;
            told = &mut end => return told.map_or(Waited::Alone, Waited::Ended),
            over = self.waiters.over(deadline, first_look) => over,
        };
        end.try_recv().map_or(over, Waited::Ended) // told meanwhile
    }
}

/// The task that looks at SQL Server for all that wait.
struct WaitTask {
    queue: Queue,
    /// Fewer than it may be, where the outputs of so many did not arrive in time.
    jobs_per_call: usize,
    /// Whether there are any to be let go when it ends.
    lets_go: bool,
}

/// What a look has come to.
#[derive(Default)]
struct Seen {
    told_any: bool,
    /// It may have left some out.
    in_part: bool,
}

impl WaitTask {
    /// Looks until nobody waits any more, or SQL Server refuses it for good.
    async fn run(mut self) {
        loop {
            self.queue.waiters.pause().await;
            let (jobs, number) = self.queue.waiters.begin_look();
            if jobs.is_empty() {
                self.lets_go = false; // who has come since has a task of their own
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
                Err(_) => return, // each gets it by the look that it makes alone
            }
        }
    }

    /// Asks SQL Server for the ends of jobs, and tells them.
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
                // There may be more outputs than arrive in time, or than fit into memory.
                Err(error) if error.is_time_out_of(OUTCOMES) || error.is_too_much() => {
                    in_time = false;
                    if asked.len() == 1 {
                        seen.in_part = true; // the others shall not wait for it
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
    /// However it ends, also with its runtime: nobody goes on waiting for it.
    fn drop(&mut self) {
        if self.lets_go {
            self.queue.waiters.let_go();
        }
    }
}
