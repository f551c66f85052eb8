//! The program's code in a worker: its handlers, and its hooks around each job.

use std::fmt;
use std::time::Duration;

use crate::handler::Handlers;
use crate::job::{Job, Outcome};

/// The program's code that runs for a job.
pub(in crate::worker) struct HandlersAndHooks {
    pub(in crate::worker) handlers: Handlers,
    pub(in crate::worker) hooks: Hooks,
}

type OnStart = dyn Fn(&Job) + Send + Sync;

type OnEnd = dyn Fn(&Job, &Outcome, Duration) + Send + Sync;

type OnDebug = dyn Fn(bool) + Send + Sync;

/// The hooks that the program has set.
#[derive(Default)]
pub(in crate::worker) struct Hooks {
    pub(in crate::worker) on_start: Option<Box<OnStart>>,
    pub(in crate::worker) on_end: Option<Box<OnEnd>>,
    pub(in crate::worker) on_debug: Option<Box<OnDebug>>,
}

impl Hooks {
    pub(in crate::worker) fn start(&self, job: &Job) {
        if let Some(on_start) = &self.on_start {
            on_start(job);
        }
    }

    pub(in crate::worker) fn end(&self, job: &Job, outcome: &Outcome, run: Duration) {
        if let Some(on_end) = &self.on_end {
            on_end(job, outcome, run);
        }
    }

    pub(in crate::worker) fn debug(&self, begins: bool) {
        if let Some(on_debug) = &self.on_debug {
            on_debug(begins);
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hooks { on_start, on_end, on_debug } = self;
        f.debug_struct("Hooks")
            .field("on_start", &on_start.is_some())
            .field("on_end", &on_end.is_some())
            .field("on_debug", &on_debug.is_some())
            .finish()
    }
}
