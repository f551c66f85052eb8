//! The exporter: `/metrics` in Prometheus' text format, and two health pages for supervisors of the process.
//!
//! ```text
//! [metrics] listen ─▶ Queue::connect ────────▶ Exporter: the recorder (one per process), and a thread for its upkeep
//!                     a worker's start, or
//!                     Queue::serve_metrics ──▶ Listener (one per address); its workers' Health is asked by /readyz
//! ```
//!
//! A process that only enqueues does not listen, so it can share its settings with a worker on the same host. All
//! queues of a process that have the same address share one listener, which stops with the last of them.

use std::net::SocketAddr;

#[cfg(feature = "prometheus")]
use {
    metrics_exporter_prometheus::PrometheusHandle, parking_lot::Mutex, std::io::ErrorKind, std::sync::Arc,
    tokio::net::TcpListener,
};

use crate::config::PortInUse;
use crate::error::Error;

#[cfg(feature = "prometheus")]
use super::listener::{Listener, listening_at, recorder};
use super::worker_health::WorkerHealth;

/// How many ports to try after one that is in use, with `port_in_use = "next"`.
#[cfg(feature = "prometheus")]
const NEXT_PORTS: u16 = 20;

/// The exporter of a queue with `metrics.listen`. It has a recorder as soon as the queue is connected, and a listener
/// once one is started.
#[cfg(feature = "prometheus")]
#[derive(Debug)]
pub(crate) struct Exporter {
    address: SocketAddr,
    port_in_use: PortInUse,
    /// The recorder, or `None` if the program has installed its own recorder, which it serves itself.
    recorder: Option<PrometheusHandle>,
    listener: Mutex<Option<Arc<Listener>>>,
    /// Locked while the exporter starts to listen.
    beginning: tokio::sync::Mutex<()>,
}

#[cfg(feature = "prometheus")]
impl Exporter {
    /// Installs the recorder, if there is none. Does not listen.
    pub(crate) fn new(address: SocketAddr, port_in_use: PortInUse) -> Exporter {
        let (listener, beginning) = Default::default();
        Exporter { address, port_in_use, recorder: recorder(), listener, beginning }
    }

    /// Starts the listener, if there is none or its runtime has ended. Returns its address, with the port that the
    /// system or `port_in_use` chose, or `None` if another process uses the port and this process serves no metrics.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the address is not this machine's, or if the program has installed its own recorder, which
    /// only the program can serve.
    pub(crate) async fn listen(&self) -> Result<Option<SocketAddr>, Error> {
        let Some(recorder) = &self.recorder else {
            return Err(self.refused("empty, because the program has installed a metrics recorder of its own"));
        };
        let _one_at_a_time = self.beginning.lock().await;
        let before = self.listener.lock().clone();
        if let Some(listener) = before.as_ref().filter(|listener| listener.serves()) {
            return Ok(Some(listener.address));
        }
        match self.listener(recorder).await {
            Ok(listener) => {
                if let Some(ended) = before {
                    listener.replaces(&ended);
                }
                Ok(Some(self.listener.lock().insert(listener).address))
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse && self.port_in_use == PortInUse::Warn => {
                tracing::warn!(address = %self.address, "another process uses the port for metrics; this process serves none");
                Ok(None)
            }
            Err(error) => Err(self.refused(format!("an address of this machine with a free port ({error})"))),
        }
    }

    async fn listener(&self, recorder: &PrometheusHandle) -> std::io::Result<Arc<Listener>> {
        if let Some(listener) = listening_at(self.address) {
            return Ok(listener);
        }
        let mut socket = TcpListener::bind(self.address).await;
        if self.port_in_use == PortInUse::Next {
            for port in (self.address.port()..u16::MAX).skip(1).take(NEXT_PORTS.into()) {
                if !socket.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
                    break;
                }
                // The port may be in use by another queue of this process.
                if let Some(listener) = listening_at(self.address) {
                    return Ok(listener);
                }
                socket = TcpListener::bind((self.address.ip(), port)).await;
            }
        }
        match socket {
            Ok(socket) => Ok(Listener::start(socket, self.address, recorder.clone())),
            // Two queues started at the same time, and the other one was faster.
            Err(error) => listening_at(self.address).ok_or(error),
        }
    }

    fn refused(&self, allowed: impl ToString) -> Error {
        Error::Config {
            key: "metrics.listen".to_string(),
            value: format!("'{}'", self.address),
            allowed: allowed.to_string(),
        }
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.lock().as_ref().filter(|listener| listener.serves()).map(|listener| listener.address)
    }

    /// Includes a worker in `/readyz` until the worker has stopped.
    pub(crate) fn watch(&self, worker: Box<dyn WorkerHealth>) {
        if let Some(listener) = &*self.listener.lock() {
            listener.watch(worker);
        }
    }
}

/// The exporter without the feature `prometheus`. It serves nothing, and rejects a process that wants to listen.
#[cfg(not(feature = "prometheus"))]
#[derive(Debug)]
pub(crate) struct Exporter {
    address: SocketAddr,
}

#[cfg(not(feature = "prometheus"))]
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

    pub(crate) fn watch(&self, _worker: Box<dyn WorkerHealth>) {}
}

#[cfg(all(test, feature = "prometheus"))]
mod tests {
    use super::*;

    /// The only test of this program that installs a recorder, because recorders cannot be removed.
    #[tokio::test]
    async fn a_recorder_of_the_program_s_own_is_left_alone() {
        metrics::set_global_recorder(metrics::NoopRecorder).unwrap();
        // A producer does not need to listen: its metrics go to the program's recorder.
        let exporter = Exporter::new("127.0.0.1:0".parse().unwrap(), PortInUse::Warn);
        let error = exporter.listen().await.unwrap_err().to_string();
        assert!(error.starts_with("metrics.listen is '127.0.0.1:"), "{error}");
        assert!(
            error.ends_with("it must be empty, because the program has installed a metrics recorder of its own"),
            "{error}"
        );
    }
}
