//! The gate at which everything stops while the server is frozen: [`crate::session::Faults::freeze`].
//!
//! A session's thread passes it before each statement and before each packet that it sends; what belongs to a
//! connection apart from that (handshake, login, reading requests) is not driven on at all while the gate is closed.
//! What clients send meanwhile waits in the operating system's buffers, as in front of a process that was stopped.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// Open at first.
#[derive(Debug)]
pub struct Gate {
    is_closed: AtomicBool,
    /// When it was last opened again.
    opened: Mutex<Option<Instant>>,
    opening: Condvar,
    closed: watch::Sender<bool>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate {
            is_closed: AtomicBool::new(false),
            opened: Mutex::new(None),
            opening: Condvar::new(),
            closed: watch::Sender::new(false),
        }
    }
}

impl Gate {
    pub fn close(&self) {
        let _opened = self.opened.lock();
        self.is_closed.store(true, Ordering::Release);
        self.closed.send_replace(true);
    }

    /// Opening an open gate has no effect.
    pub fn open(&self) {
        let mut opened = self.opened.lock();
        if self.is_closed.swap(false, Ordering::AcqRel) {
            *opened = Some(Instant::now());
            self.closed.send_replace(false);
            self.opening.notify_all();
        }
    }

    /// Waits while the gate is closed. Blocks the thread.
    #[inline]
    pub fn pass(&self) {
        if self.is_closed.load(Ordering::Acquire) {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut opened = self.opened.lock();
        while self.is_closed.load(Ordering::Acquire) {
            self.opening.wait(&mut opened);
        }
    }

    /// When the gate was last opened again; `None` if it was never closed.
    pub fn last_opened(&self) -> Option<Instant> {
        *self.opened.lock()
    }

    /// Drives a future on while the gate is open.
    pub async fn while_open<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut closed = self.closed.subscribe();
        loop {
            // The sender is here, so that neither wait can fail.
            let _ = closed.wait_for(|closed| !*closed).await;
            tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => {}
                output = &mut future => return output,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_future_stands_still_while_the_gate_is_closed() {
        let gate = Gate::default();
        gate.close();
        let sleep = std::time::Duration::from_secs(5);
        assert!(tokio::time::timeout(sleep, gate.while_open(async { 1 })).await.is_err());
        assert_eq!(gate.last_opened(), None);
        gate.open();
        assert_eq!(gate.while_open(async { 1 }).await, 1);
        assert!(gate.last_opened().is_some());
        gate.pass();
    }
}
