//! The program's code in a worker: its handlers, its hooks around each job, and the thread on which its values are dropped, wherever
//! a worker lets go of them.

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

/// What is dropped on a thread of its own. A handler may own what panics when it is dropped where async code runs, as a
/// tokio runtime does; and a worker's last piece goes where its end finds it: on its I/O thread, on a job's thread, in
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
        // Without a thread it is dropped here, for better or worse.
        let _ = thread::Builder::new().name("readpast-drop".to_owned()).spawn(move || drop(value));
    }
}

type OnStart = dyn Fn(&Job) + Send + Sync;

type OnEnd = dyn Fn(&Job, &Outcome, Duration) + Send + Sync;

/// The functions, as far as there are any.
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
