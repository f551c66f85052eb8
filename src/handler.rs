//! What a user writes and what it sees: a handler gets a [`Job`] and a [`Context`] and returns an [`Output`] or a [`JobError`].
//!
//! A handler is a plain function or closure, `Fn(&Job, &Context) -> Result<Output, JobError>`. It runs on a thread of the worker's
//! rayon pool, may block that thread as long as it needs, and may use rayon inside: idle threads of the pool help.
//!
//! Hold no lock and no `RefCell` borrow across a rayon call (`par_iter`, `join`, `scope`): a thread that waits in one for its pieces may
//! run another job meanwhile, and that job would meet the lock on its own thread. Its time then counts as the waiting job's, too.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::config::RetryConfig;
use crate::error::Error;
use crate::job::Job;
use crate::limits::TEN_YEARS;

/// The boxed form in which a worker keeps its handler.
pub(crate) type Handler = dyn Fn(&Job, &Context) -> Result<Output, JobError> + Send + Sync;

/// What a job leaves behind. Queues with the completion policy `annotate` or `archive` store it beside the job; `delete` drops it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    bytes: Option<Vec<u8>>,
}

impl Output {
    /// Nothing: the job is done, and that is all there is to say.
    pub fn none() -> Output {
        Output::default()
    }

    /// Raw bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Output {
        Output { bytes: Some(bytes.into()) }
    }

    /// A value as JSON (UTF-8).
    ///
    /// # Errors
    ///
    /// When `value` cannot be written as JSON, for example a map whose keys are no strings. The job is then dead: running it again
    /// would not help.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Output, JobError> {
        match serde_json::to_vec(value) {
            Ok(bytes) => Ok(Output::bytes(bytes)),
            Err(error) => Err(JobError::dead(format!("the output cannot be written as JSON: {error}"))),
        }
    }

    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        self.bytes
    }
}

/// Why a job failed, and what becomes of it.
///
/// Any [`std::error::Error`] converts with `?`: the job is retried by the queue's policy until its attempts are used up, then it is
/// dead. An [`Error::Payload`] makes it dead at once, because the payload will not get better.
///
/// It does not implement [`std::error::Error`] itself: that would forbid the conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    message: String,
    verdict: Verdict,
}

/// What becomes of a failed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Retried after the delay of the retry policy.
    Retry,
    /// Retried after this delay.
    RetryIn(Duration),
    /// Not retried.
    Dead,
}

impl JobError {
    /// A failure that is retried by the retry policy.
    pub fn retry(message: impl Display) -> JobError {
        JobError { message: message.to_string(), verdict: Verdict::Retry }
    }

    /// A failure that is retried after `delay` (at most ten years), whatever the retry policy says.
    pub fn retry_in(delay: Duration, message: impl Display) -> JobError {
        JobError { message: message.to_string(), verdict: Verdict::RetryIn(delay.min(TEN_YEARS)) }
    }

    /// A failure for good: the job is dead, with this message, until somebody requeues or purges it.
    pub fn dead(message: impl Display) -> JobError {
        JobError { message: message.to_string(), verdict: Verdict::Dead }
    }

    /// The failure's text, as it will stand in the job's `error` column.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the job is dead without regard to its attempts.
    pub fn is_dead(&self) -> bool {
        self.verdict == Verdict::Dead
    }

    /// How long to wait before the next attempt; `None`: there is none.
    pub(crate) fn retry_delay(&self, policy: &RetryConfig, attempt: u32) -> Option<Duration> {
        match self.verdict {
            Verdict::Retry => Some(backoff(policy, attempt)),
            Verdict::RetryIn(delay) => Some(delay),
            Verdict::Dead => None,
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for JobError {
    fn from(error: E) -> JobError {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        let dynamic: &(dyn std::error::Error + 'static) = &error;
        let verdict = match dynamic.downcast_ref::<Error>() {
            Some(Error::Payload { .. }) => Verdict::Dead,
            _ => Verdict::Retry,
        };
        JobError { message, verdict }
    }
}

/// The delay before the attempt after number `attempt`: `base * 2^(attempt - 1)`, at most `max`, less up to a quarter at random, so
/// that jobs which failed together do not come back together.
fn backoff(policy: &RetryConfig, attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(63);
    let full_ms = policy.base_ms.saturating_mul(1 << doublings).min(policy.max_ms);
    let jitter_ms = fastrand::u64(0..=full_ms / 4);
    Duration::from_millis(full_ms - jitter_ms)
}

/// A flag that says: what you are doing is not wanted any more. Set once, never cleared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a running handler can ask about its run.
#[derive(Debug)]
pub struct Context {
    lease_lost: Cancellation,
    stop_now: Cancellation,
    deadline: Option<Instant>,
}

impl Context {
    pub(crate) fn new(lease_lost: Cancellation, stop_now: Cancellation, deadline: Option<Instant>) -> Context {
        Context { lease_lost, stop_now, deadline }
    }

    /// Whether there is no more use in going on: the worker's lease was lost (another worker may be running this job already, and
    /// this one's result will be refused), the job's time limit has passed, or the process is stopping at once.
    ///
    /// A handler with a long loop should look at it now and then and return an error when it is true. Costs a few nanoseconds
    /// (and a look at the clock where there is a time limit).
    pub fn is_cancelled(&self) -> bool {
        self.lease_lost.is_cancelled() || self.stop_now.is_cancelled() || self.time_left() == Some(Duration::ZERO)
    }

    /// How much of the time limit (`worker.job_time_limit_ms`) is left; `None` without a limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryConfig = RetryConfig { base_ms: 1_000, max_ms: 60_000 };

    #[test]
    fn backoff_doubles_up_to_the_maximum_and_jitters_down_only() {
        for (attempt, full_ms) in [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (7, 60_000), (200, 60_000)] {
            let delay = backoff(&POLICY, attempt).as_millis() as u64;
            assert!(delay <= full_ms && delay >= full_ms * 3 / 4, "attempt {attempt}: {delay} ms");
        }
    }

    #[test]
    fn an_error_converts_with_its_causes() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("cannot price the trade")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = JobError::from(Outer("x".parse::<i32>().unwrap_err()));
        assert_eq!(error.message(), "cannot price the trade: invalid digit found in string");
        assert!(error.retry_delay(&POLICY, 1).is_some());
    }

    #[test]
    fn dead_and_retry_in_override_the_policy() {
        assert_eq!(JobError::dead("no").retry_delay(&POLICY, 1), None);
        let delay = Duration::from_secs(5);
        assert_eq!(JobError::retry_in(delay, "later").retry_delay(&POLICY, 9), Some(delay));
    }

    #[test]
    fn a_context_is_cancelled_by_each_of_its_three_reasons() {
        let quiet = || Context::new(Cancellation::default(), Cancellation::default(), None);
        assert!(!quiet().is_cancelled());
        let lost = quiet();
        lost.lease_lost.cancel();
        assert!(lost.is_cancelled());
        let stopping = quiet();
        stopping.stop_now.cancel();
        assert!(stopping.is_cancelled());
        let late = Context::new(Cancellation::default(), Cancellation::default(), Some(Instant::now()));
        assert!(late.is_cancelled());
    }
}
