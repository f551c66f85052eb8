//! The signal to stop, which every stage observes, and the process signals that trigger it.
//!
//! ```text
//! running ──stop──▶ stopping ──stop now──▶ stopping now
//! ```
//!
//! [`crate::worker::shutdown::ending`] lists the steps of each phase.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::Error;
use crate::handler::{Flag, ParentsOf, SharedByRuns, State, panic_message};
use crate::job::RunNotes;

/// A second signal within this time counts as the first one: a program may signal twice at once. For example, `timeout`
/// of the GNU coreutils signals the process and then its group.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// The phase of a worker's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    Stopping,
    StoppingNow,
}

/// Stops a worker from any task or thread.
#[derive(Debug, Clone)]
pub struct StopHandle {
    phase: Arc<watch::Sender<Phase>>,
    failure: Arc<Mutex<Option<Error>>>,
    stopping: Flag,
    stopping_now: Flag,
}

impl StopHandle {
    pub(crate) fn new() -> StopHandle {
        let (phase, _) = watch::channel(Phase::Running);
        let (stopping, stopping_now) = (Flag::default(), Flag::default());
        StopHandle { phase: Arc::new(phase), failure: Arc::default(), stopping, stopping_now }
    }

    /// Stops the worker gracefully: it claims no more jobs, releases unstarted jobs, waits up to
    /// `worker.shutdown_deadline_ms` for running jobs, and finishes them. Jobs that are still running then are
    /// cancelled and released without using up an attempt. Calling it again has no further effect.
    pub fn stop(&self) {
        self.stopping.set();
        self.advance(Phase::Stopping);
    }

    /// Stops the worker without waiting: [`Context::is_cancelled`](crate::handler::Context::is_cancelled) becomes true,
    /// unconfirmed outcomes are dropped, and their jobs run again once this worker's lease has expired.
    pub fn stop_now(&self) {
        self.stopping_now.set();
        self.advance(Phase::StoppingNow);
    }

    /// Stops the worker on signals: gracefully ([`stop`](Self::stop)) on the first one, immediately
    /// ([`stop_now`](Self::stop_now)) on the second, unless it comes within 100 ms of the first. The signals are SIGINT
    /// (Ctrl-C), SIGTERM and SIGHUP (the terminal or its connection was closed); on Windows Ctrl-C, Ctrl-Break, a
    /// closed console and a shutdown of the machine. From then on, these signals do not end the process by themselves,
    /// even after the worker has stopped. (But Windows always ends a process a few seconds after its console was closed
    /// or a shutdown has begun.)
    ///
    /// On Linux, a process that was started with SIGHUP ignored (`nohup`) keeps ignoring it. If SIGHUP means something
    /// else to the program, such as reloading its settings, call [`stop`](Self::stop) on the program's own signals
    /// instead.
    ///
    /// # Errors
    ///
    /// If the process cannot listen to signals.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn stop_on_signals(&self) -> std::io::Result<()> {
        let mut signals = Signals::new()?;
        let stop = self.clone();
        tokio::spawn(async move {
            signals.next().await;
            stop.stop();
            // Logged after the stop, so that a reader of the log can rely on it.
            tracing::info!(
                "the worker is stopping: it claims no more jobs and lets running ones finish; a second signal stops it immediately"
            );
            let stopped_at = Instant::now();
            while stopped_at.elapsed() < SAME_SIGNAL {
                signals.next().await;
            }
            tracing::warn!("the worker is stopping immediately: unconfirmed jobs will run again");
            stop.stop_now();
        });
        Ok(())
    }

    /// Stops the worker gracefully because it cannot continue. The worker returns the first such error.
    pub(crate) fn fail(&self, error: Error) {
        let (sql_error, text) = (error.sql_number(), error.to_string());
        self.failure.lock().get_or_insert(error);
        self.stop();
        // Last, because the subscriber may panic.
        tracing::error!(sql_error, error = text, "the worker is stopping because of an error");
    }

    /// Stops the worker gracefully because something other than a handler panicked.
    pub(crate) fn fail_by_panic(&self, panic: Box<dyn Any + Send>) {
        let message = panic_message(&*panic).to_owned();
        // A panic's payload may panic when it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
        self.fail(Error::Panicked { message });
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// Creates the data that all runs share, through which handlers see the worker.
    pub(crate) fn surroundings(
        &self,
        state: State,
        notes: (Arc<RunNotes>, usize),
        place: (String, String),
        parents: ParentsOf,
    ) -> SharedByRuns {
        SharedByRuns::new(self.stopping.clone(), self.stopping_now.clone(), state, notes, place, parents)
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.phase.borrow() == Phase::Running
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.phase.borrow() == Phase::StoppingNow
    }

    /// Returns when the worker has reached `phase`.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut changes = self.phase.subscribe();
        // `self` owns the sender, so the channel cannot be closed here.
        let _ = changes.wait_for(|now| *now >= phase).await;
    }

    /// Waits for `pause`, or less if the worker stops. Returns whether the worker is still running.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.reached(Phase::Stopping) => {}
        }
        self.is_running()
    }

    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let further = to > *phase;
            if further {
                *phase = to;
            }
            further
        });
    }
}

/// The signals that ask a process to end.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// The signal SIGHUP, or `None` if the process ignores it.
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            Some(_) = async { self.hang_up.as_mut()?.recv().await } => {}
        }
    }
}

/// Whether this process was started with SIGHUP ignored, as `nohup` does. On Linux, the lowest bit of the mask SigIgn
/// is SIGHUP.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Ctrl-C, Ctrl-Break, a closed console, a shutdown of the machine. After the last two, Windows ends the process a few
/// seconds later (five by default).
#[cfg(windows)]
struct Signals {
    ctrl_c: tokio::signal::windows::CtrlC,
    ctrl_break: tokio::signal::windows::CtrlBreak,
    close: tokio::signal::windows::CtrlClose,
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(Signals { ctrl_c: ctrl_c()?, ctrl_break: ctrl_break()?, close: ctrl_close()?, shutdown: ctrl_shutdown()? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.ctrl_break.recv() => {}
            _ = self.close.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}
