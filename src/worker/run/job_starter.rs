//! Starts, runs and releases the jobs of one worker that are waiting for a thread.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::config::KeepLog;
use crate::handler::{Context, ForOtherWorkers, Function, RunResult, SharedByRuns, Stated};
use crate::job::{CompletionPolicy, Job, MEMORY, Needs, Note, Outcome, Usage};
use crate::metrics::KindMetrics;
use crate::procedures::worker::Finish;
use crate::time::BootClock;
use crate::worker::finish::{Ended, FinishSender, Ran};
use crate::worker::lease::{Behind, Claimed, Grant, HeldJob, LeaseValidity};
use crate::worker::state::{Started, WorkerState};

use super::admission::{Admission, Resources, TooLarge};
use super::cpu_clock;
use super::dropped_elsewhere::DroppedElsewhere;
use super::fair_pool::FairPool;
use super::handlers_and_hooks::HandlersAndHooks;
use super::kind_limits::KindLimits;
use super::ledger::Need;
use super::overdue::{Overdue, Watched};
use super::set_aside::SetAside;
use super::worker_turns::Jobs;

/// Everything that is needed to run the jobs of a worker.
pub(super) struct JobStarter {
    pub(super) state: Arc<WorkerState>,
    pub(super) code: DroppedElsewhere<HandlersAndHooks>,
    /// The handlers, with the state that they share.
    pub(super) surroundings: DroppedElsewhere<Arc<SharedByRuns>>,
    pub(super) buffer: Sender<Claimed>,
    pub(super) waiting: Receiver<Claimed>,
    /// Jobs that come before those in the channel.
    pub(super) set_aside: SetAside,
    /// Whether no further job is started. Jobs that would start are then released instead.
    pub(super) closed: AtomicBool,
    /// Whether even jobs without a row are no longer started, but dropped. Never set without `closed`.
    pub(super) cut_off: AtomicBool,
    /// Whether the last jobs that arrived have no row, because they are from an `at_most_once` queue.
    pub(super) without_row: AtomicBool,
    pub(super) lease: Arc<LeaseValidity>,
    pub(super) overdue: Arc<Overdue>,
    /// The metrics of each handler's kind, in the order of the handlers.
    pub(super) kind_metrics: Arc<[KindMetrics]>,
    pub(super) kind_limits: KindLimits,
    pub(super) resources: Arc<Resources>,
    pub(super) for_other_workers: ForOtherWorkers,
    /// Whether nothing is known of what jobs without details need, and they may start at any time.
    pub(super) states_nothing: bool,
    pub(super) finisher: FinishSender,
    pub(super) pool: Arc<FairPool>,
    /// The worker's span, the parent of each job's span.
    pub(super) span: tracing::Span,
}

/// A run that has begun.
pub(super) struct Begun {
    /// The index of the job's handler.
    pub(super) place: usize,
    pub(super) context: Context,
    held: HeldJob,
    claimed_at: Instant,
    pub(super) started_at: Instant,
    /// The rest of the run of its group.
    pub(super) behind: Option<Box<Behind>>,
}

impl Jobs for JobStarter {
    fn waiting(&self) -> usize {
        if self.may_start() { self.resources.ready() + self.kind_limits.ready() + self.buffered() } else { 0 }
    }

    fn reserved_threads(&self) -> Option<(usize, Instant)> {
        self.resources.reserved_threads().filter(|_| self.may_start())
    }

    fn run(&self, slice_end: Instant) {
        let _turn = cpu_clock::begin_turn();
        // (The memory that was reserved for the output is released once the output itself is counted.)
        while let Some((claimed, _started)) = self.take() {
            if self.start(claimed) >= slice_end {
                return;
            }
        }
    }

    /// Handles a panic of the metrics recorder, the tracing subscriber or a hook, or one that a defect of this crate
    /// has caused. The step that panicked is skipped, the worker stops, and the job is released.
    fn panicked(&self, panic: Box<dyn Any + Send>) {
        self.state.stop.fail_by_panic(panic);
    }
}

