//! Creating, changing and watching queues.

use super::admin::Admin;
use std::time::Duration;

use crate::error::Error;
use crate::id::BatchId;
use crate::job::BatchRow;
use crate::procedures::Held;
use crate::procedures::operator::{
    AskedWorker, Deleted, GroupRow, HistoryRow, Hold, KindRow, OPERATOR_BATCH, QueueOptions, QueueStats, WorkerRow,
    WorkerWish,
};

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
    /// [`Error::Refused`] if a setting is not possible, for example a
    /// [`Keep::For`](crate::admin::Keep::For) of more than ten years; [`Error::PermissionDenied`] without an operator's
    /// permissions.
    pub async fn create(self, options: QueueOptions) -> Result<bool, Error> {
        self.session().await?.create_queue(self.queue.name(), &options).await
    }

    /// Returns the batches whose follow-ups go to this queue, the newest first: up to `max`, at most 1,000. With
    /// `open`, only batches that have not ended. For the next page, pass the last batch's id as `before`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a larger `max`; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a worker.
    pub async fn batches(self, open: bool, before: Option<BatchId>, max: usize) -> Result<Vec<BatchRow>, Error> {
        self.session().await?.batch_rows(self.queue.name(), open, before, max).await
    }

    /// Counts the queue's jobs, without locks.
    ///
    /// With `None`, it counts all jobs and reads every entry of the queue's indexes once. With `Some(most)`, it counts
    /// at most `most` jobs of each state, at a cost that does not grow with the queue. A count of `most` then means at
    /// least that many, and the oldest ready job is the oldest of the counted jobs.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a `most` of 0; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn stats(self, most: Option<u64>) -> Result<QueueStats, Error> {
        self.session().await?.stats(self.queue.name(), most).await
    }

    /// Same as [`stats`](crate::admin::Admin::stats), for all queues of the schema, by name. This queue need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a `most` of 0; [`Error::PermissionDenied`] for a producer.
    pub async fn all_stats(self, most: Option<u64>) -> Result<Vec<QueueStats>, Error> {
        self.session().await?.all_stats(most).await
    }

    /// Returns the queue's workers, sorted by name and time of registration: the workers with a lease, and the workers
    /// that stopped or were lost within the last `ended`. `ended` is in whole seconds. Rows are kept for a day, and
    /// [`Duration::MAX`] returns all of them. Reads without locks.
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
        self.session().await?.list_workers(Some(self.queue.name()), ended).await
    }

    /// Sends a request to running workers of this queue, or of all queues
    /// ([`WorkerWish::of_all_queues`](crate::admin::WorkerWish::of_all_queues)). Their next heartbeats deliver it, and
    /// [`workers`](crate::admin::Admin::workers) shows whether they have. A worker that loses its lease keeps the request; one that
    /// is restarted forgets it, unless it was asked with [`WorkerWish::by_name`](crate::admin::WorkerWish::by_name). Returns the workers
    /// that were asked.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::{Wish, WorkerWish};
    ///
    /// queue.admin().ask_workers(&WorkerWish::new("render-3", Wish::Quiet)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if no running worker has this name or id, or the number is out of range;
    /// [`Error::PermissionDenied`] without an operator's permissions.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some, all or none of the workers have been asked. Asking again does no harm.
    pub async fn ask_workers(self, wish: &WorkerWish) -> Result<Vec<AskedWorker>, Error> {
        let queue = (!wish.of_all_queues).then_some(self.queue.name());
        self.session().await?.worker_wish(queue, wish).await
    }

    /// Same as [`workers`](crate::admin::Admin::workers), for all queues of the schema, sorted by queue name first.
    /// This queue need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn all_workers(self, ended: Duration) -> Result<Vec<WorkerRow>, Error> {
        self.session().await?.list_workers(None, ended).await
    }

    /// Returns the history of the queue over the last `span`, the oldest row first. A row covers one minute, or ten
    /// minutes if it is older than a day. Rows that began before `span` and ended in it are included. Only completed
    /// minutes are returned; shorter spans are rounded up to a minute. Rows are kept for 90 days; of more than 100,000
    /// rows, the newest are returned. Reads without locks.
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
        self.session().await?.list_history(Some(self.queue.name()), span).await
    }

    /// Same as [`history`](crate::admin::Admin::history), for all queues of the schema, by queue name first. This queue
    /// need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn all_history(self, span: Duration) -> Result<Vec<HistoryRow>, Error> {
        self.session().await?.list_history(None, span).await
    }

    /// Returns the kinds of the queue's jobs: the unfinished jobs, and the runs that ended in the last `span` and what
    /// they used. Jobs without a kind have a row, and the 50 kinds with the most jobs; the others share one. The span is
    /// rounded up to full hours, of which the first and the current one count in full; runs belong to the hour in which
    /// they were reported, and counts are kept for seven days. At most 1,000 jobs of each state are read
    /// ([`KindRow::is_partial`]). Reads without locks.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use std::time::Duration;
    ///
    /// for row in queue.admin().kinds(Duration::from_secs(60 * 60)).await? {
    ///     println!("{}: {} done, at most {:?} bytes each", row.label(), row.done, row.peak_memory_max);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn kinds(self, span: Duration) -> Result<Vec<KindRow>, Error> {
        self.session().await?.list_kinds(self.queue.name(), span).await
    }

    /// Returns up to `max` (1 to 1,000) of the queue's groups that have waiting jobs, jobs with a turn, or a weight, sorted
    /// by key (by code point): the first ones, or those behind `after`. Reads without locks.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::Refused`] if `max` is out of range; [`Error::PermissionDenied`] for a producer or
    /// a worker.
    pub async fn groups(self, after: Option<&str>, max: usize) -> Result<Vec<GroupRow>, Error> {
        self.session().await?.list_groups(self.queue.name(), after, max).await
    }

    /// Sets the weight of a group: how many jobs it gets in each round, if the queue is
    /// [fair](crate::admin::QueueOptions::fair). 1 to 1,000; initially 1. Takes effect with the next claim, and stays
    /// until it is set again or the queue is deleted. A queue that is not fair keeps it unused.
    ///
    /// # Errors
    ///
    /// - [`Error::Refused`] if the group's key or the weight is out of range
    /// - [`Error::UnknownQueue`]
    /// - [`Error::PermissionDenied`] without an operator's permissions
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the weight may have been set or not.
    pub async fn set_group_weight(self, group: &str, weight: u32) -> Result<(), Error> {
        self.session().await?.set_group_weight(self.queue.name(), group, weight).await
    }

    /// Deletes the queue with its settings, schedules and ended batches. With `with_jobs`, first deletes all its jobs
    /// in any state, a thousand per transaction; unfinished jobs then count as cancelled in their batches. If a
    /// producer enqueues meanwhile, its job is deleted or it gets [`Error::UnknownQueue`]; no job stays behind.
    ///
    /// # Errors
    ///
    /// - [`Error::QueueInUse`] while a worker of the queue has a lease, while an unfinished batch has its follow-up in
    ///   the queue, while a transaction is changing its jobs, or, without `with_jobs`, while it has jobs (including
    ///   archived ones)
    /// - [`Error::UnknownQueue`]
    /// - [`Error::PermissionDenied`] without an operator's permissions
    ///
    /// Jobs that were deleted before the error stay deleted.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the jobs that were already deleted stay deleted. Call it again to complete the
    /// deletion.
    pub async fn delete(self, with_jobs: bool) -> Result<Deleted, Error> {
        let mut session = self.session().await?;
        let mut total = Deleted::default();
        loop {
            let (jobs, is_gone) = session.delete_queue(self.queue.name(), with_jobs, OPERATOR_BATCH).await?;
            total.jobs += u64::from(jobs);
            if is_gone {
                return Ok(total);
            }
        }
    }

    /// Pauses the queue: its workers stop claiming. Claimed jobs are finished, and jobs can still be enqueued.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn pause(self) -> Result<(), Error> {
        self.session().await?.set_paused(self.queue.name(), true).await
    }

    /// Resumes a paused queue.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn resume(self) -> Result<(), Error> {
        self.session().await?.set_paused(self.queue.name(), false).await
    }

    /// Pauses all queues of the schema, also those that are created later, until [`resume_all`](Self::resume_all). Queues
    /// that were paused individually stay paused after that. `why` is for [`holds`](Self::holds), up to 400 UTF-16 units.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a longer text; [`Error::PermissionDenied`] without an operator's permissions.
    pub async fn pause_all(self, why: Option<&str>) -> Result<(), Error> {
        self.session().await?.pause_all(why).await
    }

    /// Takes [`pause_all`](Self::pause_all) back.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] without an operator's permissions.
    pub async fn resume_all(self) -> Result<(), Error> {
        self.session().await?.end_hold(Held::Schema).await
    }

    /// Confirms that this database may be used although it was restored or copied: its jobs run from now on. Until then,
    /// nothing is claimed in it, and no schedule fires ([`Held::Copy`]).
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] without an operator's permissions.
    pub async fn confirm_copy(self) -> Result<(), Error> {
        self.session().await?.end_hold(Held::Copy).await
    }

    /// Returns what holds all queues of the schema. Reads without locks.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn holds(self) -> Result<Vec<Hold>, Error> {
        self.session().await?.holds().await
    }
}
