//! The registry of handlers, by kind.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{KindConfig, OutOfMemory, WorkerConfig};
use crate::error::{BoxError, Error};
use crate::job::{ALLOWED_KIND, Job, Needs, Outcome, is_kind};

use super::context::Context;
use super::for_other_workers::ForOtherWorkers;
use super::job_run::{JobRun, run_many_for_test};
use super::kind_options::KindOptions;
use super::output::{IntoOutput, Output};
use super::shared_by_runs::State;
use super::shared_limit::SharedLimit;
use super::typed_job::TypedJob;

/// A handler as a worker stores it.
pub(crate) enum Function {
    /// Runs one job, and returns its output.
    OneJob(Box<OneJob>),
    /// Ends the runs of its jobs itself.
    ManyJobs(Box<ManyJobs>),
}

pub(crate) type OneJob = dyn Fn(&Context) -> Result<Output, BoxError> + Send + Sync;

pub(crate) type ManyJobs = dyn Fn(JobRun<'_>) + Send + Sync;

/// The handlers of a worker: one for each kind of job, one for all jobs, or both.
///
/// ```
/// use readpast::{BoxError, Context, Handlers, Job, Json};
///
/// fn count_words(job: &Job, _context: &Context) -> Result<Json<usize>, BoxError> {
///     Ok(Json(job.text()?.split_whitespace().count()))
/// }
///
/// // One handler for every job, whatever its kind:
/// let handlers = Handlers::any(count_words);
///
/// // By kind; a job of another kind, or of none, is given back for a worker that knows it:
/// let handlers = Handlers::new().kind("words", count_words).kind("lines", |job, _context| {
///     Ok(Json(job.text()?.lines().count()))
/// });
///
/// // By kind, and one for the rest:
/// let handlers = handlers.otherwise(|job, _context| {
///     println!("job {} of kind {:?}", job.id(), job.kind());
///     Ok(())
/// });
/// ```
#[derive(Default)]
#[must_use = "handlers do nothing until a worker has them"]
pub struct Handlers {
    /// The handlers. The handler for all other kinds, if any, has no kind.
    handlers: Vec<Handler>,
    by_kind: HashMap<String, usize>,
    otherwise: Option<usize>,
    /// Whether jobs of other kinds are postponed for as long as it takes.
    pub(crate) leaves_others: bool,
    state: State,
    /// The options of kinds that the handler for all other kinds runs, if the configuration has any, completed with
    /// those of the handler.
    others: HashMap<String, KindConfig>,
    /// The first invalid setting, which the start of the worker reports.
    refused: Option<Error>,
}

/// What code and configuration state of the jobs of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stated<'a> {
    pub(crate) needs: Option<&'a Needs>,
    pub(crate) on_out_of_memory: Option<&'a OutOfMemory>,
    pub(crate) start_within: Option<Duration>,
}

/// A handler and the options of its jobs.
pub(crate) struct Handler {
    /// The handler's kind, or `None` if it is for all other kinds.
    kind: Option<Arc<str>>,
    function: Function,
    pub(crate) options: KindOptions,
}

impl Handlers {
    /// Creates a registry without handlers.
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// Uses one handler for every job, whatever its kind.
    ///
    /// The handler returns `Result<_, BoxError>`, so `?` takes any error, including those of `anyhow` and a
    /// [`JobError`](super::job_error::JobError) (`return Err(JobError::dead("…").into())`). A closure that is kept in a
    /// variable must name its parameters' types: `|job: &Job, context: &Context|`. One that always fails must name its
    /// result: `Err::<(), BoxError>(…)`. For async code, call [`Context::block_on`](super::context::Context::block_on).
    pub fn any<F, R>(handler: F) -> Handlers
    where
        F: Fn(&Job, &Context) -> Result<R, BoxError> + Send + Sync + 'static,
        R: IntoOutput,
    {
        Handlers::new().otherwise(handler)
    }

    /// Adds the handler of a job type.
    pub fn job<T: TypedJob>(self) -> Handlers {
        self.kind(T::KIND, |job, context| job.json::<T>()?.run(context))
    }

    /// Adds the handler of a kind. Each kind has one handler. Its name is 1 to 64 printable ASCII characters without
    /// spaces; the start of the worker refuses anything else.
    pub fn kind<F, R>(mut self, kind: impl Into<String>, handler: F) -> Handlers
    where
        F: Fn(&Job, &Context) -> Result<R, BoxError> + Send + Sync + 'static,
        R: IntoOutput,
    {
        self.add(Some(kind.into()), one_job(handler));
        self
    }

