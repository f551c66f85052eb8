//! Every metric of readpast, with its name, unit, labels and meaning.
//!
//! Metrics go to the recorder that the program has installed for the [`metrics`](https://docs.rs/metrics) facade;
//! without a recorder they cost next to nothing. `[metrics] listen` in the configuration installs a recorder and serves
//! it (feature `prometheus`). A program with its own recorder must install it **before**
//! [`Queue::connect`](crate::queue::Queue::connect), because handles are bound to the recorder when they are created.
//! It takes the [`buckets`](Metric::buckets) of the histograms from [`all`].
//!
//! ```text
//! definitions (all) ──▶ handles, made once per queue and worker (histograms: with their first value) ──▶ recorder ──▶ /metrics ──▶ grafana/
//!            └────────▶ docs/metrics.md, compared by a test
//! ```
//!
//! Times are in seconds. No label has an unbounded value: queues are named in the configuration, kinds by the worker's
//! handlers, and all other values are listed here.

mod definitions;
mod exporter;
mod labels;
#[cfg(feature = "prometheus")]
mod listener;
mod queue_metrics;
#[cfg(test)]
mod tests;
mod worker_health;
mod worker_levels;
mod worker_metrics;

pub use definitions::{Kind, Metric, Unit, all};
pub(crate) use exporter::Exporter;
pub(crate) use labels::{DUTIES, LIMITS};
pub(crate) use queue_metrics::{QueueMetrics, SampleMetrics};
pub(crate) use worker_health::WorkerHealth;
pub(crate) use worker_levels::{Scale, WorkerLevels};
pub(crate) use worker_metrics::{KindMetrics, WorkerMetrics};
