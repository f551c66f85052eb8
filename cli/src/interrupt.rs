//! Ctrl-C: the call that is under way ends, and then the program. A second one ends it at once.

use std::io;

use tokio::sync::watch;

use crate::exit::Exit;

/// Whether somebody has pressed Ctrl-C since [`Interrupt::watch`].
#[derive(Clone)]
pub struct Interrupt {
    pressed: watch::Receiver<bool>,
}

impl Interrupt {
    /// Takes over Ctrl-C, for a command that goes on call by call: from here on it does not end the process by itself.
    pub fn watch() -> Interrupt {
        let (sender, pressed) = watch::channel(false);
        // Here and not in the task, which may begin a little later.
        #[cfg(unix)]
        let signals = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
        #[cfg(windows)]
        let signals = tokio::signal::windows::ctrl_c();
        // Where it cannot be taken over, it ends the process as ever.
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

    /// Waits until it is pressed.
    pub async fn pressed(&mut self) {
        if self.pressed.wait_for(|pressed| *pressed).await.is_err() {
            std::future::pending::<()>().await; // no signal can be received any more
        }
    }
}

/// What asks a command to end that otherwise goes on for ever, or has something to put in order: Ctrl-C and, on Unix,
/// SIGTERM, SIGQUIT and, unless it is ignored (`nohup`), the terminal's end.
pub struct StopSignals {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
    #[cfg(unix)]
    hang_up: HangUp,
    #[cfg(windows)]
    ctrl_c: tokio::signal::windows::CtrlC,
}

impl StopSignals {
    /// From here on these signals do not end the process by themselves.
    pub fn watch() -> io::Result<StopSignals> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signals =
                [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::quit())?];
            Ok(StopSignals { signals, hang_up: HangUp::watch()? })
        }
        #[cfg(windows)]
        Ok(StopSignals { ctrl_c: tokio::signal::windows::ctrl_c()? })
    }

    /// Waits for the next one; those that came since [`watch`](Self::watch) count.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        {
            let [interrupt, terminate, quit] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = quit.recv() => {}
                () = self.hang_up.next() => {}
            }
        }
        #[cfg(windows)]
        self.ctrl_c.recv().await;
    }
}

/// SIGHUP: the terminal was closed, or the connection to it has broken.
#[cfg(unix)]
pub struct HangUp(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl HangUp {
    /// From here on it does not end the process by itself. Where it is ignored, it stays so.
    pub fn watch() -> io::Result<HangUp> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(HangUp(if is_ignored() { None } else { Some(signal(SignalKind::hangup())?) }))
    }

    /// Waits for the next one; those that came since [`watch`](Self::watch) count.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

/// Whether this process was started to ignore SIGHUP, as `nohup` does. Linux tells, in a mask whose lowest bit is the
/// first signal, SIGHUP.
#[cfg(unix)]
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
