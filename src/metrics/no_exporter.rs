//! Stands for the exporter in builds without the feature `prometheus`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::error::Error;
use crate::worker::Monitor;

/// There is none.
#[derive(Debug)]
pub(crate) struct Exporter(Infallible);

impl Exporter {
    pub(crate) async fn at(address: SocketAddr) -> Result<Arc<Exporter>, Error> {
        Err(Error::Config {
            key: "metrics.listen".to_string(),
            value: format!("'{address}'"),
            allowed: "empty in a build without the feature prometheus".to_string(),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self.0 {}
    }

    pub(crate) fn watch(&self, _worker: Monitor) {
        match self.0 {}
    }
}