impl JobStarter {
    /// Whether jobs may leave the channel. They may not while the lease is in doubt, because they may already be
    /// running elsewhere, and not while too many bytes are held or the machine is short of memory. After
    /// [`Executor::close`](super::executor::Executor::close), only jobs without a row still run, because they depend on
    /// no lease, and their outputs are not sent.
    fn may_start(&self) -> bool {
        let WorkerState { in_flight, config, .. } = &*self.state;
        self.closed.load(Ordering::Acquire)
            || (!self.lease.is_in_doubt()
                && !self.resources.is_short_of_memory()
                && in_flight.may_start(config.max_in_flight_bytes))
    }

    /// Takes a job from the channel, and reserves memory for its output.
    fn take(&self) -> Option<(Claimed, Option<Started<'_>>)> {
        let started = if self.closed.load(Ordering::Acquire) {
            None
        } else if self.lease.is_in_doubt() || self.resources.is_short_of_memory() {
            return None;
        } else {
            Some(self.state.in_flight.start(self.state.config.max_in_flight_bytes)?)
        };
        let claimed = match self.resources.next().or_else(|| self.kind_limits.next()) {
            Some(has_waited) => has_waited,
            None => self.next_buffered()?,
        };
        Some((claimed, started))
    }

    /// How many jobs wait for nothing but a thread.
    fn buffered(&self) -> usize {
        self.set_aside.jobs() + self.waiting.len()
    }

    /// Takes the first job that waits for nothing but a thread.
    pub(super) fn next_buffered(&self) -> Option<Claimed> {
        self.set_aside.next().or_else(|| self.waiting.try_recv().ok())
    }

    /// Runs a job, releases it, or drops it if its lease is lost. Returns the time afterwards.
    fn start(&self, claimed: Claimed) -> Instant {
        let has_row = claimed.has_row();
        if self.surroundings.is_stopping_now() {
            drop(claimed); // gone, or left to the reaper: this process sends nothing about it
            return Instant::now();
        }
        if is_over(&claimed) || (has_row && self.closed.load(Ordering::Acquire)) {
            self.end_unstarted(claimed);
            return Instant::now();
        }
        if !has_row && self.cut_off.load(Ordering::Acquire) {
            drop(claimed); // its registration keeps the job, so that the summary counts it as cut off
            return Instant::now();
        }
        let Some(handler) = self.code.handlers.find(claimed.job.kind()) else {
            let leaves = self.code.handlers.leaves_others;
            let outcome = self.span.in_scope(|| self.for_other_workers.unknown_kind(&claimed.job, leaves));
            self.state.tally.unknown_kind();
            // A job without a row, or one that has waited too long, is dead.
            if matches!(outcome, Outcome::Snooze { .. }) {
                self.state.metrics.deferred_unknown_kind();
                self.state.arrivals.left_to_others();
            }
            self.put_off(claimed, outcome);
            return Instant::now();
        };
        self.start_if_admitted(handler, claimed)
    }

    pub(super) fn start_if_admitted(&self, handler: usize, mut claimed: Claimed) -> Instant {
        let is_plain = self.states_nothing && claimed.job.details.is_none();
        if !is_plain && let Some(outcome) = self.expired(handler, &claimed) {
            self.put_off(claimed, outcome);
            return Instant::now();
        }
        if !is_plain && claimed.grant.is_none() {
            match self.need(handler, &claimed.job) {
                Ok(None) => {}
                Ok(Some(need)) => match self.resources.admit(handler, need, claimed) {
                    Admission::Starts(admitted) => claimed = admitted,
                    Admission::Waits => return self.waits(),
                    Admission::PutOff(claimed, delay) => {
                        self.put_off_for_resources(claimed, delay);
                        return Instant::now();
                    }
                },
                Err(TooLarge) => {
                    self.put_off_for_another_worker(handler, claimed);
                    return Instant::now();
                }
            }
        }
        // The grant is returned outside of the lock of the limit.
        let grant = claimed.grant.take();
        match self.kind_limits.admit(handler, claimed) {
            Admission::Starts(claimed) => self.run(handler, claimed, grant),
            Admission::Waits => self.waits(),
            Admission::PutOff(claimed, delay) => {
                self.put_off_for_others(claimed, delay);
                Instant::now()
            }
        }
    }

