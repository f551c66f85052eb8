//! `enqueue` and `enqueue_batch`: one job, and many in chunks.

use std::borrow::Cow;

use tiberius::{ColumnData, Command, SqlTableDataRow, TableValueRow};

use crate::connection::{Answer, Columns, Session, id_rows, int, ms, procedure, table_type};
use crate::error::Error;
use crate::id::{BatchId, Enqueued, JobId};
use crate::job::{
    MAX_PARENTS, MAX_TABLE_VALUE_BYTES, Needs, NewJob, OnDead, ParentRef, TraceContext, check_jobs, due_at, start_by,
};

/// The names of the calls.
pub(crate) const ENQUEUE: &str = "enqueue";

pub(crate) const ENQUEUE_BATCH: &str = "enqueue_batch";

/// The table types that `enqueue_batch` takes.
const ENQUEUE_LIST: &str = "enqueue_list";

const DETAIL_LIST: &str = "detail_list";

const EDGE_LIST: &str = "edge_list";

/// The most jobs in one chunk, so that a transaction locks few rows, and little work is repeated after an error.
const MAX_CHUNK_JOBS: usize = 1_000;

/// The most payload bytes in one chunk, because the driver builds the whole message in memory.
const MAX_CHUNK_BYTES: usize = 8 << 20;

impl Session {
    /// Enqueues one chunk of jobs in one transaction, or a single job in one round trip. Returns `None` if this part
    /// was enqueued before.
    ///
    /// # Errors
    ///
    /// [`Error::QueueFull`], or [`Error::EnqueuedInPart`] with that cause if there was room for the first jobs.
    pub(crate) async fn enqueue_chunk(
        &mut self,
        queue: &str,
        jobs: &[NewJob],
        part: Option<Part>,
    ) -> Result<Option<Vec<Enqueued>>, Error> {
        let lists = Lists::of(self.schema());
        if let [job] = jobs {
            let mut command = enqueue_command(self.schema(), queue, &lists, job)?;
            bind_part(&mut command, part);
            let result = self.run(ENQUEUE, command).await?;
            if part.is_some() && was_there(&result) {
                return Ok(None);
            }
            return Ok(Some(vec![read_enqueued(&result)?]));
        }
        let mut command = batch_command(self.schema(), queue, &lists, jobs, part)?;
        bind_part(&mut command, part);
        let rows = self.rows(ENQUEUE_BATCH, command).await?;
        if part.is_some() && rows.is_empty() {
            return Ok(None);
        }
        // The call has succeeded, but its refused jobs are counted as those of a call for one job are.
        in_order(rows, jobs.len()).inspect_err(|error| self.note_error(ENQUEUE_BATCH, error)).map(Some)
    }
}

/// The part of a batch that a call enqueues. Each part is enqueued only once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) batch: BatchId,
    pub(crate) number: i64,
}

impl Part {
    /// Rejects jobs that cannot be one part, before anything is sent.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidJob`].
    pub(crate) fn check(self, jobs: &[NewJob]) -> Result<(), Error> {
        check_jobs(jobs)?;
        let invalid = |reason: String| Err(Error::InvalidJob { reason });
        let mut batches = jobs.iter().enumerate().filter_map(|(index, job)| Some((index, job.batch?)));
        if let Some((index, other)) = batches.find(|(_, batch)| *batch != self.batch) {
            return invalid(format!("jobs[{index}] belongs to batch {other}, and the part to batch {}", self.batch));
        }
        if chunk_length(jobs.iter()) < jobs.len() {
            return invalid(format!(
                "a part of a batch must fit one transaction: {MAX_CHUNK_JOBS} jobs, {MAX_CHUNK_BYTES} bytes of payload and \
                 {MAX_PARENTS} parents, and a payload of more than {MAX_TABLE_VALUE_BYTES} bytes alone; these are {} jobs \
                 and {} bytes, with {} parents",
                jobs.len(),
                jobs.iter().map(|job| job.payload.len()).sum::<usize>(),
                jobs.iter().map(|job| job.parents.len()).sum::<usize>(),
            ));
        }
        Ok(())
    }
}

