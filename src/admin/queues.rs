//! Queues: making, changing and watching them.

use super::admin::Admin;
use std::time::Duration;

use crate::error::Error;
use crate::id::BatchId;
use crate::job::BatchRow;
use crate::procedures::operator::{Deleted, HistoryRow, OPERATOR_BATCH, QueueOptions, QueueStats, WorkerRow};

impl Admin<'_> {
    /// Creates the queue, or changes its settings if it exists. Returns whether it is new.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::{CompletionPolicy, QueueOptions};
    ///
    /// queue.admin().create(QueueOptions::default().completion(CompletionPolicy::Archive).max_attempts(3)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for settings that cannot be, for example a change to `lifo` while there are jobs, or a
    /// [`Keep::For`](crate::admin::Keep::For) of more than ten years; [`Error::PermissionDenied`] without an operator's
    /// rights.
    pub async fn create(self, options: QueueOptions) -> Result<bool, Error> {
        self.queue.session().await?.create_queue(self.queue.name(), &options).await
    }

    /// The batches whose follow-ups go to this queue, the newest first; with `open` only those that have not ended. Up
    /// to `max`, at most 1,000; for the next page, pass the last one's number as `before`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a larger `max`; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a worker.
    pub async fn batches(self, open: bool, before: Option<BatchId>, max: usize) -> Result<Vec<BatchRow>, Error> {
        self.queue.session().await?.batch_rows(self.queue.name(), open, before, max).await
    }

    /// Counts the queue's jobs, without locks.
    ///
    /// With `None`, it counts all of them: it reads every entry of the queue's indexes once. With `Some(most)`, it
    /// counts `most` jobs of each state at most, at a cost that does not grow with the queue: a count of `most` or more
    /// says that there are at least so many, and the oldest ready job is the oldest of those that were counted.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a `most` of 0; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn stats(self, most: Option<u64>) -> Result<QueueStats, Error> {
        self.queue.session().await?.stats(self.queue.name(), most).await
    }

    /// As [`stats`](crate::admin::Admin::stats), of every queue of the schema, by name. This one need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a `most` of 0; [`Error::PermissionDenied`] for a producer.
    pub async fn all_stats(self, most: Option<u64>) -> Result<Vec<QueueStats>, Error> {
        self.queue.session().await?.all_stats(most).await
    }

    /// The queue's workers: those with a lease, and those that have ended or were lost within the last `ended` (whole
    /// seconds; rows are kept for a day, and [`Duration::MAX`] means all of them). By name and the time of their
    /// registration. Reads without locks.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// for worker in queue.admin().workers(Duration::ZERO).await? {
    ///     println!("{} holds {} jobs, {:.1} done a second", worker.name, worker.held, worker.done_per_s.unwrap_or(0.0));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn workers(self, ended: Duration) -> Result<Vec<WorkerRow>, Error> {
        self.queue.session().await?.list_workers(Some(self.queue.name()), ended).await
    }

    /// As [`workers`](crate::admin::Admin::workers), of every queue of the schema, by the queues' names first. This one
    /// need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn all_workers(self, ended: Duration) -> Result<Vec<WorkerRow>, Error> {
        self.queue.session().await?.list_workers(None, ended).await
    }

    /// What became of the queue in the last `span`, from then on: a row for each minute or, of what is more than a day
    /// ago, for ten. A row that began before and ended in it is there, too; a minute is there when it has passed. It is
    /// kept for 90 days; a span under a minute is one. Of more than 100,000 rows, the newest. Reads without locks.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// for row in queue.admin().history(Duration::from_secs(60 * 60)).await? {
    ///     println!("{} done, {} ready, median {:?}", row.done, row.ready, row.run.percentile(0.5));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn history(self, span: Duration) -> Result<Vec<HistoryRow>, Error> {
        self.queue.session().await?.list_history(Some(self.queue.name()), span).await
    }

    /// As [`history`](crate::admin::Admin::history), of every queue of the schema, by the queues' names first. This one
    /// need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn all_history(self, span: Duration) -> Result<Vec<HistoryRow>, Error> {
        self.queue.session().await?.list_history(None, span).await
    }

    /// Deletes the queue with its settings, schedules and ended batches; with `with_jobs`, first all its jobs, whatever
    /// their state, a thousand in a transaction. Jobs that it deletes before they have ended count as cancelled in
    /// their batches. A producer that enqueues meanwhile either has its job deleted or gets [`Error::UnknownQueue`]; no
    /// job stays behind.
    ///
    /// # Errors
    ///
    /// [`Error::QueueInUse`] while a worker of the queue has a lease, a batch that has not ended has its follow-up in
    /// it, a transaction that changes its jobs has not ended or, without `with_jobs`, it has jobs (those in the
    /// archive, too); [`Error::UnknownQueue`]; [`Error::PermissionDenied`] without an operator's rights. Jobs that were
    /// deleted before the error stay so.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the jobs that were deleted before stay so. Run it again to complete it.
    pub async fn delete(self, with_jobs: bool) -> Result<Deleted, Error> {
        let mut session = self.queue.session().await?;
        let mut total = Deleted::default();
        loop {
            let (jobs, is_gone) = session.delete_queue(self.queue.name(), with_jobs, OPERATOR_BATCH).await?;
            total.jobs += u64::from(jobs);
            if is_gone {
                return Ok(total);
            }
        }
    }

    /// Stops the claims of the queue for all workers. Claimed jobs are finished, and enqueueing goes on.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn pause(self) -> Result<(), Error> {
        self.queue.session().await?.set_paused(self.queue.name(), true).await
    }

    /// Lets the claims of the queue go on.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn resume(self) -> Result<(), Error> {
        self.queue.session().await?.set_paused(self.queue.name(), false).await
    }
}
