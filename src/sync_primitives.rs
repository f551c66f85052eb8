//! The atomics, locks and threads of hand-made concurrency. `tests/interleavings` compiles the files that use them
//! against a model, which tries the orders in which threads may run.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::thread_local;

pub(crate) use parking_lot::Mutex;
pub(crate) use rayon::{ThreadPool, ThreadPoolBuilder};
