//! Batches: what producers call, and what operators see and cancel.

use futures_io::{AsyncRead, AsyncWrite};
use tiberius::Command;

use super::OPERATOR_BATCH;
use super::answer::Answer;
use super::cancel::CancelAnswer;
use super::enqueue::run;
use super::lasting_session::Session;
use super::parameters::{int, ms, procedure};
use super::result_columns::{Columns, all_rows, into_rows, one_row};
use crate::batch::{BatchRow, NewBatch, SealedBatch};
use crate::config::check_schema;
use crate::error::Error;
use crate::ids::{BatchId, JobId};
use crate::trace_context::TraceContext;

/// The calls by name.
const CREATE_BATCH: &str = "create_batch";
const SEAL_BATCH: &str = "seal_batch";
const CANCEL_BATCH: &str = "cancel_batch";
const LIST_BATCHES: &str = "list_batches";

impl Session {
    /// Creates a batch whose follow-up goes to `queue`.
    pub(super) async fn create_batch(&mut self, queue: &str, batch: &NewBatch) -> Result<BatchId, Error> {
        batch.check()?;
        let command = create_command(self.schema(), queue, batch);
        read_created(&self.run(CREATE_BATCH, command).await?)
    }

    /// Seals a batch.
    pub(super) async fn seal_batch(&mut self, batch: BatchId) -> Result<SealedBatch, Error> {
        let command = seal_command(self.schema(), batch);
        read_sealed(self.row(SEAL_BATCH, command).await?)
    }

    /// Cancels up to 1,000 unfinished jobs of a batch and those below it.
    pub(super) async fn cancel_batch(&mut self, batch: BatchId, why: &str) -> Result<CancelAnswer, Error> {
        let mut command = self.command(CANCEL_BATCH);
        command.bind_param("@batch_id", batch.0);
        command.bind_param("@why", why);
        command.bind_param("@max", int(OPERATOR_BATCH));
        CancelAnswer::read(all_rows(CANCEL_BATCH, self.run(CANCEL_BATCH, command).await?))
    }

    /// One batch; `None` where there is none of this number.
    pub(super) async fn batch_row(&mut self, batch: BatchId) -> Result<Option<BatchRow>, Error> {
        let mut command = self.command(LIST_BATCHES);
        command.bind_param("@batch_id", batch.0);
        let mut rows = self.rows(LIST_BATCHES, command).await?;
        rows.pop().map(read_batch).transpose()
    }

    /// A page of the batches whose follow-ups go to `queue`, the newest first.
    pub(super) async fn batch_rows(
        &mut self,
        queue: &str,
        open: bool,
        before: Option<BatchId>,
        max: usize,
    ) -> Result<Vec<BatchRow>, Error> {
        let mut command = self.command(LIST_BATCHES);
        command.bind_param("@queue", queue);
        command.bind_param("@open", open);
        command.bind_param("@before", before.map(|batch| batch.0));
        command.bind_param("@max", int(max));
        self.rows(LIST_BATCHES, command).await?.into_iter().map(read_batch).collect()
    }
}

/// Creates a batch on the caller's own connection, inside its transaction if one is open: with the jobs that
/// [`enqueue_in`](super::enqueue_in) adds to it, and with [`seal_batch_in`], it comes into being when the transaction
/// commits. Otherwise as [`Queue::create_batch`](super::Queue::create_batch); the follow-up goes to `queue`.
///
/// ```no_run
/// use readpast::tiberius::Client;
/// use readpast::{NewBatch, NewJob, create_batch_in, enqueue_in, seal_batch_in};
/// # use readpast::futures_io::{AsyncRead, AsyncWrite};
///
/// # async fn order<S: AsyncRead + AsyncWrite + Unpin + Send>(client: &mut Client<S>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// client.begin_transaction().await?;
/// let batch = NewBatch::new().then(NewJob::text("add up"));
/// let batch = create_batch_in(client, "readpast", "invoices", &batch).await?;
/// enqueue_in(client, "readpast", "invoices", &[NewJob::json(&7)?.batch(batch)]).await?;
/// seal_batch_in(client, "readpast", batch).await?;
/// client.commit_transaction().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`Queue::create_batch`](super::Queue::create_batch); an error inside of the procedure rolls back the caller's
/// transaction, see [`enqueue_in`](super::enqueue_in). After [`Error::ConnectionLost`], [`Error::Protocol`] or
/// [`Error::UnreadableText`], drop the client.
///
/// # Cancel safety
///
/// Not cancel safe: when the future is dropped, drop the client too.
pub async fn create_batch_in<S>(
    client: &mut tiberius::Client<S>,
    schema: &str,
    queue: &str,
    batch: &NewBatch,
) -> Result<BatchId, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    check_schema(schema)?;
    batch.check()?;
    read_created(&run(client, schema, create_command(schema, queue, batch)).await?)
}

