//! How the jobs ended that a job has waited for, for the program that runs it.

use std::io::Write;

use readpast::{BoxError, Context, Job, JobEnd, JobId};
use serde::Serialize;
use tempfile::{NamedTempFile, TempPath};

use super::program::not_written;
use crate::hex;

/// A job that the job has waited for.
#[derive(Serialize)]
pub struct Parent {
    job_id: JobId,
    state: &'static str,
    error: Option<String>,
    output_text: Option<String>,
    output_hex: Option<String>,
}

/// Asks SQL Server; `None` for a job that has waited for none.
pub fn of(job: &Job, context: &Context) -> Result<Option<Vec<Parent>>, BoxError> {
    if !job.has_parents() {
        return Ok(None);
    }
    Ok(Some(context.parents()?.into_iter().map(|(job_id, end)| Parent::new(job_id, end)).collect()))
}

/// The same as a file of JSON that only this user can read. It is removed when dropped.
pub fn file(job: &Job, context: &Context) -> Result<Option<TempPath>, BoxError> {
    let Some(parents) = of(job, context)? else { return Ok(None) };
    let json = serde_json::to_vec(&parents)?;
    let written = || {
        let mut file = NamedTempFile::with_prefix("readpast-parents-")?;
        file.write_all(&json)?;
        Ok(file.into_temp_path())
    };
    written().map(Some).map_err(|error| not_written("the outputs that the job has waited for", error))
}

impl Parent {
    fn new(job_id: JobId, end: JobEnd) -> Parent {
        let (state, error, output) = match end {
            JobEnd::Done { output } => ("done", None, output),
            JobEnd::Dead { error } => ("dead", Some(error), None),
            JobEnd::Cancelled { error } => ("cancelled", Some(error), None),
            _ => ("done", None, None),
        };
        let (output_text, output_hex) = match output.map(String::from_utf8) {
            Some(Ok(text)) => (Some(text), None),
            Some(Err(bytes)) => (None, Some(hex::digits(bytes.as_bytes()))),
            None => (None, None),
        };
        Parent { job_id, state, error, output_text, output_hex }
    }
}
