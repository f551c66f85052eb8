//! The second stage: runs claimed jobs on the pool.

mod executor;
mod fair_pool;
mod job_code;
mod kind_limits;
mod overdue;
mod runs;
mod turns;

pub(super) use executor::Executor;
pub(super) use fair_pool::{FairPool, Load};
pub(super) use job_code::{DroppedElsewhere, Hooks, JobCode};
