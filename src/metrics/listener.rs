//! Serves this process's metrics and health at one address, and installs the process's only recorder.
//!
//! The exporter crate's own listener is not used: it answers `/health` with `OK` whatever the workers' state, and
//! limits neither the number nor the duration of connections.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use super::definitions::{Kind, all};
use super::worker_health::WorkerHealth;

/// The recorder keeps each sample of a histogram until upkeep moves it into its bucket. Without regular upkeep, samples
/// would pile up between scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// The shortest interval between log lines about connections that cannot be accepted.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Limits for clients of the port, so that file descriptors are left for jobs and for connections to SQL Server.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The most open connections. One more closes the oldest.
    connections: usize,
    /// How long a connection may take for its one request and response.
    time: Duration,
}

/// Prometheus' default for `scrape_timeout` is ten seconds, too.
const LIMITS: Limits = Limits { connections: 32, time: Duration::from_secs(10) };

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

static LISTENERS: Mutex<Vec<Weak<Listener>>> = Mutex::new(Vec::new());

#[derive(Debug)]
pub(super) struct Listener {
    /// The requested address.
    wanted: SocketAddr,
    /// The address that was actually bound.
    pub(super) address: SocketAddr,
    workers: Mutex<Vec<Box<dyn WorkerHealth>>>,
    server: OnceLock<AbortHandle>,
}

impl Listener {
    pub(super) fn start(socket: TcpListener, wanted: SocketAddr, recorder: PrometheusHandle) -> Arc<Listener> {
        let address = socket.local_addr().unwrap_or(wanted);
        let listener = Arc::new(Listener { wanted, address, workers: Mutex::default(), server: OnceLock::new() });
        let server = tokio::spawn(serve(socket, Arc::downgrade(&listener), recorder, LIMITS));
        let _ = listener.server.set(server.abort_handle());
        {
            let mut listeners = LISTENERS.lock();
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.push(Arc::downgrade(&listener));
        }
        tracing::info!(%address, "serving /metrics, /healthz and /readyz");
        listener
    }

    pub(super) fn watch(&self, worker: Box<dyn WorkerHealth>) {
        let mut workers = self.workers.lock();
        workers.retain(|worker| !worker.has_ended());
        workers.push(worker);
    }

    /// Takes over the workers of a listener that has ended.
    pub(super) fn replaces(&self, ended: &Listener) {
        let workers = std::mem::take(&mut *ended.workers.lock());
        self.workers.lock().extend(workers);
    }

    /// Whether the listener still responds. Its task ends with the runtime in which it was started.
    pub(super) fn serves(&self) -> bool {
        self.server.get().is_some_and(|server| !server.is_finished())
    }

    fn liveness(&self) -> Result<(), &'static str> {
        let mut workers = self.workers.lock();
        workers.retain(|worker| !worker.has_ended());
        if workers.iter().all(|worker| worker.is_alive()) { Ok(()) } else { Err("the thread of a worker is stuck") }
    }

    /// Checks whether the process is ready: there is a worker, and each worker holds its lease and got a response to
    /// its last claim. Returns the names of failing duties, which do not keep workers from running jobs.
    fn readiness(&self) -> Result<Vec<&'static str>, &'static str> {
        let mut workers = self.workers.lock();
        workers.retain(|worker| !worker.has_ended());
        if workers.is_empty() {
            return Err("no worker is running");
        }
        for worker in workers.iter() {
            if !worker.holds_lease() {
                return Err("a worker does not hold its lease, or is stopping");
            }
            if !worker.last_claim_succeeded() {
                return Err("the last claim of a worker failed, or it has not claimed yet");
            }
        }
        Ok(workers.iter().flat_map(|worker| worker.failing_duties()).collect())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(server) = self.server.get() {
            server.abort();
        }
    }
}

/// This process's listener at a requested or bound address. For port 0 there is none, because each request gets a new
/// port.
pub(super) fn listening_at(address: SocketAddr) -> Option<Arc<Listener>> {
    let listeners = LISTENERS.lock();
    let is_wanted =
        |listener: &Arc<Listener>| listener.address == address || listener.wanted == address && address.port() != 0;
    listeners.iter().filter_map(Weak::upgrade).filter(|listener| listener.serves()).find(is_wanted)
}

