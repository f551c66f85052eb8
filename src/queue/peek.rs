//! Looking at jobs.

use tiberius::{ColumnData, Command};

use super::datetime2::to_datetime2;
use super::job_row::JobRow;
use super::job_state::JobState;
use super::lane::Lane;
use super::parameters::int;
use crate::error::Error;
use crate::ids::JobId;

impl Lane {
    /// Looks at up to `max` jobs in one state, beginning after the row `after`.
    pub(crate) async fn peek(
        &mut self,
        queue: &str,
        state: JobState,
        after: Option<&JobRow>,
        max: usize,
    ) -> Result<Vec<JobRow>, Error> {
        let mut command = self.peek_command(queue);
        command.bind_param("@state", state.word());
        command.bind_param("@max", int(max));
        if let Some(after) = after {
            bind_after(&mut command, state, after)?;
        }
        self.rows("peek", command).await?.into_iter().map(JobRow::read).collect()
    }

    /// Looks at one job.
    pub(crate) async fn peek_one(&mut self, queue: &str, job_id: JobId) -> Result<Option<JobRow>, Error> {
        let mut command = self.peek_command(queue);
        command.bind_param("@job_id", job_id.0);
        self.rows("peek", command).await?.pop().map(JobRow::read).transpose()
    }

    fn peek_command<'a>(&self, queue: &'a str) -> Command<'a> {
        let mut command = self.command("peek");
        command.bind_param("@queue", queue);
        command.bind_param("@texts", false); // JobRow reads the bytes itself
        command
    }
}

/// Names the row that a page begins after, by the columns in whose order the state's jobs stand.
fn bind_after(command: &mut Command<'_>, state: JobState, after: &JobRow) -> Result<(), Error> {
    if after.state != state {
        return Err(Error::Refused {
            message: format!(
                "the page of {} jobs cannot begin after job {}, which is {}",
                state.word(),
                after.job_id,
                after.state.word()
            ),
        });
    }
    command.bind_param("@after", after.job_id.0);
    match state {
        JobState::Ready => {
            command.bind_param("@after_priority", after.priority);
            command.bind_param("@after_alone", after.alone);
        }
        JobState::Scheduled => {
            command.bind_param("@after_time", ColumnData::DateTime2(to_datetime2(after.due_at)));
        }
        JobState::Claimed => {}
        JobState::Done | JobState::Dead | JobState::Archived => {
            command.bind_param("@after_time", ColumnData::DateTime2(after.finished_at.and_then(to_datetime2)));
        }
    }
    Ok(())
}
