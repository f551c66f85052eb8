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

    /// Follows what is asked now.
    pub(super) fn follow(&mut self, wishes: Wishes) {
        let followed = std::mem::replace(&mut self.followed, wishes);
        if wishes == followed {
            return;
        }
        let Wishes { quiet, stops, threads, debugs } = wishes;
        if quiet != followed.quiet {
            self.state.quiet.send_replace(quiet);
            match quiet {
                true => tracing::info!("an operator has asked the worker to claim no more jobs"),
                false => tracing::info!("the worker claims jobs again"),
            }
        }
        if threads != followed.threads {
            self.resize(threads);
        }
        if debugs != followed.debugs {
            let (hook, stop) = (|| self.executor.hooks().debug(debugs), &self.state.stop);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(hook)) {
                stop.fail_by_panic(panic);
            }
        }
        if stops && !followed.stops {
            self.state.stop.stop();
            // Last, because the subscriber may panic.
            tracing::info!(
                "an operator has asked the worker to stop: it claims no more jobs and lets running ones finish"
            );
        }
    }

    fn resize(&self, threads: Option<u32>) {
        let threads = threads.map_or(self.configured_threads, |threads| threads as usize);
        match self.executor.resize(threads) {
            Ok(()) => tracing::info!(threads, "an operator has changed how many jobs run at once"),
            Err(error) => tracing::warn!(%error, threads, "cannot change how many jobs run at once"),
        }
    }
}