    /// Adds the handler for jobs of all other kinds, and for those without a kind.
    pub fn otherwise<F, R>(mut self, handler: F) -> Handlers
    where
        F: Fn(&Job, &Context) -> Result<R, BoxError> + Send + Sync + 'static,
        R: IntoOutput,
    {
        self.add(None, one_job(handler));
        self
    }

    /// Leaves jobs of other kinds to other workers: this worker postpones them for as long as it takes, instead of
    /// `worker.unknown_kind_keep_ms` at most. For workers that divide the kinds of a queue among them. In a queue with
    /// delivery `at_most_once`, such jobs become dead all the same: their rows are gone.
    pub fn leave_others(mut self) -> Handlers {
        self.leaves_others = true;
        self
    }

    /// Sets the options of a kind, whose handler must have been added before. Without options, the worker's
    /// configuration applies.
    pub fn options(mut self, kind: &str, options: KindOptions) -> Handlers {
        match self.by_kind.get(kind) {
            Some(index) => {
                if let Err(error) = options.check(kind) {
                    self.refused.get_or_insert(error);
                }
                self.handlers[*index].options = options;
            }
            None => {
                let allowed =
                    format!("the kind of a handler that was added before (by kind or job): {:?}", self.kinds());
                self.refuse("the kind of options".to_owned(), format!("'{kind}'"), allowed);
            }
        }
        self
    }

    /// Sets the options of the handler for all other kinds ([`otherwise`](Self::otherwise), [`any`](Self::any)), which
    /// must have been added before.
    pub fn otherwise_options(mut self, options: KindOptions) -> Handlers {
        match self.otherwise {
            Some(index) => {
                if let Err(error) = options.check("any other") {
                    self.refused.get_or_insert(error);
                }
                self.handlers[index].options = options;
            }
            None => {
                let allowed = "called after otherwise or any".to_owned();
                self.refuse("otherwise_options".to_owned(), "without a handler".to_owned(), allowed);
            }
        }
        self
    }

    /// Shares a value with all jobs: a cache, a client, a model. [`Context::state`] finds it by its type, so each type
    /// can have only one; the start of the worker refuses a second. To share the value with the rest of the program or
    /// with another worker, pass an `Arc`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// use readpast::{Context, Handlers, Job, NewJob, Outcome};
    ///
    /// struct Words(AtomicUsize);
    ///
    /// let handlers = Handlers::any(|job, context| {
    ///     let words = job.text()?.split_whitespace().count();
    ///     context.state::<Words>().0.fetch_add(words, Ordering::Relaxed);
    ///     Ok(())
    /// });
    /// let handlers = handlers.state(Words(AtomicUsize::new(0)));
    /// let job = Job::for_test(NewJob::text("to be or not to be"));
    /// assert_eq!(handlers.run_for_test(Context::for_test(job)), Outcome::Done { output: None, follow_ups: vec![] });
    /// ```
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Handlers {
        if self.state.insert(value) {
            let key = format!("the number of states of type {}", std::any::type_name::<T>());
            self.refuse(key, "2".to_owned(), "1".to_owned());
        }
        self
    }

    pub(super) fn add(&mut self, kind: Option<String>, function: Function) {
        let place = self.handlers.len();
        let has_two = match &kind {
            Some(kind) => self.by_kind.insert(kind.clone(), place).is_some(),
            None => self.otherwise.replace(place).is_some(),
        };
        if let Some(kind) = kind.as_deref().filter(|kind| !is_kind(kind)) {
            self.refuse("a handler's kind".to_owned(), format!("'{kind}'"), ALLOWED_KIND.to_owned());
        }
        if has_two {
            let of = kind.as_ref().map_or("for all other kinds".to_owned(), |kind| format!("of kind '{kind}'"));
            self.refuse(format!("the number of handlers {of}"), "2".to_owned(), "1".to_owned());
        }
        self.handlers.push(Handler { kind: kind.map(Arc::from), function, options: KindOptions::default() });
    }

    fn refuse(&mut self, key: String, value: String, allowed: String) {
        self.refused.get_or_insert(Error::Config { key, value, allowed });
    }

    fn kinds(&self) -> Vec<&str> {
        self.handlers.iter().filter_map(|handler| handler.kind.as_deref()).collect()
    }

