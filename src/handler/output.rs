//! What a job that is done leaves behind.

use serde::Serialize;

use super::job_error::{BoxError, JobError};
use crate::maximums::MAX_VALUE_BYTES;

/// The bytes that a job leaves behind. Queues with the completion policy `annotate` or `archive` store them beside the
/// job; `delete` drops them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    bytes: Option<Vec<u8>>,
}

impl Output {
    /// These bytes, up to 256 MiB; with more the job is dead.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Output {
        Output { bytes: Some(bytes.into()) }
    }

    /// Refuses what is not even to be sent; running the job again would not help.
    pub(super) fn checked(self) -> Result<Output, BoxError> {
        let length = self.bytes.as_ref().map_or(0, Vec::len);
        if length > MAX_VALUE_BYTES {
            let message = format!("its output has {length} bytes; it must have {MAX_VALUE_BYTES} (256 MiB) at most");
            return Err(JobError::dead(message).into());
        }
        Ok(self)
    }

    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        self.bytes
    }
}

/// What a handler may return: nothing (`()`), bytes ([`Output`]), a value as JSON ([`Json`]), or perhaps one of these
/// (`Option`).
pub trait IntoOutput {
    /// What the job leaves behind.
    ///
    /// # Errors
    ///
    /// When the value cannot be written. The job is then treated as for any other error of its handler.
    fn into_output(self) -> Result<Output, BoxError>;
}

/// A value that a job leaves behind as JSON (UTF-8).
///
/// A value that cannot be written as JSON, for example a map whose keys are no strings, makes the job dead: running it
/// again would not help.
///
/// ```
/// use readpast::{BoxError, Context, Job, Json};
///
/// fn count_words(job: &Job, _context: &Context) -> Result<Json<usize>, BoxError> {
///     Ok(Json(job.text()?.split_whitespace().count()))
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl IntoOutput for () {
    fn into_output(self) -> Result<Output, BoxError> {
        Ok(Output::default())
    }
}

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output, BoxError> {
        Ok(self)
    }
}

impl<T: Serialize> IntoOutput for Json<T> {
    fn into_output(self) -> Result<Output, BoxError> {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => Ok(Output::bytes(bytes)),
            Err(error) => Err(JobError::dead(format!("the output cannot be written as JSON: {error}")).into()),
        }
    }
}

impl<R: IntoOutput> IntoOutput for Option<R> {
    fn into_output(self) -> Result<Output, BoxError> {
        self.map_or(Ok(Output::default()), R::into_output)
    }
}
