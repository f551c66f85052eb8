//! The signal to stop, which every stage listens to, and the process's signals that give it.
//!
//! ```text
//! running ──stop──▶ stopping ──stop now──▶ stopping now
//! ```
//!
//! What is done at each step stands in [`crate::worker::shutdown::ending`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::Error;
use crate::handler::{Flag, State, Surroundings, panic_message};
use crate::job::Notes;

/// What asks a process to end may do so twice at once: `timeout` of the GNU coreutils signals the process, and then its
/// group. A second signal that comes sooner than this is the first one.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// How far the end of a worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    Stopping,
    StoppingNow,
}

/// Asks a worker to stop, from any task or thread.
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

    /// Stops the worker in order: no more claims, unstarted jobs are given back, running jobs may end within
    /// `worker.shutdown_deadline_ms`, results are acknowledged. What has not ended by then is cancelled and given back,
    /// without an attempt charged. Calling it again has no further effect.
    pub fn stop(&self) {
        self.stopping.set();
        self.advance(Phase::Stopping);
    }

    /// Stops the worker without waiting for anything: [`Context::is_cancelled`](crate::handler::Context::is_cancelled)
    /// turns true, results that are not acknowledged yet are dropped, and their jobs run again when this worker's lease
    /// is reaped.
    pub fn stop_now(&self) {
        self.stopping_now.set();
        self.advance(Phase::StoppingNow);
    }

    /// Stops on SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed, the connection to it has broken), on
    /// Windows on Ctrl-C, Ctrl-Break, and when the console is closed or the machine shuts down: the first as
    /// [`stop`](Self::stop), the second as [`stop_now`](Self::stop_now), unless it comes within 100 ms of the first.
    /// From then on these signals do not end the process by themselves, even when the worker has ended. (Windows ends a
    /// process a few seconds after a console was closed or a shutdown has begun, whatever it does.)
    ///
    /// On Linux, a process that was started with SIGHUP ignored (`nohup`) goes on ignoring it. One for which SIGHUP
    /// means something else, to read its settings again for example, calls [`stop`](Self::stop) on its own signals
    /// instead.
    ///
    /// # Errors
    ///
    /// When the process cannot listen to signals.
    ///
    /// # Panics
    ///
    /// When called outside a tokio runtime.
    pub fn stop_on_signals(&self) -> std::io::Result<()> {
        let mut signals = Signals::new()?;
        let stop = self.clone();
        tokio::spawn(async move {
            signals.next().await;
            stop.stop();
            // After it: whoever reads this may rely on it.
            tracing::info!(
                "the worker is stopping: it claims no more jobs and lets running ones finish; a second signal stops it immediately"
            );
            let stopped_at = Instant::now();
            while stopped_at.elapsed() < SAME_SIGNAL {
                signals.next().await;
            }
            tracing::warn!("the worker is stopping immediately: unacknowledged jobs will run again");
            stop.stop_now();
        });
        Ok(())
    }

    /// Stops the worker in order because it cannot go on; the first such error is the one that the worker returns.
    pub(crate) fn fail(&self, error: Error) {
        let (sql_error, text) = (error.sql_number(), error.to_string());
        self.failure.lock().get_or_insert(error);
        self.stop();
        // Last, because the subscriber may panic.
        tracing::error!(sql_error, error = text, "the worker is stopping because of an error");
    }

    /// Stops the worker in order because something panicked that is no handler.
    pub(crate) fn fail_by_panic(&self, panic: Box<dyn Any + Send>) {
        let message = panic_message(&*panic).to_owned();
        // A panic's payload may panic when it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
        self.fail(Error::Panicked { message });
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// What handlers can see: of the stop, and of what they share.
    pub(crate) fn surroundings(&self, state: State, notes: Arc<Notes>, place: (String, String)) -> Surroundings {
        Surroundings::new(self.stopping.clone(), self.stopping_now.clone(), state, notes, place)
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.phase.borrow() == Phase::Running
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.phase.borrow() == Phase::StoppingNow
    }

    /// Returns when the worker is at `phase` or further.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut changes = self.phase.subscribe();
        // The sender lives in `self`, so the channel cannot be closed while we wait.
        let _ = changes.wait_for(|now| *now >= phase).await;
    }

    /// Waits for `pause`, or less when the worker stops. Returns whether it is still running.
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
    /// `None`: it is ignored.
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

/// Whether this process was started to ignore SIGHUP, as `nohup` does. Linux tells, in a mask whose lowest bit is the
/// first signal, SIGHUP.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Ctrl-C and Ctrl-Break; the console's window is closed; the machine shuts down. After the last two, Windows ends the
/// process itself a few seconds later (five by default), whatever it does.
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
