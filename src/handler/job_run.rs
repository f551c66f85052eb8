//! Runs that their handler ends itself, so that it can work on several jobs at the same time.
//!
//! ```text
//! a job ──▶ the handler's first run ──next_job──▶ further runs, of jobs that wait for a thread
//!                     └──────── end ───────────────────┴──▶ the outcome of each
//! ```

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::BoxError;
use crate::job::Outcome;

use super::context::Context;
use super::handlers::{Function, Handler, Handlers, ManyJobs, Stated};
use super::job_error::{JobError, panic_error};
use super::output::{IntoOutput, Output};

/// The error of a run that is dropped before its end.
const UNENDED: &str = "the handler dropped the run without ending it";

/// A run of a job that its handler ends itself, and through which it can take further jobs to work on at the same time.
/// For handlers whose work happens elsewhere and where a round trip for each job would cost more than the job:
/// in another process, on a GPU, behind a connection.
///
/// Other jobs of this thread wait until the handler returns, and a job that has been taken is running, wherever it
/// waits. Take only as many as end soon.
///
/// If a run is dropped without an [`end`](Self::end), the attempt fails. If the handler panics, the attempts of all its
/// open runs fail.
///
/// ```
/// use readpast::{Handlers, Job, JobRun, Json, NewJob};
///
/// fn count_words(texts: &[String]) -> Vec<usize> {
///     texts.iter().map(|text| text.split_whitespace().count()).collect() // in one call, somewhere else
/// }
///
/// let handlers = Handlers::new().kind_runs("words", |first: JobRun<'_>| {
///     let mut runs = vec![first];
///     while runs.len() < 100 && let Some(next) = runs[0].next_job() {
///         runs.push(next);
///     }
///     let texts: Vec<_> = runs.iter().map(|run| run.context().job().text().unwrap_or_default().into_owned()).collect();
///     for (run, words) in runs.into_iter().zip(count_words(&texts)) {
///         run.end(Ok(Json(words)));
///     }
/// });
/// # let job = Job::for_test(NewJob::text("to be or not").kind("words"));
/// # let outcome = handlers.run_for_test(readpast::Context::for_test(job));
/// # assert_eq!(outcome, readpast::Outcome::Done { output: Some(b"4".to_vec()), follow_ups: vec![] });
/// ```
#[must_use = "a run that is dropped fails"]
pub struct JobRun<'a> {
    /// `None` once it has ended.
    open: Option<Box<dyn OpenRun<'a> + 'a>>,
}

/// A run that has not ended, as its worker or a test sees it.
pub(crate) trait OpenRun<'a> {
    fn context(&self) -> &Context;

    fn next_job(&self) -> Option<JobRun<'a>>;

    fn end(self: Box<Self>, result: Result<Output, BoxError>);

    /// Called when a panic of the handler drops the run.
    fn leave(self: Box<Self>);
}

impl<'a> JobRun<'a> {
    pub(crate) fn new(run: impl OpenRun<'a> + 'a) -> JobRun<'a> {
        JobRun { open: Some(Box::new(run)) }
    }

    fn open(&self) -> &(dyn OpenRun<'a> + 'a) {
        self.open.as_deref().expect("only its end, which consumes it, takes it")
    }

    /// The context of the run, with its job.
    pub fn context(&self) -> &Context {
        self.open().context()
    }

    /// Takes the next job that waits for a thread of this worker, to work on it at the same time. Never waits.
    ///
    /// Returns `None` if there is none, if a free thread will take it, or if it may not be taken so. A job is taken only
    /// if it goes to the same handler and has nothing but a kind and a payload: no headers, group, batch, checkpoint,
    /// time limit, needs or parents. Others keep their place, and start when the handler has returned. No job is taken
    /// once the worker is told to stop, while its lease is in doubt or memory is short, or if the handler's kind has a
    /// time limit or an [`at_most`](super::kind_options::KindOptions::at_most), or if any kind has needs or a latest
    /// start. A queue with delivery `at_most_once` has no such jobs either, because they could not be returned.
    ///
    /// The jobs may be ended in any order. The time until the first end counts as the run time of that job, and the time
    /// between two ends as that of the second, so that the sum is that of the thread. Their CPU time is unknown unless
    /// [reported](Context::report_usage). What the handler logs by `tracing` is in the span of the first job.
    ///
    /// In a test ([`Handlers::run_for_test`]), returns `None`.
    #[must_use]
    pub fn next_job(&self) -> Option<JobRun<'a>> {
        self.open().next_job()
    }

    /// Ends the run: with the job's output or an error, as a handler for one job returns it.
    pub fn end<R: IntoOutput>(mut self, result: Result<R, BoxError>) {
        let result = result.and_then(R::into_output);
        if let Some(open) = self.open.take() {
            open.end(result);
        }
    }
}

