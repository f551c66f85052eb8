//! The output of a job that is done.

use std::borrow::Cow;

use serde::Serialize;

use crate::config::QueueConfig;
use crate::error::BoxError;
use crate::job::{FollowUp, MAX_TABLE_VALUE_BYTES, MAX_VALUE_BYTES, NewJob, Outcome, TraceContext, check_alone};

use super::job_error::JobError;

/// A job's output: bytes, and the jobs that follow.
///
/// The bytes are passed to the queue's sink ([`QueueOptions::sink`](crate::procedures::operator::QueueOptions::sink)).
/// The completion policies `annotate` and `archive` store them with the job; `delete` drops them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    bytes: Option<Vec<u8>>,
    follow_ups: Vec<FollowUp>,
    /// Whether the handler has finished the job itself.
    finished: bool,
}

/// The most follow-ups of one job, the same as the most jobs that any transaction enqueues.
const MAX_FOLLOW_UPS: usize = 1_000;

/// The most payload bytes of one job's follow-ups together, because one finish call must deliver them in time.
const MAX_FOLLOW_UP_BYTES: usize = 8 << 20;

impl Output {
    /// Sets the bytes, up to 256 MiB. With more, the job becomes dead.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Output {
        Output { bytes: Some(bytes.into()), ..Output::default() }
    }

    /// Enqueues `job` in `queue`, which is this queue or another one in the same schema, in the transaction that
    /// finishes the job. Both happen or neither, and only once, however often the job has run. If the worker no longer
    /// holds the job, its finish is rejected and nothing is enqueued.
    ///
    /// A [deduplication key](NewJob::dedup_key) works as always: if an unfinished job of the queue has the key,
    /// nothing is added. The key may be that of the job that has run, because that job is done by then.
    ///
    /// Takes up to 1,000 jobs, each with a payload of at most 65,535 bytes, and at most 8 MiB together. With more, or
    /// with a job that cannot be enqueued as it is, the job that has run is dead. If the queue does not exist, the
    /// attempt fails.
    ///
    /// ```
    /// use readpast::{BoxError, Context, Job, NewJob, Output};
    ///
    /// fn split(job: &Job, _context: &Context) -> Result<Output, BoxError> {
    ///     let text = job.text()?;
    ///     let pages = text.split('\n').map(NewJob::text);
    ///     Ok(pages.fold(Output::default(), |output, page| output.enqueue("pages", page)))
    /// }
    /// ```
    pub fn enqueue(mut self, queue: impl Into<String>, mut job: NewJob) -> Output {
        job.headers = TraceContext::current().headers_of(&job).map(Cow::into_owned);
        self.follow_ups.push(FollowUp { queue: queue.into(), job });
        self
    }

    /// The output of a job that its handler has finished.
    pub(crate) fn finished() -> Output {
        Output { finished: true, ..Output::default() }
    }

    /// Rejects output that must not be sent. Running the job again would not help.
    ///
    /// # Errors
    ///
    /// The fault, and what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let length = self.bytes.as_ref().map_or(0, Vec::len);
        if length > MAX_VALUE_BYTES {
            return Err(format!("the output is {length} bytes; it must be at most {MAX_VALUE_BYTES} (256 MiB)"));
        }
        let count = self.follow_ups.len();
        if count > MAX_FOLLOW_UPS {
            return Err(format!(
                "the output has {count} follow-ups; it must have at most {MAX_FOLLOW_UPS}; let one of them enqueue the rest"
            ));
        }
        for FollowUp { queue, job } in &self.follow_ups {
            QueueConfig { name: queue.clone() }.validate().map_err(|error| format!("a follow-up: {error}"))?;
            check_alone(job).map_err(|error| format!("a follow-up: {error}"))?;
            let bytes = job.payload.len();
            if bytes > MAX_TABLE_VALUE_BYTES {
                return Err(format!(
                    "the payload of a follow-up is {bytes} bytes; it must be at most {MAX_TABLE_VALUE_BYTES}; store it \
                     elsewhere and enqueue its address"
                ));
            }
        }
        let bytes: usize = self.follow_ups.iter().map(|follow_up| follow_up.job.payload.len()).sum();
        if bytes > MAX_FOLLOW_UP_BYTES {
            return Err(format!(
                "the payloads of the follow-ups are {bytes} bytes in total; they must be at most {MAX_FOLLOW_UP_BYTES} \
                 (8 MiB)"
            ));
        }
        Ok(())
    }

    pub(crate) fn into_outcome(self) -> Outcome {
        if self.finished {
            return Outcome::ByHandler;
        }
        Outcome::Done { output: self.bytes, follow_ups: self.follow_ups }
    }
}

/// The values that a handler may return: nothing (`()`), bytes ([`Output`]), a value as JSON ([`Json`]), or an `Option`
/// of one of these.
pub trait IntoOutput {
    /// Converts the value to the job's output.
    ///
    /// # Errors
    ///
    /// If the value cannot be converted. The job is then treated as for any other error of its handler.
    fn into_output(self) -> Result<Output, BoxError>;
}

/// A job's output as JSON (UTF-8).
///
/// A value that cannot be written as JSON, for example a map whose keys are not strings, makes the job dead, because
/// running it again would not help.
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
