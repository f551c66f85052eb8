//! Every setting: its effect, default, unit and range. Each section has a file.
//!
//! TOML file ─▶ environment (`READPAST_…`) ─▶ the program's own changes ─▶ [`Config::validate`]
//!
//! [`Config::load`] does the first two steps; each step overrides the previous ones. A setting is defined in two
//! places: the documented field of its section, and a row in the section's `rows` (`settings_table.rs`). Three things
//! are generated from them: the line with default and range in a field's documentation, `examples/readpast.toml`, and
//! the tables in `docs/configuration.md`.

mod config;
mod connection;
pub(crate) mod connection_string;
#[cfg(test)]
mod documentation_tests;
mod environment;
mod file;
mod kind;
mod load;
mod memory_size;
mod metrics;
mod out_of_memory;
mod queue;
mod range_checks;
mod resources;
mod settings_table;
mod worker;

pub use config::Config;
pub use connection::ConnectionConfig;
pub(crate) use connection::{Timeouts, check_schema};
pub use kind::KindConfig;
pub(crate) use kind::check_kinds;
pub use memory_size::MemorySize;
pub use metrics::{MetricsConfig, PortInUse};
pub use out_of_memory::OutOfMemory;
pub use queue::QueueConfig;
pub(crate) use range_checks::{check_range, refused};
pub use resources::ResourcesConfig;
pub use worker::{KeepLog, RetryConfig, WorkerConfig};

pub use self::connection_string::ConnectionString;
pub use crate::login::{AccessToken, TokenSource};