/// The next of the chunks in which `jobs` are enqueued, after those that are `enqueued`; empty at the end. Each is its own
/// transaction unless the caller has opened one.
pub(crate) fn next_chunk<'a>(jobs: &'a [NewJob], enqueued: &[Enqueued]) -> Cow<'a, [NewJob]> {
    let rest = &jobs[enqueued.len()..];
    let chunk = &rest[..chunk_length(rest.iter())];
    match chunk.iter().any(NewJob::is_after_earlier) && !enqueued.is_empty() {
        true => Cow::Owned(NewJob::rest(&jobs[..enqueued.len() + chunk.len()], enqueued)),
        false => Cow::Borrowed(chunk),
    }
}

/// Whether the payload is too large for a table-valued parameter.
pub(crate) fn is_large(job: &NewJob) -> bool {
    job.payload.len() > MAX_TABLE_VALUE_BYTES
}

/// Whether the job has rare attributes, other than a batch or the trace context of its caller.
pub(crate) fn has_details(job: &NewJob) -> bool {
    job.time_limit.is_some()
        || job.headers.is_some()
        || job.group_key.is_some()
        || job.needs.is_some()
        || job.latest_start.is_some()
}

/// Returns how many of the first jobs make a chunk: at least one, if there is one. A large job is a chunk of its own.
pub(crate) fn chunk_length<'a>(jobs: impl Iterator<Item = &'a NewJob>) -> usize {
    let (mut bytes, mut parents) = (0, 0);
    let mut jobs = jobs.peekable();
    let least = jobs.peek().map_or(0, |_| 1);
    let fits = |job: &&NewJob| {
        bytes += job.payload.len();
        parents += job.parents.len();
        bytes <= MAX_CHUNK_BYTES && parents <= MAX_PARENTS && !is_large(job)
    };
    jobs.take(MAX_CHUNK_JOBS).take_while(fits).count().max(least)
}

/// The call of `enqueue` for one job.
pub(crate) fn enqueue_command<'a>(
    schema: &str,
    queue: &'a str,
    lists: &'a Lists,
    job: &'a NewJob,
) -> Result<Command<'a>, Error> {
    let due_at = due_at(job)?;
    let mut command = Command::new(procedure(schema, ENQUEUE));
    command.bind_param("@queue", queue);
    command.bind_param("@payload", job.payload.as_slice());
    command.bind_param("@priority", job.priority);
    if let Some(delay) = job.delay {
        command.bind_param("@delay_ms", ms(delay));
    }
    if due_at != ColumnData::DateTime2(None) {
        command.bind_param("@due_at", due_at);
    }
    if let Some(max_attempts) = job.max_attempts {
        command.bind_param("@max_attempts", int(max_attempts));
    }
    if let Some(key) = &job.dedup_key {
        command.bind_param("@dedup_key", key.as_str());
    }
    if let Some(correlation_id) = job.correlation_id {
        command.bind_param("@correlation_id", correlation_id);
    }
    if let Some(kind) = &job.kind {
        command.bind_param("@kind", kind.as_str());
    }
    if let Some(limit) = job.time_limit {
        command.bind_param("@time_limit_ms", ms(limit));
    }
    if let Some(headers) = TraceContext::current().headers_of(job) {
        command.bind_param("@headers", headers.json());
    }
    if let Some(key) = &job.group_key {
        command.bind_param("@group_key", key.as_str());
    }
    if let Some(batch) = job.batch {
        command.bind_param("@batch_id", batch.0);
    }
    if let Some(needs) = &job.needs {
        command.bind_param("@needs", needs.json());
    }
    if job.latest_start.is_some() {
        command.bind_param("@start_by", start_by(job)?);
        command.bind_param("@start_within_ms", job.start_within_time().map(ms));
    }
    if !job.parents.is_empty() {
        // A job cannot wait for one of the same call, which has only this job.
        let ids = job.parents.iter().filter_map(|parent| match parent {
            ParentRef::Job(job_id) => Some(*job_id),
            ParentRef::Earlier(_) => None,
        });
        command.bind_table_with_dbtype("@after", &lists.ids, id_rows(&ids.collect::<Vec<_>>()));
        command.bind_param("@on_dead", job.on_dead.word());
    }
    // The values do not matter: they give the parameters their types.
    command.bind_out_param("@job_id", 0_i64);
    command.bind_out_param("@duplicate", false);
    Ok(command)
}

