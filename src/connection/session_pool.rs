//! The connections that a queue and its clones share. (For how long an idle one is kept: `idle_connections.rs`.)

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

/// How often it is looked whether a connection has idled for too long, as long as there are any.
const LOOK_FOR_IDLE: Duration = Duration::from_secs(1);

/// Up to `connection.pool_size` sessions, each lent to one caller at a time.
#[derive(Clone)]
pub(crate) struct SessionPool {
    sessions: managed::Pool<SessionManager>,
    closer: Closer,
}

/// The task that closes idle connections, while there are connections.
type Closer = Arc<Mutex<Option<JoinHandle<()>>>>;

/// A session that is lent. It goes back when this is dropped.
pub(crate) type Lent = managed::Object<SessionManager>;

impl SessionPool {
    pub(crate) fn new(connector: Arc<Connector>, size: usize) -> SessionPool {
        let manager = SessionManager { connector };
        // The one that was used last comes first, so that those beyond what is needed idle, and are closed.
        let sessions = managed::Pool::builder(manager)
            .max_size(size)
            .queue_mode(QueueMode::Lifo)
            .build()
            .expect("a pool without time limits needs no runtime");
        SessionPool { sessions, closer: Closer::default() }
    }

    /// Lends a session; waits while all are lent, but not beyond `deadline`, which is `limit` after the caller's call.
    ///
    /// # Errors
    ///
    /// [`Error::NoFreeConnection`].
    pub(crate) async fn lend(&self, deadline: Instant, limit: Duration) -> Result<Lent, Error> {
        let Ok(lent) = tokio::time::timeout_at(deadline, self.sessions.get()).await else {
            return Err(Error::NoFreeConnection { after: limit });
        };
        let mut closer = self.closer.lock();
        // A task also ends with its runtime, and the next call may come from another one.
        if closer.as_ref().is_none_or(JoinHandle::is_finished) {
            *closer = Some(tokio::spawn(close_idle(self.sessions.weak(), self.closer.clone())));
        }
        Ok(lent.expect("the pool is never closed and making a session cannot fail"))
    }
}

/// Closes connections that the next call would not use: nobody has used them for long, or their runtime has ended. Ends
/// when there are no connections any more, and when nobody is left who could use one.
async fn close_idle(sessions: WeakPool<SessionManager>, closer: Closer) {
    loop {
        tokio::time::sleep(LOOK_FOR_IDLE).await;
        let Some(sessions) = sessions.upgrade() else {
            return;
        };
        let mut closer = closer.lock(); // a session that is lent now is seen, or its caller starts another task
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

/// Makes sessions for the pool. A session connects by itself and mends itself, so that making one cannot fail.
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
        Ok(()) // a session looks itself whether its connection has idled for too long
    }
}
