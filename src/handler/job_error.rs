//! The error with which a handler says why a job failed, and what happens to the job.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::error::{BoxError, InvalidPayload};
use crate::time::TEN_YEARS;

/// A failure that says what happens to the job.
///
/// A handler may return any error. The job is then retried by the retry policy until its attempts are used up. A
/// `JobError` overrides this, even if other errors wrap it. If there are several, the outermost counts. An
/// [`Error::Payload`](crate::error::Error::Payload) makes the job dead immediately, because a retry would find the same
/// payload.
///
/// The cause may be a text or any other error:
///
/// ```
/// use std::time::Duration;
///
/// use readpast::{BoxError, Context, Job, JobError};
///
/// fn import(job: &Job, _context: &Context) -> Result<(), BoxError> {
///     let path: std::path::PathBuf = job.json()?;
///     if path.is_relative() {
///         return Err(JobError::dead("the path must be absolute").into());
///     }
///     if !path.exists() {
///         return Err(JobError::snooze(Duration::from_secs(60), "the file is not there yet").into());
///     }
///     let text = std::fs::read_to_string(&path).map_err(JobError::dead)?;
///     # let _ = text;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct JobError {
    verdict: Judged,
}

/// The decision about a failed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Retried after the delay of the retry policy.
    Retry,
    /// Retried after this delay.
    RetryIn(Duration),
    /// Not retried.
    Dead,
    /// Runs again after this delay, and this attempt does not count.
    Snooze(Duration),
    /// Goes to this queue.
    MoveTo(String),
    /// What its kind does at [`OutOfMemory`](super::out_of_memory::OutOfMemory).
    OutOfMemory,
}

/// The verdict and the cause. This is the source of its [`JobError`], so it is found even if `anyhow` has wrapped the
/// `JobError` into its own type, which cannot be downcast but has the same sources.
#[derive(Debug)]
struct Judged {
    verdict: Verdict,
    cause: BoxError,
}

impl JobError {
    /// A failure that is retried by the retry policy.
    pub fn retry(cause: impl Into<BoxError>) -> JobError {
        JobError::new(Verdict::Retry, cause)
    }

    /// A failure that is retried after `delay` (at most ten years), whatever the retry policy says.
    pub fn retry_in(delay: Duration, cause: impl Into<BoxError>) -> JobError {
        JobError::new(Verdict::RetryIn(delay.min(TEN_YEARS)), cause)
    }

    /// A permanent failure: the job becomes dead, with this cause, until an operator requeues or purges it.
    pub fn dead(cause: impl Into<BoxError>) -> JobError {
        JobError::new(Verdict::Dead, cause)
    }

    /// Not a failure: the job came too early. It runs again after `delay` (at most ten years), and this attempt does
    /// not count, so a job may be snoozed any number of times. Until then, the job's `error` contains the cause.
    ///
    /// A queue with delivery `at_most_once` cannot take a job back, so the job becomes dead.
    pub fn snooze(delay: Duration, cause: impl Into<BoxError>) -> JobError {
        JobError::new(Verdict::Snooze(delay.min(TEN_YEARS)), cause)
    }

    /// A failure that another queue can deal with: the job goes to this queue of the same schema, in the transaction
    /// that finishes it. It keeps its id, payload, priority, batch, checkpoint, needs and past attempts, to which this
    /// one is added. In the new queue it is ready at once, or waits for its turn in its group, and has all its attempts
    /// again: its own [`max_attempts`](crate::job::NewJob::max_attempts), or those of the new queue.
    ///
    /// The job becomes dead instead, and its error says why, if the queue does not exist, is its own or has delivery
    /// `at_most_once`, if an unfinished job there has its deduplication key, or if it has been moved ten times already
    /// since it was enqueued or requeued. A queue with delivery `at_most_once` cannot take a job back, so its jobs
    /// become dead, too.
    ///
    /// ```
    /// use readpast::{Context, Handlers, Job, JobError, NewJob, Outcome};
    ///
    /// let handlers = Handlers::any(|job, _context| match job.payload().len() {
    ///     0..1_000_000 => Ok(()),
    ///     bytes => Err(JobError::move_to("large", format!("{bytes} bytes are too many for this machine")).into()),
    /// });
    /// let outcome = handlers.run_for_test(Context::for_test(Job::for_test(NewJob::bytes(vec![0; 1_000_000]))));
    /// let error = "1000000 bytes are too many for this machine".to_owned();
    /// assert_eq!(outcome, Outcome::Move { queue: "large".to_owned(), error });
    /// ```
    pub fn move_to(queue: impl Into<String>, cause: impl Into<BoxError>) -> JobError {
        JobError::new(Verdict::MoveTo(queue.into()), cause)
    }

    /// A failure for lack of memory. [`KindOptions::on_out_of_memory`](super::kind_options::KindOptions::on_out_of_memory)
    /// decides what happens to the job. By default, it is retried by the retry policy.
    pub fn out_of_memory(cause: impl Into<BoxError>) -> JobError {
        JobError::new(Verdict::OutOfMemory, cause)
    }

    fn new(verdict: Verdict, cause: impl Into<BoxError>) -> JobError {
        JobError { verdict: Judged { verdict, cause: cause.into() } }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verdict.cause.fmt(f)
    }
}

