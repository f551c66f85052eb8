//! Section `metrics`: where metrics are served.

use std::net::SocketAddr;

use crate::error::Error;

use super::settings_table::{Section, Table, check, defaults};

/// Where metrics are served: section `metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// Address on which a process with a worker serves `/metrics` for Prometheus, `/healthz` and `/readyz`.
    /// Empty: none; the metrics go to the recorder that the program installed, if any. A process that only
    /// enqueues does not listen unless it calls `Queue::serve_metrics`, so workers and producers on a host can
    /// share one file.
    ///
    /// Default: empty. Allowed: empty, or an address and a port, such as 127.0.0.1:9464. Key: `metrics.listen`.
    pub listen: String,

    /// What a worker does if another process uses the port of `listen`. `warn`: log a warning and work without
    /// serving. `next`: use the first free one of the next 20 ports.
    ///
    /// Default: `warn`. Allowed: `warn` or `next`. Key: `metrics.port_in_use`.
    pub port_in_use: PortInUse,
}

/// What to do if another process uses the port for metrics: `metrics.port_in_use`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortInUse {
    /// Log a warning and continue without serving metrics.
    #[default]
    Warn,
    /// Use the first free one of the next 20 ports.
    Next,
}

impl Default for MetricsConfig {
    fn default() -> MetricsConfig {
        defaults()
    }
}

impl Section for MetricsConfig {
    fn rows(table: &mut Table<'_, MetricsConfig>) -> MetricsConfig {
        let rule = "empty, or an address and a port, such as 127.0.0.1:9464";
        let words = [("warn", PortInUse::Warn), ("next", PortInUse::Next)];
        MetricsConfig {
            listen: table.text("metrics.listen", |metrics| &metrics.listen, "", rule, is_empty_or_address),
            port_in_use: table.word("metrics.port_in_use", |metrics| metrics.port_in_use, &words),
        }
    }
}

fn is_empty_or_address(text: &str) -> bool {
    text.is_empty() || text.parse::<SocketAddr>().is_ok()
}

impl MetricsConfig {
    /// Returns the address to listen on, if any, or [`Error::Config`] if it is not an address with a port.
    pub(crate) fn address(&self) -> Result<Option<SocketAddr>, Error> {
        check(self)?;
        Ok(self.listen.parse().ok())
    }
}
