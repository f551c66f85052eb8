//! `readpast work`: runs a program for each job of a queue.
//!
//! ```text
//! job ─▶ handler, on a thread of the pool ─▶ each_job: a program ──────────────▶ its exit code ─▶ the job's outcome
//!                                         └▶ kept: this thread's program, a line ─▶ its answer ──┘
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `program`, `placeholders`, `job_variables` | the program, its arguments and its environment |
//! | `process`, `before_exec`, `reap` | a running program: group, pipes, exit and usage |
//! | `job_meter` | what a job of a program that stays uses |
//! | `memory` | limits of the memory of programs |
//! | `placement` | the CPUs and the priority of programs |
//! | `starting` | waits during a shortage of the machine |
//! | `guard` | kills what a killed worker leaves |
//! | `orphans` | reaps orphans as process 1 of a container |
//! | `ending` | ends a run early |
//! | `each_job`, `exit_outcomes` | a program for each job; outcomes of exit codes |
//! | `kept`, `talk`, `protocol`, `recycling` | programs that stay, one of them, their protocol, and when they are replaced |
//! | `pipeline` | the jobs that a program that stays has at the same time |
//! | `check_program` | checks that a program speaks the protocol |
//! | `error_tail` | the end of standard error, for the job's error, after the line with the reason |
//! | `oom_kills` | counts kills by the OOM killer |
//! | `service_manager` | notifies systemd |
//! | `summary` | the totals at the end |
//!
//! `process_elsewhere` and `guard_elsewhere` are for systems without process groups, `service_manager_elsewhere` for
//! systems without systemd.

#[cfg(target_os = "linux")]
mod before_exec;
mod check_program;
mod each_job;
mod ending;
mod error_tail;
mod exit_outcomes;
#[cfg_attr(not(unix), path = "guard_elsewhere.rs")]
mod guard;
mod job_meter;
mod job_variables;
mod kept;
mod memory;
#[cfg(unix)]
mod oom_kills;
#[cfg(target_os = "linux")]
mod orphans;
mod parents;
mod pipeline;
mod placeholders;
mod placement;
#[cfg_attr(not(unix), path = "process_elsewhere.rs")]
mod process;
mod program;
mod protocol;
#[cfg(unix)]
mod reap;
mod recycling;
mod runner;
#[cfg_attr(not(target_os = "linux"), path = "service_manager_elsewhere.rs")]
mod service_manager;
mod starting;
mod summary;
mod talk;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use readpast::config::KeepLog;
use readpast::crates::rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use readpast::{
    BoxError, Config, Context, Error, Handlers, Job, JobRun, KindOptions, Needs, OutOfMemory, Outcome, Queue,
    StopHandle, Worker,
};
use tempfile::TempDir;

use crate::connection::Common;
use crate::exit::{Exit, failure};
use crate::interrupt::StopSignals;
use crate::job_options::token;
use crate::logs;
use crate::output::Output;
use crate::texts::{bytes, duration, first_line, size};

use exit_outcomes::{ExitOutcomes, ExitRule};
use guard::Guard;
use kept::Kept;
use memory::{MemoryLimits, MemoryMeans};
use placement::Placement;
use program::Program;
use recycling::Recycling;
use runner::Runner;
use service_manager::ServiceManager;
use starting::Starting;
use summary::Summary;

pub use check_program::CheckProgram;
#[cfg(unix)]
pub use guard::GuardCommand;

