//! Shuttle's atomics, locks and threads, as `src/sync_primitives.rs` offers them.

use shuttle::sync;

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
pub(crate) use shuttle::thread_local;

/// A lock like parking_lot's, which does not tell of a panic under it.
#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// A pool that has a thread for each task: any order of tasks is possible.
pub(crate) struct ThreadPool {
    threads: usize,
    tasks: sync::Mutex<Vec<shuttle::thread::JoinHandle<()>>>,
}

impl ThreadPool {
    pub(crate) fn new(threads: usize) -> ThreadPool {
        ThreadPool { threads, tasks: sync::Mutex::default() }
    }

    pub(crate) fn current_num_threads(&self) -> usize {
        self.threads
    }

    pub(crate) fn spawn_fifo(&self, task: impl FnOnce() + Send + 'static) {
        let task = shuttle::thread::spawn(task);
        self.tasks.lock().unwrap().push(task);
    }

    /// Returns when no task is left, of those that tasks start neither.
    pub(crate) fn join(&self) {
        loop {
            let Some(task) = self.tasks.lock().unwrap().pop() else { return };
            task.join().unwrap();
        }
    }
}

pub(crate) struct ThreadPoolBuilder {
    threads: usize,
}

impl ThreadPoolBuilder {
    pub(crate) fn new() -> ThreadPoolBuilder {
        ThreadPoolBuilder { threads: 1 }
    }

    pub(crate) fn num_threads(self, threads: usize) -> ThreadPoolBuilder {
        ThreadPoolBuilder { threads }
    }

    pub(crate) fn thread_name(self, _: impl FnMut(usize) -> String) -> ThreadPoolBuilder {
        self
    }

    pub(crate) fn build(self) -> Result<ThreadPool, rayon::ThreadPoolBuildError> {
        Ok(ThreadPool::new(self.threads))
    }
}
