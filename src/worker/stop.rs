//! The signal to stop, which every stage listens to, and the process's signals that give it.
//!
//! ```text
//! running ──stop──▶ stopping ──stop now──▶ stopping now
//! ```
//!
//! What is done at each step stands in [`super::end::shutdown_steps`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::Error;
use crate::flag::Flag;
use crate::handler::{State, Surroundings, panic_message};
use crate::job_notes::Notes;

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

    /// Stops the worker without waiting for anything: [`Context::is_cancelled`](crate::Context::is_cancelled) turns
    /// true, results that are not acknowledged yet are dropped, and their jobs run again when this worker's lease is
    /// reaped.
    pub fn stop_now(&self) {
        self.stopping_now.set();
        self.advance(Phase::StoppingNow);
    }

    /// Stops on SIGINT (Ctrl-C) and SIGTERM, on Windows on Ctrl-C, Ctrl-Break, and when the console is closed or the
    /// machine shuts down: the first as [`stop`](Self::stop), the second as [`stop_now`](Self::stop_now). From then on
    /// these signals do not end the process by themselves, even when the worker has ended. (Windows ends a process a
    /// few seconds after a console was closed or a shutdown has begun, whatever it does.)
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
            tracing::info!("stopping: no more claims, running jobs may end; a second signal stops at once");
            stop.stop();
            signals.next().await;
            tracing::warn!("stopping at once: unacknowledged jobs will run again");
            stop.stop_now();
        });
        Ok(())
    }

    /// Stops the worker in order because it cannot go on; the first such error is the one that the worker returns.
    pub(crate) fn fail(&self, error: Error) {
        let (sql_error, text) = (error.sql_number(), error.to_string());
        self.failure.lock().get_or_insert(error);
        self.stop();
        tracing::error!(sql_error, error = text, "the worker cannot go on and stops"); // last, because the subscriber may panic
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
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
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