/// Run a program for each job of a queue.
///
/// The program gets the payload on standard input, or in arguments with {payload} (path of a file with the payload),
/// {text} or {.name} (member of a JSON payload). Arguments can also contain {job_id}, {attempt}, {kind}, and {{ for a
/// brace. Standard output becomes the job's output.
///
/// Exit code 0: the job is done. 65: it is dead. Any other code, or a signal: it is retried, with the end of standard
/// error as its error.
///
/// After the first Ctrl-C, SIGTERM or SIGHUP, running programs finish; the second stops them. See docs/work.md.
///
/// Role: worker.
#[derive(Debug, Args)]
#[command(after_help = "Example: readpast work thumbnails -- convert {.from} -resize 200 {.to}")]
pub struct Work {
    queue: String,
    /// Program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "shell")]
    program: Vec<String>,
    /// Run this shell command line instead; the payload is on standard input, and in READPAST_PAYLOAD_TEXT if it is
    /// text without NUL of less than 128 KiB
    #[arg(long, value_name = "COMMAND", conflicts_with = "program")]
    shell: Option<String>,
    /// Keep one program per thread, which reads one line of JSON per job and replies with one
    #[arg(long, conflicts_with = "on_exit")]
    keep: bool,
    /// Maximum number of jobs to run at the same time [default: one per core]
    #[arg(long, value_name = "NUMBER")]
    threads: Option<usize>,
    /// Threads of the worker that each job needs; a job's own needs take precedence [default: as for its kind]
    #[arg(long, value_name = "NUMBER")]
    job_threads: Option<u32>,
    /// Tokens of the worker that each job needs, such as gpu=1; can be repeated
    #[arg(long = "token", value_name = "NAME=NUMBER", value_parser = token)]
    tokens: Vec<(String, u32)>,
    /// Run only jobs of these kinds (comma-separated); postpone others
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Stop a program that runs longer; a job's own time limit takes precedence
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    time_limit: Option<Duration>,
    /// Time between asking a program to stop (SIGTERM) and killing it
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    grace: Duration,
    /// Time for running programs to finish after the first signal [default: 25s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    shutdown_deadline: Option<Duration>,
    /// Outcome of exit codes, such as 1-9=dead, 80=snooze:60s, 75=move:large or other=retry:5m; can be repeated
    #[arg(long, value_name = "CODES=OUTCOME")]
    on_exit: Vec<ExitRule>,
    /// Maximum size of standard output, at most 256MiB; a program that exceeds it is stopped, and its job becomes dead
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "16MiB")]
    max_output: usize,
    /// Limit the memory of each program with everything it starts (Linux); a job's own need of memory takes precedence
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<usize>,
    /// How to limit it [default: by control groups, or if that is not possible, by watching]
    #[arg(long, value_name = "WAY", requires = "memory")]
    memory_by: Option<MemoryMeans>,
    /// What happens to a job whose program exceeds its limit of memory: retry, grow:FACTOR:SIZE (more memory, up to this
    /// size) or move:QUEUE [default: as in the configuration file, or retry]
    #[arg(long, value_name = "RULE", value_parser = out_of_memory, requires = "memory")]
    on_out_of_memory: Option<OutOfMemory>,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    recycling: Recycling,
    /// Which attempts' logs to keep: the end of standard error and output, 16 KiB
    #[arg(long, value_name = "WHICH", value_enum)]
    keep_log: Option<KeptLogs>,
    /// Exit when the queue is empty; also waits for scheduled jobs, and while the queue is paused
    #[arg(long)]
    drain: bool,
    /// With --drain: do not wait for scheduled jobs
    #[arg(long, requires = "drain")]
    not_scheduled: bool,
    /// Pass these variables to the program, although they are settings or credentials of the worker (comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pass_env: Vec<String>,
    /// Serve Prometheus metrics on this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
}

/// Which attempts' logs stay. (Setting: worker.keep_log)
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeptLogs {
    Failed,
    All,
    None,
}

impl From<KeptLogs> for KeepLog {
    fn from(kept: KeptLogs) -> KeepLog {
        match kept {
            KeptLogs::Failed => KeepLog::Failed,
            KeptLogs::All => KeepLog::All,
            KeptLogs::None => KeepLog::None,
        }
    }
}

/// Why an argument of a program that stays is refused.
const NO_PLACEHOLDERS: &str = "with --keep, the arguments cannot have placeholders, because the program runs many jobs";

/// The library's limit of an output.
const MAX_OUTPUT: usize = 256 << 20;

/// The least limit of memory, which the smallest programs need.
const LEAST_MEMORY: usize = 1 << 20;

/// Characters of an error in a log line.
const LOGGED: usize = 200;

/// How long to wait for the runs after their programs have been killed.
const LAST_WAIT: Duration = Duration::from_secs(2);

impl Work {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let log = logs::to_stderr()?;
        #[cfg(target_os = "linux")]
        orphans::adopt();
        if self.max_output > MAX_OUTPUT {
            return Err(failure(Exit::Usage, "--max-output must be at most 256MiB"));
        }
        let config = self.config(common)?;
        let (options, needs) = (self.options(), self.needs());
        let (runner, files) = self.runner()?;
        let runner = Arc::new(runner);
        let queue = Queue::connect(&config).await?;
        self.placement.check()?;
        let running = Arc::new(Running {
            each: ExitOutcomes::new(self.on_exit),
            kept: self.keep.then(Kept::default),
            runner: runner.clone(),
            jobs: AtomicUsize::new(0),
        });
        let worker = Worker::builder(&queue, handlers(&self.kinds, &options, &running));
        let worker = worker.start_threads_with(start_threads(self.placement.clone(), running.clone()));
        check_fits(needs.as_ref(), &worker.resources())?;
        let worker = worker.on_end(log_failure).on_debug(move |begins| log.debug(begins)).start().await?;
        let manager = Arc::new(ServiceManager::of_this_process());
        stop_on_signals(worker.stop_handle(), manager.clone())?;
        manager.ready();
        let telling = tokio::spawn({
            let (manager, monitor) = (manager.clone(), worker.monitor());
            async move { manager.keep_telling(&monitor).await }
        });
        let ended = match (self.drain, self.not_scheduled) {
            (true, true) => worker.drain_until(Duration::ZERO).await,
            (true, false) => worker.drain().await,
            (false, _) => worker.run().await,
        };
        telling.abort(); // what is left has a bound of its own
        manager.stopping();
        tokio::task::spawn_blocking(move || running.end()).await?;
        runner.guard.end();
        if let Some(memory) = &runner.memory {
            memory.end();
        }
        drop(files);

