//! Batches, for producers.

use crate::error::Error;
use crate::id::BatchId;
use crate::job::{BatchRow, NewBatch, SealedBatch};

use super::queue::Queue;

impl Queue {
    /// Creates a batch: jobs that belong together, in any queues of the schema. If the batch has a follow-up, it is
    /// enqueued into this queue once, when all jobs have finished, whatever their outcome
    /// ([`Job::batch_end`](crate::job::Job::batch_end)).
    ///
    /// [`NewJob::batch`](crate::NewJob::batch) adds a job, and a job of the batch may add more when it is done
    /// ([`Output::enqueue`](crate::handler::Output::enqueue)). No job can be added once the batch is sealed
    /// ([`seal_batch`](Queue::seal_batch)). SQL Server deletes the batch a week after it has ended. A batch that is
    /// never sealed never ends, and stays.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::{NewBatch, NewJob};
    ///
    /// let batch = queue.create_batch(&NewBatch::new().then(NewJob::text("add up").kind("sum"))).await?;
    /// let parts: Vec<NewJob> = (0..5_000).map(|n| NewJob::text(n.to_string()).kind("part").batch(batch)).collect();
    /// queue.enqueue_many(&parts).await?;
    /// queue.seal_batch(batch).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidBatch`] before anything is sent
    /// - [`Error::BatchNotOpen`] if the parent does not exist or is sealed
    /// - [`Error::Refused`] for a parent if the queue has [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce)
    /// - [`Error::UnknownQueue`]
    /// - [`Error::PermissionDenied`] without a producer's permissions
    ///
    /// After [`Error::TimedOut`] and [`Error::ConnectionLost`] there may be a batch whose id is unknown. It does no
    /// harm unless it has a parent, because the parent cannot complete before it. In this case, find the batch with
    /// [`batches`](crate::admin::Admin::batches) and cancel it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, there may be a batch whose id is unknown, as after a timeout.
    pub async fn create_batch(&self, batch: &NewBatch) -> Result<BatchId, Error> {
        self.session().await?.create_batch(&self.name, batch).await
    }

    /// Seals a batch of any queue: no more jobs can be added. The batch ends when all its jobs have finished,
    /// immediately if they already have. The call waits for transactions that are adding jobs. It may be repeated after
    /// any error: sealing a batch twice has no further effect.
    ///
    /// # Errors
    ///
    /// [`Error::BatchNotOpen`] if the batch does not exist; [`Error::PermissionDenied`] without a producer's
    /// permissions.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the batch may be sealed or not.
    pub async fn seal_batch(&self, batch: BatchId) -> Result<SealedBatch, Error> {
        let sealed = self.session().await?.seal_batch(batch).await?;
        if sealed.ended {
            self.wake_workers(); // the follow-up
        }
        Ok(sealed)
    }

    /// Returns the progress of a batch of any queue, or `None` if the batch does not exist. Costs SQL Server a few
    /// seeks, however many jobs the batch has, and never blocks.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, batch: readpast::BatchId) -> Result<(), readpast::Error> {
    /// if let Some(batch) = queue.batch(batch).await? {
    ///     println!("{} of {} are done, {} are left", batch.done, batch.jobs, batch.unfinished());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a worker.
    pub async fn batch(&self, batch: BatchId) -> Result<Option<BatchRow>, Error> {
        self.session().await?.batch_row(batch).await
    }
}
