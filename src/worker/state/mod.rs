//! What all stages of a worker share: what it holds, what it has done, and the signals between stages.

mod arrivals;
mod bottleneck_meter;
mod call_size;
mod in_flight;
mod outage;
pub(crate) mod pulse;
pub(crate) mod stop;
mod tally;
mod worker_state;
mod worker_stats;

pub(super) use call_size::CallSize;
pub(super) use in_flight::{InFlight, Stage, Started};
pub(super) use outage::Outage;
pub(crate) use stop::Phase;
pub use stop::StopHandle;
pub(super) use tally::{RunTimes, Tally};
pub(super) use worker_state::WorkerState;
pub use worker_stats::{Bottleneck, WorkerStats};