        let summary = Summary::from(&ended?);
        output.one(&summary, || summary.in_words())?;
        Ok(match (summary.ended_in_order, summary.recycled) {
            (false, _) => Exit::Interrupted,
            (true, true) => Exit::Recycled,
            (true, false) => Exit::Ok,
        })
    }

    /// The options of the jobs, of all kinds: what a program may use is what its job needs.
    fn options(&self) -> KindOptions {
        let mut options = KindOptions::new();
        if let Some(rule) = &self.on_out_of_memory {
            options = options.on_out_of_memory(rule.clone());
        }
        self.needs().map_or(options.clone(), |needs| options.needs(needs))
    }

    /// What each job needs, if the flags state anything.
    fn needs(&self) -> Option<Needs> {
        if self.memory.is_none() && self.job_threads.is_none() && self.tokens.is_empty() {
            return None;
        }
        let mut needs = self.memory.map_or(Needs::new(), |bytes| Needs::new().memory(bytes as u64));
        if let Some(threads) = self.job_threads {
            needs = needs.threads(threads);
        }
        Some(self.tokens.iter().fold(needs, |needs, (name, tokens)| needs.token(name, *tokens)))
    }

    fn config(&self, common: &Common) -> Result<Config> {
        let mut config = common.config()?;
        config.queue.name.clone_from(&self.queue);
        if let Some(kept) = self.keep_log {
            config.worker.keep_log = kept.into();
        }
        if let Some(threads) = self.threads.or(self.placement.cpus()) {
            config.worker.threads = threads;
        }
        if let Some(limit) = self.time_limit {
            config.worker.job_time_limit = limit;
        }
        if let Some(deadline) = self.shutdown_deadline {
            config.worker.shutdown_deadline = deadline;
        }
        if let Some(address) = &self.metrics {
            config.metrics.listen.clone_from(address);
        }
        config.validate()?;
        Ok(config)
    }

    /// The state of the handlers, and the directory of payload files.
    fn runner(&self) -> Result<(Runner, Option<TempDir>)> {
        let (program, files) = Program::new(self.shell.as_deref(), &self.program, &self.pass_env)?;
        if self.keep && !program.is_constant() {
            return Err(failure(Exit::Usage, NO_PLACEHOLDERS));
        }
        if self.memory.is_some_and(|memory| memory < LEAST_MEMORY) {
            return Err(failure(Exit::Usage, "--memory must be at least 1MiB"));
        }
        if cfg!(not(target_os = "linux")) && self.recycling.needs_resident() {
            return Err(failure(Exit::Usage, "--recycle-above needs Linux"));
        }
        // Before the guard, because only a process that is alone can make control groups.
        let memory = self.memory.map(|memory| MemoryLimits::start(memory as u64, self.memory_by)).transpose()?;
        let control_group = memory.as_ref().and_then(MemoryLimits::groups);
        let guard = Guard::start(files.as_ref().map(TempDir::path), control_group).context("cannot start the guard")?;
        let (grace, max_output, recycling) = (self.grace, self.max_output, self.recycling.clone());
        let runner = Runner { program, starting: Starting::default(), guard, grace, max_output, memory, recycling };
        Ok((runner, files))
    }
}

/// Rejects flags that no job without needs of its own could be run with.
fn check_fits(needs: Option<&Needs>, has: &Needs) -> Result<()> {
    for (name, number) in needs.into_iter().flat_map(Needs::iter) {
        let (flag, key, none) = match name {
            // none: not limited
            "memory" => (format!("--memory {}", size(number)), "worker.resources.memory".to_owned(), u64::MAX),
            "threads" => (format!("--job-threads {number}"), "worker.threads".to_owned(), 0),
            _ => (format!("--token {name}={number}"), format!("worker.resources.{name}"), 0),
        };
        if number > has.get(name).unwrap_or(none) {
            let message = format!("{flag} is more than the worker has ({has}); set {key}");
            return Err(failure(Exit::Usage, message));
        }
    }
    Ok(())
}

