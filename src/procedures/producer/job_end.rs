//! `outcomes`: how jobs finished, for callers that wait for them.

use crate::connection::{AnswerSizeLimit, Columns, Session, all_rows, id_rows, table_type};
use crate::error::Error;
use crate::id::JobId;

/// How a job finished, as returned by [`Queue::wait`](crate::queue::Queue::wait).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEnd {
    /// It is done.
    Done {
        /// The handler's output.
        output: Option<Vec<u8>>,
    },
    /// It is dead: out of attempts, or failed for good.
    Dead {
        /// The job's last error, or empty if the worker gave none.
        error: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Who cancelled it, and why.
        error: String,
    },
    /// The queue does not contain the job: it was done and deleted
    /// ([`CompletionPolicy::Delete`](crate::job::CompletionPolicy)), it was purged or has expired, or it never existed.
    /// These cases cannot be told apart.
    Gone,
}

/// The states of a job, by their names in `outcomes`.
#[derive(Clone, Copy)]
enum EndWord {
    Done,
    Dead,
    Cancelled,
    Gone,
}

const STATES: [(&str, EndWord); 4] =
    [("done", EndWord::Done), ("dead", EndWord::Dead), ("cancelled", EndWord::Cancelled), ("gone", EndWord::Gone)];

/// The name of the call in an [`Error::TimedOut`].
pub(crate) const OUTCOMES: &str = "outcomes";

/// The most bytes of the outputs of several jobs.
const MAX_OUTPUTS: u64 = 64 << 20;

/// The longest `varbinary(max)`.
const MAX_OUTPUT: u64 = i32::MAX as u64;

impl Session {
    /// Returns the outcomes of the finished jobs among up to 1,000 jobs, or of some of them.
    ///
    /// # Errors
    ///
    /// [`Error::is_too_much`] if the outputs are too large together; ask for fewer jobs. The output of a single job
    /// always fits.
    pub(crate) async fn outcomes(&mut self, queue: &str, jobs: &[JobId]) -> Result<Vec<(JobId, JobEnd)>, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command(OUTCOMES);
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        let outputs = if jobs.len() > 1 { MAX_OUTPUTS } else { MAX_OUTPUT };
        let limit = AnswerSizeLimit::of_rows(jobs.len(), outputs);
        all_rows(OUTCOMES, self.run_up_to(limit, OUTCOMES, command).await?).map(read).collect()
    }
}

fn read(mut row: Columns) -> Result<(JobId, JobEnd), Error> {
    let job_id = JobId(row.required("job_id")?);
    let state = row.one_of("state", &STATES)?;
    let error = row.optional("error")?.unwrap_or_default();
    let output = row.optional("output")?;
    let end = match state {
        EndWord::Done => JobEnd::Done { output },
        EndWord::Dead => JobEnd::Dead { error },
        EndWord::Cancelled => JobEnd::Cancelled { error },
        EndWord::Gone => JobEnd::Gone,
    };
    Ok((job_id, end))
}
