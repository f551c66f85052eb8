//! The context of a run, through which a handler learns about the run and reports progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Error;
use crate::id::{Fence, JobId, WorkerId};
use crate::job::{Job, JobEnd, Note, NotedRun, Parent, RunLog, Usage};
use crate::time::TEN_YEARS;

use super::cancellations::Cancellations;
use super::shared_by_runs::{SharedByRuns, State};

/// The context of a run, through which a handler learns about the run and reports checkpoints and progress.
#[derive(Debug)]
pub struct Context {
    job: Job,
    cancellations: Arc<Cancellations>,
    deadline: Option<Instant>,
    /// The worker that claimed the job, and when the run started; `None` in a test.
    run: Option<(WorkerId, Instant)>,
    /// Whether the handler has called [`finish_in`](crate::transaction::finish_in()).
    finishing: AtomicBool,
    /// What the handler has reported.
    usage: Mutex<Option<Usage>>,
    /// Created by the first line.
    log: OnceLock<Arc<RunLog>>,
    surroundings: Arc<SharedByRuns>,
    /// In a test.
    parents: Vec<Parent>,
}

impl Context {
    pub(crate) fn new(
        job: Job,
        cancellations: Arc<Cancellations>,
        deadline: Option<Instant>,
        run: Option<(WorkerId, Instant)>,
        surroundings: Arc<SharedByRuns>,
    ) -> Context {
        let (finishing, usage, log) = (AtomicBool::new(false), Mutex::new(None), OnceLock::new());
        Context { job, cancellations, deadline, run, finishing, usage, log, surroundings, parents: Vec::new() }
    }

    /// The running job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The number of this attempt; the first is 1.
    pub fn attempt(&self) -> u32 {
        self.job.attempt()
    }

    /// Whether the run is useless from now on: the worker has lost its lease, so that another worker may be running the
    /// job and this run's result will be rejected; the job was cancelled
    /// ([`JobChange::Cancel`](crate::admin::JobChange::Cancel)); its time limit has passed; or the process is stopping
    /// immediately.
    ///
    /// A handler with a long loop should check this now and then, and return an error if it is true. A check costs a
    /// few nanoseconds (plus reading the clock if there is a time limit). A cancellation arrives within
    /// `worker.heartbeat_interval_ms`, or immediately if it was made in this process. The job is then cancelled
    /// whatever error the handler returns, and done if it returns `Ok` all the same.
    pub fn is_cancelled(&self) -> bool {
        self.cancellations.is_lease_lost()
            || self.cancellations.is_asked(self.job.id(), self.job.fence())
            || self.surroundings.is_stopping_now()
            || self.time_left() == Some(Duration::ZERO)
    }

    /// Whether the worker has been told to stop. The job may run on for `worker.shutdown_deadline_ms`. A job that takes
    /// longer can save its state and return [`JobError::snooze`](super::job_error::JobError::snooze), to run again
    /// elsewhere without using up an attempt.
    ///
    /// Stays true if the worker then stops immediately.
    pub fn is_stopping(&self) -> bool {
        self.surroundings.stopping.is_set() || self.surroundings.is_stopping_now()
    }

    /// Whether the worker is stopping without waiting for the job, immediately or because `worker.shutdown_deadline_ms`
    /// has passed. The job runs again, whatever its handler returns. [`is_cancelled`](Self::is_cancelled) is true as
    /// well.
    pub fn is_stopping_now(&self) -> bool {
        self.surroundings.is_stopping_now()
    }

    /// Whether the worker has lost its lease. Another worker may already be running the job, and this run's result will
    /// be refused. [`is_cancelled`](Self::is_cancelled) is true as well.
    pub fn is_lease_lost(&self) -> bool {
        self.cancellations.is_lease_lost()
    }