/// Reads the rule of a job that runs out of memory.
fn out_of_memory(text: &str) -> Result<OutOfMemory, String> {
    text.parse().map_err(|error| match error {
        Error::Config { allowed, .. } => format!("it must be {allowed}"),
        error => error.to_string(),
    })
}

/// Starts threads with this placement.
fn start_threads(
    placement: Placement,
    running: Arc<Running>,
) -> impl Fn(usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    move |threads| {
        let (placement, running) = (placement.clone(), running.clone());
        let place = move |_index| {
            if let Err(error) = placement.apply() {
                tracing::warn!(error, "a thread could not be placed"); // although it was possible before
            }
        };
        ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("readpast-{index}"))
            .start_handler(place)
            .exit_handler(move |_index| running.leave())
            .build()
    }
}

fn handlers(kinds: &[String], options: &KindOptions, running: &Arc<Running>) -> Handlers {
    if kinds.is_empty() {
        let running = running.clone();
        let handlers = match running.kept {
            Some(_) => Handlers::new().otherwise_runs(move |first| running.keep(first)),
            None => Handlers::any(move |job: &Job, context: &Context| running.run(job, context)),
        };
        return handlers.otherwise_options(options.clone());
    }
    let add = |handlers: Handlers, kind: &String| {
        let running = running.clone();
        let handlers = match running.kept {
            Some(_) => handlers.kind_runs(kind, move |first| running.keep(first)),
            None => handlers.kind(kind, move |job: &Job, context: &Context| running.run(job, context)),
        };
        handlers.options(kind, options.clone())
    };
    kinds.iter().fold(Handlers::new().leave_others(), add)
}

/// Logs a failed run. The library itself logs dead jobs.
fn log_failure(job: &Job, outcome: &Outcome, run: Duration) {
    let (becomes, delay, error) = match outcome {
        Outcome::Retry { delay, error, .. } if !job.is_last_attempt() || runner::was_taken_away(error) => {
            ("retried", delay, error)
        }
        Outcome::Snooze { delay, error } => ("snoozed", delay, error),
        _ => return,
    };
    let taken_away = runner::was_taken_away(error);
    let (job_id, attempt, error) = (job.id(), job.attempt(), first_line(error, LOGGED));
    if taken_away {
        tracing::info!(%job_id, attempt, kind = job.kind(), ?run, error, "a program was stopped");
        return;
    }
    tracing::info!(%job_id, attempt, kind = job.kind(), ?run, r#in = ?delay, error, "a job is {becomes}");
}

/// A signal that follows another one this soon counts as the same signal ([`StopHandle::stop_on_signals`]).
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// The first signal stops gracefully, the second immediately. The third ends this process, and the guard ends the
/// programs.
fn stop_on_signals(stop: StopHandle, manager: Arc<ServiceManager>) -> Result<()> {
    stop.stop_on_signals().context("cannot listen to signals")?;
    let mut signals = StopSignals::of_a_worker().context("cannot listen to signals")?;
    tokio::spawn(async move {
        let mut counted_at: Option<Instant> = None;
        for _ in 0..3 {
            signals.next().await;
            // Like the library, counts two together as one.
            while counted_at.is_some_and(|at| at.elapsed() < SAME_SIGNAL) {
                signals.next().await;
            }
            counted_at = Some(Instant::now());
            manager.stopping();
        }
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(())
}

/// State shared by the handlers.
struct Running {
    runner: Arc<Runner>,
    each: ExitOutcomes,
    kept: Option<Kept>,
    /// The number of threads that run jobs.
    jobs: AtomicUsize,
}

/// Counts a thread that runs a job until dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Running {
    /// Runs a program for this job.
    fn run(&self, job: &Job, context: &Context) -> Result<readpast::Output, BoxError> {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.jobs);
        each_job::run(&self.runner, &self.each, job, context)
    }

    /// Runs this job on a program that stays.
    fn keep(&self, first: JobRun<'_>) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.jobs);
        if let Some(kept) = &self.kept {
            kept.run(&self.runner, first);
        }
    }

    /// Called by a thread that is about to end.
    fn leave(&self) {
        if let Some(kept) = &self.kept {
            kept.leave(self.runner.grace);
        }
    }

    /// Called when the worker has stopped and every run was told to end. Waits for the runs, then ends the programs
    /// that stay.
    fn end(&self) {
        let until = Instant::now() + self.runner.grace + LAST_WAIT;
        while self.jobs.load(Ordering::Acquire) > 0 {
            if Instant::now() > until {
                tracing::warn!("killed programs have not exited");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(kept) = &self.kept {
            kept.end(self.runner.grace);
        }
    }
}
