//! Section `metrics`: where metrics are served.

use std::net::SocketAddr;
use std::str::FromStr;

use super::ranges::refused_text;
use crate::error::Error;

/// Where metrics are served: section `metrics`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// The address and port at which a process with a worker serves `/metrics` for Prometheus, `/healthz` and
    /// `/readyz`. Empty: nowhere; the metrics go to the recorder that the program has installed, if any. A process that
    /// only enqueues does not listen, unless it calls `Queue::serve_metrics`: workers and producers of a host can share
    /// one file.
    ///
    /// Default: empty. Range: an address and a port, such as `127.0.0.1:9464`; port 0 is one of the system's choice.
    pub listen: String,

    /// What a worker does when another process has the port of `listen`. `warn`: it works without serving, and says so
    /// in its log. `next`: it takes the next free one of the 20 ports after it.
    ///
    /// Default: `warn`. Range: `warn` or `next`.
    pub port_in_use: PortInUse,
}

/// What to do when another process has the port that metrics are to be served at: `metrics.port_in_use`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortInUse {
    /// Go on without serving, and log a warning.
    #[default]
    Warn,
    /// Take the next free one of the 20 ports after it.
    Next,
}

impl FromStr for PortInUse {
    type Err = Error;

    fn from_str(text: &str) -> Result<PortInUse, Error> {
        match text {
            "warn" => Ok(PortInUse::Warn),
            "next" => Ok(PortInUse::Next),
            _ => Err(refused_text("metrics.port_in_use", text, "warn or next")),
        }
    }
}

impl MetricsConfig {
    /// Where to listen, if anywhere.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for what is no address with a port.
    pub(crate) fn address(&self) -> Result<Option<SocketAddr>, Error> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        match self.listen.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => Err(refused_text(
                "metrics.listen",
                &self.listen,
                "empty, or an address and a port, such as 127.0.0.1:9464",
            )),
        }
    }
}
