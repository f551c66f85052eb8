//! How another thread ends what a session is doing.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::database::Database;
use crate::storage::SessionHandle;

/// Cancels what a session is doing, from another thread.
#[derive(Clone)]
pub struct CancelHandle {
    pub(crate) database: Arc<Database>,
    /// Another one after sp_reset_connection.
    session: Arc<Mutex<SessionHandle>>,
}

impl CancelHandle {
    pub(crate) fn new(database: &Arc<Database>, session: SessionHandle) -> CancelHandle {
        CancelHandle { database: Arc::clone(database), session: Arc::new(Mutex::new(session)) }
    }

    /// The client's attention signal.
    pub fn cancel(&self) {
        let session = self.session.lock().clone();
        self.database.storage.cancel(&session);
    }

    /// Everything the session does from now on fails.
    pub fn kill(&self) {
        let session = self.session.lock().clone();
        self.database.storage.kill(&session);
    }

    /// What a cancel is for from now on.
    pub(crate) fn point_at(&self, session: SessionHandle) {
        *self.session.lock() = session;
    }
}