fn bind_part(command: &mut Command<'_>, part: Option<Part>) {
    if let Some(Part { batch, number }) = part {
        command.bind_param("@part_of", batch.0);
        command.bind_param("@part", number);
    }
}

/// Reads whether a part was enqueued before. (A duplicate of a job is something else.)
fn was_there(result: &Answer) -> bool {
    let job_id: Option<i64> = result.try_return_value("@job_id").ok().flatten();
    let duplicate: Option<bool> = result.try_return_value("@duplicate").ok().flatten();
    job_id.is_none() && duplicate == Some(true)
}

pub(crate) fn read_enqueued(result: &Answer) -> Result<Enqueued, Error> {
    let missing = || Error::Protocol { message: "enqueue returned no job_id".to_string() };
    let job_id = result.try_return_value("@job_id").ok().flatten().ok_or_else(missing)?;
    let duplicate = result.try_return_value("@duplicate").ok().flatten().ok_or_else(missing)?;
    Ok(Enqueued { job_id: JobId(job_id), duplicate })
}

/// The names of the table types that `enqueue_batch` takes.
pub(crate) struct Lists {
    jobs: String,
    details: String,
    edges: String,
    ids: String,
}

impl Lists {
    pub(crate) fn of(schema: &str) -> Lists {
        Lists {
            jobs: table_type(schema, ENQUEUE_LIST),
            details: table_type(schema, DETAIL_LIST),
            edges: table_type(schema, EDGE_LIST),
            ids: table_type(schema, "id_list"),
        }
    }
}

/// The call of `enqueue_batch` for a chunk.
pub(crate) fn batch_command<'a>(
    schema: &str,
    queue: &'a str,
    lists: &'a Lists,
    jobs: &'a [NewJob],
    part: Option<Part>,
) -> Result<Command<'a>, Error> {
    let mut rows = Vec::with_capacity(jobs.len());
    let mut details = Vec::new();
    let trace = TraceContext::current();
    for (ordinal, job) in (1..).zip(jobs) {
        let due_at = due_at(job)?;
        rows.push(EnqueueRow { ordinal, job, due_at });
        let headers = trace.headers_of(job).map(|headers| headers.json());
        // All jobs of a part belong to its batch.
        let has_batch = job.batch.is_some() && part.is_none();
        if has_details(job) || headers.is_some() || has_batch {
            details.push(DetailRow { ordinal, job, headers, start_by: start_by(job)? });
        }
    }
    let mut command = Command::new(procedure(schema, ENQUEUE_BATCH));
    command.bind_param("@queue", queue);
    command.bind_table_with_dbtype("@jobs", &lists.jobs, rows);
    // A list that is left out is empty. Each list costs another round trip.
    if !details.is_empty() {
        command.bind_table_with_dbtype("@details", &lists.details, details);
    }
    let edges =
        jobs.iter().zip(1..).flat_map(|(job, ordinal)| job.parents.iter().map(move |parent| (ordinal, job, parent)));
    let edges: Vec<EdgeRow> = edges
        .zip(1..)
        .map(|((ordinal, job, parent), place)| EdgeRow { place, ordinal, parent: *parent, on_dead: job.on_dead })
        .collect();
    if !edges.is_empty() {
        command.bind_table_with_dbtype("@edges", &lists.edges, edges);
    }
    command.bind_param("@in_part", true);
    Ok(command)
}