/// Seals a batch on the caller's own connection, inside its transaction if one is open, see [`create_batch_in`]. Until
/// that ends, acknowledgements of the batch's jobs wait: have it last.
///
/// # Errors
///
/// As [`Queue::seal_batch`](super::Queue::seal_batch) and [`create_batch_in`].
///
/// # Cancel safety
///
/// Not cancel safe: when the future is dropped, drop the client too.
pub async fn seal_batch_in<S>(
    client: &mut tiberius::Client<S>,
    schema: &str,
    batch: BatchId,
) -> Result<SealedBatch, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    check_schema(schema)?;
    let result = run(client, schema, seal_command(schema, batch)).await?;
    read_sealed(one_row(SEAL_BATCH, into_rows(SEAL_BATCH, result))?)
}

fn create_command<'a>(schema: &str, queue: &'a str, batch: &'a NewBatch) -> Command<'a> {
    let mut command = Command::new(procedure(schema, CREATE_BATCH));
    command.bind_param("@queue", queue);
    command.bind_param("@name", batch.name.as_deref());
    if let Some(job) = &batch.follow_up {
        command.bind_param("@payload", job.payload.as_slice());
        command.bind_param("@priority", job.priority);
        command.bind_param("@max_attempts", job.max_attempts.map(int));
        command.bind_param("@correlation_id", job.correlation_id);
        command.bind_param("@kind", job.kind.as_deref());
        command.bind_param("@time_limit_ms", job.time_limit.map(ms));
        command.bind_param("@headers", TraceContext::current().headers_of(job).map(|headers| headers.json()));
    }
    command.bind_param("@parent_id", batch.parent.map(|parent| parent.0));
    command.bind_out_param("@batch_id", 0_i64); // the value gives the parameter its type
    command
}

fn read_created(result: &Answer) -> Result<BatchId, Error> {
    let missing = || Error::Protocol { message: "create_batch returned no batch_id".to_string() };
    result.try_return_value("@batch_id").ok().flatten().map(BatchId).ok_or_else(missing)
}

fn seal_command<'a>(schema: &str, batch: BatchId) -> Command<'a> {
    let mut command = Command::new(procedure(schema, SEAL_BATCH));
    command.bind_param("@batch_id", batch.0);
    command
}

fn read_sealed(mut row: Columns) -> Result<SealedBatch, Error> {
    Ok(SealedBatch { jobs: row.big_count("members")?, ended: row.required("ended")? })
}

fn read_batch(mut row: Columns) -> Result<BatchRow, Error> {
    Ok(BatchRow {
        batch_id: BatchId(row.required("batch_id")?),
        name: row.optional("name")?,
        parent_id: row.optional("parent_id")?.map(BatchId),
        queue: row.required("queue")?,
        created_at: row.required_time("created_at")?,
        sealed_at: row.optional_time("sealed_at")?,
        ended_at: row.optional_time("ended_at")?,
        jobs: row.big_count("members")?,
        done: row.big_count("done")?,
        dead: row.big_count("dead")?,
        cancelled: row.big_count("cancelled")?,
        follow_up_id: row.optional("follow_up_id")?.map(JobId),
    })
}