/// This process's recorder, installed if necessary; `None` if the program has installed another.
pub(super) fn recorder() -> Option<PrometheusHandle> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock();
    if let Some(recorder) = RECORDER.get() {
        return Some(recorder.clone());
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
        return None;
    }
    let upkeep = handle.clone();
    // The recorder outlives every runtime of the program.
    if let Err(error) = keep_up(UPKEEP, move || upkeep.run_upkeep()) {
        tracing::warn!(%error, "could not start the thread that maintains metrics; samples are kept until the next scrape");
    }
    Some(RECORDER.get_or_init(|| handle).clone())
}

fn keep_up(every: Duration, run: impl Fn() + Send + 'static) -> std::io::Result<()> {
    let keep_up = move || {
        loop {
            std::thread::sleep(every);
            run();
        }
    };
    std::thread::Builder::new().name("readpast-metrics".to_owned()).spawn(keep_up).map(drop)
}

/// Responds until its task is aborted. Dropping it closes all connections.
async fn serve(socket: TcpListener, listener: Weak<Listener>, recorder: PrometheusHandle, limits: Limits) {
    let mut connections = JoinSet::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    let mut warned_at: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            Some(_) = connections.join_next() => {
                open.retain(|connection| !connection.is_finished());
                continue;
            }
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // For example, out of file descriptors: wait until some are closed.
                if warned_at.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
                    tracing::warn!(%error, "cannot accept a connection for metrics");
                    warned_at = Some(Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if open.len() >= limits.connections
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let (listener, recorder) = (listener.clone(), recorder.clone());
        let connection = connections.spawn(async move {
            let service = service_fn(move |request| {
                let response = answer(&request, &listener, &recorder);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(limits.time, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection for metrics failed"),
                Err(_) => tracing::debug!("a connection for metrics took too long"),
            }
        });
        open.push_back(connection);
    }
}

fn answer(request: &Request<Incoming>, listener: &Weak<Listener>, recorder: &PrometheusHandle) -> Response<String> {
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
        "/healthz" => match listener.upgrade().map_or(Ok(()), |listener| listener.liveness()) {
            Ok(()) => page(StatusCode::OK, "alive\n"),
            Err(reason) => page(StatusCode::SERVICE_UNAVAILABLE, format!("not alive: {reason}\n")),
        },
        "/readyz" => {
            let readiness = listener.upgrade().map_or(Err("the process is ending"), |listener| listener.readiness());
            match readiness {
                Ok(failing) if failing.is_empty() => page(StatusCode::OK, "ready\n"),
                Ok(failing) => {
                    page(StatusCode::OK, format!("ready, but duties of the queue fail: {}\n", failing.join(", ")))
                }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    async fn served(limits: Limits) -> SocketAddr {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(serve(socket, Weak::new(), PrometheusBuilder::new().build_recorder().handle(), limits));
        address
    }

    async fn until_closed(connection: &mut TcpStream) -> Vec<u8> {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(60), connection.read_to_end(&mut rest)).await;
        let _ = closed.expect("the server closes it"); // perhaps by a reset
        rest
    }

    #[tokio::test]
    async fn where_too_many_connect_the_first_are_closed_and_the_last_is_answered() {
        let address = served(Limits { connections: 4, time: LONG }).await;
        let mut connections = Vec::new();
        for _ in 0..10 {
            connections.push(TcpStream::connect(address).await.unwrap());
        }
        let mut last = TcpStream::connect(address).await.unwrap();
        last.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(until_closed(&mut last).await.starts_with(b"HTTP/1.1 200"));
        for connection in &mut connections[..6] {
            until_closed(connection).await;
        }
    }

    #[tokio::test]
    async fn a_connection_s_time_ends_whether_it_asks_or_not_and_with_one_answer() {
        let address = served(Limits { connections: 4, time: Duration::from_millis(50) }).await;
        until_closed(&mut TcpStream::connect(address).await.unwrap()).await;
        let address = served(Limits { connections: 4, time: LONG }).await;
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        until_closed(&mut connection).await; // although it does not ask for it
    }

    /// After a runtime has ended, the samples of another runtime's jobs must not pile up.
    #[test]
    fn the_upkeep_outlives_the_runtime_that_it_was_begun_in() {
        let (sender, runs) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime
            .block_on(async {
                keep_up(Duration::from_millis(1), move || {
                    let _ = sender.send(());
                })
            })
            .unwrap();
        runs.recv().unwrap();
        drop(runtime);
        while runs.try_recv().is_ok() {}
        assert_eq!(runs.recv_timeout(Duration::from_secs(30)), Ok(()));
    }
}
