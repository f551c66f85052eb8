//! The connections that a queue and its clones share.

use std::convert::Infallible;
use std::sync::Arc;

use deadpool::managed::{self, QueueMode, RecycleResult};

use super::connector::Connector;
use super::session::Session;

/// The most connections that one [`Queue`](super::Queue) and its clones use at once for enqueueing and operating. More
/// callers wait their turn.
const MAX_CONNECTIONS: usize = 8;

/// Up to [`MAX_CONNECTIONS`] sessions, each lent to one caller at a time.
#[derive(Clone)]
pub(super) struct Pool {
    sessions: managed::Pool<SessionManager>,
}

impl Pool {
    pub(super) fn new(connector: Arc<Connector>) -> Pool {
        let manager = SessionManager { connector };
        // The one that was used last comes first, so that those beyond what is needed idle, and are closed.
        let sessions = managed::Pool::builder(manager)
            .max_size(MAX_CONNECTIONS)
            .queue_mode(QueueMode::Lifo)
            .build()
            .expect("a pool without time limits needs no runtime");
        Pool { sessions }
    }

    /// Lends a session; waits while all are lent.
    pub(super) async fn lend(&self) -> managed::Object<SessionManager> {
        self.sessions.get().await.expect("the pool is never closed and making a session cannot fail")
    }

    /// Closes connections that nobody has used for so long that the next call would make others.
    pub(super) fn close_idle(&self) {
        self.sessions.retain(|session, _| !session.is_idle_too_long());
    }
}

/// Makes sessions for the pool. A session connects by itself and mends itself, so that making one cannot fail.
#[derive(Debug)]
pub(super) struct SessionManager {
    connector: Arc<Connector>,
}

impl managed::Manager for SessionManager {
    type Type = Session;
    type Error = Infallible;

    async fn create(&self) -> Result<Session, Infallible> {
        Ok(Session::new(self.connector.clone()))
    }

    async fn recycle(&self, _: &mut Session, _: &managed::Metrics) -> RecycleResult<Infallible> {
        Ok(()) // a session looks itself whether its connection has idled for too long
    }
}
