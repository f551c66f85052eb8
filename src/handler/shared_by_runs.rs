//! The data that all runs of a worker share: the program's state (by type), the run notes, the names of the schema and
//! the queue, the runtime for async code, and whether the worker is stopping.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use tokio::runtime::Runtime;

use crate::error::Error;
use crate::id::JobId;
use crate::job::{Parent, RunNotes};

use super::cancellations::Flag;

/// Asks SQL Server how the jobs ended that a job has waited for.
pub(crate) type ParentsOf = Box<dyn Fn(JobId) -> Parents + Send + Sync>;

type Parents = Pin<Box<dyn Future<Output = Result<Vec<Parent>, Error>> + Send>>;

/// The data that all runs of one worker share.
#[derive(Default)]
pub(crate) struct SharedByRuns {
    pub(super) stopping: Flag,
    pub(super) stopping_now: Flag,
    pub(super) state: State,
    pub(super) notes: Arc<RunNotes>,
    /// The most bytes of a run's log; 0: it has none.
    pub(super) log_bytes: usize,
    /// The names of the schema and the queue.
    pub(super) place: (String, String),
    /// `None` in a test.
    pub(super) parents: Option<ParentsOf>,
    /// Started by the first [`Context::block_on`].
    pub(super) runtime: OnceLock<Runtime>,
}

impl SharedByRuns {
    /// `place` is the schema and the queue.
    pub(crate) fn new(
        stopping: Flag,
        stopping_now: Flag,
        state: State,
        (notes, log_bytes): (Arc<RunNotes>, usize),
        place: (String, String),
        parents: ParentsOf,
    ) -> SharedByRuns {
        let parents = Some(parents);
        SharedByRuns { stopping, stopping_now, state, notes, log_bytes, place, parents, runtime: OnceLock::new() }
    }

    /// Whether the worker has been told to stop, at once or in order.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_set() || self.stopping_now.is_set()
    }

    pub(crate) fn is_stopping_now(&self) -> bool {
        self.stopping_now.is_set()
    }

    /// A runtime that no code of the program can block or end. It has its own thread for spawned tasks, timers and
    /// sockets.
    pub(super) fn runtime(&self) -> &Runtime {
        self.runtime.get_or_init(|| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("readpast-async")
                .enable_all()
                .build()
                .expect("the operating system gives a thread")
        })
    }
}

impl fmt::Debug for SharedByRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedByRuns { stopping, stopping_now, state, notes, log_bytes, place, parents: _, runtime: _ } = self;
        f.debug_struct("SharedByRuns")
            .field("stopping", stopping)
            .field("stopping_now", stopping_now)
            .field("state", state)
            .field("notes", notes)
            .field("log_bytes", log_bytes)
            .field("place", place)
            .finish()
    }
}

impl Drop for SharedByRuns {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background(); // the last context may go on a thread that must not wait
        }
    }
}

/// Values by type, one of each type. They do not change while jobs run, so reading them needs no lock.
#[derive(Clone, Default)]
pub(crate) struct State(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl State {
    /// Adds a value; returns whether there already was one of its type.
    pub(super) fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.0.insert(TypeId::of::<T>(), Arc::new(value)).is_some()
    }

    /// Adds the values of `others` whose types are not present yet.
    pub(super) fn fill_up(&mut self, others: &State) {
        for (of_type, value) in &others.0 {
            self.0.entry(*of_type).or_insert_with(|| value.clone());
        }
    }

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> &T {
        let value = self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        value.unwrap_or_else(|| panic!("there is no state of type {}; give it to Handlers::state", type_name::<T>()))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.0.len())
    }
}
