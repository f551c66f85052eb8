//! The connections shared by a queue and its clones. `idle_trust.rs` decides how long an idle one is kept.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{self, QueueMode, RecycleResult, WeakPool};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::Error;

use super::connector::Connector;
use super::session::Session;

/// How often to check for connections that have been idle for too long, while there are connections.
const LOOK_FOR_IDLE: Duration = Duration::from_secs(1);

/// Up to `connection.pool_size` sessions, each lent to one caller at a time.
#[derive(Clone)]
pub(crate) struct SessionPool {
    sessions: managed::Pool<SessionManager>,
    closer: Closer,
}

type Closer = Arc<Mutex<Option<JoinHandle<()>>>>;

/// A lent session. It returns to the pool on drop.
pub(crate) type Lent = managed::Object<SessionManager>;

impl SessionPool {
    pub(crate) fn new(connector: Arc<Connector>, size: usize) -> SessionPool {
        let manager = SessionManager { connector };
        // The session that was used last is lent first, so that surplus sessions become idle and are closed.
        let sessions = managed::Pool::builder(manager)
            .max_size(size)
            .queue_mode(QueueMode::Lifo)
            .build()
            .expect("a pool without time limits needs no runtime");
        SessionPool { sessions, closer: Closer::default() }
    }

    /// Lends a session. While all are lent, waits until `deadline`, which is `limit` after the caller's call. The error
    /// is [`Error::NoFreeConnection`].
    pub(crate) async fn lend(&self, deadline: Instant, limit: Duration) -> Result<Lent, Error> {
        let Ok(lent) = tokio::time::timeout_at(deadline, self.sessions.get()).await else {
            return Err(Error::NoFreeConnection { after: limit });
        };
        let mut closer = self.closer.lock();
        // The closing task ends with its runtime, and the next call may come from another runtime.
        if closer.as_ref().is_none_or(JoinHandle::is_finished) {
            *closer = Some(tokio::spawn(close_idle(self.sessions.weak(), self.closer.clone())));
        }
        Ok(lent.expect("the pool is never closed and making a session cannot fail"))
    }
}

/// Closes connections that the next call would not use, because they have been idle for too long or their runtime has
/// ended. Returns when there are no connections left, or the pool has been dropped.
async fn close_idle(sessions: WeakPool<SessionManager>, closer: Closer) {
    loop {
        tokio::time::sleep(LOOK_FOR_IDLE).await;
        let Some(sessions) = sessions.upgrade() else {
            return;
        };
        let mut closer = closer.lock(); // a session lent from now on is seen here, or its caller starts another task
        let mut without_connection = 0;
        sessions.retain(|session, _| {
            without_connection += usize::from(!session.has_connection());
            !session.has_useless_connection()
        });
        if sessions.status().size == without_connection {
            *closer = None;
            return;
        }
    }
}

/// Creates sessions for the pool. A session connects and reconnects by itself, so creating one cannot fail.
#[derive(Debug)]
pub(crate) struct SessionManager {
    connector: Arc<Connector>,
}

impl managed::Manager for SessionManager {
    type Type = Session;
    type Error = Infallible;

    async fn create(&self) -> Result<Session, Infallible> {
        Ok(Session::new(self.connector.clone()))
    }

    async fn recycle(&self, _: &mut Session, _: &managed::Metrics) -> RecycleResult<Infallible> {
        Ok(()) // a session checks its own connection
    }
}
