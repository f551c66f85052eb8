//! Stands for the exporter in builds without the feature `prometheus`.

use std::net::SocketAddr;

use crate::config::PortInUse;
use crate::error::Error;

use super::health::Health;

/// Serves nothing: a process that is to listen is refused.
#[derive(Debug)]
pub(crate) struct Exporter {
    address: SocketAddr,
}

impl Exporter {
    pub(crate) fn new(address: SocketAddr, _port_in_use: PortInUse) -> Exporter {
        Exporter { address }
    }

    pub(crate) async fn listen(&self) -> Result<Option<SocketAddr>, Error> {
        Err(Error::Config {
            key: "metrics.listen".to_string(),
            value: format!("'{}'", self.address),
            allowed: "empty in a build without the feature prometheus".to_string(),
        })
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        None
    }

    pub(crate) fn watch(&self, _worker: Box<dyn Health>) {}
}
