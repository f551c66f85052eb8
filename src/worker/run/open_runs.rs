//! Calls of handlers that end the runs of their jobs themselves, and take further jobs meanwhile
//! ([`JobRun`](crate::handler::JobRun)).
//!
//! ```text
//! channel ──a turn──▶ the first run ──▶ handler ──end──▶ finisher
//!    └─────next_job, if plain─────────────┘ └──otherwise set aside: the first that the next turn takes
//! ```

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::error::BoxError;
use crate::handler::{Context, JobError, JobRun, ManyJobs, OpenRun, Output, Permit, panic_message, span_of};
use crate::worker::lease::{Claimed, Grant};
use crate::worker::state::Started;

use super::cpu_clock;
use super::job_starter::{Begun, JobStarter, is_over};
use super::overdue::Watched;

/// One call of a handler.
struct Call<'a> {
    starter: &'a JobStarter,
    /// The index of the handler.
    place: usize,
    /// How many of its runs have not ended.
    open: Cell<usize>,
    /// When a run ended last.
    ended_at: Cell<Option<Instant>>,
    /// The runs that a panic of the handler has dropped.
    left: RefCell<Vec<Begun>>,
}

/// A run of a call.
struct RunOfCall<'a> {
    call: &'a Call<'a>,
    begun: Begun,
    span: tracing::Span,
    watched: Option<Watched<'a>>,
    permit: Option<Permit>,
    grant: Option<Box<dyn Grant>>,
    /// The memory for its output; the turn has that of the first.
    started: Option<Started<'a>>,
}

impl<'a> OpenRun<'a> for RunOfCall<'a> {
    fn context(&self) -> &Context {
        &self.begun.context
    }

    fn next_job(&self) -> Option<JobRun<'a>> {
        self.call.starter.guarded(|| self.call.next()).flatten()
    }

    fn end(self: Box<Self>, result: Result<Output, BoxError>) {
        let RunOfCall { call, begun, span, watched, permit, grant, started } = *self;
        drop((watched, permit, grant));
        call.starter.guarded(|| span.in_scope(|| call.end(begun, result, false)));
        drop(started); // its output is counted now
    }

    fn leave(self: Box<Self>) {
        self.call.left.borrow_mut().push(self.begun);
    }
}

