//! The second stage: claimed jobs run on the pool.

pub(super) mod drop_user_values;
pub(super) mod executor;
pub(super) mod fair_pool;
pub(super) mod hooks;
pub(super) mod kind_waiting;
pub(super) mod overdue;
pub(super) mod turns;