    /// How a job ends that may no longer start.
    fn expired(&self, handler: usize, Claimed { job, claimed_at, .. }: &Claimed) -> Option<Outcome> {
        if let Some((latest, limit)) = job.latest_start()
            && BootClock::default().now() >= latest
        {
            let error = format!("expired: no attempt may start later than {limit:?} after it was enqueued");
            return Some(Outcome::Expired { error });
        }
        let limit = self.code.handlers.stated(handler, job.kind()).start_within?;
        // Later claims are of jobs that may have started in time.
        let waited = job.waited() + claimed_at.elapsed();
        let is_late = waited > limit && job.fence().0 <= 1;
        let error = || format!("expired: it was due {waited:?} ago, and its kind may wait {limit:?}");
        is_late.then(|| Outcome::Expired { error: error() })
    }

    /// What a job needs of the worker besides one thread, if it needs anything.
    fn need(&self, handler: usize, job: &Job) -> Result<Option<Need>, TooLarge> {
        self.needs(handler, job).map_or(Ok(None), |needs| self.resources.need(&needs))
    }

    /// What a job needs, if anything is known: its own needs over its kind's, and these over what its kind has used.
    fn needs<'a>(&'a self, handler: usize, job: &'a Job) -> Option<Cow<'a, Needs>> {
        let stated = self.stated_needs(handler, job);
        let expected = self.state.learned.as_ref().and_then(|learned| learned.expected(job.kind()));
        let (Some(expected), Some(all)) = (expected, self.state.memory_for_jobs()) else { return stated };
        // No job is refused for what others have used.
        let learned = Needs::new().memory(expected.min(all));
        Some(Cow::Owned(match stated {
            Some(stated) => stated.over(&learned),
            None => learned,
        }))
    }

    /// What is stated of a job's needs: its own over its kind's.
    fn stated_needs<'a>(&'a self, handler: usize, job: &'a Job) -> Option<Cow<'a, Needs>> {
        match (job.needs(), self.code.handlers.stated(handler, job.kind()).needs) {
            (Some(own), Some(of_kind)) => Some(Cow::Owned(own.over(of_kind))),
            (own, of_kind) => own.or(of_kind).map(Cow::Borrowed),
        }
    }

    /// Called when a job waits for its kind or for resources.
    fn waits(&self) -> Instant {
        // If the job arrived after the waiting jobs were released, no task would take it out again.
        if self.closed.load(Ordering::Acquire) {
            self.give_back_those_that_wait();
        }
        Instant::now()
    }

    fn run(&self, place: usize, mut claimed: Claimed, mut grant: Option<Box<dyn Grant>>) -> Instant {
        let handler = self.code.handlers.get(place);
        let function = match handler.function() {
            Function::OneJob(function) => function,
            Function::ManyJobs(function) => return self.run_many(function, place, claimed, grant),
        };
        let (permit, mut watched) = (claimed.permit.take(), None);
        let begun = self.begin(place, claimed, grant.as_deref_mut(), &mut watched);
        let context = &begun.context;
        let stated = || self.stated(place, context);
        let result = handler.run(function, context, &stated, &self.span);
        let (run, ended_at) = (result.ended_at - begun.started_at, result.ended_at);
        let cpu = cpu_clock::of_run(run);
        drop(watched);
        drop(permit);
        drop(grant);
        self.end(begun, result, run, cpu);
        ended_at
    }

