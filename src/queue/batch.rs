//! Batches, as producers use them.

use crate::error::Error;
use crate::id::BatchId;
use crate::job::{BatchRow, NewBatch, SealedBatch};

use super::queue::Queue;

impl Queue {
    /// Creates a batch: jobs that belong together, in any queues of the schema, and a follow-up that is enqueued into
    /// this queue, once, when all of them have ended, however they did
    /// ([`Job::batch_end`](crate::job::Job::batch_end)).
    ///
    /// [`NewJob::batch`](crate::NewJob::batch) adds a job to it, and a job of the batch may add more when it is done
    /// ([`Output::enqueue`](crate::handler::Output::enqueue)). Once it is sealed ([`seal_batch`](Queue::seal_batch)),
    /// none can be added. A week after its end, SQL Server forgets the batch. One that is never sealed stays, and never
    /// ends.
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
    /// [`Error::InvalidBatch`] before anything is sent; [`Error::BatchNotOpen`] where there is no such parent, or it is
    /// sealed; [`Error::Refused`] for a parent where the queue has
    /// [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce); [`Error::UnknownQueue`];
    /// [`Error::PermissionDenied`] without a producer's rights. After [`Error::TimedOut`] and [`Error::ConnectionLost`]
    /// there may be a batch that nobody knows of. It does no harm, unless it has a parent, which it keeps from ending:
    /// find it with [`batches`](crate::admin::Admin::batches), and cancel it.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, there may be a batch that nobody knows of, as after a time-out.
    pub async fn create_batch(&self, batch: &NewBatch) -> Result<BatchId, Error> {
        self.session().await?.create_batch(&self.name, batch).await
    }

    /// Seals a batch, of whatever queue: no job can be added any more, and it ends when all that it has have ended, at
    /// once where they have. Waits for transactions in which jobs are being added. Sealing it twice has no further
    /// effect, so that the call may be repeated after any error.
    ///
    /// # Errors
    ///
    /// [`Error::BatchNotOpen`] where there is no such batch; [`Error::PermissionDenied`] without a producer's rights.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the batch may be sealed or not.
    pub async fn seal_batch(&self, batch: BatchId) -> Result<SealedBatch, Error> {
        let sealed = self.session().await?.seal_batch(batch).await?;
        if sealed.ended {
            self.wake_workers(); // the follow-up
        }
        Ok(sealed)
    }

    /// How far a batch is, of whatever queue; `None` where there is none of this number. Costs SQL Server a few seeks,
    /// however many jobs the batch has, and waits for nobody.
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