    /// How much is left of the time limit (the job's, its kind's, or `worker.job_time_limit_ms`), or `None` if there is
    /// no limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Saves the job's state for its next attempt. [`Job::checkpoint`] returns it there if this process dies, if the
    /// handler fails or snoozes the job, or if the job is requeued after it was dead. A new checkpoint replaces the
    /// previous one.
    ///
    /// A call costs a copy of the bytes. The worker writes them at most a second later, and before the job is finished,
    /// or once SQL Server is available again. A killed process therefore loses only the work of its last second. Only
    /// the job's holder can change the checkpoint. It is deleted with the job, or some time after the job is done.
    ///
    /// A job of an `at_most_once` queue has no next attempt, so its checkpoints are discarded.
    ///
    /// ```
    /// use readpast::{BoxError, Context, Job, JobError};
    ///
    /// fn sum(job: &Job, context: &Context) -> Result<String, BoxError> {
    ///     let last: u64 = job.text()?.parse()?;
    ///     let (mut next, mut sum): (u64, u64) = match job.checkpoint() {
    ///         Some(checkpoint) => serde_json::from_slice(checkpoint)?,
    ///         None => (0, 0),
    ///     };
    ///     while next <= last {
    ///         sum += next;
    ///         next += 1;
    ///         if next % 1_000 == 0 {
    ///             context.checkpoint(serde_json::to_vec(&(next, sum))?)?;
    ///             context.progress(next as f32 / last as f32, "summing up");
    ///             if context.is_stopping() {
    ///                 return Err(JobError::snooze(std::time::Duration::ZERO, "the worker stops").into());
    ///             }
    ///         }
    ///     }
    ///     Ok(sum.to_string())
    /// }
    /// # use readpast::NewJob;
    /// let context = Context::for_test(Job::for_test(NewJob::text("2500")).with_checkpoint("[1000, 499500]"));
    /// assert_eq!(sum(context.job(), &context).unwrap(), "3126250");
    /// assert_eq!(context.noted_checkpoint().unwrap(), b"[2000,1999000]");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::CheckpointTooLarge`] for more than 65,535 bytes.
    pub fn checkpoint(&self, state: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.note(Note::checkpoint(state.into())?);
        Ok(())
    }

    /// Reports how far this job is, from 0 to 1 and as text (at most 400 UTF-16 units; a longer text is cut), for
    /// [`Admin::progress_of`](crate::admin::Admin::progress_of) and the programs that show it. A call is as cheap as a
    /// [`checkpoint`](Self::checkpoint), and the two are written together.
    pub fn progress(&self, fraction: f32, text: &str) {
        self.note(Note::progress(fraction, text));
    }

    /// Adds a line to this run's log, for `readpast job ID --log` and the web UI. Its end is kept, 16 KiB by default
    /// (`worker.log_bytes`); `worker.keep_log` decides which attempts keep their log. While the job runs, the worker writes
    /// it at most once a second, together with [`checkpoint`](Self::checkpoint)s. Line ends and tabs stay; other control
    /// characters are left out. A job of an `at_most_once` queue has no log.
    ///
    /// ```
    /// use readpast::{BoxError, Context, Job};
    ///
    /// fn price(job: &Job, context: &Context) -> Result<(), BoxError> {
    ///     context.log(format!("pricing {} bytes", job.payload().len()));
    ///     Ok(())
    /// }
    /// # use readpast::NewJob;
    /// let context = Context::for_test(Job::for_test(NewJob::text("list")));
    /// price(context.job(), &context).unwrap();
    /// assert_eq!(context.logged(), "pricing 4 bytes\n");
    /// ```
    pub fn log(&self, line: impl AsRef<str>) {
        self.add_to_log(|log| log.add_line(line.as_ref()));
    }

    /// Adds bytes to this run's log as a program wrote them: like [`log`](Self::log), but without a line end, with invalid
    /// UTF-8 as U+FFFD, and without escape sequences of terminals. A character may come in two calls.
    pub fn log_output(&self, written: &[u8]) {
        self.add_to_log(|log| log.add(written));
    }

    fn add_to_log(&self, add: impl FnOnce(&RunLog) -> bool) {
        let limit = self.surroundings.log_bytes;
        if limit == 0 || self.job.fence() == Fence::NONE {
            return;
        }
        let log = self.log.get_or_init(|| Arc::new(RunLog::new(limit)));
        if add(log) {
            self.note(Note::log(log, false));
        }
    }

    /// Reports what this run has used, instead of what the worker measures. For a handler whose work happens elsewhere:
    /// in a program that it starts, in threads of its own, on another machine. The last report of a run counts, whatever
    /// its outcome.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use readpast::{BoxError, Context, Job, NewJob, Usage};
    ///
    /// fn render(job: &Job, context: &Context) -> Result<(), BoxError> {
    ///     let (cpu, peak_memory) = (Duration::from_secs(81), 3 << 30); // of a render farm's own accounting
    ///     context.report_usage(Usage { cpu: Some(cpu), peak_memory: Some(peak_memory) });
    ///     Ok(())
    /// }
    /// # let context = Context::for_test(Job::for_test(NewJob::text("")));
    /// # render(context.job(), &context).unwrap();
    /// assert_eq!(context.reported_usage().unwrap().cpu, Some(Duration::from_secs(81)));
    /// ```
    pub fn report_usage(&self, usage: Usage) {
        *self.usage.lock() = Some(usage);
    }

    /// What the handler has [reported](Self::report_usage).
    pub fn reported_usage(&self) -> Option<Usage> {
        *self.usage.lock()
    }