/// The results of a chunk, in the order of its jobs.
///
/// # Errors
///
/// [`Error::QueueFull`], or [`Error::EnqueuedInPart`] with that cause if there was room for the first jobs.
pub(crate) fn in_order(rows: Vec<Columns>, expected: usize) -> Result<Vec<Enqueued>, Error> {
    let returned = rows.len();
    let mut answers = Vec::with_capacity(returned);
    let mut full = None;
    for mut row in rows {
        let ordinal: i32 = row.required("ordinal")?;
        let job_id: Option<i64> = row.optional("job_id")?;
        let duplicate = row.required("duplicate")?;
        let refused: Option<String> = row.optional("refused")?;
        match job_id {
            Some(job_id) => answers.push((ordinal, Enqueued { job_id: JobId(job_id), duplicate })),
            None => full = refused.or(full),
        }
    }
    answers.sort_unstable_by_key(|(ordinal, _)| *ordinal);
    let enqueued: Vec<Enqueued> = answers.into_iter().map(|(_, enqueued)| enqueued).collect();
    match full.map(|message| Error::QueueFull { message }) {
        Some(full) if enqueued.is_empty() => Err(full),
        Some(full) => Err(Error::EnqueuedInPart { enqueued, cause: Box::new(full) }),
        None if enqueued.len() == expected => Ok(enqueued),
        None => {
            Err(Error::Protocol { message: format!("enqueue_batch returned rows for {returned} of {expected} jobs") })
        }
    }
}

/// One row of the table type `enqueue_list`.
struct EnqueueRow<'a> {
    ordinal: i32,
    job: &'a NewJob,
    due_at: ColumnData<'static>,
}

impl<'a> TableValueRow<'a> for EnqueueRow<'a> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.ordinal);
        row.add_field(self.job.payload.as_slice());
        row.add_field(None::<Cow<'a, str>>);
        row.add_field(self.job.priority);
        row.add_field(self.job.delay.map(ms));
        row.add_field(self.due_at.clone());
        row.add_field(self.job.max_attempts.map(int));
        row.add_field(self.job.dedup_key.as_deref());
        row.add_field(self.job.correlation_id);
        row.add_field(self.job.kind.as_deref());
    }

    fn get_db_type() -> &'static str {
        ENQUEUE_LIST
    }
}

/// One row of the table type `detail_list`.
struct DetailRow<'a> {
    ordinal: i32,
    job: &'a NewJob,
    headers: Option<String>,
    start_by: ColumnData<'static>,
}

impl<'a> TableValueRow<'a> for DetailRow<'a> {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.ordinal);
        row.add_field(self.job.time_limit.map(ms));
        row.add_field(self.headers.clone());
        row.add_field(self.job.group_key.as_deref());
        row.add_field(self.job.batch.map(|batch| batch.0));
        row.add_field(self.job.needs.as_ref().map(Needs::json));
        row.add_field(self.start_by.clone());
        row.add_field(self.job.start_within_time().map(ms));
    }

    fn get_db_type() -> &'static str {
        DETAIL_LIST
    }
}

/// One row of the table type `edge_list`.
struct EdgeRow {
    place: i32,
    /// Of the job that waits.
    ordinal: i32,
    parent: ParentRef,
    on_dead: OnDead,
}

impl<'a> TableValueRow<'a> for EdgeRow {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        let (parent_id, parent_ordinal) = match self.parent {
            ParentRef::Job(job_id) => (Some(job_id.0), None),
            ParentRef::Earlier(place) => (None, Some(int(place + 1))),
        };
        row.add_field(self.ordinal);
        row.add_field(self.place);
        row.add_field(parent_id);
        row.add_field(parent_ordinal);
        row.add_field(self.on_dead.word());
    }

    fn get_db_type() -> &'static str {
        EDGE_LIST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_bounded_by_count_and_by_bytes() {
        let length = |jobs: &[NewJob]| chunk_length(jobs.iter());
        assert_eq!(length(&vec![NewJob::bytes([]); 2_500]), 1_000);
        assert_eq!(length(&vec![NewJob::bytes(vec![0; 60_000]); 200]), 139);
        let large = NewJob::bytes(vec![0; 65_536]);
        let small = NewJob::bytes([]);
        assert_eq!(length(&[large.clone(), small.clone()]), 1);
        assert_eq!(length(&[small.clone(), small, large]), 2);
        assert_eq!(length(&[]), 0);
        let child = NewJob::bytes([]).after((0..4_000).map(JobId));
        assert_eq!(length(&vec![child; 3]), 2);
    }
}
