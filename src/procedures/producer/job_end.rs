//! How jobs have ended, for those that wait for it.

use crate::connection::{AnswerLimit, Columns, Session, all_rows, id_rows, table_type};
use crate::error::Error;
use crate::id::JobId;

/// How a job has ended, as [`Queue::wait`](crate::queue::Queue::wait) tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEnd {
    /// It is done.
    Done {
        /// What the handler left behind.
        output: Option<Vec<u8>>,
    },
    /// It is dead: out of attempts, or failed for good.
    Dead {
        /// Its last error; empty where the worker gave none.
        error: String,
    },
    /// Somebody has cancelled it.
    Cancelled {
        /// Who, and why.
        error: String,
    },
    /// The queue does not have it: it was done and deleted
    /// ([`CompletionPolicy::Delete`](crate::job::CompletionPolicy)), it was purged or has expired, or there has never
    /// been such a job. Nobody can tell these apart.
    Gone,
}

/// The states of a job as `outcomes` names them.
#[derive(Clone, Copy)]
enum EndWord {
    Done,
    Dead,
    Cancelled,
    Gone,
}

const STATES: [(&str, EndWord); 4] =
    [("done", EndWord::Done), ("dead", EndWord::Dead), ("cancelled", EndWord::Cancelled), ("gone", EndWord::Gone)];

/// The call by name, as an [`Error::TimedOut`] has it.
pub(crate) const OUTCOMES: &str = "outcomes";

/// How many bytes the outputs of several jobs have at the most.
const MAX_OUTPUTS: u64 = 64 << 20;

/// The longest `varbinary(max)`.
const MAX_OUTPUT: u64 = i32::MAX as u64;

impl Session {
    /// Those of up to 1,000 jobs that have ended, or some of them.
    ///
    /// # Errors
    ///
    /// [`Error::is_too_much`]: ask for fewer jobs. An output of one job always arrives.
    pub(crate) async fn outcomes(&mut self, queue: &str, jobs: &[JobId]) -> Result<Vec<(JobId, JobEnd)>, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command(OUTCOMES);
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs));
        let outputs = if jobs.len() > 1 { MAX_OUTPUTS } else { MAX_OUTPUT };
        let limit = AnswerLimit::of_rows(jobs.len(), outputs);
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
