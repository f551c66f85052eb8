//! Batches: the calls of producers, and those with which operators list and cancel them.

use tiberius::Command;

use crate::connection::{Answer, Columns, Session, int, ms, procedure};
use crate::error::Error;
use crate::id::{BatchId, JobId};
use crate::job::{BatchRow, NewBatch, SealedBatch, TraceContext};

/// The names of the calls.
const CREATE_BATCH: &str = "create_batch";

pub(crate) const SEAL_BATCH: &str = "seal_batch";

const LIST_BATCHES: &str = "list_batches";

impl Session {
    /// Creates a batch whose follow-up goes to `queue`.
    pub(crate) async fn create_batch(&mut self, queue: &str, batch: &NewBatch) -> Result<BatchId, Error> {
        batch.check()?;
        let command = create_command(self.schema(), queue, batch);
        read_created(&self.run(CREATE_BATCH, command).await?)
    }

    /// Seals a batch.
    pub(crate) async fn seal_batch(&mut self, batch: BatchId) -> Result<SealedBatch, Error> {
        let command = seal_command(self.schema(), batch);
        read_sealed(self.row(SEAL_BATCH, command).await?)
    }

    /// Returns one batch, or `None` if no batch has this id.
    pub(crate) async fn batch_row(&mut self, batch: BatchId) -> Result<Option<BatchRow>, Error> {
        let mut command = self.command(LIST_BATCHES);
        command.bind_param("@batch_id", batch.0);
        let mut rows = self.rows(LIST_BATCHES, command).await?;
        rows.pop().map(read_batch).transpose()
    }

    /// Returns a page of the batches whose follow-ups go to `queue`, the newest first.
    pub(crate) async fn batch_rows(
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

pub(crate) fn create_command<'a>(schema: &str, queue: &'a str, batch: &'a NewBatch) -> Command<'a> {
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
        if let Some(needs) = &job.needs {
            command.bind_param("@needs", needs.json());
        }
    }
    command.bind_param("@parent_id", batch.parent.map(|parent| parent.0));
    command.bind_out_param("@batch_id", 0_i64); // the value gives the parameter its type
    command
}

pub(crate) fn read_created(result: &Answer) -> Result<BatchId, Error> {
    let missing = || Error::Protocol { message: "create_batch returned no batch_id".to_string() };
    result.try_return_value("@batch_id").ok().flatten().map(BatchId).ok_or_else(missing)
}

pub(crate) fn seal_command<'a>(schema: &str, batch: BatchId) -> Command<'a> {
    let mut command = Command::new(procedure(schema, SEAL_BATCH));
    command.bind_param("@batch_id", batch.0);
    command
}

pub(crate) fn read_sealed(mut row: Columns) -> Result<SealedBatch, Error> {
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
