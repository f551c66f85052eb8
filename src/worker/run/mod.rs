//! The second stage: runs claimed jobs on the pool.

mod admission;
mod cpu_clock;
mod dropped_elsewhere;
mod executor;
mod fair_pool;
mod handlers_and_hooks;
mod job_starter;
mod kind_limits;
mod ledger;
mod open_runs;
mod overdue;
mod set_aside;
mod threads_in_use;
mod worker_turns;

pub(super) use dropped_elsewhere::DroppedElsewhere;
pub(super) use executor::Executor;
pub(super) use fair_pool::{FairPool, KeepsFree, Load, StartThreads, named_threads};
pub(super) use handlers_and_hooks::{HandlersAndHooks, Hooks};
