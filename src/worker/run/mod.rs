//! The second stage: claimed jobs run on the pool.

pub(super) mod drop_thread;
pub(super) mod executor;
pub(super) mod hooks;
pub(super) mod kind_limits;
pub(super) mod overdue;
pub(super) mod pool;