impl StdError for JobError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.verdict)
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Retry => write!(f, "the job will be retried"),
            Verdict::RetryIn(delay) => write!(f, "the job will be retried in {delay:?}"),
            Verdict::Dead => write!(f, "the job will not be retried"),
            Verdict::Snooze(delay) => write!(f, "the job will run again in {delay:?}"),
            Verdict::MoveTo(queue) => write!(f, "the job will be moved to queue '{queue}'"),
            Verdict::OutOfMemory => write!(f, "the job ran out of memory"),
        }
    }
}

impl StdError for Judged {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.source()
    }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns the verdict of a handler's error.
pub(crate) fn verdict(error: &(dyn StdError + 'static)) -> Verdict {
    for link in chain(error) {
        // The outermost verdict counts. A cause inside it is not a link of the chain, so the cause's own verdict is
        // overruled.
        if let Some(judged) = link.downcast_ref::<Judged>() {
            return judged.verdict.clone();
        }
        if link.is::<InvalidPayload>() {
            return Verdict::Dead;
        }
    }
    Verdict::Retry
}

/// The text of an error and its causes. A cause whose text is already contained in the error's text is left out.
pub(crate) fn message(error: &(dyn StdError + 'static)) -> String {
    let mut message = error.to_string();
    for cause in chain(error).skip(1).filter(|link| !link.is::<Judged>()) {
        let cause = cause.to_string();
        if !message.contains(&cause) {
            message.push_str(": ");
            message.push_str(&cause);
        }
    }
    message
}

/// The error of a run that has panicked.
pub(super) fn panic_error(what: &str, panic: Box<dyn Any + Send>) -> BoxError {
    let error = JobError::retry(format!("{what}: {}", panic_message(&*panic)));
    // A panic's payload is the handler's, and its drop may panic as well.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    error.into()
}

/// The text of a panic, if it has one.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(message) = panic.downcast_ref::<&str>() {
        message
    } else if let Some(message) = panic.downcast_ref::<String>() {
        message
    } else {
        "no message"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::id::JobId;

    /// Many libraries write errors like this one, which contains its cause's text.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot price the trade: {0}")]
    struct Price(#[source] std::num::ParseIntError);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot run the batch")]
    struct Wrapped(#[source] BoxError);

    fn not_a_number() -> std::num::ParseIntError {
        "x".parse::<i32>().unwrap_err()
    }

    fn told(error: impl Into<BoxError>) -> (Verdict, String) {
        let error = error.into();
        (verdict(&*error), message(&*error))
    }

    #[test]
    fn an_error_s_causes_appear_once() {
        let text = "cannot run the batch: cannot price the trade: invalid digit found in string";
        let error = || Wrapped(Price(not_a_number()).into());
        assert_eq!(told(error()), (Verdict::Retry, text.to_owned()));
        assert_eq!(told(JobError::dead(error())), (Verdict::Dead, text.to_owned()));
        assert_eq!(told(anyhow::Error::from(error())), (Verdict::Retry, text.to_owned()));
    }

    #[test]
    fn a_verdict_is_found_wherever_it_stands() {
        let dead = || JobError::dead(not_a_number());
        let text = "invalid digit found in string".to_owned();
        assert_eq!(told(dead()), (Verdict::Dead, text.clone()));
        assert_eq!(told(anyhow::Error::from(dead())), (Verdict::Dead, text));
        let text = "cannot run the batch: invalid digit found in string".to_owned();
        assert_eq!(told(Wrapped(dead().into())), (Verdict::Dead, text.clone()));
        assert_eq!(told(anyhow::Error::from(dead()).context("cannot run the batch")), (Verdict::Dead, text.clone()));
        assert_eq!(told(Wrapped(anyhow::Error::from(dead()).into())), (Verdict::Dead, text));
    }

    #[test]
    fn the_outermost_verdict_counts() {
        let delay = Duration::from_secs(5);
        for (error, verdict) in [
            (JobError::retry(JobError::dead("no")), Verdict::Retry),
            (JobError::retry_in(delay, JobError::dead("no")), Verdict::RetryIn(delay)),
            (JobError::snooze(delay, JobError::dead("no")), Verdict::Snooze(delay)),
            (JobError::dead(JobError::retry("no")), Verdict::Dead),
            (JobError::move_to("large", JobError::dead("no")), Verdict::MoveTo("large".to_owned())),
            (JobError::out_of_memory(JobError::dead("no")), Verdict::OutOfMemory),
        ] {
            assert_eq!(told(error), (verdict, "no".to_owned()));
        }
    }

    #[test]
    fn an_invalid_payload_is_dead_however_it_is_wrapped() {
        let error = || Error::Payload { job_id: JobId(7), reason: InvalidPayload::new("not UTF-8".to_owned()) };
        let text = "invalid payload of job 7: not UTF-8".to_owned();
        assert_eq!(told(error()), (Verdict::Dead, text.clone()));
        assert_eq!(told(anyhow::Error::from(error())), (Verdict::Dead, text));
        assert_eq!(told(JobError::retry(error())).0, Verdict::Retry);
    }

    #[test]
    fn no_delay_is_longer_than_the_procedures_take() {
        assert_eq!(told(JobError::retry_in(Duration::MAX, "later")).0, Verdict::RetryIn(TEN_YEARS));
        assert_eq!(told(JobError::snooze(Duration::MAX, "later")).0, Verdict::Snooze(TEN_YEARS));
    }
}
