//! The state that all stages of a worker share, and the signals between the stages.

mod bottleneck_meter;
mod call_size;
mod claim_signals;
mod duty_failures;
mod in_flight;
mod kind_tally;
mod learned_memory;
mod machine_memory;
mod most_resources;
mod outage_log;
mod pulse;
mod run_length;
mod stop;
mod tally;
mod worker_state;
mod worker_stats;

pub(super) use call_size::CallSize;
pub(super) use duty_failures::Duty;
pub(super) use in_flight::{InFlight, Stage, Started};
pub(super) use kind_tally::RunEnd;
pub(super) use machine_memory::MachineMemory;
#[cfg(test)]
pub(super) use machine_memory::tests::Machine;
pub(super) use pulse::keep_beating;
pub(crate) use stop::Phase;
pub use stop::StopHandle;
pub(super) use tally::{RunTimes, Tally};
pub(super) use worker_state::{WorkerState, resources};
pub use worker_stats::{Bottleneck, WorkerStats};
