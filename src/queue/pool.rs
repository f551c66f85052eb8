//! The connections that a queue and its clones share.

use std::convert::Infallible;
use std::sync::Arc;

use deadpool::managed::{self, QueueMode, RecycleResult};

use super::connection::Connector;
use super::lane::Lane;

/// The most connections that one [`Queue`](super::Queue) and its clones use at once for enqueueing and operating. More
/// callers wait their turn.
const MAX_CONNECTIONS: usize = 8;

/// Up to [`MAX_CONNECTIONS`] lanes, each lent to one caller at a time.
#[derive(Clone)]
pub(super) struct Pool {
    lanes: managed::Pool<LaneManager>,
}

impl Pool {
    pub(super) fn new(connector: Arc<Connector>) -> Pool {
        let manager = LaneManager { connector };
        // The one that was used last comes first, so that those beyond what is needed idle, and are closed.
        let lanes = managed::Pool::builder(manager)
            .max_size(MAX_CONNECTIONS)
            .queue_mode(QueueMode::Lifo)
            .build()
            .expect("a pool without time limits needs no runtime");
        Pool { lanes }
    }

    /// Lends a lane; waits while all are lent.
    pub(super) async fn lend(&self) -> managed::Object<LaneManager> {
        self.lanes.get().await.expect("the pool is never closed and making a lane cannot fail")
    }

    /// Closes connections that nobody has used for so long that the next call would make others.
    pub(super) fn close_idle(&self) {
        self.lanes.retain(|lane, _| !lane.is_idle_too_long());
    }
}

/// Makes lanes for the pool. A lane connects by itself and mends itself, so that making one cannot fail.
#[derive(Debug)]
pub(super) struct LaneManager {
    connector: Arc<Connector>,
}

impl managed::Manager for LaneManager {
    type Type = Lane;
    type Error = Infallible;

    async fn create(&self) -> Result<Lane, Infallible> {
        Ok(Lane::new(self.connector.clone()))
    }

    async fn recycle(&self, _: &mut Lane, _: &managed::Metrics) -> RecycleResult<Infallible> {
        Ok(()) // a lane looks itself whether its connection has idled for too long
    }
}
