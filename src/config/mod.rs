//! Every setting: what it does, its default, its unit and its range. A file for each section.
//!
//! TOML file ─▶ environment (`READPAST_…`) ─▶ the program's own changes ─▶ [`Config::validate`]
//!
//! The first two are [`Config::load`]; each overrides what came before it. A setting is written in two places: the
//! field of its section, with its documentation, and the section's row (`table.rs`). The line with default and range
//! below a field's comment, `examples/readpast.toml` and the tables in `docs/configuration.md` are made from these.

mod config;
mod connection;
pub(crate) mod connection_string;
#[cfg(test)]
mod documentation_tests;
mod environment;
mod file;
mod load;
mod metrics;
mod queue;
mod ranges;
mod table;
mod worker;

pub use config::Config;
pub use connection::ConnectionConfig;
pub(crate) use connection::{Timeouts, check_schema};
pub use metrics::{MetricsConfig, PortInUse};
pub use queue::QueueConfig;
pub(crate) use ranges::{check_range, refused};
pub use worker::{RetryConfig, WorkerConfig};

pub use self::connection_string::ConnectionString;
pub use crate::login::{AccessToken, TokenSource};
