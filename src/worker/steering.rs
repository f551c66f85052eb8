//! What operators ask of a running worker (`worker_wish`).
//!
//! ```text
//! heartbeat's answer ──▶ Steering ──▶ quiet: the prefetcher claims nothing, and jobs that are held run to their end
//!                                ├──▶ stop: as by a signal
//!                                ├──▶ threads: the executor's pool is resized; the next heartbeat reports it
//!                                └──▶ debug: the program's hook
//! ```
//!
//! Each answer carries everything that is asked, so a lost one does no harm, and only differences have an effect.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::procedures::worker::Wishes;
use crate::worker::run::Executor;
use crate::worker::state::WorkerState;

/// Makes a worker do what operators ask.
pub(super) struct Steering {
    state: Arc<WorkerState>,
    executor: Executor,
    configured_threads: usize,
    followed: Wishes,
}

impl Steering {
    pub(super) fn new(state: &Arc<WorkerState>, executor: &Executor) -> Steering {
        let (state, executor) = (state.clone(), executor.clone());
        Steering { configured_threads: state.threads(), state, executor, followed: Wishes::default() }
    }

    /// Follows what is asked now. The program's code that it calls may panic, which stops the worker, but not its lease.
    pub(super) fn follow(&mut self, wishes: Wishes) {
        if wishes != self.followed
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.follow_changed(wishes)))
        {
            self.followed = wishes;
            self.state.stop.fail_by_panic(panic);
        }
    }

    fn follow_changed(&mut self, wishes: Wishes) {
        let followed = std::mem::replace(&mut self.followed, wishes);
        let Wishes { quiet, stops, threads, debugs } = wishes;
        if quiet != followed.quiet {
            self.state.quiet.send_replace(quiet);
            match quiet {
                true => tracing::info!("an operator has asked the worker to claim no more jobs"),
                false => tracing::info!("the worker claims jobs again"),
            }
        }
        if threads != followed.threads && !self.resize(threads) {
            self.followed.threads = followed.threads; // the next heartbeat tries again
        }
        if debugs != followed.debugs {
            self.executor.hooks().debug(debugs);
        }
        if stops && !followed.stops {
            self.state.stop.stop();
            // Last, because the subscriber may panic.
            tracing::info!(
                "an operator has asked the worker to stop: it claims no more jobs and lets running ones finish"
            );
        }
    }

    /// Returns whether there is nothing more to try.
    fn resize(&self, threads: Option<u32>) -> bool {
        let threads = threads.map_or(self.configured_threads, |threads| threads as usize);
        match self.executor.resize(threads) {
            Ok(Some(threads)) => tracing::info!(threads, "an operator has changed how many jobs run at once"),
            Ok(None) => tracing::warn!(threads, "the program has supplied the thread pool, which cannot be resized"),
            Err(error) => {
                tracing::warn!(%error, threads, "cannot change how many jobs run at once; retrying");
                return false;
            }
        }
        true
    }
}
