//! How another thread ends what a session is doing.

use std::sync::Arc;

use crate::catalog::database::Database;
use crate::storage::SessionHandle;

/// Cancels what a session is doing, from another thread.
#[derive(Clone)]
pub struct CancelHandle {
    inner: Arc<parking_lot::Mutex<(Arc<Database>, SessionHandle)>>,
}

impl CancelHandle {
    pub(crate) fn new(database: &Arc<Database>, session: SessionHandle) -> CancelHandle {
        CancelHandle { inner: Arc::new(parking_lot::Mutex::new((Arc::clone(database), session))) }
    }

    /// The client's attention signal.
    pub fn cancel(&self) {
        let (database, session) = {
            let inner = self.inner.lock();
            (Arc::clone(&inner.0), inner.1.clone())
        };
        database.storage.cancel(&session);
    }

    /// Everything the session does from now on fails.
    pub fn kill(&self) {
        let (database, session) = {
            let inner = self.inner.lock();
            (Arc::clone(&inner.0), inner.1.clone())
        };
        database.storage.kill(&session);
    }

    /// What a cancel is for from now on.
    pub(crate) fn point_at(&self, database: &Arc<Database>, session: SessionHandle) {
        *self.inner.lock() = (Arc::clone(database), session);
    }

    pub(crate) fn database(&self) -> Arc<Database> {
        Arc::clone(&self.inner.lock().0)
    }
}
