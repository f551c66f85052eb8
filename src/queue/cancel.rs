//! Cancelling jobs.

use serde::Serialize;

use super::id_list::id_rows;
use super::lasting_session::Session;
use super::parameters::table_type;
use super::result_columns::Columns;
use crate::error::Error;
use crate::ids::{Fence, JobId};

/// What [`Queue::cancel`](super::Queue::cancel) has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cancelled {
    /// Jobs that waited: they are cancelled now.
    pub waiting: u64,
    /// Jobs that run: their workers are told. They are cancelled when they end, unless they are done then.
    pub running: u64,
}

impl Cancelled {
    pub(super) fn add(&mut self, other: Cancelled) {
        self.waiting += other.waiting;
        self.running += other.running;
    }
}

/// The answer to one call.
pub(crate) struct CancelAnswer {
    pub(crate) cancelled: Cancelled,
    /// Those that run.
    pub(crate) running: Vec<(JobId, Fence)>,
}

impl CancelAnswer {
    /// Reads the rows of `cancel`.
    pub(super) fn read(rows: impl IntoIterator<Item = Columns>) -> Result<CancelAnswer, Error> {
        let mut answer = CancelAnswer { cancelled: Cancelled::default(), running: Vec::new() };
        for mut row in rows {
            let job = (JobId(row.required("job_id")?), Fence(row.required("fence")?));
            if row.required("running")? {
                answer.cancelled.running += 1;
                answer.running.push(job);
            } else {
                answer.cancelled.waiting += 1;
            }
        }
        Ok(answer)
    }
}

impl Session {
    /// Cancels jobs, at most 1,000.
    pub(crate) async fn cancel(&mut self, queue: &str, jobs: &[JobId], why: &str) -> Result<CancelAnswer, Error> {
        let list = table_type(self.schema(), "id_list");
        let mut command = self.command("cancel");
        command.bind_param("@queue", queue);
        command.bind_param("@why", why);
        match jobs {
            [job_id] => command.bind_param("@job_id", job_id.0), // without the round trip that a list costs
            jobs => command.bind_table_with_dbtype("@jobs", &list, id_rows(jobs)),
        }
        CancelAnswer::read(self.rows("cancel", command).await?)
    }
}