    fn note(&self, note: Note) {
        if self.job.fence() != Fence::NONE {
            self.surroundings.notes.note(self.noted_run(), note);
        }
    }

    fn noted_run(&self) -> NotedRun {
        (self.job.id(), self.job.fence())
    }

    /// The program's value of this type, shared by all jobs of the worker: a cache, a client, a model. The value was
    /// passed to [`Handlers::state`](super::handlers::Handlers::state). A call takes about ten nanoseconds and no lock.
    ///
    /// ```
    /// use readpast::{BoxError, Context, Handlers, TypedJob};
    /// use serde::{Deserialize, Serialize};
    ///
    /// struct Prices(std::collections::HashMap<String, f64>);
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Quote {
    ///     article: String,
    ///     pieces: u32,
    /// }
    ///
    /// impl TypedJob for Quote {
    ///     const KIND: &'static str = "quote";
    ///     type Output = ();
    ///
    ///     fn run(self, context: &Context) -> Result<(), BoxError> {
    ///         let Prices(prices) = context.state();
    ///         let price = prices.get(&self.article).ok_or("there is no such article")?;
    ///         println!("{} pieces: {}", self.pieces, price * f64::from(self.pieces));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let prices = Prices([("nail".to_owned(), 0.02)].into());
    /// let handlers = Handlers::new().state(prices).job::<Quote>();
    /// ```
    ///
    /// # Panics
    ///
    /// If no value of this type was passed, which is a mistake in the program. In a handler, this fails the attempt as
    /// any panic does; the error names the type.
    pub fn state<T: Send + Sync + 'static>(&self) -> &T {
        self.surroundings.state.get()
    }

    /// Runs a future to completion, for a handler that needs an async library, for example for one HTTP call before an
    /// hour of computing.
    ///
    /// The future is polled on this thread, which runs nothing else meanwhile, so the future should be short. The tasks
    /// that it spawns, its timers and its sockets are driven by the worker's own runtime, which has its own thread and
    /// is started by the first call. The future therefore progresses even if the program's runtime has a single thread
    /// and that thread is blocked. Nested calls work, too: a waiting handler may run another handler on its stack, see
    /// the crate's documentation on rayon.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use readpast::{BoxError, Context, Job};
    ///
    /// async fn fetch(url: &str) -> Result<String, BoxError> {
    ///     tokio::time::sleep(Duration::from_millis(1)).await;
    ///     Ok(format!("what stands at {url}"))
    /// }
    ///
    /// fn summarise(job: &Job, context: &Context) -> Result<(), BoxError> {
    ///     let text = context.block_on(fetch(&job.text()?))?;
    ///     println!("{} bytes", text.len());
    ///     Ok(())
    /// }
    /// # let job = readpast::Job::for_test(readpast::NewJob::text("https://localhost"));
    /// # let context = Context::for_test(job);
    /// # summarise(context.job(), &context).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// If the operating system provides no thread, or if this thread is inside a `current_thread` runtime that the
    /// handler itself runs.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let runtime = self.surroundings.runtime();
        // Outside of a runtime, this only calls the closure. In a nested call, it leaves the context of the outer call
        // meanwhile.
        tokio::task::block_in_place(|| runtime.block_on(future))
    }

    /// Returns how the jobs ended that this one has waited for ([`NewJob::after`](crate::NewJob::after)), with their
    /// outputs, in the order of their ids. A queue that deletes done jobs keeps no outputs
    /// ([`CompletionPolicy`](crate::admin::CompletionPolicy)).
    ///
    /// Blocks this thread for one round trip, on one of two connections that the worker's handlers share, or longer, up
    /// to `connection.command_timeout_ms`, while SQL Server is away. A job that [has none](Job::has_parents) asks
    /// nothing. In a test, what [`with_parents`](Self::with_parents) has set.
    ///
    /// ```
    /// use readpast::{BoxError, Context, Job, JobEnd, JobId, NewJob};
    ///
    /// fn montage(_: &Job, context: &Context) -> Result<String, BoxError> {
    ///     let mut names = Vec::new();
    ///     for parent in context.parents()? {
    ///         if let JobEnd::Done { output: Some(name) } = parent.end {
    ///             names.push(String::from_utf8(name)?);
    ///         }
    ///     }
    ///     Ok(names.join("+"))
    /// }
    /// # let done = |id, name: &str| (JobId(id), JobEnd::Done { output: Some(name.into()) });
    /// # let context = Context::for_test(Job::for_test(NewJob::text(""))).with_parents([done(1, "a"), done(2, "b")]);
    /// # assert_eq!(montage(context.job(), &context).unwrap(), "a+b");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the outputs are more than 64 MiB together; [`Error::NoFreeConnection`], and the errors of
    /// [`Queue::connect`](crate::Queue::connect), if SQL Server stays away.
    ///
    /// # Panics
    ///
    /// As [`block_on`](Self::block_on).
    pub fn parents(&self) -> Result<Vec<Parent>, Error> {
        match &self.surroundings.parents {
            _ if !self.job.has_parents() => Ok(Vec::new()),
            Some(parents_of) => self.block_on(parents_of(self.job.id())),
            None => Ok(self.parents.clone()),
        }
    }

    /// The worker that claimed the job, and when the run started; `None` in a test.
    pub(crate) fn run(&self) -> Option<(WorkerId, Instant)> {
        self.run
    }

    /// Records that the handler finishes the job itself.
    pub(crate) fn finishes(&self) {
        self.finishing.store(true, Ordering::Release);
    }

    pub(crate) fn was_finishing(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    /// The names of the job's schema and queue.
    pub(crate) fn place(&self) -> (&str, &str) {
        let (schema, queue) = &self.surroundings.place;
        (schema, queue)
    }

    /// Returns the job after its run, and the usage and the log that the handler has reported.
    pub(crate) fn into_job(self) -> (Job, Option<Usage>, Option<Arc<RunLog>>) {
        (self.job, self.usage.into_inner(), self.log.into_inner())
    }
}

