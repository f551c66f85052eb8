//! The web UI as its own server.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use readpast::Queue;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tower_service::Service;

use crate::app::App;
use crate::options::{Access, Options};
use crate::patient::Patient;
use crate::routes::routes;

#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The most open connections. For another one, a connection that waits for a request is closed: first those that
    /// never sent one, then the longest waiting.
    connections: usize,
    /// How long a connection may stay without a request, before the first or between two.
    silence: Duration,
    /// How long a connection may accept no data of its response.
    stalled: Duration,
}

/// 512 is half of the descriptors that a process has on most systems.
const LIMITS: Limits = Limits { connections: 512, silence: Duration::from_secs(10), stalled: Duration::from_secs(30) };

/// Serves the web UI until `end`. Then it finishes running requests, ends the live views, stops operations, and waits
/// at most ten seconds for their audit entries.
///
/// At most 512 connections are open; for another one, the longest waiting for a request is closed. A connection is also
/// closed if it sends no request for ten seconds or accepts no data for half a minute.
///
/// # Errors
///
/// The listener's; [`io::ErrorKind::InvalidInput`] for [`Access::Local`] on an address that others can reach.
pub async fn serve(
    listener: TcpListener,
    queue: Queue,
    options: Options,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if matches!(options.access, Access::Local) && !address.ip().is_loopback() {
        let message = format!("others can reach the web UI on {address}; set Options::access");
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

struct Connections {
    router: Router,
    page_ends: watch::Receiver<bool>,
    limits: Limits,
    tasks: JoinSet<()>,
    open: Vec<Open>,
    /// Signals that a connection waits for a request again.
    one_waits: Arc<Notify>,
}

struct Open {
    task: AbortHandle,
    activity: Arc<Activity>,
}

/// The activity of a connection.
struct Activity {
    now: Mutex<Now>,
    one_waits: Arc<Notify>,
}

#[derive(Debug, Clone, Copy)]
enum Now {
    Waiting {
        /// Whether the connection has sent a request before.
        has_asked: bool,
        since: Instant,
    },
    /// Handling a request.
    Answering,
    /// The response is complete but not fully written.
    Sending,
}

impl Activity {
    /// Records that all data is written.
    fn flushed(&self) {
        let mut now = self.now.lock();
        if matches!(*now, Now::Sending) {
            *now = Now::Waiting { has_asked: true, since: Instant::now() };
            self.one_waits.notify_one();
        }
    }
}

impl Connections {
    fn new(router: Router, page_ends: watch::Receiver<bool>, limits: Limits) -> Connections {
        Connections { router, page_ends, limits, tasks: JoinSet::new(), open: Vec::new(), one_waits: Arc::default() }
    }

    /// Waits for a new or a closed connection. Cancel-safe.
    async fn one_more(&mut self, listener: &TcpListener) {
        tokio::select! {
            Some(_) = self.tasks.join_next() => self.forget_ended(),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    self.make_room().await;
                    self.answer(stream);
                }
                Err(error) => {
                    // Out of file descriptors, for example: wait until some are closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }

    fn forget_ended(&mut self) {
        self.open.retain(|open| !open.task.is_finished());
    }

    /// Waits until there is, or can be made, room for a connection.
    async fn make_room(&mut self) {
        while self.open.len() >= self.limits.connections {
            if let Some(place) = self.dispensable() {
                self.open.swap_remove(place).task.abort();
                return;
            }
            tokio::select! {
                Some(_) = self.tasks.join_next() => self.forget_ended(),
                () = self.one_waits.notified() => {}
            }
        }
    }

    /// The index of the connection to close, if one can be closed.
    fn dispensable(&self) -> Option<usize> {
        let waiting = self.open.iter().enumerate().filter_map(|(place, open)| {
            let Now::Waiting { has_asked, since } = *open.activity.now.lock() else { return None };
            Some((has_asked, since, place))
        });
        waiting.min().map(|(.., place)| place)
    }

    fn answer(&mut self, stream: TcpStream) {
        let now = Mutex::new(Now::Waiting { has_asked: false, since: Instant::now() });
        let activity = Arc::new(Activity { now, one_waits: self.one_waits.clone() });
        let (router, page_ends) = (self.router.clone(), self.page_ends.clone());
        let task = self.tasks.spawn(converse(stream, router, activity.clone(), page_ends, self.limits));
        self.open.push(Open { task, activity });
    }

    /// Waits until all responses are sent.
    async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Marks a request as running until dropped.
struct Answering(Arc<Activity>);

impl Answering {
    fn begin(activity: &Arc<Activity>) -> Answering {
        *activity.now.lock() = Now::Answering;
        Answering(activity.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        *self.0.now.lock() = Now::Sending; // hyper flushes when it has written all that it has
    }
}

/// The body of a response; when dropped, the response is complete.
struct Answer {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves one connection until it ends.
async fn converse(
    stream: TcpStream,
    router: Router,
    activity: Arc<Activity>,
    mut page_ends: watch::Receiver<bool>,
    limits: Limits,
) {
    let of_stream = activity.clone();
    let stream = Patient::new(stream, limits.stalled, move || of_stream.flushed());
    let service = service_fn(move |request: Request<Incoming>| {
        let answering = Answering::begin(&activity);
        let mut router = router.clone();
        async move {
            let answer: Result<Response, Infallible> = router.call(request.map(Body::new)).await;
            answer.map(|answer| answer.map(|body| Answer { body, _answering: answering }))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.silence)
        .serve_connection(TokioIo::new(stream), service);
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

    /// More than a system keeps for a reader.
    const LARGE: usize = 64 << 20;

    /// `/slow` is answered when `/end` is asked for.
    fn router() -> Router {
        let end = Arc::new(Notify::new());
        let ended = end.clone();
        let slow = async move || {
            let body = async move {
                ended.notified().await;
                Ok::<_, Infallible>("at last")
            };
            Body::from_stream(futures_util::stream::once(body))
        };
        Router::new()
            .route("/", get(async || "hello"))
            .route("/slow", get(slow))
            .route("/large", get(async || vec![b'x'; LARGE]))
            .route("/end", get(async move || end.notify_one()))
    }

    /// A server that goes on until the test ends.
    async fn served(limits: Limits) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (_page_ends, ending) = watch::channel(false);
            let mut open = Connections::new(router(), ending, limits);
            loop {
                open.one_more(&listener).await;
            }
        });
        address
    }

    /// The only place is one whose answer has begun: no room is made until its answer has ended, and then at once.
    async fn room_is_made_at_the_end_of_an_answer(path: &str, end: impl AsyncFnOnce(&Router, &mut TcpStream)) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (_page_ends, ending) = watch::channel(false);
        let limits = Limits { connections: 1, silence: LONG, stalled: LONG };
        let router = router();
        let mut open = Connections::new(router.clone(), ending, limits);
        let mut asking = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        open.one_more(&listener).await;
        asking.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut head = [0; 15];
        asking.read_exact(&mut head).await.unwrap();
        let mut room = Box::pin(open.make_room());
        assert!(futures_util::poll!(&mut room).is_pending(), "it is being answered");
        end(&router, &mut asking).await;
        tokio::time::timeout(Duration::from_secs(60), room).await.expect("there is room");
        until_closed(&mut asking).await;
    }

    #[tokio::test]
    async fn where_all_are_being_answered_there_is_room_when_one_has_its_answer() {
        let end = async |router: &Router, _: &mut TcpStream| {
            let request = Request::get("/end").body(Body::empty()).unwrap();
            router.clone().call(request).await.unwrap();
        };
        room_is_made_at_the_end_of_an_answer("/slow", end).await;
    }

    #[tokio::test]
    async fn an_answer_that_is_still_being_sent_is_not_cut_off() {
        let end = async |_: &Router, asking: &mut TcpStream| {
            let (mut read, mut part) = (0, vec![0; 1 << 20]);
            while read < LARGE {
                let length = asking.read(&mut part).await.unwrap();
                assert!(length > 0, "cut off after {read} bytes");
                read += length;
            }
        };
        room_is_made_at_the_end_of_an_answer("/large", end).await;
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

    /// Asks, keeps the connection, and has the answer.
    async fn kept_alive(address: std::net::SocketAddr) -> TcpStream {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let answered = async {
            let mut answer = Vec::new();
            while !answer.ends_with(b"hello") {
                answer.push(connection.read_u8().await.unwrap());
            }
        };
        tokio::time::timeout(Duration::from_secs(60), answered).await.expect("the page has a place for it");
        connection
    }

    #[tokio::test]
    async fn where_all_have_asked_the_one_that_has_waited_longest_makes_room_and_none_that_is_being_answered() {
        let address = served(Limits { connections: 3, silence: LONG, stalled: LONG }).await;
        let mut answered = TcpStream::connect(address).await.unwrap();
        answered.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut head = [0; 15];
        answered.read_exact(&mut head).await.unwrap(); // its body is to come
        let mut first = kept_alive(address).await;
        let mut second = kept_alive(address).await;
        let _third = kept_alive(address).await;
        assert!(until_closed(&mut first).await.is_empty());
        let _fourth = kept_alive(address).await;
        assert!(until_closed(&mut second).await.is_empty());
        let mut end = TcpStream::connect(address).await.unwrap();
        end.write_all(b"GET /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        until_closed(&mut end).await;
        assert!(String::from_utf8_lossy(&until_closed(&mut answered).await).contains("at last"));
    }

    #[tokio::test]
    async fn who_says_nothing_is_given_up() {
        let address = served(Limits { connections: 4, silence: Duration::from_millis(50), stalled: LONG }).await;
        until_closed(&mut TcpStream::connect(address).await.unwrap()).await;
    }
}