    /// Checks the handlers, and completes their options from `config`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for the first invalid setting, or if there is no handler.
    pub(crate) fn check(&mut self, config: &WorkerConfig) -> Result<(), Error> {
        if self.handlers.is_empty() {
            self.refuse("the number of handlers".to_owned(), "0".to_owned(), "1 or more".to_owned());
        }
        if self.leaves_others && self.otherwise.is_some() {
            let allowed = "unset, because a handler runs the jobs of all other kinds";
            self.refuse("leave_others".to_owned(), "set".to_owned(), allowed.to_owned());
        }
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        let time_limit = (!config.job_time_limit.is_zero()).then_some(config.job_time_limit);
        for handler in &mut self.handlers {
            handler.options.time_limit = handler.options.time_limit.or(time_limit);
            handler.options.retry.get_or_insert(config.retry);
        }
        Ok(())
    }

    /// Completes the options of kinds from the configuration.
    pub(crate) fn complete(&mut self, kinds: &BTreeMap<String, KindConfig>) {
        for (kind, config) in kinds {
            let Some(index) = self.find(Some(kind)) else { continue };
            let Handler { kind: own, options, .. } = &mut self.handlers[index];
            let mut config = config.clone();
            if let Some(needs) = &options.needs {
                config.needs = Some(config.needs.map_or_else(|| needs.clone(), |of_kind| needs.over(&of_kind)));
            }
            config.on_out_of_memory = options.on_out_of_memory.clone().or(config.on_out_of_memory);
            config.start_within = options.start_within.or(config.start_within);
            if own.is_some() {
                let KindConfig { needs, on_out_of_memory, start_within } = config;
                (options.needs, options.on_out_of_memory, options.start_within) =
                    (needs, on_out_of_memory, start_within);
            } else {
                self.others.insert(kind.clone(), config);
            }
        }
    }

    /// What the configuration has of a job's kind, if the handler at this index is that for all other kinds.
    fn other(&self, place: usize, kind: Option<&str>) -> Option<&KindConfig> {
        if self.others.is_empty() || self.handlers[place].kind.is_some() {
            return None;
        }
        self.others.get(kind?)
    }

    /// What is stated of the jobs of this kind that the handler at this index runs.
    pub(crate) fn stated(&self, place: usize, kind: Option<&str>) -> Stated<'_> {
        let options = &self.handlers[place].options;
        let (needs, on_out_of_memory, start_within) = match self.other(place, kind) {
            Some(config) => (&config.needs, &config.on_out_of_memory, config.start_within),
            None => (&options.needs, &options.on_out_of_memory, options.start_within),
        };
        Stated { needs: needs.as_ref(), on_out_of_memory: on_out_of_memory.as_ref(), start_within }
    }

    /// Whether no kind has needs or a latest start.
    pub(crate) fn state_nothing(&self) -> bool {
        let states_nothing = |options: &KindOptions| options.needs.is_none() && options.start_within.is_none();
        self.others.is_empty() && self.handlers.iter().all(|handler| states_nothing(&handler.options))
    }

    /// The label of each handler's jobs in the metrics. Jobs of all other kinds have none, because the number of their
    /// kinds is unbounded.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.handlers.iter().map(|handler| handler.kind.as_deref().unwrap_or_default())
    }

    /// The values that the jobs share.
    pub(crate) fn shared_state(&self) -> State {
        self.state.clone()
    }

    /// The limit that each handler's jobs share, or `None` if only the number of threads limits them.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<&Arc<SharedLimit>>> {
        self.handlers.iter().map(|handler| handler.options.places.as_ref())
    }

    /// The index of the handler for a job of this kind.
    pub(crate) fn find(&self, kind: Option<&str>) -> Option<usize> {
        let own = kind.and_then(|kind| self.by_kind.get(kind)).copied();
        own.or(self.otherwise)
    }

    /// The handler at this index.
    pub(crate) fn get(&self, place: usize) -> &Handler {
        &self.handlers[place]
    }

    /// Runs the job of `context` as a worker would, for tests without a server. Returns the outcome that the worker
    /// would report: a panic is a failure, a [`JobError`](super::job_error::JobError) determines the outcome of an
    /// error, and a job without a handler for its kind is postponed. Settings have their defaults.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use readpast::{Context, Handlers, Job, JobError, Json, NewJob, Outcome};
    ///
    /// let handlers = Handlers::new().kind("halve", |job, _context| {
    ///     let number: u32 = job.json()?;
    ///     if number % 2 == 1 {
    ///         return Err(JobError::dead("it is odd").into());
    ///     }
    ///     Ok(Json(number / 2))
    /// });
    /// let run = |job: NewJob| handlers.run_for_test(Context::for_test(Job::for_test(job)));
    ///
    /// let four = NewJob::json(&4).unwrap().kind("halve");
    /// assert_eq!(run(four), Outcome::Done { output: Some(b"2".to_vec()), follow_ups: vec![] });
    /// let three = NewJob::json(&3).unwrap().kind("halve");
    /// assert_eq!(run(three), Outcome::Dead { error: "it is odd".to_owned() });
    /// assert!(matches!(run(NewJob::text("x").kind("double")), Outcome::Snooze { .. }));
    /// ```
    ///
    /// # Panics
    ///
    /// If the start of a worker would refuse these handlers.
    pub fn run_for_test(&self, mut context: Context) -> Outcome {
        if let Some(error) = &self.refused {
            panic!("{error}");
        }
        let Some(place) = self.find(context.job().kind()) else {
            return ForOtherWorkers::new(&WorkerConfig::default()).unknown_kind(context.job(), self.leaves_others);
        };
        context = context.with_missing_state(&self.state);
        let handler = self.get(place);
        if let Some(limit) = handler.options.time_limit
            && context.time_left().is_none()
        {
            context = context.time_limit(limit);
        }
        let stated = |context: &Context| self.stated(place, context.job().kind());
        match &handler.function {
            Function::OneJob(function) => {
                handler.run(function, &context, &|| stated(&context), &tracing::Span::none()).outcome
            }
            Function::ManyJobs(function) => run_many_for_test(handler, function, context, &stated),
        }
    }
}