    /// What is stated of the kind of a run's job.
    pub(super) fn stated(&self, place: usize, context: &Context) -> Stated<'_> {
        self.code.handlers.stated(place, context.job().kind())
    }

    /// Begins the run of a job. If the job has a time limit, the run is watched until `watched` is dropped.
    #[inline(always)] // so that a plain job's parts are moved less often
    pub(super) fn begin<'a>(
        &'a self,
        place: usize,
        claimed: Claimed,
        grant: Option<&mut (dyn Grant + 'static)>,
        watched: &mut Option<Watched<'a>>,
    ) -> Begun {
        let Claimed { job, mut held, claimed_at, behind, .. } = claimed;
        let WorkerState { tally, metrics, .. } = &*self.state;
        let started_at = Instant::now();
        let buffered = started_at - claimed_at;
        metrics.started(buffered);
        tally.started(job.waited() + buffered);
        held.started();
        if let Some(grant) = grant {
            grant.starts();
        }

        *watched = self.overdue.watch(&job, place, self.code.handlers.get(place), started_at);
        let deadline = watched.as_ref().map(|watched| watched.deadline);
        let cancellations = held.registration().cancellations().clone();
        let run = Some((held.registration().worker_id, started_at));
        let context = Context::new(job, cancellations, deadline, run, self.surroundings.clone());
        self.code.hooks.start(context.job());
        Begun { place, context, held, claimed_at, started_at, behind }
    }

    /// Ends a run that took this long. `cpu`: its CPU time, if it is known.
    #[inline(always)]
    pub(super) fn end(&self, mut begun: Begun, result: RunResult, run: Duration, cpu: Option<Duration>) {
        let (claimed_at, mut behind, tally) = (begun.claimed_at, begun.behind.take(), &self.state.tally);
        let (RunResult { outcome, panicked, .. }, kind_metrics) = (result, &self.kind_metrics[begun.place]);
        let by_handler = begun.context.was_finishing();
        let (mut job, reported, log) = begun.context.into_job();
        self.code.hooks.end(&job, &outcome, run);

        if panicked {
            kind_metrics.panics.increment(1);
        }
        kind_metrics.run_ended(&outcome, run);
        let usage = reported.unwrap_or(Usage { cpu, peak_memory: None });
        if reported.is_some() || run >= cpu_clock::MEASURED {
            kind_metrics.used(usage);
        }
        if let (Some(learned), Some(peak)) = (&self.state.learned, usage.peak_memory)
            && job.needs().is_none_or(|needs| needs.get(MEMORY).is_none())
        {
            learned.record(job.kind(), peak);
        }
        let kind = job.kind.take();
        let (job_id, fence, attempt) = (job.id(), job.fence(), job.attempt());
        let finish = Finish { job_id, fence, attempt, kind, outcome, run, usage };
        let log = log.filter(|_| self.keeps_log(&finish.outcome, begun.held.registration().settings.completion));
        if let Some(log) = &log {
            self.state.notes.note((job_id, fence), Note::log(log, true));
        }
        let enqueued_at = claimed_at.checked_sub(job.age()).unwrap_or(claimed_at);
        if !matches!(finish.outcome, Outcome::Done { .. } | Outcome::ByHandler | Outcome::Snooze { .. }) {
            begun.held.registration().failed(finish.job_id, finish.fence);
        }
        let output_bytes = finish.outcome.bytes();
        tally.ran(run);
        self.state.in_flight.learn_output(output_bytes);
        let (has_turn, has_waited) = (job.has_turn(), job.has_parents());
        drop(job);
        let is_done = matches!(finish.outcome, Outcome::Done { .. });
        // A large output and a handler's own commit are confirmed apart from the others, and follow-ups may be rejected.
        let goes_on = is_done && !by_handler && !finish.is_large() && finish.outcome.follow_ups().is_empty();
        if has_turn {
            self.state.run_length.ended(goes_on, by_handler);
        }
        let is_over = !goes_on || behind.as_ref().is_none_or(|behind| behind.run.is_broken());
        let next = if is_over { None } else { behind.as_mut().and_then(|behind| behind.jobs.pop_front()) };
        let next = next.map(|(job, mut next)| {
            next.is_next(); // first, so that this thread does not count as idle
            (job, next)
        });
        begun.held.ended(output_bytes, finish.outcome.error_bytes());
        // A job that has waited is mostly waited for itself.
        let frees_turn = (has_turn || has_waited) && next.is_none();
        let run = behind.as_ref().map(|behind| behind.run.clone());
        self.finisher.send(Ended::Ran(Ran {
            finish,
            has_run: true,
            enqueued_at,
            by_handler,
            frees_turn,
            keeps_log: log.is_some(),
            run,
            held: begun.held,
        }));
        match next {
            // Behind the other jobs that wait for a thread.
            Some((job, held)) => self.wait_for_thread(Claimed::new(job, held, claimed_at, behind)),
            None => behind.into_iter().for_each(|behind| self.give_back_run(*behind)),
        }
    }

    /// Whether the log of an attempt with this outcome stays.
    fn keeps_log(&self, outcome: &Outcome, completion: CompletionPolicy) -> bool {
        match outcome {
            // Its row may be finished already, and only the holder of a job writes its log.
            Outcome::ByHandler => false,
            Outcome::Done { .. } => {
                self.state.config.keep_log == KeepLog::All && completion != CompletionPolicy::Delete
            }
            Outcome::Snooze { .. } => self.state.config.keep_log == KeepLog::All,
            _ => true,
        }
    }

    pub(super) fn wait_for_thread(&self, claimed: Claimed) {
        self.buffer.send(claimed).expect("this value holds both ends of the channel");
    }

    pub(super) fn give_back_those_that_wait(&self) {
        let waiting = self
            .resources
            .take_waiting(Claimed::has_row)
            .into_iter()
            .chain(self.kind_limits.take_waiting(Claimed::has_row));
        waiting.for_each(|claimed| self.give_back(claimed));
    }

    pub(super) fn give_back(&self, claimed: Claimed) {
        let Claimed { job, held, permit, behind, .. } = claimed;
        drop(permit);
        self.give_back_job(job, held);
        behind.into_iter().for_each(|behind| self.give_back_run(*behind));
    }

    fn give_back_run(&self, mut behind: Behind) {
        std::mem::take(&mut behind.jobs).into_iter().for_each(|(job, held)| self.give_back_job(job, held));
    }

    fn give_back_job(&self, job: Job, mut held: HeldJob) {
        let (job_id, fence, has_turn) = (job.id(), job.fence(), job.has_turn());
        drop(job);
        held.ended(0, 0);
        self.finisher.send(Ended::Unstarted { job_id, fence, has_turn, held });
    }

    pub(super) fn put_off_for_others(&self, claimed: Claimed, delay: Duration) {
        let error = "too many jobs of this kind were running".to_owned();
        self.state.metrics.deferred_kind_limit();
        self.state.tally.waits_for_its_turn(delay);
        self.put_off(claimed, Outcome::Snooze { delay, error });
    }

    pub(super) fn put_off_for_resources(&self, claimed: Claimed, delay: Duration) {
        let error = "other jobs were using what the job needs of the worker".to_owned();
        self.state.metrics.deferred_resources();
        self.state.tally.waits_for_its_turn(delay);
        self.put_off(claimed, Outcome::Snooze { delay, error });
    }

    /// Postpones a job that needs more than this worker has.
    fn put_off_for_another_worker(&self, handler: usize, claimed: Claimed) {
        let job = &claimed.job;
        let needs = self.stated_needs(handler, job).unwrap_or_default();
        let (has, most) = (self.state.resources(), &self.state.most_resources);
        let outcome =
            self.span.in_scope(|| self.for_other_workers.needs_too_much(job, &needs, &has, || most.last_read()));
        if matches!(outcome, Outcome::Snooze { .. }) {
            most.request();
            self.state.metrics.deferred_too_large();
            self.state.arrivals.left_to_others();
        }
        self.put_off(claimed, outcome);
    }

    /// Finishes a job that this worker does not run now, with an outcome that postpones it or makes it dead.
    fn put_off(&self, claimed: Claimed, outcome: Outcome) {
        let Claimed { mut job, mut held, claimed_at, permit, behind, .. } = claimed;
        // (An expired job does not come back.)
        if !matches!(outcome, Outcome::Expired { .. }) {
            self.state.tally.put_off();
        }
        let kind = job.kind.take();
        let (job_id, fence, attempt) = (job.id(), job.fence(), job.attempt());
        let frees_turn = job.has_turn() || job.has_parents();
        if frees_turn {
            self.state.run_length.ended(false, false);
        }
        let group_run = behind.as_ref().map(|behind| behind.run.clone());
        drop((job, permit));
        held.ended(0, outcome.error_bytes());
        let (run, usage) = (Duration::ZERO, Usage::default());
        let finish = Finish { job_id, fence, attempt, kind, outcome, run, usage };
        let (has_run, by_handler, enqueued_at) = (false, false, claimed_at);
        let ran = Ran { finish, has_run, enqueued_at, by_handler, frees_turn, keeps_log: false, run: group_run, held };
        self.finisher.send(Ended::Ran(ran));
        behind.into_iter().for_each(|behind| self.give_back_run(*behind));
    }

    /// Ends the jobs that wait for their kind or for resources in vain, so that nothing is kept for them.
    pub(super) fn end_those_that_are_over(&self) {
        let expired = |claimed: &Claimed| {
            let handler = self.code.handlers.find(claimed.job.kind())?;
            self.expired(handler, claimed)
        };
        let ends = |claimed: &Claimed| is_over(claimed) || expired(claimed).is_some();
        let waiting = if self.resources.any_waits() { self.resources.take_waiting(ends) } else { Vec::new() };
        for claimed in waiting.into_iter().chain(self.kind_limits.take_waiting(|job| expired(job).is_some())) {
            match expired(&claimed) {
                Some(outcome) if !is_over(&claimed) => self.put_off(claimed, outcome),
                _ => self.end_unstarted(claimed),
            }
        }
    }

    /// Releases a job, or drops it if its lease is lost.
    fn end_unstarted(&self, claimed: Claimed) {
        if claimed.held.registration().is_lost() { self.drop_lost(claimed) } else { self.give_back(claimed) }
    }

    fn drop_lost(&self, claimed: Claimed) {
        let jobs = claimed.jobs();
        let Claimed { job, held, permit, behind, .. } = claimed;
        let run: Vec<_> = std::iter::once((job, held))
            .chain(behind.into_iter().flat_map(|mut behind| std::mem::take(&mut behind.jobs)))
            .collect();
        let registration = run[0].1.registration().clone();
        registration.forget(run.iter().map(|(job, _)| (job.id(), job.fence())));
        drop((run, permit));
        self.state.metrics.lost(jobs);
        self.state.tally.lost(jobs as u64);
    }
}

/// Whether a job must not start any more: its lease is lost, or it is cancelled, or the run to which it belongs is broken. A
/// job without a row cannot be run by any other worker.
pub(super) fn is_over(claimed: &Claimed) -> bool {
    let registration = claimed.held.registration();
    let is_broken = || claimed.behind.as_ref().is_some_and(|behind| behind.run.is_broken());
    let is_cancelled = || registration.cancellations().is_asked(claimed.job.id(), claimed.job.fence());
    claimed.has_row() && (registration.is_lost() || is_cancelled() || is_broken())
}