/// For tests without a server.
impl Context {
    /// Creates the context of a run of `job`, for testing a handler. The run is neither cancelled nor stopping, and has
    /// the job's own time limit, if the job has one.
    ///
    /// ```
    /// use readpast::{Context, Job, NewJob};
    ///
    /// let context = Context::for_test(Job::for_test(NewJob::text("to be"))).stopping();
    /// assert!(context.is_stopping() && !context.is_cancelled());
    /// ```
    pub fn for_test(job: Job) -> Context {
        let time_limit = job.time_limit();
        let mut context = Context::new(job, Arc::default(), None, None, Arc::default());
        context.own_surroundings().log_bytes = 64 << 10;
        match time_limit {
            Some(limit) => context.time_limit(limit),
            None => context,
        }
    }

    /// The handler's last [`checkpoint`](Self::checkpoint), in a test.
    pub fn noted_checkpoint(&self) -> Option<Vec<u8>> {
        self.surroundings.notes.of(self.noted_run())?.checkpoint
    }

    /// The last 64 KiB of what the handler has [logged](Self::log), in a test.
    pub fn logged(&self) -> String {
        self.log.get().map(|log| log.end().0).unwrap_or_default()
    }

    /// Cancels the run, in a test.
    #[must_use]
    pub fn cancelled(self) -> Context {
        self.cancellations.lose_lease();
        self
    }

    /// Sets what [`parents`](Self::parents) returns, in a test, without kinds.
    #[must_use]
    pub fn with_parents(mut self, parents: impl IntoIterator<Item = (JobId, JobEnd)>) -> Context {
        let parent = |(job_id, end)| Parent { job_id, kind: None, end };
        self.parents = parents.into_iter().map(parent).collect();
        self.job.set_parents(!self.parents.is_empty());
        self
    }

    /// Tells the worker to stop, in a test.
    #[must_use]
    pub fn stopping(self) -> Context {
        self.surroundings.stopping.set();
        self
    }

    /// Adds this value as the [`state`](Self::state) of its type, in a test. It replaces a value from
    /// [`Handlers::state`](super::handlers::Handlers::state).
    ///
    /// ```
    /// use readpast::{Context, Job, NewJob};
    ///
    /// struct Factor(u32);
    ///
    /// let context = Context::for_test(Job::for_test(NewJob::text(""))).with_state(Factor(3));
    /// assert_eq!(context.state::<Factor>().0, 3);
    /// ```
    #[must_use]
    pub fn with_state<T: Send + Sync + 'static>(mut self, value: T) -> Context {
        self.own_surroundings().state.insert(value);
        self
    }

    /// Adds the values whose types the context's own state lacks.
    pub(super) fn with_missing_state(mut self, state: &State) -> Context {
        self.own_surroundings().state.fill_up(state);
        self
    }

    /// The data shared by runs, in a context that was made for a test.
    fn own_surroundings(&mut self) -> &mut SharedByRuns {
        Arc::get_mut(&mut self.surroundings).expect("only a worker's contexts share them")
    }

    /// Sets the time limit, counted from now, in a test: at most ten years. When it has passed, the run is cancelled.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Context {
        self.deadline = Some(Instant::now() + limit.min(TEN_YEARS)); // the clock cannot represent every limit
        self
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
