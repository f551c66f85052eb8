//! How the jobs ended that a job has waited for, for the program that runs it.

use std::time::Duration;

use readpast::{BoxError, Context, Job, JobEnd, JobError, JobId, Parent};
use serde::Serialize;

use readpast_web::hex;

/// How long a job is put off if SQL Server does not answer.
const PAUSE: Duration = Duration::from_secs(10);

/// A job that the job has waited for.
#[derive(Serialize)]
pub struct ParentEnd {
    job_id: JobId,
    kind: Option<String>,
    state: &'static str,
    error: Option<String>,
    output_text: Option<String>,
    output_hex: Option<String>,
}

/// Asks SQL Server; `None` for a job that has waited for none.
///
/// # Errors
///
/// The job runs again later, without a counted attempt, unless there is too much output.
pub fn of(job: &Job, context: &Context) -> Result<Option<Vec<ParentEnd>>, BoxError> {
    if !job.has_parents() {
        return Ok(None);
    }
    match context.parents() {
        Ok(parents) => Ok(Some(parents.into_iter().map(ParentEnd::new).collect())),
        Err(error) if error.is_transient() => Err(JobError::snooze(PAUSE, error.to_string()).into()),
        Err(error) => Err(error.into()),
    }
}

impl ParentEnd {
    fn new(Parent { job_id, kind, end, .. }: Parent) -> ParentEnd {
        let (state, error, output) = match end {
            JobEnd::Done { output } => ("done", None, output),
            JobEnd::Dead { error } => ("dead", Some(error), None),
            JobEnd::Cancelled { error } => ("cancelled", Some(error), None),
            _ => ("gone", None, None),
        };
        let (output_text, output_hex) = match output.map(String::from_utf8) {
            Some(Ok(text)) => (Some(text), None),
            Some(Err(bytes)) => (None, Some(hex::digits(bytes.as_bytes()))),
            None => (None, None),
        };
        ParentEnd { job_id, kind, state, error, output_text, output_hex }
    }
}
