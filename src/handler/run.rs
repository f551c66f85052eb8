//! One run of a handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::config::RetryConfig;
use crate::error::BoxError;
use crate::job::Outcome;
use crate::text::cut;

use super::context::Context;
use super::handlers::{Handler, OneJob, Stated};
use super::job_error::{JobError, Verdict, message, panic_error, verdict};
use super::output::Output;
use super::retry_delay::retry_delay;

/// A job that has run.
pub(crate) struct RunResult {
    pub(crate) outcome: Outcome,
    pub(crate) panicked: bool,
    pub(crate) ended_at: Instant,
}

impl Handler {
    /// Runs the job of `context` in a span that is a child of `worker`. To OpenTelemetry, the span is a child of the
    /// one in which the job was enqueued.
    pub(crate) fn run<'s>(
        &self,
        function: &OneJob,
        context: &Context,
        stated: &dyn Fn() -> Stated<'s>,
        worker: &tracing::Span,
    ) -> RunResult {
        let span = span_of(context, worker);
        // Entered outside of the part that catches panics, because a panic of the subscriber is not the job's failure.
        let entered = span.enter();
        let result = catch_unwind(AssertUnwindSafe(|| function(context)));
        drop(entered);
        let ended_at = Instant::now();
        let (result, panicked) = match result {
            Ok(result) => (result, false),
            Err(panic) => (Err(panic_error("the handler panicked", panic)), true),
        };
        let (outcome, error_panicked) = self.outcome(context, stated, result);
        RunResult { outcome, panicked: panicked || error_panicked, ended_at }
    }

    /// Ends a run with what its handler has made of it.
    pub(crate) fn ended<'s>(
        &self,
        context: &Context,
        stated: &dyn Fn() -> Stated<'s>,
        result: Result<Output, BoxError>,
    ) -> RunResult {
        let ended_at = Instant::now();
        let (outcome, panicked) = self.outcome(context, stated, result);
        RunResult { outcome, panicked, ended_at }
    }

    /// Returns the outcome, and whether the code of the handler's error panicked.
    fn outcome<'s>(
        &self,
        context: &Context,
        stated: &dyn Fn() -> Stated<'s>,
        result: Result<Output, BoxError>,
    ) -> (Outcome, bool) {
        let error = match result {
            Ok(output) => match output.check() {
                Ok(()) => return (output.into_outcome(), false),
                Err(reason) => JobError::dead(reason).into(),
            },
            Err(error) => error,
        };
        let judge = |error: &BoxError| self.failure(&**error, stated, context);
        // The code that formats an error and its causes is the handler's, too. If its panic ended the worker, the
        // attempt would not count, and the job would end the next worker as well.
        let (outcome, panicked) = match catch_unwind(AssertUnwindSafe(|| judge(&error))) {
            Ok(outcome) => (outcome, false),
            Err(panic) => (judge(&panic_error("the handler's error could not be shown: it panicked", panic)), true),
        };
        let (job_id, attempt, kind) = (context.job().id(), context.attempt(), context.job().kind());
        tracing::debug!(%job_id, attempt, kind, ?outcome, "a job failed");
        // Dropping the error may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(error)));
        (outcome, panicked)
    }
}

/// The span of a run, which is a child of `worker`.
pub(crate) fn span_of(context: &Context, worker: &tracing::Span) -> tracing::Span {
    let (job_id, attempt, kind) = (context.job().id(), context.attempt(), context.job().kind());
    // The worker's span is entered instead of named as the parent. This thread may have a subscriber that does not know
    // the span, which would panic.
    let span = worker.in_scope(|| tracing::info_span!("job", %job_id, attempt, kind));
    #[cfg(feature = "opentelemetry")]
    crate::job::continue_trace(&span, context.job());
    span
}

impl Handler {
    fn failure<'s>(
        &self,
        error: &(dyn std::error::Error + 'static),
        stated: &dyn Fn() -> Stated<'s>,
        context: &Context,
    ) -> Outcome {
        let outcome = failure(error, &self.options.retry.unwrap_or_default(), context.attempt());
        if !matches!(verdict(error), Verdict::OutOfMemory) {
            return outcome;
        }
        match (outcome, stated()) {
            (Outcome::Retry { delay, error, .. }, Stated { needs, on_out_of_memory: Some(rule), .. }) => {
                rule.outcome(context.job(), needs, context.place().1, delay, error)
            }
            (outcome, _) => outcome,
        }
    }
}

/// Decides what happens to a job whose attempt failed.
pub(crate) fn failure(error: &(dyn std::error::Error + 'static), policy: &RetryConfig, attempt: u32) -> Outcome {
    // Cut to the length that is sent, because the bytes are not limited otherwise.
    let message = message(error);
    let message = cut(&message).to_owned();
    match verdict(error) {
        Verdict::Retry | Verdict::OutOfMemory => {
            Outcome::Retry { delay: retry_delay(policy, attempt), error: message, needs: None }
        }
        Verdict::RetryIn(delay) => Outcome::Retry { delay, error: message, needs: None },
        Verdict::Dead => Outcome::Dead { error: message },
        Verdict::Snooze(delay) => Outcome::Snooze { delay, error: message },
        Verdict::MoveTo(queue) => Outcome::Move { queue, error: message },
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;
    use crate::handler::handlers::{Function, Handlers};
    use crate::job::{Job, NewJob};

    /// Panics when told to.
    #[derive(Debug)]
    struct Defect {
        shown: bool,
    }

    impl fmt::Display for Defect {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            assert!(!self.shown, "no text");
            write!(f, "a defect")
        }
    }

    impl std::error::Error for Defect {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            panic!("no source");
        }
    }

    #[test]
    fn an_error_that_panics_is_a_failed_attempt() {
        for (shown, why) in [(true, "no text"), (false, "no source")] {
            let handlers = Handlers::any(move |_, _| -> Result<(), BoxError> { Err(Defect { shown }.into()) });
            let context = || Context::for_test(Job::for_test(NewJob::text("")));
            let outcome = handlers.run_for_test(context());
            let expected = format!("the handler's error could not be shown: it panicked: {why}");
            assert!(matches!(&outcome, Outcome::Retry { error, .. } if *error == expected), "{outcome:?}");
            let handler = handlers.get(0);
            let Function::OneJob(function) = handler.function() else { panic!("it is for one job") };
            let result = handler.run(function, &context(), &Stated::default, &tracing::Span::none());
            assert!(result.panicked, "it counts as a panic");
        }
    }
}
