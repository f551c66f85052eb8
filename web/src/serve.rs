//! The page as a server of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use readpast::Queue;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tower_service::Service;

use crate::app::App;
use crate::options::{Access, Options};
use crate::patient::Patient;
use crate::routes::routes;

/// Limits for clients.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The most open connections. If more arrive, the oldest one that has not sent a request is closed.
    connections: usize,
    /// A connection without a request for this long is closed, both before the first and between two.
    silence: Duration,
    /// So is one that accepts no data of its answer for this long.
    stalled: Duration,
}

/// (512: half of the descriptors that a process has on most systems.)
const LIMITS: Limits = Limits { connections: 512, silence: Duration::from_secs(10), stalled: Duration::from_secs(30) };

/// Serves the page at an address until `end`: then what is being answered is answered, the live parts end, and what is
/// being done to many jobs stops. Its end is noted in the audit, which is waited for at most ten seconds.
///
/// At most 512 connections are open. One that has not sent a request within ten seconds is closed, and so is one that
/// takes nothing of its answer for half a minute.
///
/// # Errors
///
/// What the listener says; [`io::ErrorKind::InvalidInput`] for [`Access::Local`] on an address that others can reach.
pub async fn serve(
    listener: TcpListener,
    queue: Queue,
    options: Options,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if matches!(options.access, Access::Local) && !address.ip().is_loopback() {
        let message = format!("on {address} others can reach the page: set Options::access");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let app = App::new(queue, options);
    let (page_ends, ending) = watch::channel(false);
    let mut open = Connections::new(routes(app.clone()), ending, LIMITS);
    let mut end = pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            () = open.one_more(&listener) => {}
        }
    }
    drop(listener);
    app.readings.end();
    app.operations.end();
    let _ = page_ends.send(true);
    open.ended().await;
    app.operations.ended().await;
    Ok(())
}

/// The connections that are open.
struct Connections {
    router: Router,
    page_ends: watch::Receiver<bool>,
    limits: Limits,
    tasks: JoinSet<()>,
    /// From the one that was opened first on.
    open: VecDeque<Open>,
}

struct Open {
    task: AbortHandle,
    /// It has sent a whole request.
    has_asked: Arc<AtomicBool>,
}

impl Connections {
    fn new(router: Router, page_ends: watch::Receiver<bool>, limits: Limits) -> Connections {
        Connections { router, page_ends, limits, tasks: JoinSet::new(), open: VecDeque::new() }
    }

    /// Waits for a connection or for the end of one. Can be dropped at any time.
    async fn one_more(&mut self, listener: &TcpListener) {
        tokio::select! {
            Some(_) = self.tasks.join_next() => self.open.retain(|open| !open.task.is_finished()),
            accepted = listener.accept(), if self.has_place() => match accepted {
                Ok((stream, _)) => self.answer(stream),
                Err(error) => {
                    // Out of file descriptors, for example: give others time to close some.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }

    /// Whether there is a place, or one can be made.
    fn has_place(&self) -> bool {
        self.open.len() < self.limits.connections || self.open.iter().any(Open::is_idle)
    }

    fn answer(&mut self, stream: TcpStream) {
        if self.open.len() >= self.limits.connections
            && let Some(oldest) = self.open.iter().position(Open::is_idle)
            && let Some(oldest) = self.open.remove(oldest)
        {
            oldest.task.abort();
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let (router, page_ends) = (self.router.clone(), self.page_ends.clone());
        let task = self.tasks.spawn(converse(stream, router, has_asked.clone(), page_ends, self.limits));
        self.open.push_back(Open { task, has_asked });
    }

    /// Waits until what is being answered is answered.
    async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Open {
    fn is_idle(&self) -> bool {
        !self.has_asked.load(Ordering::Relaxed)
    }
}

/// Answers what comes by one connection.
async fn converse(
    stream: TcpStream,
    router: Router,
    has_asked: Arc<AtomicBool>,
    mut page_ends: watch::Receiver<bool>,
    limits: Limits,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        let mut router = router.clone();
        async move {
            let answer: Result<Response, Infallible> = router.call(request.map(Body::new)).await;
            answer
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.silence)
        .serve_connection(TokioIo::new(Patient::new(stream, limits.stalled)), service);
    let mut connection = pin!(connection);
    let page_ends = async {
        let _ = page_ends.wait_for(|ends| *ends).await;
    };
    let answered = tokio::select! {
        answered = &mut connection => answered,
        () = page_ends => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = answered {
        tracing::debug!(%error, "a connection failed");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    /// A server that goes on until the test ends.
    async fn served(limits: Limits) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (_page_ends, ending) = watch::channel(false);
            let router = Router::new().route("/", get(async || "hello"));
            let mut open = Connections::new(router, ending, limits);
            loop {
                open.one_more(&listener).await;
            }
        });
        address
    }

    async fn until_closed(connection: &mut TcpStream) -> Vec<u8> {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(60), connection.read_to_end(&mut rest)).await;
        let _ = closed.expect("the page closes it"); // perhaps by a reset
        rest
    }

    #[tokio::test]
    async fn where_too_many_connect_the_first_that_have_not_asked_make_room() {
        let address = served(Limits { connections: 4, silence: LONG, stalled: LONG }).await;
        let mut asked = TcpStream::connect(address).await.unwrap();
        asked.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 15];
        asked.read_exact(&mut answer).await.unwrap();
        let mut half_open = Vec::new();
        for _ in 0..10 {
            let mut connection = TcpStream::connect(address).await.unwrap();
            let _ = connection.write_all(b"GET / HTTP/1.1\r\nHost:").await; // it may be closed already
            half_open.push(connection);
        }
        let mut last = TcpStream::connect(address).await.unwrap();
        last.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        assert!(until_closed(&mut last).await.ends_with(b"hello"));
        for connection in &mut half_open[..8] {
            until_closed(connection).await;
        }
        asked.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        assert!(until_closed(&mut asked).await.ends_with(b"hello"), "it keeps its place");
    }

    #[tokio::test]
    async fn who_says_nothing_is_given_up() {
        let address = served(Limits { connections: 4, silence: Duration::from_millis(50), stalled: LONG }).await;
        until_closed(&mut TcpStream::connect(address).await.unwrap()).await;
    }
}