fn one_job<F, R>(handler: F) -> Function
where
    F: Fn(&Job, &Context) -> Result<R, BoxError> + Send + Sync + 'static,
    R: IntoOutput,
{
    Function::OneJob(Box::new(move |context: &Context| handler(context.job(), context)?.into_output()))
}

impl Handler {
    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// The kind of the handler, or `None` for all other kinds.
    pub(crate) fn kind(&self) -> Option<&Arc<str>> {
        self.kind.as_ref()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("kinds", &self.kinds()).field("otherwise", &self.otherwise.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::handler::output::Json;
    use crate::job::NewJob;

    fn nothing(_: &Job, _: &Context) -> Result<(), BoxError> {
        Ok(())
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let message = |mut handlers: Handlers| handlers.check(&WorkerConfig::default()).unwrap_err().to_string();
        assert_eq!(message(Handlers::new()), "the number of handlers is 0; it must be 1 or more");
        let two = Handlers::new().kind("resize", nothing).kind("resize", nothing);
        assert_eq!(message(two), "the number of handlers of kind 'resize' is 2; it must be 1");
        let two = Handlers::any(nothing).state("one").state(1_u8).state("another");
        assert_eq!(message(two), "the number of states of type &str is 2; it must be 1");
        let two = Handlers::any(nothing).otherwise(nothing);
        assert_eq!(message(two), "the number of handlers for all other kinds is 2; it must be 1");
        for kind in ["", "two words", "größe", &"x".repeat(65)] {
            let refused = message(Handlers::new().kind(kind, nothing));
            let allowed = "it must be 1 to 64 printable ASCII characters, no spaces";
            assert_eq!(refused, format!("a handler's kind is '{kind}'; {allowed}"));
        }
        let misspelt = Handlers::new().kind("resize", nothing).options("rezise", KindOptions::new());
        let expected = r#"the kind of options is 'rezise'; it must be the kind of a handler that was added before (by kind or job): ["resize"]"#;
        assert_eq!(message(misspelt), expected);
        let never = Handlers::new().kind("resize", nothing).options("resize", KindOptions::new().at_most(0));
        assert_eq!(message(never), "at_most of the handler of kind 'resize' is 0; it must be 1 or more");
        let at_once = Handlers::new().kind("resize", nothing);
        let at_once = at_once.options("resize", KindOptions::new().time_limit(Duration::ZERO));
        assert_eq!(message(at_once), "time_limit of the handler of kind 'resize' is 0; it must be longer than that");
        let nothing_of_it = Handlers::any(nothing).otherwise_options(KindOptions::new().needs(Needs::new().threads(0)));
        assert!(message(nothing_of_it).contains("the need of 'threads' is 0; it must be 1 to 1024 threads"));
        let too_early = Handlers::new().otherwise_options(KindOptions::new()).otherwise(nothing);
        assert!(message(too_early).contains("called after otherwise or any"));
        for (base, max) in [(2, 1), (0, u64::MAX)] {
            let delays = KindOptions::new().retry(Duration::from_secs(base), Duration::from_secs(max));
            let refused = message(Handlers::new().kind("resize", nothing).options("resize", delays));
            assert!(refused.starts_with("retry of the handler of kind 'resize' is "), "{refused}");
        }
    }

    #[test]
    fn of_a_job_s_limit_and_a_kind_s_and_a_test_s_the_nearest_wins() {
        let left = |job: NewJob, of_test: Option<Duration>| {
            let handlers = Handlers::new().kind("k", |_, context| {
                let left = context.time_left().map_or(0, |left| left.as_millis().div_ceil(60_000));
                Ok(Json(left))
            });
            let handlers = handlers.options("k", KindOptions::new().time_limit(Duration::from_secs(60)));
            let context = Context::for_test(Job::for_test(job.kind("k")));
            let context = if let Some(limit) = of_test { context.time_limit(limit) } else { context };
            handlers.run_for_test(context)
        };
        let minutes =
            |minutes: u8| Outcome::Done { output: Some(minutes.to_string().into_bytes()), follow_ups: vec![] };
        assert_eq!(left(NewJob::text(""), None), minutes(1));
        let own = || NewJob::text("").time_limit(Duration::from_secs(120));
        assert_eq!(left(own(), None), minutes(2));
        assert_eq!(left(own(), Some(Duration::from_secs(180))), minutes(3));
    }

    #[test]
    fn needs_are_stated_in_code_then_in_the_file() {
        let of_file = |needs: Needs| KindConfig { needs: Some(needs), ..KindConfig::default() };
        let kinds = [
            ("a".to_owned(), of_file(Needs::new().memory(1).threads(2))),
            ("b".to_owned(), of_file(Needs::new().memory(2))),
            ("c".to_owned(), of_file(Needs::new().token("gpu", 1))),
        ];
        let mut handlers = Handlers::new().kind("a", nothing).kind("b", nothing).otherwise(nothing);
        handlers = handlers.options("a", KindOptions::new().needs(Needs::new().memory(7)));
        handlers = handlers.otherwise_options(KindOptions::new().needs(Needs::new().threads(3)));
        handlers.complete(&kinds.into());
        let stated = |kind: Option<&str>| handlers.stated(handlers.find(kind).unwrap(), kind);
        let needs = |kind: Option<&str>| stated(kind).needs.unwrap().to_string();
        assert_eq!(needs(Some("a")), "7 bytes of memory, 2 threads");
        assert_eq!(needs(Some("b")), "2 bytes of memory");
        assert_eq!(needs(Some("c")), "1 gpu, 3 threads", "which the handler for all other kinds runs");
        assert_eq!((needs(Some("d")), needs(None)), ("3 threads".to_owned(), "3 threads".to_owned()));
    }

    #[test]
    fn what_follows_a_lack_of_memory_is_said_in_code_then_in_the_file() {
        let moved = OutOfMemory::MoveTo("large".to_owned());
        let of_file = KindConfig { on_out_of_memory: Some(moved.clone()), ..KindConfig::default() };
        let kinds = ["a", "b", "c"].map(|kind| (kind.to_owned(), of_file.clone()));
        let mut handlers = Handlers::new().kind("a", nothing).kind("b", nothing).otherwise(nothing);
        handlers = handlers.options("a", KindOptions::new().on_out_of_memory(OutOfMemory::Retry));
        handlers.complete(&kinds.into());
        let rule = |kind: &str| handlers.stated(handlers.find(Some(kind)).unwrap(), Some(kind)).on_out_of_memory;
        assert_eq!(rule("a"), Some(&OutOfMemory::Retry));
        assert_eq!((rule("b"), rule("c"), rule("d")), (Some(&moved), Some(&moved), None));
    }

    #[test]
    fn a_job_goes_to_the_handler_of_its_kind_or_to_the_one_for_the_rest() {
        let kind = |handlers: &Handlers, kind: Option<&str>| {
            handlers.find(kind).map(|place| handlers.get(place).kind().map(|kind| kind.to_string()))
        };
        let some = |kind: &str| Some(Some(kind.to_owned()));
        let handlers = Handlers::new().kind("a", nothing).kind("b", nothing);
        assert_eq!(kind(&handlers, Some("b")), some("b"));
        assert_eq!(kind(&handlers, Some("c")), None);
        assert_eq!(kind(&handlers, None), None);
        let handlers = handlers.otherwise(nothing);
        assert_eq!(kind(&handlers, Some("a")), some("a"));
        assert_eq!(kind(&handlers, Some("c")), Some(None));
        assert_eq!(kind(&handlers, None), Some(None));
    }
}