impl Drop for JobRun<'_> {
    fn drop(&mut self) {
        match self.open.take() {
            None => {}
            Some(open) if std::thread::panicking() => open.leave(),
            Some(open) => open.end(Err(JobError::retry(UNENDED).into())),
        }
    }
}

impl fmt::Debug for JobRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobRun").field(&self.open.as_deref().map(OpenRun::context)).finish()
    }
}

impl Handlers {
    /// Adds a handler of a kind that ends the runs of its jobs itself: see [`JobRun`]. Otherwise like
    /// [`kind`](Self::kind).
    pub fn kind_runs<F>(mut self, kind: impl Into<String>, handler: F) -> Handlers
    where
        F: Fn(JobRun<'_>) + Send + Sync + 'static,
    {
        self.add(Some(kind.into()), Function::ManyJobs(Box::new(handler)));
        self
    }

    /// Adds a handler for jobs of all other kinds that ends their runs itself: see [`JobRun`]. Otherwise like
    /// [`otherwise`](Self::otherwise).
    pub fn otherwise_runs<F>(mut self, handler: F) -> Handlers
    where
        F: Fn(JobRun<'_>) + Send + Sync + 'static,
    {
        self.add(None, Function::ManyJobs(Box::new(handler)));
        self
    }
}

/// The only run of a handler, in a test.
struct RunForTest<'a, 's> {
    handler: &'a Handler,
    context: Context,
    stated: &'a dyn Fn(&Context) -> Stated<'s>,
    ended: &'a RefCell<EndedForTest>,
}

#[derive(Default)]
struct EndedForTest {
    outcome: Option<Outcome>,
    /// The run that a panic has dropped.
    left: Option<Context>,
}

impl<'a> OpenRun<'a> for RunForTest<'a, '_> {
    fn context(&self) -> &Context {
        &self.context
    }

    fn next_job(&self) -> Option<JobRun<'a>> {
        None
    }

    fn end(self: Box<Self>, result: Result<Output, BoxError>) {
        let result = self.handler.ended(&self.context, &|| (self.stated)(&self.context), result);
        self.ended.borrow_mut().outcome = Some(result.outcome);
    }

    fn leave(self: Box<Self>) {
        self.ended.borrow_mut().left = Some(self.context);
    }
}

/// Runs one job, without a worker.
pub(super) fn run_many_for_test<'s>(
    handler: &Handler,
    function: &ManyJobs,
    context: Context,
    stated: &dyn Fn(&Context) -> Stated<'s>,
) -> Outcome {
    let ended = RefCell::default();
    let result = catch_unwind(AssertUnwindSafe(|| {
        function(JobRun::new(RunForTest { handler, context, stated, ended: &ended }));
    }));
    let EndedForTest { outcome, left } = ended.into_inner();
    match (outcome, left, result) {
        (None, Some(context), result) => {
            let caught = || JobError::retry("the handler panicked: it caught the panic itself").into();
            let error = result.map_or_else(|panic| panic_error("the handler panicked", panic), |()| caught());
            handler.ended(&context, &|| stated(&context), Err(error)).outcome
        }
        (outcome, ..) => outcome.expect("a run ends, at the latest when it is dropped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, NewJob};

    fn outcome(handler: impl Fn(JobRun<'_>) + Send + Sync + 'static) -> Outcome {
        let handlers = Handlers::new().otherwise_runs(handler);
        handlers.run_for_test(Context::for_test(Job::for_test(NewJob::text("x"))))
    }

    #[test]
    fn a_run_has_the_outcome_with_which_it_is_ended() {
        let done = outcome(|run| {
            assert!(run.next_job().is_none(), "a test has one job");
            let text = run.context().job().text().unwrap().into_owned();
            run.end(Ok(Output::bytes(text)));
        });
        assert_eq!(done, Outcome::Done { output: Some(b"x".to_vec()), follow_ups: vec![] });
        let dead = outcome(|run| run.end::<()>(Err(JobError::dead("no").into())));
        assert_eq!(dead, Outcome::Dead { error: "no".to_owned() });
    }

    #[test]
    fn a_run_that_is_not_ended_fails() {
        let error = |outcome: Outcome| match outcome {
            Outcome::Retry { error, .. } => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(error(outcome(|run| drop(run))), UNENDED);
        let panics = |_run: JobRun<'_>| panic!("a defect");
        assert_eq!(error(outcome(panics)), "the handler panicked: a defect");
        let catches = move |run: JobRun<'_>| drop(catch_unwind(AssertUnwindSafe(|| panics(run))));
        assert_eq!(error(outcome(catches)), "the handler panicked: it caught the panic itself");
    }
}
