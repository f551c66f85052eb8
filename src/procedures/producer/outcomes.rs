//! `outcomes` and `parents`: how jobs finished, for callers that wait for them, and for jobs that have waited.

use crate::connection::{AnswerSizeLimit, Columns, Session, all_rows, id_rows, table_type};
use crate::error::Error;
use crate::id::JobId;
use crate::job::{JobEnd, MAX_PARENTS, Parent};

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

const PARENTS: &str = "parents";

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
        all_rows(OUTCOMES, self.run_up_to(limit, OUTCOMES, command).await?).map(|mut row| read(&mut row)).collect()
    }
}

impl Session {
    /// Returns how the jobs that a job has waited for ended, in the order of their ids.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if their outputs are too large together.
    pub(crate) async fn parents(&mut self, job_id: JobId) -> Result<Vec<Parent>, Error> {
        let mut command = self.command(PARENTS);
        command.bind_param("@job_id", job_id.0);
        let limit = AnswerSizeLimit::of_rows(MAX_PARENTS, MAX_OUTPUTS);
        let parent = |mut row: Columns| {
            let (job_id, end) = read(&mut row)?;
            Ok(Parent { job_id, end, kind: row.optional("kind")? })
        };
        all_rows(PARENTS, self.run_up_to(limit, PARENTS, command).await?).map(parent).collect()
    }
}

fn read(row: &mut Columns) -> Result<(JobId, JobEnd), Error> {
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
