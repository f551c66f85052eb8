//! Every setting: what it does, its default, its unit and its range. A file for each section.
//!
//! TOML file ─▶ environment (`READPAST_…`) ─▶ the program's own changes ─▶ [`Config::validate`]
//!
//! The first two are [`Config::load`]; each overrides what came before it. `keys.rs` lists what they may set.
//! `examples/readpast.toml` has every key with its default; the table in `docs/configuration.md` is made from the
//! comments of the sections.

mod config;
mod connection;
pub(crate) mod connection_string;
#[cfg(test)]
mod documentation_tests;
mod environment;
mod file;
mod keys;
mod load;
mod metrics;
mod queue;
mod ranges;
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
