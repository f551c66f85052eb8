//! The program's code in a worker: its handlers, its hooks around each job, and the thread on which its values are
//! dropped, wherever a worker releases them.

use crate::handler::Handlers;
use crate::job::{Job, Outcome};
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use std::{fmt, thread};

/// The program's code that runs for a job.
pub(in crate::worker) struct JobCode {
    pub(in crate::worker) handlers: Handlers,
    pub(in crate::worker) hooks: Hooks,
}

/// Values that are dropped on a thread of their own. A handler may own a value that panics when it is dropped in async
/// code, such as a tokio runtime. The last part of a worker may be dropped on its I/O thread, on a job's thread, or in
/// the program's own async code.
pub(in crate::worker) struct DroppedElsewhere<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> DroppedElsewhere<T> {
    pub(in crate::worker) fn new(value: T) -> DroppedElsewhere<T> {
        DroppedElsewhere(Some(value))
    }
}

impl<T: Send + 'static> Deref for DroppedElsewhere<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> DerefMut for DroppedElsewhere<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> Drop for DroppedElsewhere<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // Without a thread, the value is dropped here regardless.
        let _ = thread::Builder::new().name("readpast-drop".to_owned()).spawn(move || drop(value));
    }
}

type OnStart = dyn Fn(&Job) + Send + Sync;

type OnEnd = dyn Fn(&Job, &Outcome, Duration) + Send + Sync;

/// The functions that are set.
#[derive(Default)]
pub(in crate::worker) struct Hooks {
    pub(in crate::worker) on_start: Option<Box<OnStart>>,
    pub(in crate::worker) on_end: Option<Box<OnEnd>>,
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
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hooks { on_start, on_end } = self;
        f.debug_struct("Hooks").field("on_start", &on_start.is_some()).field("on_end", &on_end.is_some()).finish()
    }
}
