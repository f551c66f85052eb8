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

/// So many connections are open at once: half of the descriptors that a process has on most systems. Where more come, the
/// one goes that has been open longest without having asked for anything.
const CONNECTIONS: usize = 512;

/// A connection that does not ask for so long, at first or again, is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// One that takes nothing of an answer for so long, too.
const STALLED: Duration = Duration::from_secs(30);

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
    let mut open = Connections::new(routes(app.clone()), ending);
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
    fn new(router: Router, page_ends: watch::Receiver<bool>) -> Connections {
        Connections { router, page_ends, tasks: JoinSet::new(), open: VecDeque::new() }
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
        self.open.len() < CONNECTIONS || self.open.iter().any(Open::is_idle)
    }

    fn answer(&mut self, stream: TcpStream) {
        if self.open.len() >= CONNECTIONS
            && let Some(oldest) = self.open.iter().position(Open::is_idle)
            && let Some(oldest) = self.open.remove(oldest)
        {
            oldest.task.abort();
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let task = self.tasks.spawn(converse(stream, self.router.clone(), has_asked.clone(), self.page_ends.clone()));
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
async fn converse(stream: TcpStream, router: Router, has_asked: Arc<AtomicBool>, mut page_ends: watch::Receiver<bool>) {
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
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(Patient::new(stream, STALLED)), service);
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