impl<'a> Call<'a> {
    /// Begins a run of the next job, if it may be taken.
    fn next(&'a self) -> Option<JobRun<'a>> {
        let (claimed, started) = self.starter.take_plain(self.place)?;
        let mut watched = None;
        let begun = self.starter.begin(self.place, claimed, None, &mut watched);
        self.open.set(self.open.get() + 1);
        if self.open.get() > 1 {
            self.starter.state.in_flight.shares_thread();
        }
        let span = span_of(&begun.context, &self.starter.span);
        let (permit, grant) = (None, None);
        Some(JobRun::new(RunOfCall { call: self, begun, span, watched, permit, grant, started: Some(started) }))
    }

    fn end(&self, begun: Begun, result: Result<Output, BoxError>, by_panic: bool) {
        if self.open.get() > 1 {
            self.starter.state.in_flight.no_longer_shares();
        }
        self.open.set(self.open.get().saturating_sub(1));
        let (starter, context) = (self.starter, &begun.context);
        let handler = starter.code.handlers.get(self.place);
        let mut result = handler.ended(context, &|| starter.stated(self.place, context), result);
        result.panicked |= by_panic;
        // The time of the thread is divided among its runs, so that their mean says how many it can run.
        let since = self.ended_at.replace(Some(result.ended_at)).unwrap_or(begun.started_at).max(begun.started_at);
        let run = result.ended_at.saturating_duration_since(since);
        let has_behind = begun.behind.is_some();
        starter.end(begun, result, run, None);
        if has_behind {
            starter.pool.pump(); // the next job of its group need not wait for this thread
        }
    }

    /// Ends the runs that a panic of the handler has dropped. `None`: the handler has caught it.
    fn end_left(&self, panic: Option<Box<dyn std::any::Any + Send>>) {
        let message = panic.as_deref().map_or("it caught the panic itself", |panic| panic_message(panic)).to_owned();
        // A panic's payload is the handler's, and its drop may panic as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
        let left = self.left.take();
        if left.is_empty() {
            tracing::warn!(message, "a handler panicked after it had ended its runs");
            self.starter.kind_metrics[self.place].panics.increment(1);
        }
        for (nth, begun) in left.into_iter().enumerate() {
            let error = JobError::retry(format!("the handler panicked: {message}"));
            self.starter.guarded(|| self.end(begun, Err(error.into()), nth == 0));
        }
    }
}

impl JobStarter {
    /// Runs a job, and what its handler takes besides. Returns the time afterwards.
    pub(super) fn run_many(
        &self,
        function: &ManyJobs,
        place: usize,
        mut claimed: Claimed,
        mut grant: Option<Box<dyn Grant>>,
    ) -> Instant {
        let call =
            Call { starter: self, place, open: Cell::new(1), ended_at: Cell::new(None), left: RefCell::default() };
        let permit = claimed.permit.take();
        let mut watched = None;
        let begun = self.begin(place, claimed, grant.as_deref_mut(), &mut watched);
        let (span, begun_at) = (span_of(&begun.context, &self.span), begun.started_at);
        let entered = span.enter();
        let (span, started) = (span.clone(), None);
        let first = JobRun::new(RunOfCall { call: &call, begun, span, watched, permit, grant, started });
        let result = catch_unwind(AssertUnwindSafe(|| function(first)));
        drop(entered);
        match result {
            Err(panic) => call.end_left(Some(panic)),
            Ok(()) if !call.left.borrow().is_empty() => call.end_left(None),
            Ok(()) => {}
        }
        let ended_at = Instant::now();
        cpu_clock::of_run(ended_at - begun_at); // it is no part of the next run
        ended_at
    }

    /// Takes the first waiting job for a handler that is running, if nothing but a thread keeps the job from starting,
    /// and reserves memory for its output.
    fn take_plain(&self, place: usize) -> Option<(Claimed, Started<'_>)> {
        let may_start = self.states_nothing
            && !self.surroundings.is_stopping()
            && !self.closed.load(Ordering::Acquire)
            && !self.lease.is_in_doubt()
            && !self.resources.is_short_of_memory()
            && self.code.handlers.get(place).options.time_limit.is_none()
            && !self.kind_limits.limits(place);
        // Jobs that wait for their kind or for resources go first, here or in another worker, and a free thread takes a
        // job sooner.
        let is_next = || {
            self.set_aside.jobs() == 0
                && self.kind_limits.ready() == 0
                && !self.resources.any_waits()
                && !self.pool.keeps_threads()
        };
        let free_threads = || self.pool.threads().saturating_sub(self.pool.in_use().all());
        if !may_start || !is_next() || self.waiting.len() <= free_threads() {
            return None;
        }
        let started = self.state.in_flight.start(self.state.config.max_in_flight_bytes)?;
        let claimed = self.waiting.try_recv().ok()?;
        if self.is_plain(place, &claimed) {
            return Some((claimed, started));
        }
        drop(started);
        self.set_aside.add(claimed);
        self.pool.pump(); // for a moment, no thread saw it
        None
    }

    /// Whether a job may start besides others of this handler.
    fn is_plain(&self, place: usize, claimed: &Claimed) -> bool {
        claimed.job.details.is_none()
            && claimed.behind.is_none()
            && claimed.has_row()
            && self.code.handlers.find(claimed.job.kind()) == Some(place)
            && !is_over(claimed)
            && !self.closed.load(Ordering::Acquire) // the worker may have been closed meanwhile
    }

    /// Runs a step of the worker inside of a handler. A panic of the step is not the handler's.
    fn guarded<T>(&self, step: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(step)) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.state.stop.fail_by_panic(panic);
                None
            }
        }
    }
}

#[cfg(test)]
#[path = "open_runs_tests.rs"]
mod tests;
