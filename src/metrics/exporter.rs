//! The exporter: `/metrics` in Prometheus' text format, and two pages for whoever supervises the process.
//!
//! ```text
//! [metrics] listen ─▶ Queue::connect ─▶ recorder (one per process) and listener (one per address)
//! a worker's start ────▶ its Monitor is asked by /readyz
//! ```
//!
//! All queues of a process that name the same address share one listener, which ends with the last of them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use crate::error::Error;
use crate::worker::Monitor;

use super::{Kind, all};

/// The recorder keeps each sample of a histogram until it is put into its bucket: that often, whether anybody asks for the metrics or not.
const UPKEEP: Duration = Duration::from_secs(5);

/// A connection that does not ask for so long is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The recorder that this module has installed. Recorders are for ever.
static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// The exporters that listen.
static EXPORTERS: Mutex<Vec<Weak<Exporter>>> = Mutex::new(Vec::new());

/// A listener that serves this process's metrics and health.
#[derive(Debug)]
pub(crate) struct Exporter {
    address: SocketAddr,
    workers: Mutex<Vec<Monitor>>,
    server: OnceLock<AbortHandle>,
}

impl Exporter {
    /// The exporter at `address`, started if it is not there yet.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when the address is in use or not this machine's, or when the program has installed a recorder of its own, whose
    /// metrics nobody but itself can serve.
    pub(crate) async fn at(address: SocketAddr) -> Result<Arc<Exporter>, Error> {
        if let Some(exporter) = listening_at(address) {
            return Ok(exporter);
        }
        let refused = |allowed: String| Error::Config {
            key: "metrics.listen".to_string(),
            value: format!("'{address}'"),
            allowed,
        };
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            // Two queues that connect at the same time: the other one was faster.
            Err(error) => match listening_at(address) {
                Some(exporter) => return Ok(exporter),
                None => return Err(refused(format!("an address of this machine with a free port ({error})"))),
            },
        };
        let recorder = recorder().map_err(refused)?;
        let address = listener.local_addr().unwrap_or(address);
        let exporter = Arc::new(Exporter { address, workers: Mutex::default(), server: OnceLock::new() });
        let server = tokio::spawn(serve(listener, Arc::downgrade(&exporter), recorder));
        let _ = exporter.server.set(server.abort_handle());
        let mut exporters = EXPORTERS.lock();
        exporters.retain(|exporter| exporter.strong_count() > 0);
        exporters.push(Arc::downgrade(&exporter));
        tracing::info!(%address, "serving /metrics, /healthz and /readyz");
        Ok(exporter)
    }

    /// Where it listens: with the port that the system chose, if it was to choose one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets `/readyz` speak for a worker, until the worker has ended.
    pub(crate) fn watch(&self, worker: Monitor) {
        let mut workers = self.workers.lock();
        workers.retain(|worker| !worker.has_ended());
        workers.push(worker);
    }

    /// Ready: there is a worker, and each one holds its lease and has had an answer to its last claim.
    fn readiness(&self) -> Result<(), &'static str> {
        let mut workers = self.workers.lock();
        workers.retain(|worker| !worker.has_ended());
        if workers.is_empty() {
            return Err("no worker is running");
        }
        for worker in workers.iter() {
            let stats = worker.stats();
            if !stats.lease_held {
                return Err("a worker does not hold its lease, or is stopping");
            }
            if !stats.last_claim_succeeded {
                return Err("the last claim of a worker failed, or it has not claimed yet");
            }
        }
        Ok(())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Some(server) = self.server.get() {
            server.abort();
        }
    }
}

fn listening_at(address: SocketAddr) -> Option<Arc<Exporter>> {
    let exporters = EXPORTERS.lock();
    exporters.iter().filter_map(Weak::upgrade).find(|exporter| exporter.address == address)
}

/// This process's recorder, installed if it is not there yet. Says what `metrics.listen` must be when that is impossible.
fn recorder() -> Result<PrometheusHandle, String> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock();
    if let Some(recorder) = RECORDER.get() {
        return Ok(recorder.clone());
    }
    let mut builder = PrometheusBuilder::new();
    for metric in all().filter(|metric| metric.kind == Kind::Histogram) {
        builder = builder
            .set_buckets_for_metric(Matcher::Full(metric.name.to_string()), metric.buckets)
            .expect("a test sees that every histogram has buckets");
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        return Err("empty, because the program has installed a metrics recorder of its own".to_string());
    }
    Ok(RECORDER.get_or_init(|| handle).clone())
}

/// Answers until its task is ended. Dropping it closes all connections.
async fn serve(listener: TcpListener, exporter: Weak<Exporter>, recorder: PrometheusHandle) {
    let mut connections = JoinSet::new();
    let mut upkeep = tokio::time::interval(UPKEEP);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = upkeep.tick() => {
                recorder.run_upkeep();
                continue;
            }
            Some(_) = connections.join_next() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, for example: give others time to close some.
                tracing::warn!(%error, "cannot accept a connection for metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (exporter, recorder) = (exporter.clone(), recorder.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let response = answer(&request, &exporter, &recorder);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(hyper_util::rt::TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection for metrics failed");
            }
        });
    }
}

fn answer(request: &Request<Incoming>, exporter: &Weak<Exporter>, recorder: &PrometheusHandle) -> Response<String> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return page(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    match request.uri().path() {
        "/metrics" => {
            let mut response = page(StatusCode::OK, recorder.render());
            let text_format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, text_format);
            response
        }
        "/healthz" => page(StatusCode::OK, "alive\n"),
        "/readyz" => {
            let readiness = exporter.upgrade().map_or(Err("the process is ending"), |exporter| exporter.readiness());
            match readiness {
                Ok(()) => page(StatusCode::OK, "ready\n"),
                Err(reason) => page(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
            }
        }
        _ => page(StatusCode::NOT_FOUND, "/metrics, /healthz or /readyz\n"),
    }
}

fn page(status: StatusCode, text: impl Into<String>) -> Response<String> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only test of this program that installs a recorder: they are for ever.
    #[tokio::test]
    async fn a_recorder_of_the_program_s_own_is_left_alone() {
        metrics::set_global_recorder(metrics::NoopRecorder).unwrap();
        let error = Exporter::at("127.0.0.1:0".parse().unwrap()).await.unwrap_err().to_string();
        assert!(error.starts_with("metrics.listen is '127.0.0.1:"), "{error}");
        assert!(
            error.ends_with("it must be empty, because the program has installed a metrics recorder of its own"),
            "{error}"
        );
    }
}
