//! Handles Ctrl-C. After the first Ctrl-C, the program exits when the current call has returned. A second one ends the
//! program immediately.

use std::io;
#[cfg(unix)]
use std::{future::poll_fn, task::Poll};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::exit::Exit;

/// Whether Ctrl-C was pressed since [`Interrupt::watch`].
#[derive(Clone)]
pub struct Interrupt {
    pressed: watch::Receiver<bool>,
}

impl Interrupt {
    /// Takes over Ctrl-C, for a command of many calls.
    pub fn watch() -> Interrupt {
        let (sender, pressed) = watch::channel(false);
        // Created here and not in the task, which may start a little later.
        #[cfg(unix)]
        let signals = signal(SignalKind::interrupt());
        #[cfg(windows)]
        let signals = tokio::signal::windows::ctrl_c();
        // If this fails, Ctrl-C ends the process as usual.
        if let Ok(mut signals) = signals {
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    if sender.send_replace(true) {
                        std::process::exit(Exit::Interrupted as i32);
                    }
                }
            });
        }
        Interrupt { pressed }
    }

    pub fn is_pressed(&self) -> bool {
        *self.pressed.borrow()
    }

    pub async fn pressed(&mut self) {
        if self.pressed.wait_for(|pressed| *pressed).await.is_err() {
            std::future::pending::<()>().await; // no more signals can be received
        }
    }
}

/// The signals that stop a long-running command.
pub struct StopSignals {
    #[cfg(unix)]
    signals: Vec<Signal>,
    #[cfg(windows)]
    ctrl_c: tokio::signal::windows::CtrlC,
}

#[cfg(unix)]
impl StopSignals {
    /// Takes over Ctrl-C, SIGTERM, SIGQUIT and, unless ignored (`nohup`), SIGHUP.
    pub fn watch() -> io::Result<StopSignals> {
        let mut stop = StopSignals::of_a_worker()?;
        stop.signals.push(signal(SignalKind::quit())?);
        Ok(stop)
    }

    /// Without SIGQUIT: the signals of `StopHandle::stop_on_signals`.
    pub fn of_a_worker() -> io::Result<StopSignals> {
        let mut signals = vec![signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
        if !is_ignored() {
            signals.push(signal(SignalKind::hangup())?);
        }
        Ok(StopSignals { signals })
    }

    /// Waits for the next one since [`watch`](Self::watch).
    ///
    /// # Cancel safety
    ///
    /// No signal is lost.
    pub async fn next(&mut self) {
        poll_fn(|context| {
            let has_come = self.signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if has_come { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(windows)]
impl StopSignals {
    /// Takes over Ctrl-C.
    pub fn watch() -> io::Result<StopSignals> {
        Ok(StopSignals { ctrl_c: tokio::signal::windows::ctrl_c()? })
    }

    /// The signal of `StopHandle::stop_on_signals`.
    pub fn of_a_worker() -> io::Result<StopSignals> {
        StopSignals::watch()
    }

    /// Waits for the next one since [`watch`](Self::watch).
    ///
    /// # Cancel safety
    ///
    /// No signal is lost.
    pub async fn next(&mut self) {
        self.ctrl_c.recv().await;
    }
}

/// Whether this process ignores SIGHUP, as under `nohup`. Linux shows it in a mask whose lowest bit is SIGHUP.
#[cfg(unix)]
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
